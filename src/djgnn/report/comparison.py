"""Several runs, or the cells of a benchmark, side by side: the comparison page's data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from djgnn.bench.record import CellFile, SplitLine
from djgnn.checking import check_file
from djgnn.errors import InputError
from djgnn.graph.files import read_limited
from djgnn.report.ranking import rank_models
from djgnn.training.config import RunConfig
from djgnn.training.folder import CONFIG, RESULT, read_card

FORMAT = "djgnn-comparison-1"
MODEL = "djgnn"
TABLE = "results.jsonl"
MOST_BYTES = 2**30
REMEDY = "give what `djgnn bench` wrote"


def comparison_payload(sources: Sequence[str | Path]) -> dict[str, Any]:
    """Read runs and benchmark files and put their figures into one table.

    Args:
        sources: Run folders, folders of benchmark tables, and files with what ``djgnn bench run
            --json`` prints: one cell, a list of cells, or one per line; records of single splits
            are gathered into cells.

    Raises:
        InputError: If a source cannot be read or holds no figures.
    """
    cells = [cell for source in sources for cell in read_cells(source)]
    if not cells:
        raise InputError("report: there is nothing to compare; give run folders or cells")
    _tell_apart(cells)
    return {
        "format": FORMAT,
        "kind": "comparison",
        "cells": cells,
        "ranking": {key: rank_models(cells, key) for key in ("test_mean", "oracle_mean")},
    }


def _tell_apart(cells: list[dict[str, Any]]) -> None:
    """Name graphs of one name and different size by their size: every own table is `nodes`."""
    sizes: dict[str, set[str]] = {}
    for cell in cells:
        sizes.setdefault(cell["dataset"], set()).add(cell["size"])
    for cell in cells:
        if cell["size"] and len(sizes[cell["dataset"]]) > 1:
            cell["dataset"] = f"{cell['dataset']} ({cell['size']})"


def read_cells(source: str | Path) -> list[dict[str, Any]]:
    """The rows of the table that a run folder or a file gives.

    Raises:
        InputError: If it is neither.
    """
    path = Path(source).expanduser()
    if path.is_dir() and (path / TABLE).is_file():
        return read_cells(path / TABLE)
    if path.is_dir() and (path / RESULT).is_file():
        return [_run_cell(path, read_card(path))]
    if path.is_dir():
        files = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
        return [cell for file in files for cell in read_cells(file)]
    found = list(_objects(path))
    splits = [o for o in found if "status" in o and "result" in o]
    cells = [o for o in found if "splits" in o or "failures" in o]
    for record in splits:
        check_file(record, SplitLine, path, REMEDY)
        if record["status"] == "done" and record["result"] is None:
            raise InputError(f"{path}: damaged, result must be an object; {REMEDY} (got None)")
    for cell in cells:
        check_file(cell, CellFile, path, REMEDY)
    return [*(_bench_cell(o) for o in cells), *_gather(splits)]


def _objects(path: Path) -> Iterable[dict[str, Any]]:
    try:
        text = read_limited(path, MOST_BYTES).decode("utf-8")
        try:
            value = json.loads(text, parse_constant=_no_number)
        except ValueError:
            lines = (line for line in text.split("\n") if line.strip())
            value = [json.loads(line, parse_constant=_no_number) for line in lines]
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


def _no_number(word: str) -> None:
    """What NaN and infinity in JSON become: nothing."""


def _run_cell(path: Path, card: dict[str, Any]) -> dict[str, Any]:
    result = card["result"]
    return _cell(
        model=f"{MODEL} ({_readable(path.name)})",
        dataset=card["data"]["name"],
        size=_size(card["data"]),
        preset=RunConfig.read_yaml(path / CONFIG).preset,
        seed=card["seed"],
        metric=card["metric"],
        splits=[result],
        seconds=_number(result["seconds"]),
        memory=None,
    )


def _size(data: dict[str, Any]) -> str:
    return f"{data['num_nodes']:,} nodes, {data['num_edges']:,} edges"


def _bench_cell(cell: dict[str, Any]) -> dict[str, Any]:
    return _cell(
        model=cell["model"],
        dataset=cell["dataset"],
        preset=cell.get("preset", ""),
        seed=cell.get("seed"),
        metric=cell.get("metric", "accuracy"),
        splits=cell.get("splits", []),
        seconds=_number(cell.get("seconds")),
        memory=_number(cell.get("peak_memory_mib")),
        status=_status([f["status"] for f in cell.get("failures", [])]),
    )


def _gather(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of single splits, put together by model, data set and seed."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in records:
        key = tuple(str(record.get(k, "")) for k in ("label", "dataset", "seed"))
        groups.setdefault((key[0], key[1], key[2]), []).append(record)
    cells = []
    for (model, dataset, _), group in groups.items():
        done = [r for r in group if r["status"] == "done"]
        memory = [_number(r.get("peak_memory_mib")) for r in done]
        cells.append(
            _cell(
                model=model,
                dataset=dataset,
                preset="",
                seed=group[0].get("seed"),
                metric=str(group[0].get("metric", "accuracy")),
                splits=[{"split": r.get("split"), **r["result"]} for r in done],
                seconds=sum(_number(r.get("seconds")) or 0.0 for r in group),
                memory=max((m for m in memory if m is not None), default=None),
                status=_status([str(r["status"]) for r in group if r["status"] != "done"]),
            )
        )
    return cells


def _status(failures: Sequence[str]) -> str:
    """What became of the splits: ``done``, or how many failed and how.

    Example:
        >>> _status(["out of memory", "out of memory"])
        '2 out of memory'
    """
    return f"{len(failures)} {', '.join(sorted(set(failures)))}" if failures else "done"


def _cell(
    *,
    model: str,
    dataset: str,
    preset: str,
    seed: Any,
    metric: str,
    splits: list[dict[str, Any]],
    seconds: float | None,
    memory: float | None,
    status: str = "done",
    size: str = "",
) -> dict[str, Any]:
    def spread(key: str) -> tuple[float | None, float | None]:
        values = [v for v in (_number(s.get(key)) for s in splits) if v is not None]
        if not values:
            return None, None
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return float(np.mean(values)), deviation

    test, test_std = spread("test")
    oracle, oracle_std = spread("oracle_test")
    return {
        "model": model,
        "dataset": dataset,
        "size": size,
        "preset": preset,
        "seed": seed,
        "metric": metric,
        "splits": len(splits),
        "validation_mean": spread("validation")[0],
        "test_mean": test,
        "test_std": test_std,
        "oracle_mean": oracle,
        "oracle_std": oracle_std,
        "seconds": seconds,
        "peak_memory_mib": memory,
        "status": status,
    }


def _readable(name: str) -> str:
    """The name of a folder; bytes that are no text become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None
