"""`djgnn fit`: a graph in, a run folder out; it can be stopped and resumed."""

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import nn

from djgnn.cli.fit_graph import shared_graph
from djgnn.cli.memory import (
    drop_weights,
    give_back,
    largest_block,
    shared_memory,
    training_memory,
)
from djgnn.cli.options import FitOptions, Recipe
from djgnn.cli.progress_bar import Stages, stages
from djgnn.cli.source import Source
from djgnn.cli.terminal import escape, stoppable, warn
from djgnn.errors import InputError
from djgnn.graph import Graph
from djgnn.graph.files import atomic_write, read_limited
from djgnn.model import DJExperts
from djgnn.model.experts import ExpertOperators, main_network
from djgnn.training.card import REPORT, RESULT, amend_card, check_files, is_sealed, read_card
from djgnn.training.checkpoint import Checkpoint, fingerprint, threads_before
from djgnn.training.config import RunConfig
from djgnn.training.conformal import Promise
from djgnn.training.distributed import Group, join
from djgnn.training.folder import Answers, check_free, new_folder, write_run
from djgnn.training.importance import importance
from djgnn.training.inputs import build_djgnn, choose_device, start_gpu
from djgnn.training.next_steps import next_lines
from djgnn.training.output_lock import check_space, claimed, needed_bytes
from djgnn.training.progress import Hooks
from djgnn.training.recorder import Recorder
from djgnn.training.run import train
from djgnn.training.threads import suitable_threads

LAUNCH = "launch"

NOT_RECORDED = (
    "--record: nothing was kept, for it is of jumps, and no expert with jumps has a weight here; "
    "--preset paper trains one network that has them, into another folder"
)


def fit_source(
    source: Source,
    recipe: Recipe,
    options: FitOptions,
    ahead: Callable[[], Graph] | None = None,
) -> tuple[dict[str, Any], bool]:
    """What `djgnn fit` does, in every process of a run; `ahead` is of `read_ahead`.

    Returns:
        The card of the run, and whether this is the process that prints it.
    """
    out, overwrite = options.out.expanduser(), options.overwrite
    options = dataclasses.replace(options, out=out)
    _promise(options)
    quiet = options.quiet or options.as_json
    with (
        join(options.device) as group,
        stages(quiet or not group.first) as bar,
        ExitStack() as held,
    ):
        if not group.alone:
            held.enter_context(shared_memory())
        bar.stage("reading")
        group.shared(lambda: held.enter_context(claimed(out)))
        resume = group.shared(lambda: options.resume or is_restart(out, group, overwrite))
        options = dataclasses.replace(options, resume=resume)
        group.shared(lambda: _check_out(options))
        if group.alone:
            start_gpu(options.device)  # while the graph is read
        config = recipe.resolve(source.dataset)
        graph, config, reading = shared_graph(source, config, options, group, bar, ahead)
        before = threads_before(checkpoint_folder(out)) if options.resume else None
        where = group.together(lambda: group.device(options.device))
        threads = group.shared(lambda: held.enter_context(suitable_threads(graph, where, before)))
        held.enter_context(suitable_threads(graph, where, threads))
        card = group.shared(lambda: _finished(graph, config, options, bar, not group.alone))
        if card is None:
            card = run_fit(graph, config, options, group, bar, reading)
    return card, group.first


def _promise(options: FitOptions) -> Promise | None:
    by: Any = options.coverage_by
    try:
        if options.coverage is None:
            return None if by == "all" else Promise(coverage_by=by)
        return Promise(options.coverage, by)
    except ValueError as error:
        raise InputError(f"--{str(error).replace('coverage_by', 'coverage-by')}") from error


def checkpoint_folder(out: Path) -> Path:
    """Where a run keeps its checkpoints until it is done: beside its folder, hidden."""
    place = out.expanduser().absolute()
    return place.with_name(f".{place.name}.checkpoint")


def _check_out(options: FitOptions) -> None:
    """Refuse a place where nothing may be written, before any work is done.

    Raises:
        InputError: If a run or the checkpoint of one would be lost.
    """
    place = checkpoint_folder(options.out)
    if options.resume and options.overwrite:
        raise InputError("--resume continues a run, --overwrite starts anew; give one of them")
    if not options.resume and not options.overwrite and place.exists():
        raise InputError(
            f"{options.out}: a run of this name was stopped; continue it with --resume, or start "
            f"anew with --overwrite (got {place})"
        )
    if not options.resume:
        check_free(options.out, options.overwrite)


def _asked(graph: Graph, config: RunConfig, options: FitOptions, *more: Any) -> str:
    """A hash of all that the result of a run depends on."""
    task = (graph.content_hash, graph.metric, graph.num_classes)
    return fingerprint(config.to_dict(), task, options.split, options.seed, *more)


def _finished(
    graph: Graph, config: RunConfig, options: FitOptions, bar: Stages, in_turn: bool = False
) -> dict[str, Any] | None:
    """The card of this very run if it is to be resumed and trained already.

    The page is made if it is wanted and was not finished, `in_turn` as in :func:`_page`.

    Raises:
        InputError: If a run of other data, options or seed is there.
    """
    out = options.out
    if not options.resume or not (out / RESULT).exists():
        return None
    card = read_card(out)
    if card["interrupted"]:
        return None
    check_files(out, card, REPORT)
    sets = (options.coverage, options.coverage_by)
    if card.get("fingerprint") != _asked(graph, config, options, sets):
        if any(checkpoint_folder(out).glob("*")):  # of a run that was to replace it
            return None
        raise InputError(
            f"{out}: holds a finished run of other data, options or seed; name another folder, or "
            "replace it with --overwrite instead of --resume"
        )
    shutil.rmtree(checkpoint_folder(out), ignore_errors=True)
    console = Console(highlight=False, quiet=options.quiet or options.as_json)
    if options.report and not is_sealed(out, card, REPORT):
        return _page(card, options, bar, console, graph, in_turn=in_turn)
    console.print(f"{escape(str(out))}: complete already, nothing to resume", soft_wrap=True)
    return card


def _page(
    card: dict[str, Any],
    options: FitOptions,
    bar: Stages,
    console: Console,
    graph: Graph,
    known: list[Answers] | None = None,
    in_turn: bool = False,
) -> dict[str, Any]:
    """Write the page of a run into its folder, and what the phases took into its card.

    `known` has what the run says, if it was trained just now; it is emptied. The graph is measured
    beside other work, or `in_turn`, which takes less memory.
    """
    if options.report:
        from djgnn.report import page, run_data

        bar.stage("report")
        give_back()
        with nullcontext() if in_turn else page.measured_beside(graph) as card_of:
            said = known.pop() if known else None
            data = run_data.load_run(options.out, said, choose_device(options.device), graph)
            del said
            console.print(f"report: {escape(str(page.write_run_page(data, measured=card_of)))}")
        card = read_card(options.out)
    phases = bar.phases.records()
    if all(phase["name"] != "training" for phase in phases):  # of an earlier process
        before = [phase for phase in card.get("phases", ()) if phase["name"] != "report"]
        phases = [*before, *phases[-1:]]
    return amend_card(options.out, card, phases=phases)


def is_restart(out: Path, group: Group, overwrite: bool = False) -> bool:
    """Whether `torchrun` restarts the processes of this run, after one of them was lost.

    It counts its restarts; where processes joined or left it only keeps the name of the run.
    """
    try:
        launch = read_limited(checkpoint_folder(out) / LAUNCH, 2**16).decode("utf-8", "replace")
    except (InputError, OSError):
        # Nothing was begun yet, or all is done and the run folder is there.
        return group.restarts > 0 and not overwrite and (out / RESULT).is_file()
    return group.restarts > 0 or (group.launch not in (None, "", "none") and launch == group.launch)


def run_fit(
    graph: Graph,
    config: RunConfig,
    options: FitOptions,
    group: Group | None = None,
    bar: Stages | None = None,
    reading: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Train, write the run folder, print what came out and where it is.

    Every process of a group calls it; the first one writes and prints. Without a `bar` it shows
    no progress. `reading` is of `say_reading`, for the card.

    Returns:
        The card of the run.
    """
    group = group or Group()
    quiet = options.quiet or options.as_json or not group.first
    bar = bar or Stages(Progress(disable=True))
    more = {} if reading is None else {"reading": reading}
    card, known = _train_and_write(graph, config, options, group, bar, more)
    console, result = Console(highlight=False, quiet=quiet), card["result"]
    judged = card.get("verdict")
    if judged is not None:
        console.print(escape(judged["text"]), soft_wrap=True)
    for text in [] if quiet or judged is None else judged["warnings"]:
        warn(text)
    took = sum(phase["seconds"] for phase in card["phases"] if phase["name"] == "training")
    test = "" if result["test"] is None else f", test {result['test']:.2f}"
    found = "not defined" if result["validation"] is None else f"{result['validation']:.2f}"
    what, most = f"epoch {result['epoch']}", max(card["alpha"].items(), key=lambda pair: pair[1])
    if card["experts"]:
        folds = f" in {config.model.folds} folds" if config.model.folds else ""
        what = f"{len(card['alpha'])} experts{folds}, most weight: {most[0]} {most[1]:.2f}"
    part, by = ("held-out nodes", "held-out") if config.model.folds else ("validation",) * 2
    console.print(
        f"[bold]{escape(graph.name)}[/bold]: {graph.metric} "
        f"{part} {found}{test} "
        f"({what}, chosen on {by} nodes; {took:.1f} s)",
        soft_wrap=True,
    )
    console.print(f"predictions: {escape(str(options.out / 'predictions.csv'))}")
    for line in next_lines(card, options.out):
        console.print(escape(line), soft_wrap=True)
    if group.first:
        card = _page(card, options, bar, console, graph, known, not group.alone)
    if card["interrupted"]:
        console.print(
            "stopped early: the run holds the best epoch so far, of a mixture the experts trained "
            "so far; repeat the command with --resume to continue"
        )
    return card


def _train_and_write(
    graph: Graph,
    config: RunConfig,
    options: FitOptions,
    group: Group,
    bar: Stages,
    more: Mapping[str, Any],
) -> tuple[dict[str, Any], list[Answers]]:
    """The card of a run, with `more` fields, and what it says, if that is at hand."""
    where = group.together(lambda: group.device(options.device))
    module, inputs = build_djgnn(config, graph, where, group)
    if not group.alone:
        drop_weights(module)  # of experts, which draw them when their training begins
    place = checkpoint_folder(options.out)

    def begin() -> None:
        if not options.resume:
            shutil.rmtree(place, ignore_errors=True)
        if group.launch is not None:
            place.mkdir(parents=True, exist_ok=True)
            with atomic_write(place / LAUNCH) as stream:
                stream.write(group.launch.encode("utf-8", "replace"))

    group.shared(begin)
    group.shared(lambda: check_space(options.out, needed_bytes(graph, module)))
    key = group.shared(lambda: _asked(graph, config, options, where.type))
    recorder = Recorder(graph.num_nodes) if options.record else None
    names = module.names if isinstance(module, DJExperts) else ("",)
    largest = largest_block(config, graph, where.type) if group.alone else 0
    with (
        stoppable(silent=not group.first) as asked,
        training_memory(largest) as release,
    ):
        folds = config.model.folds or 1
        on_epoch, on_plan = bar.training(graph.name, names, folds, release)

        def end(expert: nn.Module) -> None:
            if not group.first and recorder is None:
                drop_weights(expert)  # the first process has them, and all have its answers
            release(0)

        fitted, result = train(
            module,
            inputs,
            graph,
            options.split,
            config.training,
            options.seed,
            Hooks(
                on_epoch=on_epoch,
                stop=lambda: group.any(asked()),
                checkpoint=Checkpoint(place / "run", key, options.checkpoint_every, group),
                observer=recorder,
                on_end=end,
                on_plan=on_plan,
                on_trained=lambda: bar.stage("calibration"),
            ),
        )
    bar.stage("predictions")
    recording = None if recorder is None else recorder.finish(fitted, inputs)
    if recorder is not None and recording is None and group.first:
        warn(NOT_RECORDED)
    promise, sets = _promise(options), (options.coverage, options.coverage_by)
    more = {**more, "threads": torch.get_num_threads()}
    if options.importance is not False and group.alone:
        wanted = bool(options.importance)
        more |= importance(graph, config, fitted, inputs, options.split, wanted, options.seed)
    elif options.importance:
        more["importance_note"] = "importance of features: not measured in several processes"

    said: list[Answers] = []
    trained = (fitted.module, _shown(fitted.module, inputs)) if group.alone else None
    del inputs  # a process that has only some rows needs them no longer

    def write() -> dict[str, Any]:
        with new_folder(options.out, options.overwrite or options.resume) as folder:
            if recording is not None:
                recording.write(folder)
            asked_for = _asked(graph, config, options, sets)
            all_of = {**more, "fingerprint": asked_for, "phases": bar.phases.records()}
            more_of = (promise, all_of, said.append, not group.alone)
            card = write_run(folder, graph, config, fitted, result, options.seed, *more_of)
        if not fitted.interrupted:
            shutil.rmtree(place, ignore_errors=True)
        return card

    card = group.shared(write)
    return card, [dataclasses.replace(each, trained=trained) for each in said]


def _shown(module: Any, inputs: tuple[Any, Any]) -> tuple[Any, Any]:
    """The inputs of the network that the page shows, without those of others."""
    network = main_network(module)
    x, own = network.inputs_of(inputs)
    if not isinstance(module, DJExperts):
        return x, own
    return x, ExpertOperators({network.name: lambda: own})
