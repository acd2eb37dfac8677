"""The views of a page as static figures for paper: PDF and PNG, by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from djgnn.errors import InputError
from djgnn.report.comparison_figures import COMPARISON_FIGURES
from djgnn.report.figure_style import drawing
from djgnn.report.payload import run_payload
from djgnn.report.player_figures import PLAYER_FIGURES
from djgnn.report.run_data import RunData
from djgnn.report.run_figures import RUN_FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[dict[str, Any]], "Figure | None"]
ENDINGS = (".pdf", ".png")


def write_run_figures(data: RunData, folder: str | Path) -> list[Path]:
    """Write every view of a run that there is something to draw of; returns the files.

    Raises:
        InputError: If matplotlib is missing or the folder cannot be written.
    """
    return _write(run_payload(data), {**RUN_FIGURES, **PLAYER_FIGURES}, folder)


def write_comparison_figures(payload: dict[str, Any], folder: str | Path) -> list[Path]:
    """Write the views of a comparison; returns the files.

    Raises:
        InputError: If matplotlib is missing or the folder cannot be written.
    """
    return _write(payload, COMPARISON_FIGURES, folder)


def _write(payload: dict[str, Any], draws: Mapping[str, Draw], folder: str | Path) -> list[Path]:
    place = Path(folder).expanduser()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    files = []
    with drawing(), warnings.catch_warnings():
        # Names in scripts that the font lacks are drawn as boxes; the page shows them all.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        for name, draw in draws.items():
            figure = draw(payload)
            if figure is None:
                continue
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # placed once, for both files
            for ending in ENDINGS:
                files.append(place / f"{name}{ending}")
                figure.savefig(files[-1], bbox_inches="tight", metadata=_metadata(ending))
    return files


def _metadata(ending: str) -> dict[str, Any]:
    # Without a date the same run gives the same file.
    return {"CreationDate": None} if ending == ".pdf" else {"Software": "djgnn"}
