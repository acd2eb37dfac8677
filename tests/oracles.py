"""The plain O(n^2) formulation of every stage, which the tests compare the fast one with."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    u: Tensor, support: str, num_jumps: int | str, scale: Tensor | float = 1.0
) -> list[Tensor]:
    r"""Filters :math:`J^k = \Pi^k \cdot \exp(-s \mathcal D)` as n x n matrices.

    The recursion over k is written out as the paper (Eq. 5) and the published code have it,
    independently of :func:`djgnn.filters.branch_ranks`. Automatic jump k > 0 has the ranks r with
    k - 1 = log2(r), rounded up; those of at most 32 ranks that the graph has nodes for.

    Args:
        u: Positions U.
        support: ``"shell"``, ``"paper"``, ``"author"`` or ``"cumulative"``.
        num_jumps: K, or ``"auto"``.
        scale: s.

    Shapes:
        u ``[n, p]``; each filter ``[n, n]``.
    """
    n = u.shape[0]
    distance = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    coefficient = torch.exp(-scale * distance)
    eye = torch.eye(n, dtype=u.dtype, device=u.device)
    if num_jumps == "auto":
        rank = dense_rank_lists(u, n).argsort(dim=1) + 1
        shell = 1 + torch.log2(rank.double()).ceil()
        last = 1 + math.floor(math.log2(min(n, 32)))
        return [eye, *((shell == k).to(u.dtype) * coefficient for k in range(1, last + 1))]
    assert isinstance(num_jumps, int)
    ranks = dense_rank_lists(u, min(num_jumps, n))
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


def dense_treat(adjacency: Tensor, treatment: str) -> Tensor:
    """A as given, transposed, or the larger of both."""
    both = {"given": adjacency, "transposed": adjacency.t()}
    return torch.maximum(adjacency, adjacency.t()) if treatment == "symmetric" else both[treatment]


def dense_spreading(model: DJGNN, adjacency: Tensor) -> Tensor:
    """The matrix that branches propagate with, from A as they see it.

    The mean over neighbours for the deep branch, otherwise the normalisation of a GCN.
    """
    if not model.config.deep:
        return dense_normalize(adjacency)
    size = adjacency.abs().sum(dim=1, keepdim=True)
    return adjacency / torch.where(size > 0, size, torch.ones_like(size))


def dense_logits(
    model: DJGNN, x: Tensor, filters: Sequence[Tensor], rows: Tensor, near: Tensor
) -> Tensor:
    """Logits from matrices, literally from the equations of the branches.

    Dropout acts on the concatenation, on hidden states of jumps, and between homophilic layers.

    Args:
        model: Where the weights come from.
        x: Dense features.
        filters: One per jump, before self loops and normalisation.
        rows: A as the pump sees it; columns are nodes with weights.
        near: What branches propagate with.

    Shapes:
        x ``[m, F]``, filters and near ``[m, m]``, rows ``[m, n]``, result ``[m, classes]``.
    """
    config, parts = model.config, []
    if model.jumps is not None:
        inner, h = model.jumps.inner, x
        if inner is not None:
            h = torch.relu(x @ inner["features"] + rows @ inner["rows"] + inner["bias"])
            h = F.dropout(h, config.dropout, model.training)
        weights = model.jumps.weight.chunk(len(filters), dim=1)
        biases = model.jumps.bias.chunk(len(filters))
        parts += [
            torch.relu(dense_normalize(f) @ (h @ w) + b)
            for f, w, b in zip(filters, weights, biases, strict=True)
        ]
    if model.homophilic is not None:
        h = x
        for w, b in zip(model.homophilic.weights, model.homophilic.biases, strict=True):
            h = F.dropout(h, config.dropout, model.training and h is not x)
            h = torch.relu(near @ (h @ w) + b)
        parts.append(h)
    if model.structure is not None:
        parts.append(torch.relu(rows @ model.structure.weight + model.structure.bias))
    if model.hops is not None:
        weights = model.hops.weight.chunk(config.hops + 1, dim=1)
        biases = model.hops.bias.chunk(config.hops + 1)
        parts += [
            torch.relu(torch.linalg.matrix_power(near, j) @ x @ w + b)
            for j, (w, b) in enumerate(zip(weights, biases, strict=True))
        ]
    if model.diffusion is not None:
        own = model.diffusion
        size = x.abs().sum(dim=1, keepdim=True)
        scaled = x / torch.where(size > 0, size, torch.ones_like(size))
        h = torch.relu(scaled @ own.weight + own.bias)
        powers = [torch.linalg.matrix_power(near, k) for k in range(config.diffusion + 1)]
        walk = torch.stack([g * power for g, power in zip(own.gamma, powers, strict=True)])
        parts.append(walk.sum(dim=0) @ h)
    if model.deep is not None:
        parts.append(_dense_deep(model, x, rows, near))
    if model.mix is not None:
        parts += _dense_mix(model, x, near).chunk(config.mix + 1, dim=1)
    h = torch.cat([a * p for a, p in zip(model.mixture.alpha, parts, strict=True)], dim=1)
    h = F.dropout(h, config.dropout, model.training)
    for layer, (w, b) in enumerate(zip(model.mixture.weights, model.mixture.biases, strict=True)):
        h = F.linear(h.relu() if layer else h, w, b)
    return h


def _dense_deep(model: DJGNN, x: Tensor, rows: Tensor, near: Tensor) -> Tensor:
    """Residual layers over features and degrees, the normalisation of layers written out."""
    own, width = model.deep, model.config.hidden_channels
    degree = torch.log1p(rows.sum(dim=1).abs())
    known = degree[: rows.shape[1]]
    spread = (known - known.mean()).square().mean().sqrt()
    x = torch.cat([x, ((degree - known.mean()) / spread)[:, None]], dim=1)
    h = torch.relu(x @ own.weight + own.bias)
    for layer in range(model.config.deep):
        z, weight = dense_norm(h, own.norms[layer]), own.layers[layer]
        seen = z @ weight[:, :width] + near @ z @ weight[:, width:]
        h = h + torch.relu(seen + own.biases[layer])
    return dense_norm(h, own.norms[-1])


def _dense_mix(model: DJGNN, x: Tensor, near: Tensor) -> Tensor:
    """Two layers over the powers of a matrix, each power times its own columns of the weights."""
    own, hops = model.mix, range(model.config.mix + 1)
    powers = [torch.linalg.matrix_power(near, j) for j in hops]
    for w, b, norm in zip(own.weights, own.biases, own.norms, strict=True):
        blocks = zip(powers, w.chunk(len(hops), dim=1), strict=True)
        seen = torch.cat([power @ x @ block for power, block in blocks], dim=1)
        x = torch.relu(dense_norm(seen + b, norm))
    return x


def dense_norm(h: Tensor, norm: Tensor) -> Tensor:
    """Rows of mean 0 and variance 1, then scale and shift.

    Shapes:
        h and result ``[n, width]``, norm ``[2, width]``.
    """
    centred = h - h.mean(dim=1, keepdim=True)
    spread = (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
    return centred / spread * norm[0] + norm[1]


def dense_forward(model: DJGNN, x: Tensor, adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and pump loss of `model` with n x n matrices, literally from the equations.

    A dense product may round equal rows of A to rows of U that differ in the last bit, and then
    this formulation ranks twins by noise; the sparse one never does.

    Args:
        model: Where the weights come from.
        x: Dense features.
        adjacency: Dense A as given.

    Shapes:
        x ``[n, F]``, adjacency ``[n, n]``.
    """
    config, pump = model.config, model.pump
    rows = dense_treat(adjacency, config.pump_adjacency)
    near = dense_spreading(model, dense_treat(adjacency, config.homophilic_adjacency))
    if pump is None:
        return dense_logits(model, x, [], rows, near), x.new_zeros(())
    source = rows if config.source == "adjacency" else torch.eye(len(x), dtype=x.dtype)
    u = torch.tanh(F.linear(source, pump.weight, pump.bias))
    degree = rows.sum(dim=1)
    ratio = -torch.trace(u.t() @ rows @ u) / torch.trace(u.t() @ torch.diag(degree) @ u)
    gram = u.t() @ u
    orthogonality = torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(len(gram)).to(u))
    learned = model.log_scale
    scale: Tensor | float = 1.0 if learned is None else learned.exp()
    if config.scale == "volume":
        scale = 1 / degree.sum()
    filters = dense_filters(u, config.support, config.num_jumps, scale)
    return dense_logits(model, x, filters, rows, near), ratio + orthogonality
