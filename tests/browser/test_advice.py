"""The page of a cross-fitted run whose card has a verdict and advice, in a real browser."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from djgnn.cli.fit import run_fit
from djgnn.cli.options import FitOptions
from djgnn.graph import heterophilic_sbm
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.training.card import write_card
from djgnn.training.config import resolve
from djgnn.training.folds import with_splits

ORDER = ("result", "classes", "next", "nodes", "reliance", "theory", "run")
HOSTILE = "<img src=x onerror=alert(1)>"


def spoil(folder: Path) -> None:
    """Markup in the texts of a card, and groups of features."""
    card = json.loads((folder / "result.json").read_text("utf-8"))
    card["verdict"] |= {"text": f"61.0% expected. {HOSTILE}", "warnings": [f"mind {HOSTILE}"]}
    card["verdict"] |= {"expected": 61.0, "low": 55.0, "high": 67.0, "propagation": None}
    card["verdict"] |= {"features": 40.0, "measured": 58.5, "gain": 2.5}
    for suspect in card["suspects"]:
        suspect["reasons"] = HOSTILE
    assert len(card["suspects"]) > 3 < len(card["label_next"])
    groups = ((HOSTILE, 3.0, 0.5), ("b", -1.0, 0.2))
    card["importance"] = [{"group": g, "drop": drop, "error": e} for g, drop, e in groups]
    said = {"notes": [f"n.csv: {HOSTILE}"], "columns": [f"{HOSTILE}: number"]}
    card["reading"] = said | {"warnings": [f"column {HOSTILE} gives the label away"]}
    write_card(folder, card)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = heterophilic_sbm(120)
    some = np.where(np.arange(graph.num_nodes) % 3 == 0, -1, graph.y)
    graph = dataclasses.replace(graph, y=some)
    config = resolve("full", None, hidden_channels=8, epochs=6, experts=("shares", "jumps", "rows"))
    graph, config = with_splits(graph, config, folds=2)
    place = tmp_path_factory.mktemp("advice") / "run"
    run_fit(graph, config, FitOptions(place, device="cpu", quiet=True, report=False))
    spoil(place)
    write_run_page(load_run(place))
    return place


@pytest.fixture(scope="module")
def opened(visit: Any, folder: Path) -> Any:
    return visit(folder / "report.html")


def test_the_verdict_comes_first_and_the_theory_is_folded_away(
    opened: Any, folder: Path, browser: Any
) -> None:
    page = opened.page
    sections = page.locator("main > section")
    assert [sections.nth(i).get_attribute("id") for i in range(sections.count())] == list(ORDER)
    assert page.inner_text(".verdict").startswith("61.0% expected")
    warned = page.locator(".verdict + .warnings li").all_inner_texts()
    assert warned == [f"column {HOSTILE} gives the label away", f"mind {HOSTILE}"]
    assert not page.locator("#reading").is_visible()
    lines = page.locator("#reading li").all_text_contents()
    assert lines == [f"n.csv: {HOSTILE}", f"{HOSTILE}: number"]
    names = page.locator(".compared > span:not(.number)").all_inner_texts()
    assert names == ["this run", "one of its members", "features alone", "the largest class"]
    assert "58.50 measured on 89 nodes that were not learned" in page.inner_text(".tiles")
    assert page.locator(".compared .range").count() == 1
    closed = browser.new_page()
    closed.goto((folder / "report.html").as_uri())
    closed.wait_for_selector("html[data-ready]")
    assert not closed.locator("#losses").is_visible()
    closed.click("nav a[href='#nodes']")
    closed.evaluate("location.hash = '#learning'")
    closed.wait_for_selector("html[data-theory]")
    assert closed.locator("#losses .main-svg").first.is_visible()
    closed.close()


def test_advice_is_text_and_names_lead_to_nodes(opened: Any, folder: Path) -> None:
    page = opened.page
    assert page.evaluate("document.querySelectorAll('main img').length") == 0
    card = json.loads((folder / "result.json").read_text("utf-8"))
    for place, key in (("#suspects", "suspects"), ("#label-next", "label_next")):
        names = page.locator(f"{place} tbody td:first-child").all_inner_texts()
        assert names == [row["node"] for row in card[key]]
    assert HOSTILE in page.inner_text("#suspects")
    name = page.locator("#suspects tbody button").nth(3).inner_text()
    page.locator("#suspects tbody button").nth(3).click()
    assert page.locator("#node-card h3").first.inner_text() == f"Node {name}"
    for name, rows in card["thresholds"].items():
        page.select_option("#curve-class", name)
        assert page.locator("#thresholds tbody tr").count() == len(rows)
        assert opened.marks("curve") == len(card["pr_curve"][name]["recall"])
    assert page.locator("#importance .track").count() == 2
    said = page.inner_text("#classes")
    assert "Over all nodes together, at least 90% of the sets" in said
    assert "a set of one class is not safe if its probability is low" in said
    sizes = page.locator("#set-sizes > span:not(.number)").all_inner_texts()
    found = {1 + text.count("|") for text in load_run(folder).predictions["set"]}
    assert sizes == ["one class" if k == 1 else f"{k} classes" for k in sorted(found)]


def test_nodes_without_a_label_come_first_and_filters_filter(opened: Any, folder: Path) -> None:
    page, run = opened.page, load_run(folder)
    unknown = int((run.graph.labels < 0).sum())
    labels = page.locator("#node-table tbody td:nth-child(2)").all_inner_texts()
    assert labels[:unknown] == ["unknown"] * unknown
    assert "unknown" not in labels[unknown:]
    page.select_option("#node-outcome", "label unknown")
    assert page.inner_text("#node-count") == f"{unknown} nodes match."
    page.select_option("#node-class", "1")
    count = int(((run.graph.labels < 0) & (run.predicted == 1)).sum())
    assert page.inner_text("#node-count").startswith(f"{count} node")
    with page.expect_download() as download:
        page.click("#node-csv")
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))
    assert download.value.suggested_filename == "nodes.csv"
    assert len(rows) == count
    assert {row["prediction"] for row in rows} == {run.graph.classes()[1]}
    names = dict(zip(run.predictions["node"], run.predictions["probability"], strict=True))
    assert all(float(row["probability"]) == float(names[row["node"]]) for row in rows)
    page.select_option("#node-class", "")
    page.select_option("#node-outcome", "")
    page.select_option("#node-sure", "0 0.6")
    below = sum(float(p) < 0.6 for p in run.predictions["probability"])
    assert page.inner_text("#node-count").startswith(f"{below} node")
    page.select_option("#node-sure", "")


def test_members_are_shown_as_their_kind(opened: Any, folder: Path) -> None:
    members = [e["name"] for e in load_run(folder).card["experts"]]
    assert "jumps-1" in members
    for section in ("result", "nodes", "reliance"):
        text = opened.page.inner_text(f"#{section}")
        assert [name for name in members if name in text] == []
    assert opened.page.locator("#experts tbody tr").count() <= 4


def test_the_page_is_quiet_narrow_and_accessible(opened: Any, visit: Any, folder: Path) -> None:
    from .test_pages import PHONE, check_accessible, check_quiet, width

    check_quiet(opened)
    check_accessible(opened)
    dark = visit(folder / "report.html", color_scheme="dark")
    check_accessible(dark, "color-contrast")
    assert width(visit(folder / "report.html", **PHONE)) == 390
