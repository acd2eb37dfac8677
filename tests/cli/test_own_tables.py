"""A benchmark set exported as CSV is the same graph and gives the same predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from djgnn.graph import Graph, load, read_tables, write_tables
from djgnn.graph.checks import MASKS
from djgnn.training.config import resolve

SPLIT = 2
AS_IT_IS = ("--column", "f*=raw")


@pytest.mark.parametrize("name", ["texas", "cora", "twitch_engb"])
def test_fit_on_the_export_is_fit_on_the_data_set(
    djgnn: Callable[..., Any], name: str, data_dir: Path, tmp_path: Path
) -> None:
    graph = load(name, data=data_dir)
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    write_tables(graph, edges, nodes, split=SPLIT)
    assert_same(read_tables(edges, nodes, columns={"f*": "raw"}), graph)
    # A data set comes with a configuration and a metric of its own, tables do not: name them.
    recipe = tmp_path / "c.yaml"
    recipe.write_text(
        resolve(
            "default", name, epochs=2, hidden_channels=8, experts=("features", "jumps")
        ).to_yaml()
    )
    common = ("--config", recipe, "--seed", 5, "--device", "cpu", "--quiet")
    sources = {
        "set": ("--dataset", name, "--data", data_dir, "--split", SPLIT),
        "tables": ("--edges", edges, "--nodes", nodes, "--metric", graph.metric, *AS_IT_IS),
    }
    for out, source in sources.items():
        done = djgnn("fit", *source, "--out", tmp_path / out, *common)
        assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / out / "predictions.csv").read_bytes() for out in sources)
    assert first == second


def assert_same(back: Graph, graph: Graph) -> None:
    """The same nodes in the same order, and every array equal bit for bit."""
    assert list(back.names()) == list(graph.names())
    assert list(back.classes()) == list(graph.classes())
    assert (back.edge_index == graph.edge_index).all()
    assert (back.y == graph.y).all()
    for key in MASKS:
        assert (getattr(back, key)[:, 0] == getattr(graph, key)[:, SPLIT]).all()
    assert sp.issparse(back.x) == sp.issparse(graph.x)
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(back.x, part), getattr(graph.x, part))


@pytest.mark.parametrize("command", ["inspect", "fit"])
def test_features_that_drown_the_others_are_pointed_at(djgnn, command: str, tmp_path: Path) -> None:
    rows = [f"n{i},{'ab'[i % 2]},{i},{1_600_000_000 + i}" for i in range(20)]
    (tmp_path / "n.csv").write_text("\n".join(["id,label,size,seen", *rows]))
    (tmp_path / "e.csv").write_text(
        "\n".join(["source,target", *(f"n{i},n{i + 1}" for i in range(19))])
    )
    more = (
        ("--no-cost",) if command == "inspect" else ("--out", tmp_path / "r", "--set", "epochs=2")
    )
    tables = ("--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv")
    done = djgnn(command, *tables, *more, "--column", "seen=raw")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: feature 'seen' reaches 1.6e+09") == 1


def test_what_was_said_while_reading_is_in_the_files_and_on_the_page(djgnn, tmp_path: Path) -> None:
    name = "<b>\x1b[31mcode"
    rows = [f"n{i},{'ab'[i % 2]},{'xy'[i % 2]},{i * i % 7}" for i in range(40)]
    (tmp_path / "n.csv").write_text("\n".join([f"id,label,{name},size", *rows]))
    (tmp_path / "e.csv").write_text(
        "\n".join(["source,target", "n0,gone", *(f"n{i},n{i + 1}" for i in range(39))])
    )
    tables = ("--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv")
    recipe = ("--set", "epochs=2", "--set", "experts=[shares,features]")
    done = djgnn("fit", *tables, *recipe, "--out", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "r/result.json").read_text("utf-8"))
    said = card["reading"]
    (seconds,) = (p["seconds"] for p in card["phases"] if p["name"] == "training")
    assert f"nodes; {seconds:.1f} s)" in done.stdout  # by the clock, not the sum over experts
    lines = [*(f"warning: {text}" for text in said["warnings"]), *said["notes"], *said["columns"]]
    printed = done.stderr.replace(f"{tmp_path}/", "")  # files name no folder of this machine
    assert printed.splitlines()[: len(lines)] == lines
    away, lost = said["warnings"]
    assert "'gone'" in lost
    assert "alone gives the label" in away
    assert any(line.startswith("<b>␛[31mcode: ") for line in said["columns"])
    shown = json.loads(djgnn("inspect", *tables, "--no-cost", "--json").stdout)
    assert shown["reading"] == said
    page = (tmp_path / "r/report.html").read_text("utf-8")
    trust, run = page.split('class="verdict"')[1], page.split('id="reading"')[1]
    assert "alone gives the label" in trust.split("<figure>")[0]
    assert "&lt;b&gt;␛[31mcode: " in run
    assert "\x1b" not in page
    assert "<b>" not in page.split("<script")[0]
    again = djgnn("fit", "--graph", tmp_path / "r/graph.npz", *recipe, "--out", tmp_path / "s")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "s/result.json").read_text("utf-8"))["reading"] == said
