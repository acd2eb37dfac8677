"""Several runs, or the cells of a benchmark, side by side: the comparison page's data."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_type_hints

import numpy as np

from djgnn.bench.record import Figures
from djgnn.bench.statistics import average_ranks
from djgnn.checking import NonNegative, Seed, Text, check_file, json_values
from djgnn.errors import InputError
from djgnn.graph.files import read_limited
from djgnn.training.card import CONFIG, RESULT, check_files, read_card
from djgnn.training.config import RunConfig

FORMAT = "djgnn-comparison-1"
TABLE = "results.jsonl"
MOST_BYTES = 2**30
REMEDY = "give what `djgnn bench` wrote"


class _Line(TypedDict):
    """The least that a page needs of a line of a benchmark, whatever version wrote it."""

    dataset: Text
    seed: NotRequired[Seed | None]
    metric: NotRequired[Text]
    seconds: NotRequired[NonNegative | None]
    peak_memory_mib: NotRequired[NonNegative | None]


class SplitLine(_Line):
    """A record of one split."""

    label: Text
    status: Text
    result: Figures | None


class Failure(TypedDict):
    """A split without figures."""

    status: Text


class CellLine(_Line):
    """A cell, as ``djgnn bench run --json`` prints it."""

    model: Text
    preset: NotRequired[Text]
    splits: NotRequired[list[Figures]]
    failures: NotRequired[list[Failure]]


def comparison_payload(sources: Sequence[str | Path]) -> dict[str, Any]:
    """Read runs and benchmark files and put their figures into one table.

    Graphs of one name and different size are named with their size, since every own table is
    called `nodes`.

    Args:
        sources: Run folders, folders of benchmark tables, and files with what ``djgnn bench run
            --json`` prints: one cell, a list of cells, or one per line; records of single splits
            are gathered into cells.

    Raises:
        InputError: If a source cannot be read or holds no figures.
    """
    cells = [cell for source in sources for cell in load_cells(source)]
    if not cells:
        raise InputError("report: there is nothing to compare; give run folders or cells")
    sizes: dict[str, set[str]] = {}
    for cell in cells:
        sizes.setdefault(cell["dataset"], set()).add(cell["size"])
    for cell in cells:
        if cell["size"] and len(sizes[cell["dataset"]]) > 1:
            cell["dataset"] = f"{cell['dataset']} ({cell['size']})"
    ranking = {key: rank_cells(cells, key) for key in ("test_mean", "oracle_mean")}
    payload = {"format": FORMAT, "kind": "comparison", "cells": cells, "ranking": ranking}
    plain: dict[str, Any] = json_values(payload)
    return plain


def rank_cells(cells: Sequence[dict[str, Any]], key: str) -> dict[str, Any] | None:
    """Average ranks of the models, over the data sets that every model has a figure on.

    Args:
        cells: Rows with `model`, `dataset` and figures.
        key: The figure to rank by, larger is better.

    Returns:
        `ranks` by model, and `sets`; ``None`` with fewer than two models or two sets.

    Example:
        >>> values = [("a", "x", 9), ("b", "x", 8), ("a", "y", 7), ("b", "y", 6)]
        >>> cells = [{"model": m, "dataset": d, "test_mean": v} for m, d, v in values]
        >>> rank_cells(cells, "test_mean")
        {'ranks': {'a': 1.0, 'b': 2.0}, 'sets': ['x', 'y']}
    """
    score = {(c["model"], c["dataset"]): c[key] for c in cells if c[key] is not None}
    models = sorted({model for model, _ in score})
    sets = sorted({d for _, d in score if all((model, d) in score for model in models)})
    if len(models) < 2 or len(sets) < 2:
        return None
    ranks = average_ranks(np.array([[score[m, d] for m in models] for d in sets]))
    return {"ranks": dict(zip(models, ranks.tolist(), strict=True)), "sets": sets}


def load_cells(source: str | Path) -> list[dict[str, Any]]:
    """The rows of the table that a run folder or a file gives.

    Raises:
        InputError: If it is neither.
    """
    path = Path(source).expanduser()
    if path.is_dir() and (path / TABLE).is_file():
        return load_cells(path / TABLE)
    if path.is_dir() and (path / RESULT).is_file():
        return [_run_cell(path)]
    if path.is_dir():
        files = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
        return [cell for file in files for cell in load_cells(file)]
    found = _read_objects(path)
    records = [o for o in found if "status" in o and "result" in o]
    cells = [o for o in found if "splits" in o or "failures" in o]
    for record in records:
        check_file(record, SplitLine, path, REMEDY)
        if record["status"] == "done" and record["result"] is None:
            raise InputError(f"{path}: damaged, result must be an object; {REMEDY} (got None)")
    for cell in cells:
        check_file(cell, CellLine, path, REMEDY)
    known = get_type_hints(CellLine)
    return [
        _cell(**{key: value for key, value in cell.items() if key in known})
        for cell in [*cells, *_gather(records)]
    ]


def _read_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON or JSON lines; NaN and infinities become ``None``."""
    try:
        text = read_limited(path, MOST_BYTES).decode("utf-8")
        try:
            value = json.loads(text, parse_constant=lambda word: None)
        except ValueError:
            lines = (line for line in text.split("\n") if line.strip())
            value = [json.loads(line, parse_constant=lambda word: None) for line in lines]
    except (InputError, RecursionError, ValueError) as error:
        raise InputError(
            f"{path}: neither a run folder nor JSON of `djgnn bench run --json`; give one of these "
            f"(got {str(error)[:200]})"
        ) from error
    if isinstance(value, dict):
        value = value.get("cells", [value])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"{path}: must hold one cell, a list of cells, or one cell per line")
    return value


def _run_cell(path: Path) -> dict[str, Any]:
    card = read_card(path)
    check_files(path, card, only=CONFIG)
    data, name = card["data"], path.name.encode("utf-8", "replace").decode("utf-8")
    return _cell(
        model=f"djgnn ({name})",
        dataset=data["name"],
        size=f"{data['num_nodes']:,} nodes, {data['num_edges']:,} edges",
        preset=RunConfig.read_yaml(path / CONFIG).preset,
        seed=card["seed"],
        metric=card["metric"],
        splits=[card["result"]],
        seconds=card["result"]["seconds"],
    )


def _gather(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of single splits, put together by model, data set and seed."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        key = (record["label"], record["dataset"], record.get("seed"))
        groups.setdefault(key, []).append(record)
    cells = []
    for (model, dataset, seed), group in groups.items():
        done = [r for r in group if r["status"] == "done"]
        memory = [r["peak_memory_mib"] for r in done if r.get("peak_memory_mib") is not None]
        cells.append(
            {
                "model": model,
                "dataset": dataset,
                "seed": seed,
                "metric": group[0].get("metric", "accuracy"),
                "splits": [r["result"] for r in done],
                "seconds": sum(r.get("seconds") or 0.0 for r in group),
                "peak_memory_mib": max(memory, default=None),
                "failures": [r for r in group if r["status"] != "done"],
            }
        )
    return cells


def _cell(
    *,
    model: str,
    dataset: str,
    size: str = "",
    preset: str = "",
    seed: int | None = None,
    metric: str = "accuracy",
    splits: Sequence[dict[str, Any]] = (),
    seconds: float | None = None,
    peak_memory_mib: float | None = None,
    failures: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A row of the table; its status says how many splits failed and how."""
    kinds = ", ".join(sorted({str(f["status"]) for f in failures}))
    row = {
        "model": model,
        "dataset": dataset,
        "size": size,
        "preset": preset,
        "seed": seed,
        "metric": metric,
        "splits": len(splits),
        "seconds": seconds,
        "peak_memory_mib": peak_memory_mib,
        "status": f"{len(failures)} {kinds}" if failures else "done",
    }
    for key in ("validation", "test", "oracle_test"):
        values = [s[key] for s in splits if s.get(key) is not None]
        name = key.removesuffix("_test")
        row[f"{name}_mean"] = float(np.mean(values)) if values else None
        row[f"{name}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return row
