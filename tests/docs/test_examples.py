"""The gallery: every example runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

from djgnn.training import TrainConfig

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a few epochs; `make docs` runs them as they are."""
    mpl.use("agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(TrainConfig, "ends", lambda self, losses, *_, **__: len(losses) >= 3)
    try:
        runpy.run_path(str(example), run_name="__main__")
        assert plt.get_fignums()
    finally:
        plt.close("all")
