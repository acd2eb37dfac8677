"""Several models: the convex mixture of their probabilities, with their product as a member."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import torch
from torch import Generator, Tensor, nn

LEAST = 1e-9
"""The least probability that an expert gives in the product."""
ROWS = 1 << 16
"""Nodes whose answers are mixed at a time."""


class Mixed(nn.Module):
    r"""Several models and the convex mixture of their probabilities.

    .. math::
        P(c) \propto e^{b_c} \Big(\sum_e w_e\, p_e(c) + w_0\, q(c)\Big), \qquad
        p_e = \mathrm{softmax}(z_e / T_e), \qquad q \propto \prod_e p_e^{a_e}

    The product q of experts is likely where all of them agree, and sharper than any of them. What
    an expert adds to the probability of class c is :math:`w_e p_e(c)` and, of what the product
    adds, its share of the exponents, both times the same factor where there are offsets b of the
    classes: together they are the answer, exactly. A temperature for each makes their probabilities
    comparable before they are mixed.

    Reference:
        Hinton: Training products of experts by minimizing contrastive divergence. Neural
        Computation 14, 2002.

    Args:
        experts: The models, by name.

    Shapes:
        weights w, temperatures T and powers a ``[experts]``, product (its weight) ``[]``, offsets b
        ``[classes]`` or ``[]``.
    """

    weights: Tensor
    temperatures: Tensor
    powers: Tensor
    product: Tensor
    offsets: Tensor
    folds = 1

    def __init__(self, experts: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.experts = nn.ModuleDict(experts)
        self.register_buffer("weights", torch.full((len(experts),), 1 / len(experts)))
        self.register_buffer("temperatures", torch.ones(len(experts)))
        self.register_buffer("powers", torch.zeros(len(experts)))
        self.register_buffer("product", torch.zeros(()))
        self.register_buffer("offsets", torch.zeros(()))

    @property
    def names(self) -> tuple[str, ...]:
        """The experts in the order of their weights."""
        return tuple(self.experts)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialise all experts; equal weights, no temperature, no product, no offsets."""
        for expert in self.experts.values():
            expert.reset_parameters(generator)  # type: ignore[operator]
        self.weights.fill_(1 / len(self.experts))
        self.temperatures.fill_(1)
        self.powers.zero_()
        self.product.zero_()
        self.offsets.zero_()

    def inputs_of(self, name: str, inputs: tuple[Any, Any]) -> tuple[Any, Any]:
        """What an expert takes, of what the whole model takes."""
        return inputs

    def shares(self, logits: Sequence[Tensor], fold: Tensor | None = None) -> Tensor:
        """What every expert adds to the probability of every class.

        Args:
            logits: Of each expert.
            fold: The fold of every node, -1 for none. A node of a fold is predicted only by the
                members that did not learn from it.

        Shapes:
            logits ``[n, classes]`` each, fold ``[n]``, result ``[experts, n, classes]``.
        """
        return self._by_rows(self._shares, logits, fold, dim=1)

    def _shares(self, logits: Sequence[Tensor], fold: Tensor | None) -> Tensor:
        each = self._tempered(logits)
        own = each.exp() * self._per_node(self.weights, fold).to(each.dtype)
        if self.product:
            part = self.product.to(own.dtype) * self._part(fold).to(own.dtype)
            own = own + self._agreed(each, fold).exp() * part
        return own * self._factor(each, fold)

    def alone(self, logits: Sequence[Tensor], fold: Tensor | None = None) -> Tensor:
        """What of :meth:`shares` every expert adds by itself, its part of the product aside."""
        each = self._tempered(logits)
        own = each.exp() * self._per_node(self.weights, fold).to(each.dtype)
        return own * self._factor(each, fold)

    def combine(self, logits: Sequence[Tensor], fold: Tensor | None = None) -> Tensor:
        """The logarithm of the mixture's probabilities, see :meth:`shares`.

        Shapes:
            logits ``[n, classes]`` of each expert, fold ``[n]``, result ``[n, classes]``.
        """
        return self._by_rows(self._combine, logits, fold, dim=0)

    def _combine(self, logits: Sequence[Tensor], fold: Tensor | None) -> Tensor:
        answer = self._mixture(self._tempered(logits), fold)
        return (answer + self.offsets).log_softmax(dim=1) if self.offsets.any() else answer

    def _by_rows(
        self,
        compute: Callable[[Sequence[Tensor], Tensor | None], Tensor],
        logits: Sequence[Tensor],
        fold: Tensor | None,
        dim: int,
    ) -> Tensor:
        """Some rows after the other: what is computed is several times what experts say."""
        rows = zip(*(torch.split(each, ROWS) for each in logits), strict=True)
        folds = repeat(None) if fold is None else torch.split(fold, ROWS)
        parts = (compute(*block) for block in zip(rows, folds, strict=False))
        found, count, first = next(parts), logits[0].shape[0], 0
        if found.shape[dim] == count:
            return found
        shape = [count if d == dim else size for d, size in enumerate(found.shape)]
        whole = found.new_empty(shape)
        for part in chain((found,), parts):
            whole.narrow(dim, first, part.shape[dim]).copy_(part)
            first += part.shape[dim]
        return whole

    def influence(self, fold: Tensor | None = None) -> Tensor:
        """The weight of every expert for every node, with its part of the product's.

        Shapes:
            fold ``[n]``, result ``[experts, n, 1]``, or ``[experts, 1, 1]`` for all nodes.
        """
        own = self._per_node(self.weights, fold)
        return own + self.product * self._part(fold) if self.product else own

    def _mixture(self, each: Tensor, fold: Tensor | None) -> Tensor:
        """The logarithm of the mixture before the offsets of the classes."""
        weights = self._per_node(self.weights, fold).to(each.dtype)
        own = torch.logsumexp(each + weights.log(), dim=0)
        if not self.product:
            return own
        return torch.logaddexp(own, self._agreed(each, fold) + self.product.to(each.dtype).log())

    def _factor(self, each: Tensor, fold: Tensor | None) -> Tensor | float:
        """What the offsets multiply the probability of every class by."""
        if not self.offsets.any():
            return 1.0
        total = (self._mixture(each, fold) + self.offsets).logsumexp(dim=1, keepdim=True)
        return (self.offsets - total).exp()

    def _agreed(self, each: Tensor, fold: Tensor | None) -> Tensor:
        """The logarithm of the product's probabilities."""
        bounded = each.clamp(min=math.log(LEAST))
        return (bounded * self._per_node(self.powers, fold)).sum(dim=0).log_softmax(dim=1)

    def _part(self, fold: Tensor | None) -> Tensor:
        """The share of every expert in the exponents."""
        powers = self._per_node(self.powers, fold)
        return powers / powers.sum(dim=0)

    def _per_node(self, values: Tensor, fold: Tensor | None) -> Tensor:
        """Values of every expert for every node, of the same sum: other folds have none."""
        found = values[:, None]
        if fold is not None and self.folds > 1:
            found = found.repeat(1, fold.numel())
            for k, own in enumerate(values.view(self.folds, -1)):
                if own.sum() > 0:
                    alone = torch.zeros_like(values).view(self.folds, -1)
                    alone[k] = own * (values.sum() / own.sum())
                    found[:, fold == k] = alone.view(-1, 1)
        return found[:, :, None]

    def _tempered(self, logits: Sequence[Tensor]) -> Tensor:
        stacked = torch.stack(list(logits)) / self.temperatures[:, None, None]
        return stacked.log_softmax(dim=2)
