"""ASGC (Chanpuriya and Musco, 2022): adaptive simple graph convolution."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import symmetric_scale
from djgnn.checking import Count, NonNegative
from djgnn.model.table_experts import as_matrix

COLUMNS = 64


@dataclass(frozen=True)
class ASGCOptions(Options):
    """Options of an ASGC."""

    num_hops: Count = 4  #: Largest power K.
    ridge: NonNegative = 0.01  #: Penalty R that keeps the filter from copying the feature.


class ASGC(Baseline):
    r"""A filter for each feature, fitted without labels, and a linear classifier,

    .. math::
        \beta(x) = \arg\min_\beta \Bigl\Vert x - \sum_{k=0}^K \beta_k S^k x \Bigr\Vert^2
        + n R \beta_0^2, \quad \tilde x = \sum_k \beta_k(x) S^k x, \quad Y = \tilde X W + b,

    for every column x of X, with :math:`S = D^{-1/2} A D^{-1/2}` and loops only at isolated nodes.

    Sudhanshu Chanpuriya, Cameron Musco: Simplified Graph Convolution with Heterophily. NeurIPS
    2022.
    """

    options: ASGCOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        self.classifier = Linear(in_channels, out_channels)

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> Tensor:
        """The filtered features, which do not depend on any weight, `COLUMNS` of them at a time."""
        alone = adjacency.sum(axis=1) == 0
        s = symmetric_scale(adjacency + sp.diags_array(alone.astype(float)))
        whole: Any = as_matrix(like)
        parts = []
        for begin in range(0, like.shape[1], COLUMNS):
            columns = whole[:, begin : begin + COLUMNS]
            dense = columns.toarray() if sp.issparse(columns) else columns
            powers = [np.asarray(dense, dtype=np.float64)]
            for _ in range(self.options.num_hops):
                powers.append(s @ powers[-1])
            z = torch.from_numpy(np.stack(powers, axis=2)).transpose(0, 1)  # [F, n, K + 1]
            penalty = z.new_zeros(z.shape[0], 1, z.shape[2])
            penalty[:, 0, 0] = math.sqrt(len(dense) * self.options.ridge)
            left = torch.cat([z, penalty], dim=1)
            right = torch.cat([z[:, :, :1], z.new_zeros(z.shape[0], 1, 1)], dim=1)
            beta = torch.linalg.lstsq(left, right, driver="gelsd").solution
            parts.append((z @ beta).squeeze(2).t())
        return torch.cat(parts, dim=1).to(like.device, like.dtype)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        return self.classifier(self.constants(x, edge_index))
