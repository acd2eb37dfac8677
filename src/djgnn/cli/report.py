"""`djgnn report`: a page, or figures, from what runs have left behind."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from djgnn.cli.text import escape
from djgnn.errors import InputError
from djgnn.training.folder import RESULT

COMPARISON = Path("comparison.html")


def run_report(
    sources: list[Path],
    *,
    out: Path | None,
    figures: Path | None,
    quiet: bool,
) -> list[Path]:
    """Write the page of one run, or the comparison of several sources, and return the files.

    Raises:
        InputError: If a source is not a run or a benchmark's file, or nothing can be written.
    """
    if len(sources) == 1 and (sources[0].expanduser() / RESULT).is_file():
        files = _of_run(sources[0], out, figures)
    else:
        files = _of_several(sources, out, figures)
    if not quiet:
        console = Console(highlight=False, soft_wrap=True)
        for file in files:
            console.print(escape(str(file)))
    return files


def _of_run(run: Path, out: Path | None, figures: Path | None) -> list[Path]:
    from djgnn.report.run_data import load_run

    found = load_run(run)
    files = []
    if figures is None or out is not None:
        from djgnn.report.page import write_run_page

        files.append(write_run_page(found, out))
    if figures is not None:
        from djgnn.report.figures import write_run_figures

        files += write_run_figures(found, figures)
    return files


def _of_several(sources: list[Path], out: Path | None, figures: Path | None) -> list[Path]:
    for source in sources:
        if not source.expanduser().exists():
            raise InputError(f"{source}: there is no such run folder or file")
    files = []
    if figures is None or out is not None:
        from djgnn.report.page import write_comparison_page

        files.append(write_comparison_page(sources, COMPARISON if out is None else out))
    if figures is not None:
        from djgnn.report.comparison import comparison_payload
        from djgnn.report.figures import write_comparison_figures

        files += write_comparison_figures(comparison_payload(sources), figures)
    return files
