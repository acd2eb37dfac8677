"""Numbers on the page equal the run folder's files."""

from __future__ import annotations

import base64
import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reseal import reseal

from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm
from djgnn.report import page as page_module
from djgnn.report import payload
from djgnn.report.graph_card import measure_graph
from djgnn.report.page import write_run_page
from djgnn.report.payload import run_payload, theory_payload
from djgnn.report.run_data import RunData, load_run
from djgnn.report.views import agreement, nodes_payload, planar, sampled_ranks
from djgnn.training.calibration import Calibration
from djgnn.training.config import resolve
from djgnn.training.folder import Answers, new_folder, write_run
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.run import train

from .conftest import HOSTILE, hostile_graph, make_run


def unpack(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The inverse of `pack`, as the page's script does it."""
    raw = np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<{packed['kind']}")
    return raw.reshape(packed["shape"])


def page_data(path: Path) -> dict:
    text = path.read_text("utf-8")
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(run_data: RunData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run_page(run_data, tmp_path_factory.mktemp("page") / "p.html")


def test_headline_and_curves_are_the_files(page: Path, run_folder: Path) -> None:
    data = page_data(page)
    card = json.loads((run_folder / "result.json").read_text("utf-8"))
    assert data["headline"]["result"] == card["result"]
    assert data["headline"]["versions"] == card["versions"]
    assert data["experts"] == card["experts"]
    assert data["jumps"] == card["jumps"]
    jumping = {e["name"]: e for e in card["experts"] if e["name"] in ("joint", "jumps")}
    most = max(jumping.values(), key=lambda e: e["weight"])
    assert data["shown"] == {
        "expert": most["name"],
        "weight": pytest.approx(most["weight"]),
        "epoch": most["epoch"],
    }
    assert data["player"]["selected"] == most["epoch"]
    assert sum(data["alpha"]["values"]) == pytest.approx(1)
    with (run_folder / "history.csv").open(newline="") as file:
        history = list(csv.DictReader(file))
    for key in ("loss", "pump_loss", "train", "validation", "validation_loss"):
        assert data["history"][key] == [float(row[key]) for row in history]
    assert data["history"]["expert"] == [row["expert"] for row in history]
    parts = [row is not None for row in data["history"]["trace_ratio"]]
    assert parts == [row["expert"] == most["name"] for row in history]
    low, high = data["headline"]["test_low"], data["headline"]["test_high"]
    assert low < card["result"]["test"] < high


def test_predictions_are_the_file(page: Path, run_folder: Path) -> None:
    nodes = page_data(page)["nodes"]
    classes = page_data(page)["classes"]
    with (run_folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert nodes["names"] == [row["node"] for row in rows]
    assert [classes[c] for c in unpack(nodes["predicted"])] == [r["prediction"] for r in rows]
    wanted = np.array([float(r["probability"]) for r in rows], dtype=np.float32)
    assert np.array_equal(unpack(nodes["probability"]), wanted)
    assert np.allclose(unpack(nodes["probabilities"])[:, 0], wanted, atol=2e-6)


def test_confusion_counts_the_test_nodes_of_the_file(page: Path, run_folder: Path) -> None:
    data = page_data(page)
    with (run_folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["part"] == "test"]
    right = sum(r["label"] == r["prediction"] for r in rows)
    counts = np.array(data["evaluation"]["test"]["confusion"])
    assert counts.sum() == len(rows)
    assert counts.trace() == right
    stored = json.loads((run_folder / "result.json").read_text("utf-8"))["calibration"]["test"]
    shown = data["evaluation"]["test"]["reliability"]
    assert shown["error"] == pytest.approx(stored["error"], abs=1e-6)
    assert [b["count"] for b in shown["bins"]] == [b["count"] for b in stored["reliability"]]
    assert 100 * right / len(rows) == pytest.approx(data["headline"]["result"]["test"])


def test_branch_contributions_add_up_to_what_their_expert_says(run_data: RunData) -> None:
    added, bias = run_data.contributions(np.arange(run_data.graph.num_nodes))
    logits = added.sum(axis=1) + bias
    shown = run_data.shown
    own = np.exp(logits / shown.temperature)
    own /= own.sum(axis=1, keepdims=True)
    weight = float(shown.model.weights[list(shown.model.names).index(shown.name)])
    of_product = run_data.shares[shown.name] - weight * own  # what it adds as a part of the product
    assert of_product.min() > -1e-5
    assert np.allclose(of_product.sum(axis=1), shown.weight - weight, atol=1e-5)
    packed = unpack(nodes_payload(run_data)["contributions"])
    best = run_data.predicted
    wanted = np.take_along_axis(added, best[:, None, None], axis=2)[:, :, 0]
    assert np.array_equal(packed[:, :, 0], wanted)


def test_branches_in_batches_are_those_of_all_nodes(
    run_folder: Path, run_data: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("djgnn.report.run_data.WHOLE", 0)
    monkeypatch.setattr("djgnn.report.run_data.BATCH", 10)
    batched, nodes = load_run(run_folder), np.arange(3, run_data.graph.num_nodes, 2)
    np.testing.assert_array_equal(batched.ranks, run_data.ranks)
    np.testing.assert_allclose(batched.weight, run_data.weight, atol=1e-6)
    for one, other in zip(batched.contributions(nodes), run_data.contributions(nodes), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_shares_of_the_experts_add_up_to_the_probabilities(run_data: RunData) -> None:
    total = sum(run_data.shares.values())
    np.testing.assert_allclose(total.sum(axis=1), 1, atol=1e-5)
    calibrated = Calibration.from_card(run_data.card["calibration"]).probabilities(np.log(total))
    np.testing.assert_allclose(calibrated, run_data.probabilities, atol=1e-5)
    nodes = nodes_payload(run_data)
    packed, rows = unpack(nodes["shares"]), np.arange(run_data.graph.num_nodes)
    for name, shares in zip(nodes["experts"], packed, strict=True):
        wanted = run_data.shares[name][rows, run_data.predicted]
        np.testing.assert_allclose(shares[:, 0] / 32767, wanted, atol=2e-5)


@pytest.mark.parametrize(
    "changes", [{"experts": ("features", "rows")}, {"experts": (), "jumps": False}]
)
def test_a_model_without_jumps_has_a_page(changes: dict[str, Any], tmp_path: Path) -> None:
    data = load_run(make_run(tmp_path / "run", hostile_graph(), **changes))
    found = page_data(write_run_page(data))
    assert found["jumps"] is None
    assert found["player"] is None
    assert "no jumps" in found["environment"]["reason"]
    assert found["nodes"]["branches"] == []


def test_one_network_has_a_page(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"experts": (), "num_jumps": 5}
    run = make_run(tmp_path / "run", hostile_graph(), **changes)
    found = page_data(write_run_page(load_run(run)))
    card = json.loads((run / "result.json").read_text("utf-8"))
    assert found["alpha"]["values"] == pytest.approx(list(card["alpha"].values()))
    assert found["experts"] is None
    assert found["shown"] == {"expert": "", "weight": 1, "epoch": card["result"]["epoch"]}
    assert found["nodes"]["experts"] == []


def test_markup_in_names_stays_text(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "<img" not in text.split("<script>")[0]
    assert "alert(2)</script>" not in text
    assert text.count("</script>") == 3
    assert page_data(page)["nodes"]["names"][: len(HOSTILE)] == list(HOSTILE)
    assert "\u2028" not in text.split('<script id="data"')[1].split("</script>")[0]


def test_the_page_asks_for_nothing(page: Path) -> None:
    text = page.read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "unsafe-eval" not in policy[1]
    outside = text.split('<script id="data"')[0]
    assert not re.search(r"(src|href)\s*=\s*\"(?!#)", outside)
    assert page.stat().st_size < 2.5e6


def test_a_stop_before_the_theory_leaves_a_page(
    run_data: RunData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(data: RunData) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(payload, "environment_payload", stop)
    with pytest.raises(KeyboardInterrupt):
        write_run_page(run_data, tmp_path / "p.html")
    data = page_data(tmp_path / "p.html")
    assert data["theory"] is False
    assert data["player"] is data["environment"] is data["graph"] is None
    assert data["nodes"]["count"] == run_data.graph.num_nodes
    assert data["evaluation"]["test"]["nodes"] > 0


def test_jumps_in_use_have_their_first_ranks(run_data: RunData) -> None:
    nodes = nodes_payload(run_data)
    for ranks, kept, alpha in zip(
        run_data.branches, nodes["branches"], run_data.alpha.values(), strict=False
    ):
        assert tuple(kept) == (ranks[:4] if alpha > 0 else ())
    assert set(nodes["columns"]) == {rank for ranks in nodes["branches"] for rank in ranks}


def test_members_of_folds_are_shown_by_kind(tmp_path: Path) -> None:
    graph = heterophilic_sbm(96)
    hidden = np.arange(graph.num_nodes) % 3 == 0
    some = np.where(hidden, -1, graph.y)
    run = make_run(tmp_path / "run", dataclasses.replace(graph, y=some), folds=2)
    data = page_data(write_run_page(load_run(run)))
    card = json.loads((run / "result.json").read_text("utf-8"))
    assert [e["name"] for e in data["experts"]] == ["features", "joint", "jumps"]
    assert [e["name"] for e in data["members"]] == [e["name"] for e in card["experts"]]
    weights = {e["name"]: e["weight"] for e in data["experts"] if e["weight"]}
    assert weights == pytest.approx(card["alpha"])
    assert [row["expert"] for row in data["jumps"]] == ["joint"]
    assert data["shown"]["expert"] == "joint"
    assert data["shown"]["weight"] == pytest.approx(card["alpha"]["joint"])
    assert sum(data["work"].values()) == pytest.approx(1)
    assert set(data["work"]) == {e["name"] for e in data["experts"] if e["weight"] > 0}
    assert data["headline"]["cross_fitted"]
    assert data["headline"]["unlabelled"] == hidden.sum()
    judged = {part: found["nodes"] for part, found in data["evaluation"].items()}
    assert judged == {"validation": (~hidden).sum()}


def test_a_sample_has_ranks_of_its_own(run_data: RunData) -> None:
    recording = run_data.recording
    assert recording is not None
    few = np.arange(0, recording.nodes.size, 3)
    smaller = dataclasses.replace(recording, nodes=few, u=recording.u[:, few])
    lists = sampled_ranks(run_data, smaller)
    assert lists.shape[:2] == (recording.epochs.size, few.size)
    distance = np.linalg.norm(smaller.u[0][:, None] - smaller.u[0][None], axis=2)
    reached = np.take_along_axis(distance, lists[0], axis=1)
    assert np.allclose(reached, np.sort(distance, axis=1)[:, : reached.shape[1]], atol=1e-5)


def test_agreement_leaves_out_links_to_itself_and_unknown_labels() -> None:
    ranks = np.array([[[0, 1], [1, 0], [2, 1]]])
    labels = np.array([0, 1, -1])
    found = agreement(ranks, np.arange(3), labels, ((1,), (2,)))
    assert found[0][0] == {"share": None, "links": 0, "own": 3}
    assert found[0][1] == {"share": 0.0, "links": 2, "own": 0}


def test_one_projection_serves_all_epochs() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((3, 10, 4)).astype(np.float32)
    logits[1] = logits[0]
    points = planar(logits)
    assert np.array_equal(points[0], points[1])
    assert np.abs(points).max() == 1
    assert planar(logits[:, :, :1]).shape == (3, 10, 2)


def test_a_larger_table_is_sampled_and_says_so(run_data: RunData) -> None:
    nodes = nodes_payload(run_data, most=30)
    shown = unpack(nodes["shown"])
    assert shown.size == 30
    assert len(nodes["names"]) == 30
    assert unpack(nodes["ranks"]).shape[0] == 30
    assert unpack(nodes["labels"]).size == run_data.graph.num_nodes
    columns = [rank - 1 for rank in nodes["columns"]]
    assert np.array_equal(unpack(nodes["ranks"]), run_data.ranks[shown][:, columns])
    wanted = run_data.weight[shown][:, columns]
    np.testing.assert_allclose(unpack(nodes["weights"]) / 32767, wanted, atol=2e-5)


def test_without_a_recording_there_is_no_player(run_data: RunData) -> None:
    alone = dataclasses.replace(run_data, recording=None)
    assert theory_payload(alone)["player"] is None
    assert run_payload(alone)["alpha"]["epochs"] is None


def test_another_graph_is_refused(run_folder: Path, tmp_path: Path) -> None:
    import shutil

    from djgnn.graph import heterophilic_sbm, random_splits, write_npz

    copy = tmp_path / "copy"
    shutil.copytree(run_folder, copy)
    write_npz(random_splits(heterophilic_sbm(64)), copy / "graph.npz")
    reseal(copy)
    with pytest.raises(InputError, match="not the graph of this run"):
        load_run(copy)


def test_missing_weights_are_named(run_folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run_folder, copy)
    (copy / "weights.safetensors").unlink()
    with pytest.raises(InputError, match=r"weights\.safetensors"):
        load_run(copy)


@pytest.mark.parametrize("folds", [1, 2])
def test_a_run_in_memory_has_the_page_of_its_folder(folds: int, tmp_path: Path) -> None:
    kinds = ("shares", "features", "given", "jumps")
    config = resolve("default", epochs=3, hidden_channels=4, experts=kinds)
    graph, config = with_splits(heterophilic_sbm(120), config, folds)
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training)
    said: list[Answers] = []
    with new_folder(tmp_path / "run") as folder:
        write_run(folder, graph, config, fitted, result, 0, on_answers=said.append)
    trained = (fitted.module, inputs)
    known = load_run(tmp_path / "run", dataclasses.replace(said[0], trained=trained), graph=graph)
    assert known.shown.module is not load_run(tmp_path / "run").shown.module
    assert run_payload(known) == run_payload(load_run(tmp_path / "run"))


def test_a_large_graph_is_measured_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = heterophilic_sbm(60)
    with page_module.measured_beside(graph) as measured:
        assert measured is None
    monkeypatch.setattr(page_module, "MOST_NODES", 59)
    with page_module.measured_beside(graph) as measured:
        assert measured is not None
        assert measured() == measure_graph(graph, structural=False)
