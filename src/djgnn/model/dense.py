"""The O(n^2) formulation of the whole model: the oracle of the tests and of the benchmarks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.filters import dense_filters, dense_normalize
from djgnn.model.djgnn import DJGNN


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
    numerator = adjacency if config.trace_form == "max" else adjacency - torch.diag(degree)
    ratio = -torch.trace(u.t() @ numerator @ u) / torch.trace(u.t() @ torch.diag(degree) @ u)
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
