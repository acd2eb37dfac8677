"""`djgnn report`: the page of a run, or the comparison of several."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from djgnn.cli.text import escape
from djgnn.errors import InputError
from djgnn.training.folder import RESULT

COMPARISON = Path("comparison.html")


def run_report(sources: list[Path], *, out: Path | None, quiet: bool) -> Path:
    """Write the page of one run, or the comparison of several sources, and return its path.

    Raises:
        InputError: If a source is not a run or a benchmark's file, or the page cannot be written.
    """
    from djgnn.report.page import write_comparison_page, write_run_page
    from djgnn.report.run_data import load_run

    if len(sources) == 1 and (sources[0].expanduser() / RESULT).is_file():
        page = write_run_page(load_run(sources[0]), out)
    else:
        for source in sources:
            if not source.expanduser().exists():
                raise InputError(f"{source}: there is no such run folder or file")
        page = write_comparison_page(sources, COMPARISON if out is None else out)
    if not quiet:
        Console(highlight=False, soft_wrap=True).print(escape(str(page)))
    return page
