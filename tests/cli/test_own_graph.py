"""From tables to predictions, explanations and new nodes; stopped and continued."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from djgnn import DJClassifier, Graph
from djgnn.graph import heterophilic_sbm, random_splits, write_tables
from djgnn.report.payload import score_interval
from djgnn.report.run_data import load_run
from djgnn.training.config import RunConfig

EXPERTS = ("--set", "experts=[features, jumps]")
FAST = ("--set", "epochs=12", "--set", "hidden_channels=8", "--device", "cpu", *EXPERTS)


@pytest.fixture(scope="module")
def later() -> Graph:
    """A graph with names and categories of which the last 20 nodes come later."""
    graph = heterophilic_sbm(120)
    n = graph.num_nodes
    names = tuple(f"page ñ {i:03d}" for i in range(n))
    return Graph(graph.edge_index, n, x=graph.x, y=graph.y, node_names=names, name="later")


@pytest.fixture(scope="module")
def tables(later: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """edges.csv and nodes.csv of the known nodes, new_edges.csv and new_nodes.csv of the rest."""
    place = tmp_path_factory.mktemp("tables")
    n = later.num_nodes - 20
    inside = (later.edge_index < n).all(axis=0)
    known = Graph(
        later.edge_index[:, inside],
        n,
        x=later.x[:n],
        y=later.y[:n],
        node_names=later.node_names[:n],
    )
    write_tables(random_splits(known), place / "edges.csv", place / "nodes.csv")
    new = Graph(np.zeros((2, 0)), 20, x=later.x[n:], node_names=later.node_names[n:])
    write_tables(new, place / "none.csv", place / "new_nodes.csv")
    with (place / "new_edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        names = later.names()
        writer.writerows((names[a], names[b]) for a, b in later.edge_index[:, ~inside].T.tolist())
    return place


@pytest.fixture(scope="module")
def run(djgnn, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    files = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv")
    done = djgnn("fit", *files, "--column", "f*=raw", "--out", out, *FAST)
    assert done.returncode == 0, done.stderr
    return out


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_new_nodes_from_the_command_line_and_from_python(
    djgnn, run: Path, tables: Path, later: Graph
) -> None:
    new = ("--edges", tables / "new_edges.csv", "--nodes", tables / "new_nodes.csv")
    done = djgnn("predict", run, *new, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert [r["node"] for r in found] == list(later.names()[-20:])
    clf = DJClassifier.load(run, device="cpu")
    assert [r["prediction"] for r in found] == clf.predict(later).tolist()
    best = clf.predict_proba(later).max(axis=1)
    assert [float(r["probability"]) for r in found] == pytest.approx(best, abs=1e-6)
    stored = rows(djgnn("predict", run).stdout)
    shares = clf.predict_proba([r["node"] for r in stored])
    assert [float(r["probability"]) for r in stored] == pytest.approx(shares.max(axis=1), abs=1e-6)
    listed = json.loads(djgnn("predict", run, *new, "--json", "--device", "cpu").stdout)
    assert listed == found


def test_rare_classes_are_weighed_and_scored(djgnn, tables: Path, tmp_path: Path) -> None:
    files = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv")
    asked = ("--metric", "macro_f1", "--select", "score", "--class-weight", "balanced")
    done = djgnn("fit", *files, "--out", tmp_path / "run", *FAST, *asked)
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "run" / "result.json").read_text())
    config = RunConfig.read_yaml(tmp_path / "run" / "config.yaml").training
    assert (card["metric"], config.select, config.class_weight) == ("macro_f1", "score", "balanced")
    found = [
        r for r in rows((tmp_path / "run" / "predictions.csv").read_text()) if r["part"] == "test"
    ]
    y, said = ([r[key] for r in found] for key in ("label", "prediction"))
    assert card["result"]["test"] == pytest.approx(100 * f1_score(y, said, average="macro"))
    low, high = score_interval(load_run(tmp_path / "run"))
    assert low < card["result"]["test"] < high
    assert "expected macro F1" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_only_new_nodes_are_new(djgnn, run: Path, tables: Path) -> None:
    old = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.csv")
    done = djgnn("predict", run, *old)
    assert done.returncode == 2
    assert "all of its nodes were there" in done.stderr


def test_new_nodes_need_their_features(djgnn, run: Path, tables: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.csv"
    bare.write_text("node\nsomeone\n")
    done = djgnn("predict", run, "--edges", tables / "none.csv", "--nodes", bare)
    assert done.returncode == 2
    assert "no feature column 'f0', which the model was trained with" in done.stderr


def test_explanations_add_up(djgnn, run: Path, later: Graph) -> None:
    name = later.names()[7]
    done = djgnn("explain", run, name, "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for label, logit in found["logits"].items():
        shares = sum(expert["shares"][label] for expert in found["experts"])
        assert shares == pytest.approx(np.exp(logit), abs=1e-6)
    for expert in found["experts"]:
        for label, logit in expert["logits"].items():
            parts = sum(branch["contributions"][label] for branch in expert["branches"])
            assert expert["bias"][label] + parts == pytest.approx(logit, abs=1e-5)
    best = max(found["probabilities"], key=found["probabilities"].__getitem__)
    stored = {r["node"]: r["prediction"] for r in rows(djgnn("predict", run).stdout)}
    assert stored[name] == best == found["prediction"]
    printed = djgnn("explain", run, name, "--device", "cpu").stdout
    for expert in found["experts"]:
        assert expert["expert"] in printed
    assert name in printed
    wrong = djgnn("explain", run, "page ñ 7")
    assert wrong.returncode == 2
    assert "only nodes of the fitted graph can be explained, not later ones" in wrong.stderr
    assert "did you mean" in wrong.stderr


def test_doubtful_nodes_are_flagged(djgnn, tmp_path: Path) -> None:
    nodes = [f"{i},{i % 2},{i % 3},{'ab'[i % 2]}" for i in range(30)]
    nodes[28] = "28,0,0,"
    (tmp_path / "n.csv").write_text("id,one,two,label\n" + "\n".join(nodes) + "\n")
    edges = [f"{i},{i + 1}" for i in range(25)] + ["26,27"]
    (tmp_path / "e.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    out = tmp_path / "run"
    files = ("--edges", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv")
    done = djgnn("fit", *files, "--column", "two=raw", "--out", out, *FAST)
    assert done.returncode == 0, done.stderr
    flags = {r["node"]: r["flags"] for r in rows((out / "predictions.csv").read_text())}
    assert flags["28"] == "isolated featureless unreached"
    assert flags["3"] == ""
    assert flags["0"] == "featureless"


def command(tables: Path, out: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "djgnn",
        "fit",
        "--edges",
        str(tables / "edges.csv"),
        "--nodes",
        str(tables / "nodes.csv"),
        "--out",
        str(out),
        "--set",
        "hidden_channels=8",
        "--set",
        "patience=null",
        "--device",
        "cpu",
        "--checkpoint-every",
        "0",
        *EXPERTS,
        *more,
    ]


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while not path.exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    assert path.exists(), process.communicate()


def test_killed_and_continued_it_ends_the_same(djgnn, tables: Path, tmp_path: Path) -> None:
    epochs = ("--set", "epochs=150")
    whole = tmp_path / "whole"
    assert djgnn(*command(tables, whole, *epochs)[3:]).returncode == 0
    out = tmp_path / "killed"
    kept = tmp_path / ".killed.checkpoint" / "jumps.safetensors"  # of the second expert
    process = subprocess.Popen(command(tables, out, *epochs))
    wait_for(kept, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    refused = djgnn(*command(tables, out, *epochs)[3:])
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    other = djgnn(*command(tables, out, "--set", "epochs=149", "--resume")[3:])
    assert other.returncode == 2
    assert "other data, options or seed" in other.stderr
    assert djgnn(*command(tables, out, *epochs, "--resume")[3:]).returncode == 0
    for name in ("predictions.csv", "weights.safetensors", "history.csv", "graph.npz"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert not kept.parent.exists()
    done = djgnn(*command(tables, out, *epochs, "--resume")[3:])
    assert done.returncode == 0
    assert "complete already" in done.stdout
    for other in (
        ("--seed", "1", *epochs),
        ("--set", "epochs=149"),
    ):
        done = djgnn(*command(tables, out, *other, "--resume")[3:])
        assert done.returncode == 2
        assert "finished run of other data, options or seed" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_leaves_a_usable_run(djgnn, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = subprocess.Popen(
        command(tables, out, "--set", "epochs=100000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(tmp_path / ".stopped.checkpoint" / "features.safetensors", process)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 130, complaint
    assert b"--resume to continue" in said
    assert rows(djgnn("predict", out).stdout)
    card = json.loads((out / "result.json").read_text())
    assert card["interrupted"] is True
    assert [expert["name"] for expert in card["experts"]] == ["features"]
    assert card["alpha"] == {"features": 1.0, "jumps": 0.0}
    assert card["jumps"] is None
    assert (out / "report.html").is_file()
    assert DJClassifier.load(out, device="cpu").embedding_.shape[1] == 0


DAMAGE = {
    "no weights": lambda p: (p / "weights.safetensors").unlink(),
    "half the weights": lambda p: (p / "weights.safetensors").write_bytes(b"\x10" + bytes(40)),
    "no graph": lambda p: (p / "graph.npz").unlink(),
    "a text for a graph": lambda p: (p / "graph.npz").write_text("hello"),
    "options with a tag": lambda p: (p / "config.yaml").write_text("a: !!python/name:os.system"),
    "a card without figures": lambda p: (p / "result.json").write_text('{"format": "djgnn-run-1"}'),
    "half a card": lambda p: (p / "result.json").write_text('{"format": '),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("command", ["predict", "explain", "report"])
def test_a_damaged_run_is_refused_by_every_command(
    djgnn, run: Path, tables: Path, later: Graph, damage: str, command: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    DAMAGE[damage](broken)
    more = {
        "predict": ("--edges", tables / "new_edges.csv", "--nodes", tables / "new_nodes.csv"),
        "explain": (later.names()[3],),
        "report": ("--out", tmp_path / "page.html"),
    }[command]
    done = djgnn(command, broken, *more)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert "broken" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["broken"]
