"""`djgnn bench tune`: searches on validation scores, one study per model and data set."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from djgnn.bench.plan import gather_facts
from djgnn.bench.search import Search, make_search, need_optuna
from djgnn.bench.store import Store
from djgnn.bench.tables import chosen_splits, search_folder
from djgnn.bench.tune import export_specs, run_search, write_search
from djgnn.cli.bench import TuneOptions
from djgnn.cli.tables import (
    export_cells,
    parse_models,
    parse_names,
    parse_splits,
    processes,
    take_in,
)
from djgnn.cli.terminal import escape
from djgnn.errors import InputError

DATABASE = "studies.db"


def run_tune(options: TuneOptions) -> dict[str, Any]:
    """Run every search that is asked for and return what `--json` prints.

    Raises:
        InputError: For a wrong option, an unknown model or data set, or a missing package.
    """
    if options.trials < 1:
        raise InputError(f"--trials: must be at least 1 (got {options.trials})")
    need_optuna()
    facts, refused = gather_facts(parse_names(options.dataset), options.data)
    if refused:
        raise InputError(next(iter(refused.values())))
    searches = [
        make_search(
            label,
            dataset,
            chosen_splits(parse_splits(options.splits), fact),
            epochs=options.epochs,
            preset=options.preset,
            any_code=options.any_code,
            sampler=options.sampler,
            pruner=options.pruner,
            seed=options.seed,
            data_sha256=fact.sha256,
        )
        for dataset, fact in facts.items()
        for label in parse_models(options.model)
    ]
    store = Store(options.out, options.any_code)
    console = take_in(store, options)
    if options.export is not None:
        if options.sampler != "random":
            raise InputError(
                "--export: only a random search can be run elsewhere, for its trials do not "
                f"depend on each other; add --sampler random (got '{options.sampler}')"
            )
        specs = [s for search in searches for s in export_specs(search, options.trials, store)]
        return export_cells([spec.to_dict() for spec in specs], options.export, console)
    cards = [_run(search, options, console) for search in searches]
    if not (options.quiet or options.as_json):
        out = Console(highlight=False, soft_wrap=True)
        for card in cards:
            out.print(
                f"{card['model']} on {escape(card['dataset'])}: validation "
                f"{card['validation_mean']:.2f}, trial {card['best_trial']} of {card['trials']} "
                f"({card['pruned']} pruned, {card['fail']} failed); {escape(card['folder'])}"
            )
    return {"searches": cards}


def _run(search: Search, options: TuneOptions, console: Console) -> dict[str, Any]:
    url = options.storage or f"sqlite:///{(options.out / DATABASE).expanduser().absolute()}"
    console.print(f"{search.label} on {search.dataset}: {options.trials} trials, {search.sampler}")

    def follow(trial: Any) -> None:
        shown = f"{trial.value:.2f}" if trial.state.name == "COMPLETE" else ""
        console.print(f"  trial {trial.number}: {trial.state.name.lower()} {shown}")

    run_search(
        search,
        url,
        options.trials,
        options.out,
        workers=processes(options),
        device=options.device,
        data=options.data,
        follow=follow,
        any_code=options.any_code,
    )
    folder = search_folder(options.out, search.label, search.dataset)
    return {**write_search(search, url, options.trials, folder), "folder": str(folder)}
