"""The block-model study of Appendix B: DJ-GNN over gaps and levels, every value kept, resumable."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from levels import GAPS, NUM_LEVELS, SERIES, Series, communities, sbm_at_level, sbm_level
from sklearn.decomposition import PCA

from djgnn.bench.store import make_folder
from djgnn.checking import json_values
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.graph.files import atomic_write
from djgnn.spectral import homophily, spectral_gap, structural_heterophily
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Fitted
from djgnn.training.provenance import versions
from djgnn.training.run import train

CellValues = dict[str, Any]
STUDY, CELLS = "study.json", "cells.jsonl"
VIEWED = 0.67
"""The gap whose graphs are drawn, level by level; the nearest one that the study has."""


@dataclass(frozen=True)
class SbmStudy:
    """What the study runs over; the defaults are the whole of it.

    Args:
        gaps: Values of (p - q)/(p + q).
        levels: Levels of both series, see :func:`levels.sbm_level`.
        num_seeds: Repetitions; each draws graph, split and weights anew.
        num_nodes: Nodes of every graph.
        degree: Mean degree of every graph.
        hidden_channels: Width of every branch.
        num_jumps: Number of jumps K, 10 in the paper.
        num_centers: Columns p of U, 3 in the paper.
        epochs: Most epochs of a run.
        patience: Epochs without a better validation score before a run ends.

    Example:
        >>> len(SbmStudy().cells()), len(SbmStudy.quick().cells())
        (240, 16)
    """

    gaps: tuple[float, ...] = GAPS
    levels: tuple[int, ...] = tuple(range(NUM_LEVELS))
    num_seeds: int = 5
    num_nodes: int = 400
    degree: float = 40.0
    hidden_channels: int = 32
    num_jumps: int = 10
    num_centers: int = 3
    epochs: int = 120
    patience: int = 30

    @classmethod
    def quick(cls) -> SbmStudy:
        """A tiny version that takes seconds and proves nothing."""
        sizes: dict[str, Any] = {"num_nodes": 80, "degree": 12.0, "hidden_channels": 8}
        return cls(gaps=(0.2, 0.98), levels=(0, 5), num_seeds=2, epochs=6, **sizes)

    def cells(self) -> list[Cell]:
        """Every run, seed by seed, so that an unfinished study is a smaller whole one."""
        return [
            Cell(series, gap, level, seed)
            for seed in range(self.num_seeds)
            for series in SERIES
            for gap in self.gaps
            for level in self.levels
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON gives them back."""
        found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return found


@dataclass(frozen=True, order=True)
class Cell:
    """One run: which series, gap and level, and the seed of graph, split and weights."""

    series: Series
    gap: float
    level: int
    seed: int

    def view(self, study: SbmStudy) -> str | None:
        """The file of its positions and embedding, if the first figure draws this cell."""
        drawn = min(study.gaps, key=lambda gap: abs(gap - VIEWED))
        if self.series != "structural" or self.gap != drawn or self.seed != 0:
            return None
        return f"view-level{self.level}.npz"


def run_study(
    study: SbmStudy, out: str | Path, progress: Callable[[int, int, Cell], None] | None = None
) -> list[CellValues]:
    """Run every cell that is not in the folder yet and return the values of all.

    The folder holds ``study.json`` (what is run, versions), ``cells.jsonl`` (one line per finished
    cell) and the arrays of the first figure. Each file is replaced whole, so a killed run leaves
    finished cells only; a cell depends on nothing but the study and its own seed.

    Args:
        study: What to run over.
        out: The folder, new or of the same study.
        progress: Called before each cell with the number of finished cells, of all, and the cell.

    Returns:
        One record per cell, in the order of :meth:`SbmStudy.cells`.

    Raises:
        InputError: If the folder holds another study, other files, or a line that cannot be read.
    """
    folder = _open_folder(Path(out).expanduser(), study)
    done = _finished_values(folder)
    cells = study.cells()
    for cell in cells:
        view = cell.view(study)
        if cell in done and (view is None or (folder / view).is_file()):
            continue
        if progress is not None:
            progress(len(done), len(cells), cell)
        values, arrays = _run_values(study, cell)
        if view is not None:
            with atomic_write(folder / view) as file:
                np.savez_compressed(file, **arrays)
        done[cell] = values
        with atomic_write(folder / CELLS) as file:
            kept = (json_values(done[c]) for c in cells if c in done)
            lines = (json.dumps(values, allow_nan=False) + "\n" for values in kept)
            file.write("".join(lines).encode("utf-8"))
    return [done[cell] for cell in cells]


ONE_NETWORK: dict[str, Any] = {
    "experts": (),
    "structure": False,
    "lr": 0.01,
    "weight_decay": 5e-4,
    "label_smoothing": None,
    "select": "score",
}
"""The study is about jumps: one network, without the branch that reads rows of A."""


def _run_values(study: SbmStudy, cell: Cell) -> tuple[CellValues, dict[str, Any]]:
    """Draw the graph of a cell, measure it, train on it.

    Returns:
        The record (accuracies in percent) and the arrays of the first figure.
    """
    begun = time.perf_counter()
    wanted = sbm_level(cell.series, cell.gap, cell.level, degree=study.degree)
    graph = sbm_at_level(wanted, study.num_nodes, degree=study.degree, random_state=cell.seed)
    graph = random_splits(graph, train=0.48, val=0.32, random_state=cell.seed)
    sizes = ("hidden_channels", "num_jumps", "num_centers", "epochs", "patience")
    config = resolve("default").replace(**ONE_NETWORK, **{n: getattr(study, n) for n in sizes})
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, cell.seed)
    structural = structural_heterophily(graph)
    community = communities(graph)
    inside = float((community[graph.edge_index[0]] == community[graph.edge_index[1]]).mean())
    values: CellValues = {
        **dataclasses.asdict(cell),
        "wanted_R": wanted.structural_heterophily,
        "wanted_node_homophily": wanted.node_homophily,
        "flipped": wanted.flipped,
        "preference": wanted.preference,
        "measured_gap": 2 * inside - 1,
        "laplacian_gap": spectral_gap(graph),
        "R": structural.median,
        "R_low": structural.low,
        "R_high": structural.high,
        "node_homophily": homophily(graph, method="node"),
        "validation": result.validation,
        "test": result.test,
        "epoch": result.epoch,
        "structure_branch": getattr(fitted.module, "structure", None) is not None,
        "data_sha256": graph.content_hash,
        "seconds": time.perf_counter() - begun,
    }
    return values, _view(graph, community, fitted, inputs)


def _finished_values(folder: Path) -> dict[Cell, CellValues]:
    """The finished cells of a study's folder.

    Raises:
        InputError: If a line is not the record of a cell.
    """
    file, found = folder / CELLS, dict[Cell, CellValues]()
    text = file.read_text("utf-8") if file.is_file() else ""
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            values = msgspec.json.decode(line, type=CellValues)
            values.update({key: math.nan for key, value in values.items() if value is None})
            found[msgspec.convert(values, Cell)] = {**values, "test": float(values["test"])}
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{file}: line {number} is not a record of a cell; delete it to have the cell run "
                f"again (got {line[:60]!r})"
            ) from error
    return found


def read_views(study: SbmStudy, out: str | Path) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The arrays of the first figure, level by level."""
    for cell in study.cells():
        view = cell.view(study)
        if view is not None:
            with np.load(Path(out) / view, allow_pickle=False) as arrays:
                yield cell, dict(arrays)


def _view(
    graph: Graph, community: np.ndarray[Any, Any], fitted: Fitted, inputs: tuple[Any, Any]
) -> dict[str, Any]:
    """Positions U, and the two leading principal components of the hidden embedding."""
    module: Any = fitted.module
    with torch.no_grad():
        output = module.eval().run(*inputs)
        width = module.config.hidden_channels
        hidden = torch.cat(output.embeddings, dim=1) * output.alpha.repeat_interleave(width)
    pca = PCA(2, random_state=0)
    return {
        "u": output.pump.u.cpu().numpy(),
        "embedding": pca.fit_transform(hidden.cpu().numpy()),
        "explained": pca.explained_variance_ratio_,
        "y": graph.y,
        "community": community,
        "edge_index": graph.edge_index,
    }


def _open_folder(folder: Path, study: SbmStudy) -> Path:
    """Make the folder, or check that it belongs to this study."""
    make_folder(folder)
    card, wanted = folder / STUDY, study.to_dict()
    if card.is_file():
        try:
            held = dict(json.loads(card.read_text("utf-8"))["study"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{card}: is not the card of a study (got {error})") from error
        if held == wanted:
            return folder
        changed = sorted(k for k, v in wanted.items() if held.get(k) != v) or ["unknown options"]
        raise InputError(
            f"{folder}: holds another study; name another folder, or run it as it was "
            f"(got other values of {', '.join(changed)})"
        )
    # A killed run may leave a hidden temporary file behind.
    there = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    if there:
        raise InputError(
            f"{folder}: holds other files; name a new or empty folder (got {there[0]!r})"
        )
    text = json.dumps({"study": wanted, "versions": versions()}, indent=1, allow_nan=False)
    with atomic_write(card) as file:
        file.write(f"{text}\n".encode())
    return folder
