"""The convex mixture of the branches and the classifier on top of it."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.model.products import narrow_product

NEVER = -1e4
"""A logit whose softmax is 0 in any precision."""


class ConvexMixture(nn.Module):
    r"""Classify the concatenation of weighted branches.

    .. math::
        \text{logits} = \mathrm{classifier}\bigl(\Vert_k\, \alpha_k H^k\bigr), \qquad
        \alpha = \mathrm{softmax}(\text{alpha\_logits})

    The weights :math:`\alpha` are folded into the first layer, block by block, so that nothing of
    the width of the concatenation is copied.

    Args:
        num_branches: Number of branches.
        hidden_channels: Width of each.
        out_channels: Number of classes.
        num_layers: 1 for a linear classifier, more for an MLP of the branches' width.

    Shapes:
        parts ``[n, several * hidden_channels]`` each, together all branches in order; logits
        ``[n, out_channels]``.
    """

    def __init__(
        self,
        num_branches: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 1,
    ) -> None:
        super().__init__()
        self.hidden_channels = hidden_channels
        h = hidden_channels
        widths = [num_branches * h, *[h] * (num_layers - 1), out_channels]
        self.alpha_logits = nn.Parameter(torch.empty(num_branches))
        self.weights = nn.ParameterList(torch.empty(b, a) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.empty(b) for b in widths[1:])
        self.reset_parameters()

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """All branches alike; layers uniform in +-1/sqrt(fan in)."""
        nn.init.ones_(self.alpha_logits)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound, generator=generator)
            nn.init.uniform_(bias, -bound, bound, generator=generator)

    @property
    def alpha(self) -> Tensor:
        """The mixing weights: positive, summing to 1."""
        return torch.softmax(self.alpha_logits, dim=0)

    @torch.no_grad()
    def drop(self, number: int) -> None:
        """Take a branch out: its weight becomes 0, the others' still sum to 1.

        What the other branches add to the logits does not change.
        """
        self.weights[0].mul_(1 - self.alpha[number])
        self.alpha_logits[number] = NEVER

    def forward(self, parts: Iterable[Tensor]) -> Tensor:
        """Logits."""
        weight = self.weights[0] * self.alpha.repeat_interleave(self.hidden_channels)
        h: Tensor = self.biases[0]
        begin = 0
        for part in parts:
            end = begin + part.shape[1]
            h = h + narrow_product(part, weight[:, begin:end])
            begin = end
            del part
        return self.rest(h)

    def rest(self, h: Tensor) -> Tensor:
        """Logits from what the first layer gave: the other layers."""
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = F.linear(h.relu(), weight, bias)
        return h

    def added(self, parts: Sequence[Tensor]) -> Tensor:
        """What every branch adds to the first layer, whose bias comes on top.

        Shapes:
            parts as in :meth:`forward`, result ``[n, branches, width of the first layer]``.
        """
        h, shape = torch.cat(list(parts), dim=1), (self.alpha.numel(), self.hidden_channels)
        blocks = self.weights[0].view(-1, *shape) * self.alpha[:, None]
        return torch.einsum("nkh,ckh->nkc", h.view(h.shape[0], *shape), blocks)

    def __repr__(self) -> str:
        out, width = self.weights[-1].shape[0], self.weights[0].shape[1]
        return f"{type(self).__name__}({width}, {out}, num_layers={len(self.weights)})"
