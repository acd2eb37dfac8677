"""Why a node got its class: exact shares of the experts, contributions of their branches, and the
neighbours behind each.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.filters.aggregate import normalized_entries
from djgnn.filters.table import safe_norm
from djgnn.graph import Graph, Split
from djgnn.graph.operator import SparseOperator
from djgnn.model.branch_mixture import ConvexMixture
from djgnn.model.branches import HopBranch, JumpBranches, MixBranch
from djgnn.model.djgnn import DJGNN
from djgnn.model.experts import DJExperts, Network, members
from djgnn.model.operators import GraphOperators, WholeGraph
from djgnn.model.table_experts import LabelPropagation, TableExpert
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
class ExpertPart:
    """What one expert says of a node, and what it adds to the answer.

    `probabilities` are its own, the softmax of its logits over its `temperature`; `shares` are what
    it adds to those of the mixture, and `weight` is their sum. `alone` is what it adds by itself, a
    multiple of its probabilities; the rest of a share is its part of the product of experts
    (:class:`djgnn.model.expert_mixture.Mixed`). Its `logits` are `bias` plus what its branches
    contribute. Experts on a table have no branch, but for label propagation: there it is what makes
    the difference to the class shares, with the labelled neighbours.
    """

    expert: str
    weight: float
    temperature: float
    probabilities: dict[str, float]
    shares: dict[str, float]
    logits: dict[str, float]
    bias: dict[str, float]
    branches: tuple[BranchPart, ...]
    alone: dict[str, float]


@dataclass(frozen=True)
class Explanation:
    """A node's answer taken apart, class by class.

    Of one network, the logits are `bias` plus the contributions of its branches. Of a mixture, the
    logits are logarithms of probabilities, these are the sums of the shares of its `experts`
    exactly, before the temperature of calibration divides the logits; each expert has `bias` and
    `branches` of its own. Experts without weight are left out; the largest weight comes first.
    """

    node: int
    name: str
    label: str | None
    prediction: str
    logits: dict[str, float]
    bias: dict[str, float]
    branches: tuple[BranchPart, ...]
    experts: tuple[ExpertPart, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = asdict(self)
        plain = [values["branches"], *(part["branches"] for part in values["experts"])]
        parts = [self.branches, *(part.branches for part in self.experts)]
        for row, part in zip(chain(*plain), chain(*parts), strict=True):
            row["by_twins"] = part.by_twins
        return values


def contributions(mixture: ConvexMixture, added: Tensor) -> tuple[Tensor, Tensor]:
    r"""What every branch adds to every logit, exactly.

    .. math::
        \text{logits}_c = \text{bias}_c + \sum_k \alpha_k\, \langle W_{ck}, H^k \rangle

    With a classifier of several layers the ReLUs that are open for a node stay open, which makes
    the rest of the classifier linear: the sum is the logit there too.

    Args:
        mixture: The classifier.
        added: What every branch adds to its first layer, see :meth:`ConvexMixture.added`.

    Shapes:
        added ``[rows, branches, width of the first layer]``, contributions
        ``[rows, branches, classes]``, bias ``[rows, classes]``.
    """
    bias = mixture.biases[0].expand(added.shape[0], -1)
    for weight, more in zip(mixture.weights[1:], mixture.biases[1:], strict=True):
        open_ = (added.sum(dim=1) + bias > 0).to(added.dtype)
        added, bias = (added * open_[:, None]) @ weight.t(), (bias * open_) @ weight.t() + more
    return added, bias


@torch.no_grad()
def explain(
    module: DJGNN | DJExperts,
    inputs: tuple[Any, Any],
    graph: Graph,
    node: int,
    split: Split | None = None,
    fold: int = -1,
    known: Mapping[str, Tensor] | None = None,
) -> Explanation:
    """Take the answer for one node apart.

    Args:
        module: A trained model.
        inputs: Features and operators of the graph.
        graph: The graph itself, for names, labels and parts of the split.
        node: Which node.
        split: The parts of the graph that the model was trained with; the first split by default.
        fold: The fold that the node was held out of; its answer is that of those members.
        known: Logits of experts, of all nodes, that need not be computed again.

    Raises:
        IndexError: If there is no such node.
    """
    if not 0 <= node < graph.num_nodes:
        raise IndexError(f"node must be between 0 and {graph.num_nodes - 1} (got {node})")
    module.eval()
    words = _Words(graph, split)
    people = members(module, fold)
    found: dict[str, tuple[Tensor, Tensor, tuple[BranchPart, ...]]] = {}
    for member in people:
        own = member.inputs_of(inputs)
        if isinstance(member, Network):
            found[member.name] = _branches(member.module, own, words, node)
        else:
            table: Any = member.module
            every = table(*own)[0] if known is None else known[member.name]
            found[member.name] = _table(table, own[1], every[node], words, node)
    logits = {name: each[0].double() for name, each in found.items()}
    shares, alone, answer = _mixture(module, logits, fold)
    parts = [
        ExpertPart(
            expert=member.name,
            weight=member.weight,
            temperature=member.temperature,
            probabilities=words.by_class((logits[member.name] / member.temperature).softmax(dim=0)),
            shares=words.by_class(shares[member.name]),
            logits=words.by_class(found[member.name][0]),
            bias=words.by_class(found[member.name][1]),
            branches=found[member.name][2],
            alone=words.by_class(alone[member.name]),
        )
        for member in people
    ]
    one = parts[0] if isinstance(module, DJGNN) else None
    return Explanation(
        node=node,
        name=words.names[node],
        label=words.label(node),
        prediction=words.classes[int(answer.argmax())],
        logits=one.logits if one else words.by_class(answer),
        bias=one.bias if one else {},
        branches=one.branches if one else (),
        experts=() if one else tuple(parts),
    )


def _mixture(
    module: DJGNN | DJExperts, logits: dict[str, Tensor], fold: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    """What every member adds to the probabilities of a node, what of it by itself, and the answer.

    The answer is the logarithms of the sums.
    """
    if isinstance(module, DJGNN):
        (own,) = logits.values()
        return {"": own.softmax(dim=0)}, {"": own.softmax(dim=0)}, own.log_softmax(dim=0)
    blank = torch.zeros_like(next(iter(logits.values())))
    every = [logits.get(name, blank)[None] for name in module.names]
    place = torch.tensor([fold], device=blank.device)
    shares, alone = (
        dict(zip(module.names, values(every, place)[:, 0], strict=True))
        for values in (module.shares, module.alone)
    )
    return shares, alone, module.combine(every, place)[0]


class _Words:
    """Names, labels and parts of nodes, as words."""

    def __init__(self, graph: Graph, split: Split | None) -> None:
        self.graph, self.names, self.classes = graph, graph.names(), graph.classes()
        self.split = graph.split(0) if split is None and graph.num_splits else split

    def by_class(self, values: Tensor) -> dict[str, float]:
        return dict(zip(self.classes, values.tolist(), strict=True))

    def label(self, node: int) -> str | None:
        code = int(self.graph.labels[node])
        return None if code < 0 else self.classes[code]

    def part(self, node: int) -> str:
        if self.split is None:
            return ""
        masks = {"train": self.split.train, "validation": self.split.val, "test": self.split.test}
        return next((name for name, mask in masks.items() if mask[node]), "")

    def neighbour(self, node: int, weight: float, **more: Any) -> Neighbour:
        return Neighbour(node, self.names[node], self.label(node), self.part(node), weight, **more)


def _branches(
    module: DJGNN, inputs: tuple[Any, GraphOperators], words: _Words, node: int
) -> tuple[Tensor, Tensor, tuple[BranchPart, ...]]:
    """The logits of a network, its bias, and what each of its branches adds and sees."""
    output, operators = module.run(*inputs), inputs[1]
    own = [part[node : node + 1] for part in output.embeddings]
    added, bias = contributions(module.mixture, module.mixture.added(own))
    behind: list[list[Neighbour]] = []
    for branch in module.parts:
        matrix = branch.matrix(operators)
        if isinstance(branch, JumpBranches):
            behind += _jumps(module, output, operators, words, node)
        elif isinstance(branch, HopBranch | MixBranch):
            behind += [_row(matrix, words, node, hops) for hops in range(branch.num_hops + 1)]
        else:
            seen = [] if matrix is None else _row(matrix, words, node)
            behind += [seen] * len(branch.labels)
    parts = [
        BranchPart(
            branch=name,
            alpha=float(a),
            contributions=words.by_class(add),
            neighbours=tuple(near[:MOST_NEIGHBOURS]),
            neighbours_left_out=max(0, len(near) - MOST_NEIGHBOURS),
        )
        for name, a, add, near in zip(
            module.branch_names, output.alpha, added[0], behind, strict=True
        )
    ]
    return output.logits[node], bias[0], tuple(parts)


def _table(
    module: TableExpert, graph: WholeGraph, logits: Tensor, words: _Words, node: int
) -> tuple[Tensor, Tensor, tuple[BranchPart, ...]]:
    """The logits of an expert on a table; of label propagation which labelled neighbours count."""
    if not isinstance(module, LabelPropagation):
        return logits, logits, ()
    bias = module.logits(module.prior.double().cpu().numpy())
    near = [words.neighbour(*pair) for pair in module.labelled_neighbours(graph, node)]
    shown, left_out = tuple(near[:MOST_NEIGHBOURS]), max(0, len(near) - MOST_NEIGHBOURS)
    added = words.by_class(logits - bias)
    return logits, bias, (BranchPart("neighbours", 1.0, added, shown, left_out),)


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


def _row(
    operator: SparseOperator | None, words: _Words, node: int, hops: int = 1
) -> list[Neighbour]:
    """The neighbours in a row of a matrix, or of a power of it, heaviest first."""
    n = words.graph.num_nodes
    row = sp.csr_array(([1.0], ([0], [node])), shape=(1, n))
    if operator is not None:
        matrix = operator.to_scipy()
        for _ in range(hops):
            row = sp.csr_array(row @ matrix)
    pairs = sorted(zip(row.data.tolist(), row.indices.tolist(), strict=True), key=lambda p: -p[0])
    return [words.neighbour(other, weight) for weight, other in pairs if weight]
