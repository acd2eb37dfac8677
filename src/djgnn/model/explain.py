"""Why a node got its class: exact contributions of the branches, and who stands behind each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from djgnn.filters.aggregate import normalized_entries
from djgnn.filters.table import safe_norm
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.model.branches import JumpBranches
from djgnn.model.djgnn import DJGNN
from djgnn.model.mixture import ConvexMixture
from djgnn.model.operators import GraphOperators
from djgnn.model.views import DJOutput

MOST_NEIGHBOURS = 20


@dataclass(frozen=True)
class Neighbour:
    """A node behind a branch.

    `weight` is its entry in the normalised filter. For jumps, `rank` and `distance` say where it
    stands in the list, `coefficient` is exp(-s d), `twin` that it has the same row of A, and
    `ties` how many other nodes are at the same distance: among those the number of the node
    decided. Rank 0 is the self loop.
    """

    node: int
    name: str
    label: str | None
    part: str
    weight: float
    rank: int | None = None
    distance: float | None = None
    coefficient: float | None = None
    twin: bool = False
    ties: int = 0


@dataclass(frozen=True)
class BranchPart:
    """What one branch adds to each class, and from whom it has it.

    `neighbours_left_out` counts those of the smallest weight that are not listed.
    """

    branch: str
    alpha: float
    contributions: dict[str, float]
    neighbours: tuple[Neighbour, ...]
    neighbours_left_out: int = 0

    @property
    def by_twins(self) -> bool:
        """Whether a twin of the node is among its neighbours here."""
        return any(n.twin for n in self.neighbours)


@dataclass(frozen=True)
class Explanation:
    """A node's logits taken apart: bias plus the contributions of all branches, class by class."""

    node: int
    name: str
    label: str | None
    prediction: str
    logits: dict[str, float]
    bias: dict[str, float]
    branches: tuple[BranchPart, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = asdict(self)
        for plain, part in zip(values["branches"], self.branches, strict=True):
            plain["by_twins"] = part.by_twins
        return values


def contributions(mixture: ConvexMixture, parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    r"""What every branch adds to every logit, exactly.

    .. math::
        \text{logits}_c = \text{bias}_c + \sum_k \alpha_k\, \langle W_{ck}, H^k \rangle

    With a classifier of several layers the ReLUs that are open for a node stay open, which makes
    the rest of the classifier linear: the sum is the logit there too.

    Args:
        mixture: The classifier.
        parts: Embeddings of the branches, as the mixture takes them.

    Shapes:
        contributions ``[rows, branches, classes]``, bias ``[rows, classes]``.
    """
    added = mixture.added(parts)
    bias = mixture.biases[0].expand(added.shape[0], -1)
    for weight, more in zip(mixture.weights[1:], mixture.biases[1:], strict=True):
        open_ = (added.sum(dim=1) + bias > 0).to(added.dtype)
        added, bias = (added * open_[:, None]) @ weight.t(), (bias * open_) @ weight.t() + more
    return added, bias


@torch.no_grad()
def explain(
    module: DJGNN,
    inputs: tuple[Tensor | SparseOperator, GraphOperators],
    graph: Graph,
    node: int,
    split: int = 0,
) -> Explanation:
    """Take the logits of one node apart.

    Args:
        module: A trained model.
        inputs: Features and operators of the graph.
        graph: The graph itself, for names, labels and parts of the split.
        node: Which node.
        split: The split that the model was trained on.

    Raises:
        IndexError: If there is no such node.
    """
    if not 0 <= node < graph.num_nodes:
        raise IndexError(f"node must be between 0 and {graph.num_nodes - 1} (got {node})")
    module.eval()
    output, operators = module.run(*inputs), inputs[1]
    own = [part[node : node + 1] for part in output.embeddings]
    added, bias = contributions(module.mixture, own)
    classes, words = graph.classes(), _Words(graph, split)

    def by_class(values: Tensor) -> dict[str, float]:
        return dict(zip(classes, values.tolist(), strict=True))

    behind: list[list[Neighbour]] = []
    for branch in module.parts:
        matrix = branch.matrix(operators)
        if isinstance(branch, JumpBranches):
            behind += _jumps(module, output, operators, words, node)
        else:
            behind += [[] if matrix is None else _row(matrix, words, node)] * len(branch.labels)
    parts = [
        BranchPart(
            name,
            float(a),
            by_class(add),
            tuple(near[:MOST_NEIGHBOURS]),
            max(0, len(near) - MOST_NEIGHBOURS),
        )
        for name, a, add, near in zip(
            module.branch_names, output.alpha, added[0], behind, strict=True
        )
    ]
    logits = output.logits[node]
    return Explanation(
        node=node,
        name=words.names[node],
        label=words.label(node),
        prediction=classes[int(logits.argmax())],
        logits=by_class(logits),
        bias=by_class(bias[0]),
        branches=tuple(parts),
    )


class _Words:
    """Names, labels and parts of nodes, as words."""

    def __init__(self, graph: Graph, split: int) -> None:
        self.graph, self.names, self.classes = graph, graph.names(), graph.classes()
        self.split = graph.split(split) if graph.num_splits else None

    def label(self, node: int) -> str | None:
        code = -1 if self.graph.y is None else int(self.graph.y[node])
        return None if code < 0 else self.classes[code]

    def part(self, node: int) -> str:
        if self.split is None:
            return ""
        masks = {"train": self.split.train, "validation": self.split.val, "test": self.split.test}
        return next((name for name, mask in masks.items() if mask[node]), "")

    def neighbour(self, node: int, weight: float, **more: Any) -> Neighbour:
        return Neighbour(node, self.names[node], self.label(node), self.part(node), weight, **more)


def _jumps(
    module: DJGNN, output: DJOutput, operators: GraphOperators, words: _Words, node: int
) -> list[list[Neighbour]]:
    """The entries of every filter's row: the self loop first, then the ranks."""
    table, u = output.table, output.pump.u
    position, value = (part[node].tolist() for part in normalized_entries(table))
    all_distances = safe_norm(u - u[node])
    twin = operators.twins.class_of == operators.twins.class_of[node]
    twin[node] = False
    entries = [(b, r) for b, ranks in enumerate(module.branches) for r in (0, *ranks)]
    found: list[list[Neighbour]] = [[] for _ in module.branches]
    for (branch, rank), place, weight in zip(entries, position, value, strict=True):
        other = place // table.num_branches
        if rank and other == node:
            continue  # the self loop stands for it
        distance = all_distances[other]
        found[branch].append(
            words.neighbour(
                other,
                weight,
                rank=rank,
                distance=float(distance),
                coefficient=float(table.weight[node, rank - 1]) if rank else 1.0,
                twin=bool(twin[other]),
                ties=int((all_distances == distance).sum()) - 1 if rank else 0,
            )
        )
    return found


def _row(operator: SparseOperator, words: _Words, node: int) -> list[Neighbour]:
    """The neighbours in a row of a matrix, heaviest first."""
    row = operator.to_scipy()[[node]]
    pairs = sorted(zip(row.data.tolist(), row.indices.tolist(), strict=True), key=lambda p: -p[0])
    return [words.neighbour(other, weight) for weight, other in pairs if weight]
