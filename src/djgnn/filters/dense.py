"""The O(n^2) formulation of the filters, literally as in the paper: the oracle."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps import dense_rank_lists


def dense_filters(
    u: Tensor, support: str, num_jumps: int, scale: Tensor | float = 1.0
) -> list[Tensor]:
    r"""Filters :math:`J^k = \Pi^k \cdot \exp(-s \mathcal D)` as n x n matrices.

    The recursion over k is written out as the paper (Eq. 5) and the published code have it,
    independently of :func:`djgnn.filters.branch_ranks`.

    Args:
        u: Positions U.
        support: ``"shell"``, ``"paper"``, ``"author"`` or ``"cumulative"``.
        num_jumps: K.
        scale: s.

    Shapes:
        u ``[n, p]``; each filter ``[n, n]``.
    """
    distance = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    ranks = dense_rank_lists(u, min(num_jumps, u.shape[0]))
    coefficient = torch.exp(-scale * distance)
    eye = torch.eye(u.shape[0], dtype=u.dtype, device=u.device)
    last = num_jumps if support == "author" else num_jumps + 1
    previous = torch.zeros_like(eye) if support == "author" else eye
    filters = []
    for k in range(last):
        first = torch.zeros_like(eye).scatter_(1, ranks[:, :k], 1.0)
        if support == "shell":
            chosen = torch.zeros_like(eye).scatter_(1, ranks[:, k - 1 : k], 1.0) if k else eye
        elif support == "cumulative":
            chosen = first if k else eye
        elif support == "paper":
            chosen = (1 - previous) * first if k else eye
        else:
            chosen = first - previous
        previous = chosen
        filters.append(chosen * coefficient)
    return filters
