"""A real headless Chromium, and pages of a generated run, of cora, and of a comparison."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from djgnn.cli.fit import run_fit
from djgnn.cli.options import FitOptions
from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.report.page import write_comparison_page
from djgnn.training.config import resolve

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "quote\" and 'quote'",
    "line\nbreak\u2028more",
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
)
CLASSES = ("<b>bold</b>", 'a "quoted" class', "\u05e2\u05d1\u05e8\u05d9\u05ea", "two\nlines")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium under Playwright; skips where either is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page that was opened, with its console messages, errors and requests."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("dialog", lambda d: (self.complaints.append("dialog"), d.dismiss()))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        if self.page.locator("#theory-view").count():
            self.page.click("#theory-view > summary")
            self.page.wait_for_selector("html[data-theory]", timeout=60_000)

    def marks(self, name: str) -> int:
        return int(self.page.get_attribute(f"#{name}", "data-marks"))

    def pixels(self, name: str) -> str:
        return str(self.page.evaluate(f"byId('{name}').toDataURL()"))


@pytest.fixture(scope="session")
def visit(browser: Any) -> Iterator[Any]:
    visits: list[Visit] = []

    def go(file: Path, **options: Any) -> Visit:
        visits.append(Visit(browser, file, **options))
        return visits[-1]

    yield go
    for one in visits:
        one.context.close()


def _fit(graph: Graph, out: Path, dataset: str | None = None, **changes: Any) -> Path:
    options = {"experts": ("features", "joint", "jumps"), "hidden_channels": 8, **changes}
    recipe = resolve("default", dataset, **options)
    run_fit(graph, recipe, FitOptions(out, device="cpu", record=True, quiet=True))
    return out


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the demo's graph, smaller, with names that contain markup."""
    graph = random_splits(heterophilic_sbm(160), random_state=0)
    names = (*HOSTILE, *graph.names()[len(HOSTILE) :])
    hostile = dataclasses.replace(graph, node_names=names, class_names=CLASSES)
    return _fit(hostile, tmp_path_factory.mktemp("browser") / "run", epochs=25, num_jumps=5)


@pytest.fixture(scope="session")
def network_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one network."""
    graph = random_splits(heterophilic_sbm(80))
    place = tmp_path_factory.mktemp("browser") / "network"
    return _fit(graph, place, epochs=12, experts=(), num_jumps=5)


@pytest.fixture(scope="session")
def still_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mixture in which nothing jumps."""
    graph = random_splits(heterophilic_sbm(80))
    place = tmp_path_factory.mktemp("browser") / "still"
    return _fit(graph, place, epochs=4, experts=("features", "rows"))


@pytest.fixture(scope="session")
def cora_folder(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    graph = Graph.load("cora", data=data_dir)
    return _fit(graph, tmp_path_factory.mktemp("browser") / "cora", "cora", epochs=4)


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """Three models on three sets, one that failed, and a run."""
    folder = tmp_path_factory.mktemp("comparison")
    cells = []
    for m, model in enumerate(("djgnn", "gcn", "<i>mlp</i>")):
        for d, dataset in enumerate(("texas", "cora", "squirrel")):
            base = 60.0 + 7 * m + d
            splits = [
                {"split": i, "validation": base, "test": base + i, "oracle_test": base + i + 3}
                for i in range(3)
            ]
            cells.append(
                {
                    "model": model,
                    "dataset": dataset,
                    "preset": "default",
                    "metric": "accuracy",
                    "seed": 0,
                    "splits": splits,
                    "seconds": 10.0 * (m + 1),
                    "peak_memory_mib": 100.0 + m,
                }
            )
    (folder / "cells.json").write_text(json.dumps(cells), "utf-8")
    failed = {"label": "gat", "dataset": "squirrel", "seed": 0, "split": 0, "seconds": 1.0}
    failed |= {"status": "out of memory", "result": None, "metric": "accuracy"}
    (folder / "failed.jsonl").write_text(json.dumps(failed), "utf-8")
    sources = [folder / "cells.json", folder / "failed.jsonl", run_folder]
    return write_comparison_page(sources, folder / "comparison.html")
