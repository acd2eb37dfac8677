"""`djgnn sbm`: the block-model study of Appendix B, its two figures and its verdicts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from djgnn.bench.sbm_claims import READINGS, Verdict, judge_claims
from djgnn.bench.sbm_figures import draw_figures
from djgnn.bench.sbm_study import Cell, SbmStudy, need_package, run_study
from djgnn.cli.terminal import escape
from djgnn.graph.files import atomic_write

CLAIMS = {
    "a": "small gaps help",
    "b": "low or medium structural heterophily and a gap not too high give good results",
    "c": "large gaps lead to the worst performance",
}


def run_sbm(out: Path, *, quick: bool, quiet: bool) -> dict[str, Any]:
    """Run what is missing, draw, judge; return what `--json` prints."""
    begun = time.perf_counter()
    need_package("matplotlib", "figures")
    study = SbmStudy.quick() if quick else SbmStudy()
    progress = Console(stderr=True, highlight=False, quiet=quiet)

    def follow(done: int, total: int, cell: Cell) -> None:
        progress.print(
            f"{done}/{total}  {cell.series}, gap {cell.gap:g}, level {cell.level}, "
            f"seed {cell.seed}  ({time.perf_counter() - begun:.0f} s)"
        )

    cells = run_study(study, out, follow)
    figures = draw_figures(study, cells, out)
    verdicts = judge_claims(cells)
    report = {
        "cells": len(cells),
        "seconds_of_cells": sum(cell["seconds"] for cell in cells),
        "figures": [str(figure) for figure in figures],
        "verdicts": [verdict.to_dict() for verdict in verdicts],
    }
    with atomic_write(out / "verdicts.json") as file:
        file.write((json.dumps(report["verdicts"], indent=1) + "\n").encode("utf-8"))
    console = Console(highlight=False, soft_wrap=True, quiet=quiet)
    _print_verdicts(console, verdicts)
    if quick:
        console.print("A quick run shows that the study works; its verdicts mean nothing.")
    console.print(
        f"{report['cells']} cells, {report['seconds_of_cells']:.0f} s of computing. Every value: "
        f"{escape(str(out / 'cells.jsonl'))}; figures: "
        + ", ".join(escape(str(figure)) for figure in figures)
    )
    return report


def _print_verdicts(console: Console, verdicts: list[Verdict]) -> None:
    for claim, text in CLAIMS.items():
        console.print(f"[bold]Claim {claim}[/bold]: {text}")
        for verdict in (v for v in verdicts if v.claim == claim):
            reading = READINGS.get(verdict.reading, "either reading of the gap")
            word = "held" if verdict.held else "did not hold"
            console.print(f"  {verdict.series} series, {reading}: [bold]{word}[/bold]")
            console.print(f"    {escape(verdict.why)}")
