"""`djgnn fit`: a graph in, a run folder out; stopped and continued at will."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from djgnn.cli.memory import largest_block, training_memory
from djgnn.cli.progress import epochs
from djgnn.cli.signals import stoppable
from djgnn.cli.source import Source
from djgnn.cli.text import escape
from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits, reading_of
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.training.checkpoint import fingerprint
from djgnn.training.config import RunConfig
from djgnn.training.distributed import Group, distributed_djgnn
from djgnn.training.distributed.checkpoint import SharedCheckpoint
from djgnn.training.folder import CONFIG, RESULT, check_free, new_folder, read_card, write_run
from djgnn.training.recorder import Recorder
from djgnn.training.run import train

LAUNCH = "launch"


def trainable(graph: Graph, source: Source, seed: int) -> Graph:
    """A graph with labels and a split; an own graph without one is split 60/20/20.

    Raises:
        InputError: If no node has a label, or all have the same.
    """
    where = source.dataset or source.graph or source.nodes or source.edges
    known = np.zeros(0, dtype=np.int64) if graph.y is None else graph.y[graph.y >= 0]
    if not known.size:
        raise InputError(
            f"{where}: no node has a label; name the column with --label and fill it for some "
            "nodes (got none)"
        )
    if (known == known[0]).all():
        raise InputError(
            f"{where}: all labelled nodes are of one class, there is nothing to tell apart; give "
            f"labels of at least two classes (got {graph.classes()[int(known[0])]!r} only)"
        )
    if graph.num_splits:
        return graph
    if np.bincount(known).max() < 2:
        tables = reading_of(graph).get("known")
        label = "" if tables is None else tables.roles.get("label", "")
        column = f"the labels, column {label!r}," if label else "the labels"
        raise InputError(
            f"{where}: {column} are all different, so no class has two nodes; name the column of "
            f"the classes with --label (got {known.size} labels of {known.size} classes)"
        )
    return random_splits(graph, random_state=seed)


def checkpoint_folder(out: Path) -> Path:
    """Where a run keeps its checkpoints until it is done: beside its folder, hidden."""
    place = out.expanduser().absolute()
    return place.with_name(f".{place.name}.checkpoint")


def check_out(out: Path, overwrite: bool, resume: bool) -> None:
    """Refuse a place where nothing may be written, before any work is done.

    Raises:
        InputError: If a run or the checkpoint of one would be lost.
    """
    if resume and overwrite:
        raise InputError("--resume goes on with a run, --overwrite starts anew; give one of them")
    if resume:
        return
    if checkpoint_folder(out).exists() and not overwrite:
        raise InputError(
            f"{out}: a run of this name was stopped; continue it with --resume, or start anew "
            f"with --overwrite (got {checkpoint_folder(out)})"
        )
    check_free(out, overwrite)


def finished(
    out: Path, graph: Graph, config: RunConfig, split: int, seed: int
) -> dict[str, Any] | None:
    """The card of this very run if it is complete, and there is nothing to resume.

    Raises:
        InputError: If a run of other data, options or seed is there.
    """
    if not (out / RESULT).exists():
        return None
    card = read_card(out)
    if card["interrupted"]:
        return None
    found = (card["data"]["sha256"], card["metric"], card["result"]["split"], card["seed"])
    written = RunConfig.read_yaml(out / CONFIG)
    if config.training.structure_gate:  # the file says what the gate decided
        written = written.replace(structure=config.model.structure)
    if found != (graph.content_hash, graph.metric, split, seed) or written != config:
        raise InputError(
            f"{out}: holds a finished run of other data, options or seed; name another folder, or "
            "replace it with --overwrite instead of --resume"
        )
    return card


def goes_on(out: Path, group: Group, overwrite: bool = False) -> bool:
    """Whether `torchrun` starts the processes of this run again, after one of them was lost.

    It counts its restarts; where processes joined or left it only keeps the name of the run.
    """
    place = checkpoint_folder(out)
    try:
        launch = (place / LAUNCH).read_text("utf-8")
    except OSError:
        # Nothing was begun yet, or all is done and the run folder is there.
        return group.restarts > 0 and not overwrite and (out / RESULT).is_file()
    return group.restarts > 0 or (group.launch not in (None, "", "none") and launch == group.launch)


def _begin(place: Path, group: Group, resume: bool) -> None:
    """Clear the place of the checkpoints, and note down whose they are."""
    if not resume:
        shutil.rmtree(place, ignore_errors=True)
    if group.launch is not None:
        place.mkdir(parents=True, exist_ok=True)
        (place / LAUNCH).write_text(group.launch, "utf-8")


def run_fit(
    graph: Graph,
    config: RunConfig,
    out: Path,
    *,
    group: Group | None = None,
    split: int,
    seed: int,
    device: str,
    overwrite: bool = False,
    resume: bool = False,
    every: float = 10.0,
    quiet: bool,
    record: bool = False,
    report: bool = True,
) -> dict[str, Any]:
    """Train, write the run folder, say what came out and where it is.

    Every process of a group calls it; the first one writes and speaks.
    """
    group = group or Group()
    quiet = quiet or not group.first
    plan = _Plan(graph, config, out, group, split, seed, device, overwrite, resume, every, record)
    # The page reads the folder; what was trained is gone by then.
    card = _train_and_write(plan, quiet)
    page = write_run_page(load_run(out)) if report and group.first else None
    if not quiet:
        _say(graph, card, out, page)
    return card


@dataclass(frozen=True, eq=False)
class _Plan:
    """What :func:`run_fit` was asked for."""

    graph: Graph
    config: RunConfig
    out: Path
    group: Group
    split: int
    seed: int
    device: str
    overwrite: bool
    resume: bool
    every: float
    record: bool


def _train_and_write(plan: _Plan, quiet: bool) -> dict[str, Any]:
    graph, config, group = plan.graph, plan.config, plan.group
    where = group.together(lambda: group.device(plan.device))
    module, inputs = distributed_djgnn(config, graph, group, where)
    place = checkpoint_folder(plan.out)
    group.shared(lambda: _begin(place, group, plan.resume))
    task = (graph.content_hash, graph.metric, graph.num_classes)
    key = fingerprint(config.to_dict(), task, plan.split, plan.seed, where.type)
    largest = largest_block(config, graph.num_nodes, where.type)
    with (
        epochs(quiet) as display,
        stoppable(silent=not group.first) as asked,
        training_memory(largest) as release,
    ):
        recorder = Recorder(graph.num_nodes) if plan.record else None
        fitted, result = train(
            module,
            inputs,
            graph,
            plan.split,
            config.training,
            plan.seed,
            display.follow(graph.name, release),
            checkpoint=SharedCheckpoint(place / "run", key, plan.every, group),
            stop=lambda: group.any(asked()),
            observer=recorder,
        )
    recording = None if recorder is None else recorder.finish(fitted, inputs)

    def write() -> dict[str, Any]:
        with new_folder(plan.out, plan.overwrite or plan.resume) as folder:
            card = write_run(folder, graph, config, fitted, result, plan.seed)
            if recording is not None:
                recording.write(folder)
        if not fitted.interrupted:
            shutil.rmtree(place, ignore_errors=True)
        return card

    return group.shared(write)


def _say(graph: Graph, card: dict[str, Any], out: Path, page: Path | None) -> None:
    console, result = Console(highlight=False), card["result"]
    test = "" if result["test"] is None else f", test {result['test']:.2f}"
    console.print(
        f"[bold]{escape(graph.name)}[/bold]: {graph.metric} "
        f"validation {result['validation']:.2f}{test} "
        f"(epoch {result['epoch']}, chosen on validation; {result['seconds']:.1f} s)"
    )
    console.print(f"predictions: {escape(str(out / 'predictions.csv'))}")
    if page is not None:
        console.print(f"report: {escape(str(page))}")
    if card["interrupted"]:
        console.print(
            "stopped before its time: the run holds the best epoch so far; repeat the command "
            "with --resume to go on"
        )
