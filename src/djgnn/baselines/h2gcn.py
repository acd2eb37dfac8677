"""H2GCN (Zhu et al., 2020)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import operator, symmetric_scale, without_loops
from djgnn.checking import Count, Natural, Rate


@dataclass(frozen=True)
class H2GCNOptions(Options):
    """Options of an H2GCN."""

    hidden_channels: Count = 64  #: Width of the first embedding.
    num_rounds: Natural = 2  #: Rounds of aggregation; each doubles the width.
    activation: bool = True  #: ReLU on the first embedding.
    dropout: Rate = 0.5  #: Before the classifier.


class H2GCN(Baseline):
    r"""Ego, neighbours and exact second neighbours, kept apart,

    .. math::
        R_0 = \sigma(X W), \quad R_k = [\bar A_1 R_{k-1} \Vert \bar A_2 R_{k-1}], \quad
        Y = [R_0 \Vert R_1 \Vert \dots \Vert R_K] W_o + b,

    where :math:`\bar A_1` and :math:`\bar A_2` are the normalised adjacencies of nodes one and
    exactly two steps away, without self loops.

    Jiong Zhu, Yujun Yan, Lingxiao Zhao, Mark Heimann, Leman Akoglu, Danai Koutra: Beyond Homophily
    in Graph Neural Networks: Current Limitations and Effective Designs. NeurIPS 2020.
    """

    options: H2GCNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o = self.options
        self.encoder = Linear(in_channels, o.hidden_channels, bias=False)
        self.decoder = Linear(o.hidden_channels * (2 ** (o.num_rounds + 1) - 1), out_channels)

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Matrix, ...]:
        """Normalised adjacencies of first and exact second neighbours."""
        near = without_loops(adjacency)
        reached = sp.csr_array((near @ near) > 0).astype(np.float64)
        closer = sp.csr_array((near + sp.eye_array(near.shape[0])) > 0).astype(np.float64)
        far = sp.csr_array(reached - reached.multiply(closer))
        far.eliminate_zeros()
        return operator(symmetric_scale(near), like), operator(symmetric_scale(far), like)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        o, (near, far) = self.options, self.constants(x, edge_index)
        h = self.encoder(x)
        rounds = [h.relu() if o.activation else h]
        for _ in range(o.num_rounds):
            rounds.append(torch.cat([near @ rounds[-1], far @ rounds[-1]], dim=1))
        return self.decoder(torch.cat(rounds, dim=1), o.dropout, generator)
