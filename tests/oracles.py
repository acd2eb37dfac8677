"""The plain O(n^2) formulation of every stage, which the tests compare the fast one with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.jumps import TwinClasses
from djgnn.model import DJGNN


def dense_rank_lists(
    u: Tensor, num_ranks: int, twins: TwinClasses | None = None, rows: Tensor | None = None
) -> Tensor:
    """Sort all distances by (distance, node); twins stand where their first member does.

    Shapes:
        u ``[n, p]``, rows ``[r]`` (all by default), result ``[r, num_ranks]``.
    """
    exact = u.detach().double()
    if twins is not None:
        exact = exact[twins.representative[twins.class_of]]
    own = exact if rows is None else exact[rows]
    distances = torch.cdist(own, exact, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.argsort(distances, dim=1, stable=True)[:, :num_ranks]


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


def dense_normalize(filters: Tensor) -> Tensor:
    """Diagonal set to 1, then divided by the roots of the row sums.

    Shapes:
        filters and result ``[..., n, n]``.
    """
    eye = torch.eye(filters.shape[-1], dtype=torch.bool, device=filters.device)
    looped = torch.where(eye, torch.ones_like(filters), filters)
    root = looped.sum(dim=-1).clamp(min=1).rsqrt()
    return root.unsqueeze(-1) * looped * root.unsqueeze(-2)


def dense_aggregate(filters: Tensor, h: Tensor) -> Tensor:
    """Apply n x n filters, normalised, to the blocks of columns of h."""
    blocks = h.chunk(filters.shape[0], dim=1)
    return torch.cat(
        [dense_normalize(f) @ block for f, block in zip(filters, blocks, strict=True)], dim=1
    )


def dense_forward(model: DJGNN, x: Tensor, adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and pump loss of `model` with n x n matrices, literally from the equations.

    Dropout acts on the concatenation as while training; the structure branch sees whole rows. A
    dense product may round equal rows of A to rows of U that differ in the last bit, and then this
    formulation ranks twins by noise; the sparse one never does.

    Args:
        model: Where the weights come from.
        x: Dense features.
        adjacency: Dense A as given (both treatments must be ``"given"``).

    Shapes:
        x ``[n, F]``, adjacency ``[n, n]``.
    """
    config, pump = model.config, model.pump
    source = adjacency if config.source == "adjacency" else torch.eye(len(x), dtype=x.dtype)
    u = torch.tanh(F.linear(source, pump.weight, pump.bias))
    degree = adjacency.sum(dim=1)
    ratio = -torch.trace(u.t() @ adjacency @ u) / torch.trace(u.t() @ torch.diag(degree) @ u)
    gram = u.t() @ u
    orthogonality = torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(len(gram)).to(u))
    learned = model.log_scale
    scale: Tensor | float = 1.0 if learned is None else learned.exp()
    if config.scale == "volume":
        scale = 1 / degree.sum()
    alpha = model.mixture.alpha
    weights = model.jumps.weight.chunk(len(model.branches), dim=1)
    biases = model.jumps.bias.chunk(len(model.branches))
    parts = [
        torch.relu(dense_normalize(f) @ (x @ w) + b)
        for f, w, b in zip(
            dense_filters(u, config.support, config.num_jumps, scale), weights, biases, strict=True
        )
    ]
    if model.homophilic is not None:
        h, looped = x, dense_normalize(adjacency)
        for w, b in zip(model.homophilic.weights, model.homophilic.biases, strict=True):
            h = F.dropout(h, config.dropout, model.training and h is not x)
            h = torch.relu(looped @ (h @ w) + b)
        parts.append(h)
    if model.structure is not None:
        parts.append(torch.relu(adjacency @ model.structure.weight + model.structure.bias))
    h = torch.cat([a * part for a, part in zip(alpha, parts, strict=True)], dim=1)
    h = F.dropout(h, config.dropout, model.training)
    for layer, (w, b) in enumerate(zip(model.mixture.weights, model.mixture.biases, strict=True)):
        h = F.linear(h.relu() if layer else h, w, b)
    return h, ratio + orthogonality
