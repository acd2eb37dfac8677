"""Experts on a table of the graph, and the plain ones, which anyone would try first.

Plain experts follow no gradient. What they have learned from the training labels are tensors, so
that they are stored as networks are. All of them are computed whole, whatever the networks do.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from djgnn.graph.new_nodes import Arrivals
from djgnn.graph.operator import SparseOperator
from djgnn.model.config import ModelConfig
from djgnn.model.node_statistics import Floats, Surroundings, sharing, surroundings, totals
from djgnn.model.operators import WholeGraph, mean_normalize

ABSENT = 1e-6
"""Least probability of a class."""
STEPS, TOLERANCE = 100, 1e-4
"""Most steps of label propagation, and the change of a probability that ends it."""


class TableExpert(nn.Module):
    """An expert on a table of the graph, which is computed whole.

    Args:
        in_channels: Number of node features F.
        out_channels: Number of classes.
        num_nodes: Number of nodes n.
        directed: Whether edges have a direction.

    Shapes:
        label ``[n]`` (class of the training nodes, -1 of others), prior ``[classes]``; logits are
        logarithms of probabilities ``[n, classes]``.
    """

    in_batches = False
    label: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_nodes, self.directed = num_nodes, directed
        # A parameter, for optimisers and devices ask for one.
        self.prior = nn.Parameter(torch.full((out_channels,), 1 / max(1, out_channels)), False)
        self.register_buffer("label", torch.full((num_nodes,), -1))

    @classmethod
    def build(cls, config: ModelConfig, *sizes: Any) -> Self:
        """The expert of a model: of features, classes, nodes, and whether edges are directed."""
        return cls(*sizes)

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """No label is known, all classes are equal."""
        with torch.no_grad():
            self.prior.fill_(1 / max(1, self.out_channels))
            self.label.fill_(-1)

    @torch.no_grad()
    def learn(self, nodes: Tensor, labels: Tensor, class_weight: Tensor | None = None) -> None:
        """Take the labels of the training nodes."""
        self.label.fill_(-1)
        self.label[nodes] = labels
        weight = torch.ones_like(self.prior) if class_weight is None else class_weight
        share = torch.bincount(labels, minlength=self.out_channels) * weight
        self.prior.copy_(share / share.sum())

    def forward(
        self, x: Any, graph: WholeGraph, generator: Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits of all nodes; there is no pump loss."""
        return self.table_logits(*self.whole(x, graph)), self.prior.new_zeros(())

    def some(self, x: Any, graph: WholeGraph, rows: NDArray[np.int64]) -> Tensor:
        """Logits of some nodes, ``[rows, classes]``."""
        return self.forward(x, graph)[0][rows]

    def whole(self, x: Any, graph: WholeGraph) -> tuple[Any, Surroundings]:
        """The features of all nodes as a matrix, and who is near whom."""
        features = as_matrix(x if graph.features is None else graph.features)
        return features, surroundings(graph)

    def arriving(self, x: Any, graph: WholeGraph, later: Arrivals, features: Any) -> Tensor:
        """Logits of nodes that come later; known nodes do not see them.

        Shapes:
            features ``[m, F]``, result ``[m, classes]``.
        """
        near = surroundings(graph, later)
        with sharing:
            if "features" not in near.made:
                parts = [as_matrix(part) for part in (x, features)]
                sparse = sp.issparse(parts[0])
                near.made["features"] = (
                    sp.csr_array(sp.vstack(parts)) if sparse else np.vstack(parts)
                )
        return self.later_logits(near.made["features"], near)

    def later_logits(self, x: Any, near: Surroundings) -> Tensor:
        """Of the nodes after the known ones, ``[m, classes]``."""
        return self.table_logits(x, near)[self.num_nodes :]

    def table_logits(self, x: Any, near: Surroundings) -> Tensor:
        """Of all nodes, known and later, ``[n, classes]``."""
        raise NotImplementedError

    def ranges(self) -> dict[str, tuple[float, float]]:
        """What the values of tensors lie between: a file may hold anything."""
        return {"label": (-1, self.out_channels - 1), "prior": (0, 1)}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        for name, (least, most) in self.ranges().items():
            value = state_dict.get(prefix + name)
            if value is not None and not bool(((value >= least) & (value <= most)).all()):
                rest[-1].append(f"{prefix}{name}: must lie between {least} and {most}")

    def known_labels(self, num_nodes: int) -> Floats:
        """Ones in the columns of the training nodes' classes, ``[num_nodes, classes]``."""
        label = self.label.cpu().numpy()
        rows = np.flatnonzero(label >= 0)
        known = np.zeros((num_nodes, self.out_channels))
        known[rows, label[rows]] = 1
        return known


class PlainExpert(TableExpert):
    """An expert without gradients; what it learned are a few tensors."""

    epochs: int = 1
    """Settings, or batches of trees, that validation nodes choose from."""
    patience: ClassVar[int | None] = None

    def probabilities(self, x: Any, near: Surroundings) -> Floats | Tensor:
        """Of all nodes, known and later, ``[n, classes]``."""
        raise NotImplementedError

    def table_logits(self, x: Any, near: Surroundings) -> Tensor:
        """Logarithms of the probabilities."""
        return self.logits(self.probabilities(x, near))

    def logits(self, probabilities: Floats | Tensor) -> Tensor:
        """Their logarithms, on the device of the expert."""
        if isinstance(probabilities, Tensor) and probabilities.is_cuda:
            return probabilities.clamp_min(ABSENT).log().to(self.prior)
        kept = np.log(np.maximum(np.asarray(probabilities), ABSENT))
        return torch.from_numpy(kept).to(self.prior.device, self.prior.dtype)

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Floats | Tensor]:
        """Learn from the labels, epoch after epoch; the probabilities of all nodes after each.

        A restored expert continues from where it was.
        """
        yield self.probabilities(x, near)


class ClassShares(PlainExpert):
    """Every node has the class shares of the training nodes."""

    def probabilities(self, x: Any, near: Surroundings) -> Floats:
        """The same for all."""
        return np.tile(self.prior.double().cpu().numpy(), (near.both.shape[0], 1))


class LabelPropagation(PlainExpert):
    r"""Labels of the training nodes, propagated along the edges in both directions.

    .. math::
        f_i = \alpha \sum_j M_{ij} f_j + (1 - \alpha) \pi \quad
        (i \text{ without label}), \qquad f_i = e_{y_i} \quad (i \text{ a training node}),

    with the mean M over neighbours and the class shares :math:`\pi`, which nodes without
    neighbours have. The answer is the right-hand side for every node: a labelled one is predicted
    from the others. How far labels reach, :math:`\alpha`, is chosen on validation nodes.

    Reference:
        Zhu, Ghahramani, Lafferty: Semi-supervised learning using Gaussian fields and harmonic
        functions. ICML 2003.
    """

    reaches: ClassVar = (0.5, 0.8, 0.95, 0.99)
    epochs = len(reaches)
    reach: Tensor

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int, directed: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, num_nodes, directed)
        self.register_buffer("reach", torch.zeros((), dtype=torch.float64))

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """No label, no reach."""
        super().reset_parameters()
        self.reach.zero_()

    def ranges(self) -> dict[str, tuple[float, float]]:
        """A reach is a share."""
        return {**super().ranges(), "reach": (0, 1)}

    def steps(self, x: Any, near: Surroundings, seed: int) -> Iterator[Tensor]:
        """One reach after the other."""
        for reach in self.reaches:
            if reach > self.reach:
                self.reach.fill_(reach)
                yield self.probabilities(x, near)

    def probabilities(self, x: Any, near: Surroundings) -> Tensor:
        """One step from where the iteration ends."""
        heard = float(self.reach) * near.mean
        known, prior = self.known_labels(heard.shape[0]), self.prior.double().cpu().numpy()
        rest, multiply = np.outer(1 - totals(heard), prior), near.times(heard)
        labels, given, others = (
            torch.from_numpy(part).to(near.device) for part in (known, rest, prior)
        )
        fixed = labels.sum(dim=1, keepdim=True) > 0
        f = torch.where(fixed, labels, others)
        for _ in range(STEPS if len(f) else 0):
            before, f = f, torch.where(fixed, labels, multiply(f) + given)
            if float((f - before).abs().max()) < TOLERANCE:
                break
        return multiply(f) + given

    def labelled_neighbours(self, graph: WholeGraph, node: int) -> list[tuple[int, float]]:
        """The labelled neighbours of a node and their weights in its answer, largest first."""
        row = float(self.reach) * mean_normalize(surroundings(graph).both[[node]])
        known = self.label.cpu().numpy()
        pairs = zip(row.indices.tolist(), row.data.tolist(), strict=True)
        return sorted((p for p in pairs if known[p[0]] >= 0), key=lambda pair: -pair[1])


def as_matrix(x: Any) -> NDArray[Any] | sp.csr_array:
    """Features on the CPU, dense or sparse."""
    if isinstance(x, SparseOperator):
        return x.to_scipy()
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x
