"""The block-model study of Appendix B: accuracy against heterophily and spectral gap.

    python benchmarks/block_models --out DIR [--quick] [--json]

Trains DJ-GNN on 240 generated graphs, draws two figures and judges the paper's claims. A killed
study is continued by the same command. `--quick` is a tiny version that takes seconds and proves
nothing; `--json` prints one JSON object and nothing else. Figures need matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from claims import READINGS, judge_claims
from figures import draw_figures
from study import CELLS, Cell, SbmStudy, run_study

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write

CLAIMS = {
    "a": "small gaps help",
    "b": "low or medium structural heterophily and a gap not too high give good results",
    "c": "large gaps lead to the worst performance",
}


def report_study(out: Path, *, quick: bool, quiet: bool) -> dict[str, Any]:
    """Run what is missing, draw, judge; return what `--json` prints."""
    begun = time.perf_counter()
    study = SbmStudy.quick() if quick else SbmStudy()

    def follow(done: int, total: int, cell: Cell) -> None:
        if not quiet:
            print(
                f"{done}/{total}  {cell.series}, gap {cell.gap:g}, level {cell.level}, "
                f"seed {cell.seed}  ({time.perf_counter() - begun:.0f} s)",
                file=sys.stderr,
                flush=True,
            )

    cells = run_study(study, out, follow)
    report = {
        "cells": len(cells),
        "seconds_of_cells": sum(cell["seconds"] for cell in cells),
        "figures": [str(figure) for figure in draw_figures(study, cells, out)],
        "verdicts": [verdict.to_dict() for verdict in judge_claims(cells)],
    }
    with atomic_write(out / "verdicts.json") as file:
        file.write((json.dumps(report["verdicts"], indent=1) + "\n").encode("utf-8"))
    return report


def print_report(report: dict[str, Any], out: Path, *, quick: bool) -> None:
    """Each claim, whether it held and why, and where the values and figures are."""
    for claim, text in CLAIMS.items():
        print(f"Claim {claim}: {text}")
        for verdict in (v for v in report["verdicts"] if v["claim"] == claim):
            reading = READINGS.get(verdict["reading"], "either reading of the gap")
            held = "held" if verdict["held"] else "did not hold"
            print(f"  {verdict['series']} series, {reading}: {held}\n    {verdict['why']}")
    if quick:
        print("A quick run shows that the study works; its verdicts mean nothing.")
    print(
        f"{report['cells']} cells, {report['seconds_of_cells']:.0f} s of computing. Every value: "
        f"{out / CELLS}; figures: {', '.join(report['figures'])}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="block_models", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder; continued if started")
    parser.add_argument("--quick", action="store_true", help="a tiny version that proves nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    out = given.out.expanduser()
    try:
        report = report_study(out, quick=given.quick, quiet=given.json)
    except InputError as error:
        parser.exit(2, f"error: {error}\n")
    if given.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        print_report(report, out, quick=given.quick)


if __name__ == "__main__":
    main()
