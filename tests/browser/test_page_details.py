"""Pages of runs that lack something, or have very long names, in a real browser."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from djgnn.cli.fit import run_fit
from djgnn.cli.options import FitOptions
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.report.page import write_comparison_page
from djgnn.training.card import write_card
from djgnn.training.config import resolve


def test_runs_alone_have_no_memory_chart_and_no_score_called_done(
    visit: Any, run_folder: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run_folder, tmp_path / "untested"))
    card = json.loads((other / "result.json").read_text("utf-8"))
    card["result"] |= {"test": None, "oracle_test": None}
    card["data"]["name"] = "another"
    write_card(other, card)
    page = visit(write_comparison_page([run_folder, other], tmp_path / "c.html")).page
    assert page.is_visible("#by-time .main-svg >> nth=0")
    assert not page.is_visible("#by-memory")
    assert page.locator("#by-memory .main-svg").count() == 0
    assert page.inner_text("#pivot tbody tr:nth-child(2) td:nth-child(3)") == "none"
    assert page.inner_text("#cells tbody tr:nth-child(1) td:nth-child(3)") == "default"
    page.select_option("#cost-dataset", "another")
    assert not page.is_visible("#by-time")
    assert page.is_visible("#no-cost")
    page.select_option("#cost-dataset", "sbm")
    assert page.is_visible("#by-time .main-svg >> nth=0")
    assert not page.is_visible("#no-cost")


def test_long_class_names_leave_room_for_the_bars(visit: Any, tmp_path: Path) -> None:
    graph = random_splits(heterophilic_sbm(64))
    names = tuple(f"a class whose name is some fifty letters long, no {c}" for c in range(4))
    recipe = resolve("default", None, hidden_channels=8, epochs=3)
    options = FitOptions(tmp_path / "run", device="cpu", quiet=True)
    run_fit(dataclasses.replace(graph, class_names=names), recipe, options)
    for width in (1280, 390):
        page = visit(
            tmp_path / "run" / "report.html", viewport={"width": width, "height": 900}
        ).page
        tracks = page.locator("#node-card .bars >> nth=0").locator(".track")
        assert tracks.count() == 4
        assert min(tracks.nth(i).bounding_box()["width"] for i in range(4)) >= 80
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_coefficient_of_a_neighbour_is_called_so(visit: Any, run_folder: Path) -> None:
    page = visit(run_folder / "report.html").page
    page.click("#node-card summary")
    heads = page.locator("#node-card thead th")
    assert heads.all_inner_texts()[-1] == "coefficient"
    assert "exp(-s d)" in heads.last.get_attribute("title")
