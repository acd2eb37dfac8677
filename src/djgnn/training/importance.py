"""Permutation importance: how much the score falls when the values of columns are shuffled."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from djgnn.graph import Graph
from djgnn.graph.table_rules import column_groups
from djgnn.model.experts import DJExperts, kind_of, members
from djgnn.model.table_experts import TableExpert
from djgnn.training.config import RunConfig
from djgnn.training.held_out import HeldOut, held_out
from djgnn.training.inputs import dense_or_sparse
from djgnn.training.loop import Fitted
from djgnn.training.selection import decision, score

REPEATS, MOST_GROUPS, SECONDS, MOST_NODES = 3, 20, 10.0, 1 << 18
"""Permutations of a group; most groups; seconds it may take and nodes there may be unless it was
asked for: with more nodes a single pass of trees takes too long."""
FAR = 1.5
"""How many times as long as it may a pass must be expected to take to be ended early."""
BLIND = ("shares", "propagation")
"""Experts that do not look at features."""
ALL = "all features"

Groups = dict[str, NDArray[np.int64]]


def importance(
    graph: Graph,
    config: RunConfig,
    fitted: Fitted,
    inputs: tuple[Any, Any],
    split: int = 0,
    asked: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Permute groups of features among all nodes, and see what the score of held-out nodes loses.

    Nothing is trained again; a node is judged by the members that did not learn from it. Groups
    are the columns of the node table, the 20 that tell most about the classes by themselves and the
    rest together; features without names are one group.

    Args:
        graph: What was trained on.
        config: How.
        fitted: The trained model.
        inputs: Features and operators of the whole graph.
        split: Which split it was trained on.
        asked: Do it whatever it takes; otherwise only if that is a few seconds.
        seed: Of the permutations.

    Returns:
        For the card: `importance`, of every group the mean `drop` in points and its standard
        `error`, the largest first; where it was left out, `importance_note` says why.
    """
    held = held_out(graph, fitted, split)
    groups = _groups(graph, held)
    if not groups or not held.y.size or fitted.interrupted:
        return {}
    if config.training.batch_size is not None:
        return {"importance_note": "importance of features: not measured in mini-batches"}
    if graph.num_nodes > MOST_NODES and not asked:
        note = f"not measured for more than {MOST_NODES:,} nodes; ask for it with --importance"
        return {"importance_note": f"importance of features: {note}"}
    # What the answers of members take, by their trainings: an epoch is about four passes.
    seeing = (e for e in fitted.experts if e.weight > 0 and kind_of(e.name) not in BLIND)
    costs = {each.name: each.seconds / max(1, each.epochs) / 4 for each in seeing}
    passes = REPEATS * len(groups)
    rough = sum(costs.values()) * passes
    if rough > 3 * SECONDS and not asked:
        return _too_long(rough)
    parts, device = _parts(graph, fitted, held), next(fitted.module.parameters()).device
    y = np.asarray(graph.y)[np.concatenate([rows for _, rows in parts])]

    def seen(given: Any, clock: _Clock | None = None) -> list[dict[str, Tensor]]:
        return [_logits(fitted.module, given, *part, clock) for part in parts]

    clock = _Clock(costs, SECONDS / passes)
    try:
        now = seen(inputs, None if asked else clock)
    except TimeoutError:
        return _too_long(max(rough, clock.expected() * passes))
    fixed = [_logits(fitted.module, inputs, *part, blind=True) for part in parts]

    def judged(logits: list[dict[str, Tensor]]) -> float:
        each = zip(parts, fixed, logits, strict=True)
        answers = [_answer(fitted.module, {**a, **b}, part[0]) for part, a, b in each]
        found = decision(torch.cat(answers), graph.metric).cpu().numpy()
        return score(found, y, graph.metric)

    whole = judged(now)
    if not np.isfinite(whole):
        return {}
    rng = np.random.default_rng(seed)
    found = []
    for name, columns in groups.items():
        orders = (rng.permutation(graph.num_nodes) for _ in range(REPEATS))
        drops = []
        for order in orders:
            x = dense_or_sparse(permuted(graph.x, columns, order), device)
            drops.append(whole - judged(seen((x, inputs[1]))))
        error = float(np.std(drops, ddof=1)) / REPEATS**0.5
        found.append({"group": name, "drop": float(np.mean(drops)), "error": error})
    return {"importance": sorted(found, key=lambda each: -each["drop"])}


class _Clock:
    """Ends a pass that takes too long, as soon as that is to be expected.

    Args:
        costs: What members take, roughly.
        most: Seconds of a pass.
    """

    def __init__(self, costs: Mapping[str, float], most: float) -> None:
        self.costs, self.most = costs, most
        self.begun, self.done = time.perf_counter(), 0.0

    def expected(self) -> float:
        """Seconds of the whole pass, at the pace of the members so far."""
        spent, total = time.perf_counter() - self.begun, sum(self.costs.values())
        return spent * max(1.0, total / self.done) if self.done else spent

    def answered(self, name: str) -> None:
        """A member has answered.

        Raises:
            TimeoutError: If the pass takes too long, or will by far.
        """
        self.done += self.costs.get(name, 0.0)
        if time.perf_counter() - self.begun > self.most or self.expected() > FAR * self.most:
            raise TimeoutError


def _too_long(seconds: float) -> dict[str, Any]:
    return {
        "importance_note": "importance of features: not measured, it would take about "
        f"{seconds:.0f} s; ask for it with --importance"
    }


def permuted(x: Any, columns: NDArray[np.int64], order: NDArray[np.int64]) -> Any:
    """Features whose values in some columns are those of other nodes; dense or sparse.

    Example:
        >>> permuted(np.array([[1, 2], [3, 4]]), np.array([1]), np.array([1, 0])).tolist()
        [[1, 4], [3, 2]]
    """
    if sp.issparse(x):
        moved = np.zeros(x.shape[1], dtype=x.dtype)
        moved[columns] = 1
        stay, go = (sp.diags_array(part, dtype=x.dtype) for part in (1 - moved, moved))
        return sp.csr_array(x @ stay + x[order] @ go)
    if len(columns) == x.shape[1]:
        return x[order]
    found = np.array(x)
    found[:, columns] = found[np.ix_(order, columns)]
    return found


def _groups(graph: Graph, held: HeldOut) -> Groups:
    """Columns of the features by group; of many groups those that tell most, and the rest."""
    if graph.x is None:
        return {}
    named = column_groups(graph)
    if not named:
        return {ALL: np.arange(graph.num_features)}
    if len(named) <= MOST_GROUPS:
        return named
    from sklearn.feature_selection import f_classif

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # columns that are constant here tell nothing
        tells = np.nan_to_num(f_classif(graph.x[held.nodes], held.y)[0])
    order = sorted(named, key=lambda name: -tells[named[name]].max())
    first = {name: named[name] for name in order[: MOST_GROUPS - 1]}
    rest = order[MOST_GROUPS - 1 :]
    return first | {f"{len(rest)} others": np.concatenate([named[name] for name in rest])}


def _parts(graph: Graph, fitted: Fitted, held: HeldOut) -> list[tuple[int, NDArray[np.int64]]]:
    """Held-out nodes, and the fold whose members did not learn from them, -1 for all members."""
    if held.source != "folds":
        return [(-1, held.nodes)]
    folds = [(k, np.flatnonzero(graph.split(k).val)) for k in range(graph.num_splits)]
    return [(k, np.intersect1d(rows, held.nodes)) for k, rows in folds]


@torch.no_grad()
def _logits(
    model: Any,
    inputs: tuple[Any, Any],
    fold: int,
    rows: NDArray[np.int64],
    clock: _Clock | None = None,
    blind: bool = False,
) -> dict[str, Tensor]:
    """Of the members that see features, or of those that do not; the slowest first.

    Raises:
        TimeoutError: If the clock says so.
    """
    found, costs = {}, {} if clock is None else clock.costs
    for member in sorted(members(model, fold), key=lambda each: -costs.get(each.name, 0.0)):
        if (kind_of(member.name) in BLIND) == blind:
            own, module = member.inputs_of(inputs), member.module.eval()
            if isinstance(module, TableExpert):
                found[member.name] = module.some(*own, rows)
            else:
                found[member.name] = module(*own)[0][rows]
            if clock is not None:
                clock.answered(member.name)
    return found


def _answer(model: Any, logits: dict[str, Tensor], fold: int) -> Tensor:
    """Logarithms of the probabilities that the members say together."""
    first = next(iter(logits.values()))
    if not isinstance(model, DJExperts):
        return first
    every = [logits.get(name, torch.zeros_like(first)) for name in model.names]
    return model.combine(every, torch.full((len(first),), fold, device=first.device))
