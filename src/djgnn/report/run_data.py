"""Everything a page shows of one run, read from its folder once."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from djgnn.errors import InputError
from djgnn.filters import FilterTable
from djgnn.graph import Graph, Split
from djgnn.model import DJGNN, DJExperts
from djgnn.model.batches import BatchedDJGNN
from djgnn.model.experts import Network, kind_of, main_network, members
from djgnn.model.explain import contributions
from djgnn.pump import PumpOutput
from djgnn.training.card import PREDICTIONS, RECORD, REMEDY, REPORT
from djgnn.training.config import RunConfig
from djgnn.training.folder import Answers, prediction_rows, read_history
from djgnn.training.predictions import COLUMNS, PARTS
from djgnn.training.progress import EpochRecord
from djgnn.training.recorder import Recording
from djgnn.training.stored import StoredModel, load_model

WHOLE, BATCH = 1 << 16, 512
"""Nodes of a graph whose branches are computed at once, and at a time in a larger one."""
SHARES = ("probability", "margin")
BLOCK_ROWS = 1 << 9
"""Rows of the table of predictions that are read at a time: so few that Python frees them before it
looks for cycles among them, which would take most of the time."""


@dataclass(frozen=True, eq=False)
class RunData:
    """One run: what its files hold, and what its model computes on its graph.

    Attributes:
        folder: Where it was read.
        card: ``result.json``.
        config: ``config.yaml``.
        history: Columns of numbers of ``history.csv``.
        owners: Whose epoch each row of it was, by name of the expert.
        predictions: Columns of ``predictions.csv``, as text, but not the probabilities of all
            classes.
        graph: The graph it was trained on.
        recording: Snapshots of its training; ``None`` if it was not recorded.
        probabilities: ``[n, classes]``, calibrated.
        shares: By expert of a mixture, what it adds to the probabilities before calibration,
            ``[n, classes]``; of the largest weight first.
        shown: The network that the following are of: the heaviest one with jumps, if there is any.
        kept: Its epoch.
        u: ``[n, p]``, positions.
        ranks: ``[n, R]``, the nodes at each rank.
        weight: ``[n, R]``, their coefficients exp(-s d).
        branches: Ranks that each jump keeps.
        alpha: Mixing weight of every branch, by name.
        added: What its branches add to the first layer of its classifier, of some nodes, a block
            of them after the other.
    """

    folder: Path
    card: dict[str, Any]
    config: RunConfig
    history: dict[str, NDArray[np.float64]]
    owners: list[str]
    predictions: dict[str, pl.Series]
    graph: Graph
    split: Split
    recording: Recording | None
    probabilities: NDArray[np.float32]
    shares: dict[str, NDArray[np.float32]]
    shown: Network
    kept: int
    u: NDArray[np.float32]
    ranks: NDArray[np.int64]
    weight: NDArray[np.float32]
    branches: tuple[tuple[int, ...], ...]
    alpha: dict[str, float]
    added: Callable[[torch.Tensor], Iterable[torch.Tensor]]

    @torch.no_grad()
    def contributions(
        self, nodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What every branch of the network shown adds to the logits of some nodes, and the bias.

        Shapes:
            nodes ``[m]``, results ``[m, branches, classes]`` and ``[m, classes]``.
        """
        mixture = self.shown.module.mixture
        blocks = self.added(torch.from_numpy(nodes).to(mixture.alpha.device))
        parts = zip(*(contributions(mixture, block) for block in blocks), strict=True)
        found, bias = (torch.cat(part).cpu().numpy() for part in parts)
        return found, bias

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        """Predicted class of every node, as ``predictions.csv`` has it."""
        return codes(self.predictions["prediction"], self.graph.classes())

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """The part of every node, as a place in `PARTS`."""
        return codes(self.predictions["part"], PARTS)


def codes(texts: pl.Series, among: Sequence[str]) -> NDArray[np.int64]:
    """The places of texts in a list, ``[n]``."""
    place = {text: i for i, text in enumerate(among)}
    return texts.replace_strict(place, return_dtype=pl.Int64).to_numpy()


def load_run(
    folder: str | Path,
    known: Answers | None = None,
    device: torch.device | str = "cpu",
    graph: Graph | None = None,
) -> RunData:
    """Read a run folder and run its model.

    Args:
        folder: The run.
        known: What it says, where that need be neither read nor computed again.
        device: Where the model runs.
        graph: Its graph, if it need not be read again.

    Raises:
        InputError: If a file is missing or damaged, or the files do not fit together.
    """
    path = Path(folder).expanduser()
    # The page is written anew.
    logits, trained = (None, None) if known is None else (known.logits, known.trained)
    stored = load_model(path, device, REPORT, logits, graph, trained)
    predictions = (
        _predictions(path, stored.card, stored.graph)
        if known is None
        else ({each.name: each for each in known.table})
    )
    records = read_history(path)
    numbers = [f.name for f in dataclasses.fields(EpochRecord) if f.name != "expert"]
    module, experts = stored.module, stored.card.get("experts") or []
    shown = main_network(module)
    # With folds the answer is a sum of other members than in training, which rounds otherwise.
    folded = stored.held is not None
    probabilities = stored.probabilities if known is None or folded else known.shares
    kept = {e["name"]: e["epoch"] for e in experts}.get(shown.name, stored.card["result"]["epoch"])
    with torch.no_grad():
        pump, table, added = _places(shown.module, *shown.inputs_of(stored.inputs))
        alpha, shares = shown.module.mixture.alpha, dict[str, Any]()
        if isinstance(module, DJExperts):
            each = module.shares([*stored.by_network.values()], stored.fold)
            for name, share in zip(module.names, each.cpu().numpy(), strict=True):
                kind = kind_of(name)
                shares[kind] = shares[kind] + share if kind in shares else share
            order = dict.fromkeys(kind_of(member.name) for member in members(module))
            shares = {kind: shares[kind] for kind in order}
    return RunData(
        folder=path,
        card=stored.card,
        config=stored.config,
        history={key: np.array([getattr(r, key) for r in records]) for key in numbers},
        owners=[r.expert for r in records],
        predictions=predictions,
        graph=stored.graph,
        split=stored.parts,
        recording=_recording(path, stored, shown.module, table, kept),
        probabilities=probabilities,
        shares=shares,
        shown=shown,
        kept=kept,
        u=pump.u.cpu().numpy(),
        ranks=table.index.cpu().numpy(),
        weight=table.weight.cpu().numpy(),
        branches=shown.module.branches,
        alpha=dict(zip(shown.module.branch_names, alpha.tolist(), strict=True)),
        added=added,
    )


def _places(
    module: DJGNN, x: Any, operators: Any
) -> tuple[PumpOutput, FilterTable, Callable[[torch.Tensor], Iterable[torch.Tensor]]]:
    """Positions and filters of all nodes, and :meth:`DJGNN.added` of some, in blocks."""
    if module.num_nodes <= WHOLE or not module.in_batches:
        view = module.view(x, operators)
        return *module.places(view), lambda nodes: [module.added(view.rows(nodes))]
    batched = BatchedDJGNN(module, x, operators)
    tables = batched.tables()
    found = batched.encoding(tables)
    return found.pump, found.table, lambda nodes: batched.added(nodes, tables, BATCH)


def _recording(
    path: Path, stored: StoredModel, module: DJGNN, table: FilterTable, kept: int
) -> Recording | None:
    if module.pump is None:
        return None
    found = Recording.read(
        path,
        num_nodes=stored.graph.num_nodes,
        channels=module.config.num_centers,
        ranks=table.index.shape[1],
        classes=module.out_channels,
        branches=len(module.branch_names),
    )
    if found is not None and kept not in found.epochs:
        raise InputError(
            f"{path / RECORD}: key 'epochs' must have the epoch that was kept, {kept}; record the "
            "run again, or delete the file to continue without it (got "
            f"{found.epochs.tolist()[:20]})"
        )
    return found


def _predictions(path: Path, card: dict[str, Any], graph: Graph) -> dict[str, pl.Series]:
    """The stored predictions by column, read and checked a block of rows after the other.

    Raises:
        InputError: If the table is not one of this run.
    """
    rows = prediction_rows(path, card)
    header, first = next(rows), 2
    found: dict[str, list[str]] = {key: [] for key in header if key in COLUMNS}
    seen: dict[str, str] = {}  # texts of columns that have a few of them, again and again
    while block := list(islice(rows, BLOCK_ROWS)):
        columns = dict(zip(header, zip(*block, strict=True), strict=True))
        _check_predictions(path / PREDICTIONS, columns, graph, first)
        for key, column in found.items():
            few = key not in ("node", *SHARES)
            column += map(seen.setdefault, columns[key], columns[key]) if few else columns[key]
        first += len(block)
    return {key: pl.Series(key, column, dtype=pl.String) for key, column in found.items()}


def _check_predictions(
    path: Path, columns: dict[str, tuple[str, ...]], graph: Graph, first: int
) -> None:
    """Refuse anything but known classes and parts, and shares between 0 and 1."""
    known = {"prediction": set(graph.classes()), "part": set(PARTS)}
    shares = [key for key in columns if key in SHARES or key.startswith("p(")]
    fits = all(each.issuperset(columns[key]) for key, each in known.items())
    if fits and _are_shares([value for key in shares for value in columns[key]]):
        return
    wants = {"prediction": "a class of this run", "part": f"one of {PARTS}"}
    for key in (*known, *shares):
        for number, value in enumerate(columns[key], start=first):
            if not (value in known[key] if key in known else _are_shares([value])):
                what = f"{key} must be {wants.get(key, 'a number from 0 to 1')}"
                raise InputError(
                    f"{path}: damaged, row {number}: {what} (got {value[:60]!r}); {REMEDY}"
                )


def _are_shares(texts: list[str]) -> bool:
    try:
        values = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        return False
    return bool(((values >= 0) & (values <= 1)).all())
