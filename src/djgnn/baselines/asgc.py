"""ASGC (Chanpuriya and Musco, 2022): adaptive simple graph convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.baselines.base import Baseline, symmetric_scale
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features

COLUMNS = 64


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an ASGC.

    Args:
        num_hops: Largest power K.
        ridge: How much the filter is kept from copying the feature, R.
    """

    num_hops: int = count(4)
    ridge: float = option(0.01, least=0.0)


class ASGC(Baseline):
    r"""A filter for each feature, fitted without labels, and a linear classifier,

    .. math::
        \beta(x) = \arg\min_\beta \Bigl\Vert x - \sum_{k=0}^K \beta_k S^k x \Bigr\Vert^2
        + n R \beta_0^2, \quad \tilde x = \sum_k \beta_k(x) S^k x, \quad Y = \tilde X W + b,

    for every column x of X, with :math:`S = D^{-1/2} A D^{-1/2}` and loops only at isolated nodes.

    Sudhanshu Chanpuriya, Cameron Musco: Simplified Graph Convolution with Heterophily. NeurIPS
    2022.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Hops and ridge.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = options
        self.classifier = Linear(in_channels, out_channels)
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> Tensor:
        """The filtered features: they do not depend on any weight."""
        alone = adjacency.sum(axis=1) == 0
        s = symmetric_scale(adjacency + sp.diags_array(alone.astype(float)))
        whole: Any = like.to_scipy() if isinstance(like, SparseOperator) else like.cpu().numpy()
        o, parts = self.options, []
        for begin in range(0, like.shape[1], COLUMNS):
            columns = whole[:, begin : begin + COLUMNS]
            dense = columns.toarray() if sp.issparse(columns) else columns
            parts.append(adaptive_filter(dense, s, o.num_hops, o.ridge))
        return torch.cat(parts, dim=1).to(like.device, like.dtype)

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        logits: Tensor = self.classifier(self.constants(x, edge_index))
        return logits


def adaptive_filter(x: Any, s: sp.csr_array, num_hops: int, ridge: float) -> Tensor:
    """Filter each column of x by its own polynomial in s, see :class:`ASGC`.

    Shapes:
        x ``[n, F]``, s ``[n, n]``, result ``[n, F]`` in double precision.

    Example:
        >>> import numpy as np
        >>> swap = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
        >>> adaptive_filter(np.array([[1.0], [1.0]]), swap, 1, 1e6).round(decimals=3).tolist()
        [[1.0], [1.0]]
    """
    powers = [np.asarray(x, dtype=np.float64)]
    for _ in range(num_hops):
        powers.append(s @ powers[-1])
    z = torch.from_numpy(np.stack(powers, axis=2)).transpose(0, 1)  # [F, n, K + 1]
    penalty = z.new_zeros(z.shape[0], 1, z.shape[2])
    penalty[:, 0, 0] = math.sqrt(len(x) * ridge)
    left = torch.cat([z, penalty], dim=1)
    right = torch.cat([z[:, :, :1], z.new_zeros(z.shape[0], 1, 1)], dim=1)
    beta = torch.linalg.lstsq(left, right, driver="gelsd").solution
    filtered: Tensor = (z @ beta).squeeze(2).t().contiguous()
    return filtered


def build(config: BaselineConfig, graph: Graph) -> ASGC:
    """An ASGC for a graph."""
    return ASGC(num_features(graph), graph.num_classes, Options(**config.options))
