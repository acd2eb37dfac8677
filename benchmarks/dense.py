"""The O(n^2) formulation of the model, as published: what the benchmarks compare our step with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.model import DJGNN


def dense_forward(model: DJGNN, x: Tensor, adjacency: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and pump loss of `model` with n x n matrices.

    Shapes:
        x ``[n, F]``, adjacency ``[n, n]``.
    """
    config, degree = model.config, adjacency.sum(dim=1)
    u = torch.tanh(F.linear(adjacency, model.pump.weight, model.pump.bias))
    ratio = -torch.trace(u.t() @ adjacency @ u) / torch.trace(u.t() @ torch.diag(degree) @ u)
    gram = u.t() @ u
    orthogonality = torch.linalg.norm(gram / torch.linalg.norm(gram) - torch.eye(len(gram)).to(u))
    distance = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    order = distance.detach().double().argsort(dim=1, stable=True)
    scale = 1.0 if model.log_scale is None else model.log_scale.exp()
    coefficient = torch.exp(-(1 / degree.sum() if config.scale == "volume" else scale) * distance)
    weights = model.jumps.weight.chunk(len(model.branches), dim=1)
    biases = model.jumps.bias.chunk(len(model.branches))
    parts = []
    for ranks, w, b in zip(model.branches, weights, biases, strict=True):
        chosen = torch.zeros_like(distance).scatter_(1, order[:, [r - 1 for r in ranks]], 1.0)
        parts.append(torch.relu(_normalized(chosen * coefficient) @ (x @ w) + b))
    if model.homophilic is not None:
        h, looped = x, _normalized(adjacency)
        for w, b in zip(model.homophilic.weights, model.homophilic.biases, strict=True):
            h = F.dropout(h, config.dropout, model.training and h is not x)
            h = torch.relu(looped @ (h @ w) + b)
        parts.append(h)
    if model.structure is not None:
        parts.append(torch.relu(adjacency @ model.structure.weight + model.structure.bias))
    h = torch.cat([a * part for a, part in zip(model.mixture.alpha, parts, strict=True)], dim=1)
    h = F.dropout(h, config.dropout, model.training)
    for layer, (w, b) in enumerate(zip(model.mixture.weights, model.mixture.biases, strict=True)):
        h = F.linear(h.relu() if layer else h, w, b)
    return h, ratio + orthogonality


def _normalized(matrix: Tensor) -> Tensor:
    eye = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    looped = torch.where(eye, torch.ones_like(matrix), matrix)
    root = looped.sum(dim=1).clamp(min=1).rsqrt()
    return root[:, None] * looped * root
