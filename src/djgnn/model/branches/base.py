"""What every branch is: an encoder of nodes, written once for all kinds of pass."""

import math
from typing import ClassVar, Self

from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.config import ModelConfig
from djgnn.model.operators import GraphOperators
from djgnn.model.views import Encoding, View


class Branch(nn.Module):
    """An embedding of the rows of a view, ``[rows, blocks * hidden_channels]``.

    A pass has two halves. :meth:`encode` computes everything before dropout, for all nodes whose
    values the rows need; :meth:`forward` computes the rows from it. Values of other nodes come from
    the view alone (:class:`djgnn.model.views.View`), in one of these pairs:

    ==================================== =======================================================
    encode                               forward, with ``h = encoding.parts[self.name]``
    ==================================== =======================================================
    ``view.features @ W``                ``view.own_rows(h)`` (the node itself), or
                                         ``view.aggregate(encoding.table, h)`` (the filters)
    ``view.dense_features()``            ``view.aggregate(encoding.table, h, shared=True)``
                                         (the filters, one table for all jumps)
    ``view.hop(W, b)``                   ``view.hop_rows(h)`` (one hop on the graph)
    ``view.hop(W, b, further=1)``        ``view.propagate(view.inner(name, h, f))`` (two hops)
    ``view.hops(W, width)``              ``view.hop_blocks(f(h) @ V, width)`` (several hops twice,
                                         not in batches)
    nothing                              ``view.adjacency @ W`` (rows of A)
    ``view.features @ W``                ``view.own_rows(view.spread(h))`` (any number of hops,
                                         but not in batches), or ``view.hop_blocks(h, width)``,
                                         ``view.hop_sum(h, weights)`` (all hops in one piece)
    ==================================== =======================================================

    Example:
        >>> from djgnn.model import DJGNN
        >>> model = DJGNN(3, 8, 2, num_nodes=6, num_jumps=2)
        >>> [branch.name for branch in model.parts]
        ['jumps', 'homophilic', 'structure']
    """

    name: ClassVar[str]
    """Its attribute in the model, and the beginning of its names in the mixture."""
    whole: bool = False
    """Whether the values of a few nodes need those of all, so that it has no mini-batches."""

    patient: bool = False
    """Whether its loss may stay for many epochs and fall again, so that training waits longer."""

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """Build the branch, or return ``None`` if the configuration switches it off."""
        raise NotImplementedError

    def rates(self, many: bool) -> tuple[float, float]:
        """Learning rate and weight decay of an expert of this branch alone, as multiples.

        Args:
            many: Whether there are many training nodes, see :class:`djgnn.training.TrainConfig`.
        """
        return 1.0, 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """One name per block of `hidden_channels` columns."""
        return (self.name,)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Initialise all weights."""
        raise NotImplementedError

    def encode(self, view: View) -> Tensor:
        """The first half of a pass, one row per node that the rows of the view need."""
        raise NotImplementedError

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """The second half: the embedding of the rows, with dropout while training."""
        raise NotImplementedError

    def matrix(self, operators: GraphOperators) -> SparseOperator | None:
        """The matrix whose rows say which nodes an embedding sums, for explanations."""
        return None


def glorot(weight: Tensor, fan_in: int, fan_out: int, generator: Generator | None = None) -> None:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)), in place."""
    bound = math.sqrt(6 / max(fan_in + fan_out, 1))
    nn.init.uniform_(weight, -bound, bound, generator=generator)
