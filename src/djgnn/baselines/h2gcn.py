"""H2GCN (Zhu et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.baselines.base import Baseline, operator, symmetric_scale, without_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an H2GCN.

    Args:
        hidden_channels: Width of the first embedding.
        num_rounds: Rounds of aggregation; each doubles the width.
        activation: ReLU on the first embedding.
        dropout: Before the classifier.
    """

    hidden_channels: int = count(64)
    num_rounds: int = count(2, least=0)
    activation: bool = True
    dropout: float = rate(0.5)


class H2GCN(Baseline):
    r"""Ego, neighbours and exact second neighbours, kept apart,

    .. math::
        R_0 = \sigma(X W), \quad R_k = [\bar A_1 R_{k-1} \Vert \bar A_2 R_{k-1}], \quad
        Y = [R_0 \Vert R_1 \Vert \dots \Vert R_K] W_o + b,

    where :math:`\bar A_1` and :math:`\bar A_2` are the normalised adjacencies of nodes one and
    exactly two steps away, without self loops.

    Jiong Zhu, Yujun Yan, Lingxiao Zhao, Mark Heimann, Leman Akoglu, Danai Koutra: Beyond Homophily
    in Graph Neural Networks: Current Limitations and Effective Designs. NeurIPS 2020.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, rounds and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        self.encoder = Linear(in_channels, o.hidden_channels, bias=False)
        wide = o.hidden_channels * (2 ** (o.num_rounds + 1) - 1)
        self.decoder = Linear(wide, out_channels)
        self.reset_parameters()

    def prepare(
        self, adjacency: sp.csr_array, like: Tensor | SparseOperator
    ) -> tuple[SparseOperator, SparseOperator]:
        """Normalised adjacencies of first and exact second neighbours."""
        near = without_loops(adjacency)
        far = exactly_two_steps(near)
        return operator(symmetric_scale(near), like), operator(symmetric_scale(far), like)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        o, (near, far) = self.options, self.constants(x, edge_index)
        h: Tensor = self.encoder(x)
        rounds = [h.relu() if o.activation else h]
        for _ in range(o.num_rounds):
            rounds.append(torch.cat([near @ rounds[-1], far @ rounds[-1]], dim=1))
        logits: Tensor = self.decoder(torch.cat(rounds, dim=1), o.dropout, generator)
        return logits


def exactly_two_steps(near: sp.csr_array) -> sp.csr_array:
    """Pairs that are two steps apart and neither neighbours nor the same node.

    Example:
        >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> exactly_two_steps(path).toarray().tolist()
        [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    reached = sp.csr_array((near @ near) > 0).astype(np.float64)
    closer = sp.csr_array((near + sp.eye_array(near.shape[0])) > 0).astype(np.float64)
    far = sp.csr_array(reached - reached.multiply(closer))
    far.eliminate_zeros()
    return far


def build(config: BaselineConfig, graph: Graph) -> H2GCN:
    """An H2GCN for a graph."""
    return H2GCN(num_features(graph), graph.num_classes, Options(**config.options))
