"""Several runs, or the cells of a benchmark, side by side: the comparison page's data."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from djgnn.bench.record import Figures
from djgnn.bench.standings import FAILED, rank_scores
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
    """A cell, as ``djgnn bench run --json`` prints it; `size` says how large its graph is."""

    model: Text
    size: NotRequired[Text]
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
    ranking = {key: rank_rows(cells, key) for key in ("test_mean", "oracle_mean")}
    payload = {"format": FORMAT, "kind": "comparison", "cells": cells, "ranking": ranking}
    plain: dict[str, Any] = json_values(payload)
    return plain


def rank_rows(rows: Sequence[dict[str, Any]], key: str) -> dict[str, Any] | None:
    """Rank the models by a figure over the data sets that every one was run on.

    Rows that differ in their seed count as one, with their mean; if one of them failed, the model
    has failed. ``None`` with fewer than two models or sets.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        score = math.nan if row[key] is None else row[key]
        score = score if row["status"] == "done" else FAILED
        groups.setdefault((row["model"], row["dataset"]), []).append(score)
    models = {model for model, _ in groups}
    ranking = rank_scores(
        {
            (model, dataset): FAILED if FAILED in scores else float(np.mean(scores))
            for (model, dataset), scores in groups.items()
            if all((other, dataset) in groups for other in models)
        }
    )
    return None if ranking is None or ranking.num_sets < 2 else asdict(ranking)


def load_cells(source: str | Path) -> list[dict[str, Any]]:
    """The rows of the table that a run folder or a file gives.

    Raises:
        InputError: If it is neither.
    """
    path = Path(source).expanduser()
    if path.is_dir() and (path / TABLE).is_file():
        return load_cells(path / TABLE)
    if path.is_dir() and (path / RESULT).is_file():
        return [_row(_run_cell(path))]
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
    return [_row(cell) for cell in [*cells, *_gather(records)]]


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
    """The cell of a run folder."""
    card = read_card(path)
    check_files(path, card, only=CONFIG)
    data, name = card["data"], path.name.encode("utf-8", "replace").decode("utf-8")
    return {
        "model": f"djgnn ({name})",
        "dataset": data["name"],
        "size": f"{data['num_nodes']:,} nodes, {data['num_edges']:,} edges",
        "preset": RunConfig.read_yaml(path / CONFIG).preset,
        "seed": card["seed"],
        "metric": card["metric"],
        "splits": [card["result"]],
        "seconds": card["result"]["seconds"],
    }


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


def _row(cell: dict[str, Any]) -> dict[str, Any]:
    """A row of the table; its status says how many splits failed and how."""
    splits, failures = cell.get("splits", []), cell.get("failures", [])
    kinds = ", ".join(sorted({failure["status"] for failure in failures}))
    row = {
        "model": cell["model"],
        "dataset": cell["dataset"],
        "size": cell.get("size", ""),
        "preset": cell.get("preset", ""),
        "seed": cell.get("seed"),
        "metric": cell.get("metric", "accuracy"),
        "splits": len(splits),
        "seconds": cell.get("seconds"),
        "peak_memory_mib": cell.get("peak_memory_mib"),
        "status": f"{len(failures)} {kinds}" if failures else "done",
    }
    for key in ("validation", "test", "oracle_test"):
        values = [s[key] for s in splits if s.get(key) is not None]
        name = key.removesuffix("_test")
        row[f"{name}_mean"] = float(np.mean(values)) if values else None
        row[f"{name}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return row
