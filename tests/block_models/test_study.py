"""The study of Appendix B: complete, resumable, drawn and judged."""

from __future__ import annotations

import doctest
import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from claims import exceeds, feature_ceiling, judge_claims
from study import CELLS, SbmStudy, run_study

from djgnn.errors import InputError

STUDY = SbmStudy.quick()


@pytest.mark.parametrize("module", ["claims", "levels", "study"])
def test_examples_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0 < result.attempted


def values(cells: list[dict]) -> list[dict]:
    """All but the time, which no two runs share."""
    return [{k: v for k, v in cell.items() if k != "seconds"} for cell in cells]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "run"
    run_study(STUDY, folder)
    return folder


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / CELLS).read_text().splitlines()]


def test_every_cell_is_kept_with_its_figures(finished: Path) -> None:
    cells = lines(finished)
    assert [(c["series"], c["gap"], c["level"], c["seed"]) for c in cells] == [
        (c.series, c.gap, c.level, c.seed) for c in STUDY.cells()
    ]
    for cell in cells:
        assert 0 <= cell["test"] <= 100
        assert cell["node_homophily"] == pytest.approx(cell["wanted_node_homophily"], abs=0.06)
        assert len(cell["data_sha256"]) == 64
    assert not list(finished.glob(".*"))


def test_a_resumed_study_repeats_nothing_and_changes_no_number(
    finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    before = lines(folder)
    kept = before[::2]
    (folder / CELLS).write_text("".join(json.dumps(cell) + "\n" for cell in kept))
    (folder / ".cells.jsonl.0123.tmp").write_text("half a li")
    seen = []
    after = run_study(STUDY, folder, lambda done, total, cell: seen.append((done, total, cell)))
    assert len(seen) == len(before) - len(kept)
    assert [done for done, _, _ in seen] == list(range(len(kept), len(before)))
    assert values(after) == values(before)
    assert [cell for cell in after if cell in kept] == kept
    assert lines(folder) == after


def test_figures_that_are_not_there_are_null(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    first, *rest = lines(folder)
    kept = [{**first, "test": None, "R": None}, *rest[:-1]]
    (folder / CELLS).write_text("".join(json.dumps(cell) + "\n" for cell in kept))
    after = run_study(STUDY, folder)
    assert np.isnan([after[0]["test"], after[0]["R"]]).all()
    assert lines(folder)[0] == kept[0]


def test_a_missing_array_of_the_figure_is_made_again(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    view = sorted(folder.glob("view-*.npz"))[0]
    with np.load(view) as arrays:
        before = dict(arrays)
    view.unlink()
    seen: list[object] = []
    run_study(STUDY, folder, lambda *_: seen.append(1))
    assert len(seen) == 1
    with np.load(view) as arrays:
        np.testing.assert_array_equal(arrays["u"], before["u"])


def test_two_figures_are_written(finished: Path) -> None:
    from figures import FIGURES, draw_figures
    from matplotlib.image import imread

    for file in draw_figures(STUDY, lines(finished), finished):
        assert file.name in FIGURES
        image = imread(file)
        assert min(image.shape[:2]) > 300
        assert image[..., :3].std() > 0.05
        assert file.stat().st_size < 300_000


def test_another_study_or_other_files_in_the_folder_are_refused(
    finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"another study.*got other values of .*gaps"):
        run_study(SbmStudy(), finished)
    (tmp_path / "own.txt").write_text("mine")
    with pytest.raises(InputError, match=r"new or empty folder \(got 'own.txt'\)"):
        run_study(STUDY, tmp_path)
    with pytest.raises(InputError, match="cannot be made"):
        run_study(STUDY, tmp_path / "own.txt" / "deeper")


def test_a_spoilt_line_is_named(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(finished, folder)
    with (folder / CELLS).open("a") as file:
        file.write('{"series": "node"\n')
    with pytest.raises(InputError, match=r"line 17 is not a record.*delete it"):
        run_study(STUDY, folder)
    (folder / "study.json").write_text("[]")
    with pytest.raises(InputError, match="not the card of a study"):
        run_study(STUDY, folder)


def fake(accuracy) -> list[dict]:
    """Cells with made-up accuracies and a little noise of the seed."""
    return [
        {**vars(cell), "test": accuracy(cell) + 0.1 * (cell.seed - 2)}
        for cell in SbmStudy().cells()
    ]


def held(cells: list[dict]) -> set[tuple[str, str, str]]:
    return {(v.claim, v.series, v.reading) for v in judge_claims(cells) if v.held}


def test_verdicts_follow_the_values() -> None:
    falling = held(fake(lambda c: 95 - 20 * c.gap - 3 * c.level))
    assert {("a", s, "printed") for s in ("structural", "node")} <= falling
    assert {("c", s, "printed") for s in ("structural", "node")} <= falling
    assert ("b", "structural", "both") in falling
    assert not any(reading == "spectral" for _, _, reading in falling)
    rising = held(fake(lambda c: 50 + 20 * c.gap))
    assert {r for claim, _, r in rising if claim in "ac"} == {"spectral"}
    assert ("b", "structural", "both") not in rising
    rng = np.random.default_rng(0)
    assert not any(c in "ac" for c, _, _ in held(fake(lambda _: 75 + rng.normal(0, 3))))


def test_the_ceiling_of_the_features() -> None:
    assert feature_ceiling(0.0) == 50
    assert feature_ceiling(100.0) == pytest.approx(100)
    assert not exceeds(np.array([1.0]))
    assert exceeds(np.array([0.7, 1.0, 1.0, 1.3]))
    assert not exceeds(np.array([0.0, 1.0, 3.0]))
