"""Run folders: complete or absent."""

from __future__ import annotations

import copy
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from tests.reseal import reseal

from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.training import RunConfig, resolve, train
from djgnn.training.folder import (
    check_free,
    jumps_card,
    new_folder,
    read_card,
    read_history,
    read_predictions,
    write_run,
)
from djgnn.training.inputs import build_djgnn
from djgnn.training.output_lock import claimed
from djgnn.training.stored import load_model


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    graph = random_splits(heterophilic_sbm(120, hub_size=1))
    config = resolve("default", None, hidden_channels=8, epochs=6)
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    path = tmp_path_factory.mktemp("runs") / "run"
    with new_folder(path) as folder:
        write_run(folder, graph, config, fitted, result, 0)
    return path, graph, fitted, result


def test_everything_is_there(finished) -> None:
    path, graph, fitted, result = finished
    assert {f.name for f in path.iterdir()} == {
        "config.yaml",
        "graph.npz",
        "result.json",
        "history.csv",
        "predictions.csv",
        "suspects.csv",
        "weights.safetensors",
    }
    card = read_card(path)
    assert card["data"]["sha256"] == graph.content_hash
    assert card["result"]["test"] == result.test
    assert sum(card["alpha"].values()) == pytest.approx(1)
    assert tuple(card["alpha"]) == fitted.module.names
    assert card["experts"] == [
        {**asdict(record), "dropped": list(record.dropped)} for record in fitted.experts
    ]
    assert [e["weight"] for e in card["experts"]] == pytest.approx(list(card["alpha"].values()))
    assert "torch" in card["versions"]
    weights = load_file(path / "weights.safetensors")
    assert weights.keys() == fitted.module.state_dict().keys()
    assert RunConfig.read_yaml(path / "config.yaml").model == fitted.module.config
    assert len((path / "history.csv").read_text().splitlines()) == len(fitted.history) + 1


def test_the_card_says_how_many_jumps_are_used_and_how_far_they_reach(finished) -> None:
    _, _, fitted, _ = finished
    jumps = fitted.module.experts["jumps"]
    assert jumps.branches[-2:] == ((9, 10, 11, 12, 13, 14, 15, 16), tuple(range(17, 33)))
    module = copy.deepcopy(fitted.module)
    for name in ("joint", "jumps"):
        module.experts[name].mixture.reset_parameters()
    module.experts["jumps"].mixture.drop(6)
    module.experts["jumps"].mixture.drop(2)
    found = {part.pop("expert"): part for part in jumps_card(module)}
    assert found == {
        "joint": {"used": 6, "reach": 32, "dropped": []},
        "jumps": {"used": 4, "reach": 16, "dropped": ["jump2", "jump6"]},
    }
    for values in (module.weights, module.powers):
        values[list(module.names).index("jumps")] = 0
    assert [part["expert"] for part in jumps_card(module)] == ["joint"]


def test_a_mixture_comes_back_from_its_folder(finished) -> None:
    path, _, fitted, _ = finished
    stored = load_model(path)
    np.testing.assert_allclose(stored.logits, fitted.logits.numpy(), atol=1e-5)
    heaviest = max(("joint", "jumps"), key=stored.card["alpha"].__getitem__)
    expert = stored.module.experts[heaviest]
    operators = stored.inputs[1].by_expert[heaviest]()
    with torch.no_grad():
        u = expert.pump(operators.adjacency, operators.degree).u
    np.testing.assert_array_equal(stored.positions, u.numpy())
    assert [record.expert for record in read_history(path)] == [
        record.expert for record in fitted.history
    ]


def test_a_model_without_jumps_has_no_positions(tmp_path: Path) -> None:
    graph = random_splits(heterophilic_sbm(60))
    config = resolve("default", None, hidden_channels=4, epochs=2, experts=("features", "given"))
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    with new_folder(tmp_path / "run") as folder:
        assert write_run(folder, graph, config, fitted, result, 0)["jumps"] is None
    assert load_model(tmp_path / "run").positions.shape == (graph.num_nodes, 0)


@pytest.mark.parametrize("weights", [[2.0, -1.0], [0.5, 0.2]])
def test_weights_of_experts_that_mix_nothing_are_refused(finished, tmp_path, weights) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    file = tmp_path / "run" / "weights.safetensors"
    state = load_file(file)
    state["weights"] = torch.zeros_like(state["weights"])
    state["weights"][:2] = torch.tensor(weights)
    save_file(state, file)
    reseal(tmp_path / "run")
    with pytest.raises(InputError, match="must be at least 0 and sum to 1"):
        load_model(tmp_path / "run")


def test_a_run_of_version_0_1_is_read(tmp_path: Path) -> None:
    """One network, a structure gate in card and configuration, no column of experts."""
    graph = random_splits(heterophilic_sbm(60))
    config = resolve(
        "default", None, experts=(), num_jumps=5, hidden_channels=4, epochs=3, select=None
    )
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, 0)
    with new_folder(tmp_path / "run") as folder:
        card = write_run(folder, graph, config, fitted, result, 0)
    assert card["experts"] == []
    assert card["jumps"] == [{"expert": "", "used": 5, "reach": 5, "dropped": []}]
    del card["experts"], card["jumps"], card["verdict"], card["files"]
    card["structure_gate"] = {"with_structure": 60.0, "without_structure": 50.0}
    (tmp_path / "run" / "result.json").write_text(json.dumps(card))
    old = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    for section, names in (
        ("model", ("experts", "jumps", "jump_inputs", "hops", "deep")),
        ("training", ("label_smoothing", "select")),
    ):
        for name in names:
            del old[section][name]
    old["training"].update(structure_gate=True, weight_decay=0.0005)
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(old))
    rows = (tmp_path / "run" / "history.csv").read_text().splitlines()
    (tmp_path / "run" / "history.csv").write_text(
        "".join(row.rpartition(",")[0] + "\n" for row in rows)
    )
    stored = load_model(tmp_path / "run")
    np.testing.assert_allclose(stored.logits, fitted.logits.numpy(), atol=1e-5)
    assert read_history(tmp_path / "run") == fitted.history
    assert stored.explain(3).branches[0].branch == "jump0"


def test_predictions_are_those_of_the_model(finished) -> None:
    path, graph, fitted, _ = finished
    header, *table = read_predictions(path)
    rows = [dict(zip(header, row, strict=True)) for row in table]
    assert header[:4] == ["node", "prediction", "probability", "margin"]
    assert [r["node"] for r in rows] == list(graph.names())
    best = fitted.logits.argmax(dim=1).tolist()
    assert [r["prediction"] for r in rows] == [graph.classes()[c] for c in best]
    assert all(0 <= float(r["margin"]) <= float(r["probability"]) <= 1 for r in rows)
    parts = np.array([r["part"] for r in rows])
    assert (parts == "train").sum() == graph.split(0).train.sum()


def test_all_files_of_a_run_have_the_same_permissions(finished) -> None:
    assert len({file.stat().st_mode for file in finished[0].iterdir()}) == 1


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "run") as folder:
            (folder / "half").write_text("x")
            raise RuntimeError("oops")

    with pytest.raises(RuntimeError, match="oops"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_only_a_run_may_be_replaced(finished, tmp_path: Path) -> None:
    path, *_ = finished
    with pytest.raises(InputError, match="pass `overwrite=`"), new_folder(path):
        pass
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("x")
    with (
        pytest.raises(InputError, match="is not a run folder, so it is never replaced"),
        new_folder(tmp_path / "precious", overwrite=True),
    ):
        pass
    (tmp_path / "precious" / "result.json").write_text('{"unrelated": 1}')
    with (
        pytest.raises(InputError, match="never replaced"),
        new_folder(tmp_path / "precious", overwrite=True),
    ):
        pass
    assert (tmp_path / "precious" / "thesis.txt").exists()


def test_what_appears_in_the_meantime_is_not_lost(tmp_path: Path) -> None:
    def late() -> None:
        with new_folder(tmp_path / "run"):
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "thesis.txt").write_text("x")

    with pytest.raises(InputError, match="exists already"):
        late()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "thesis.txt").exists()


def test_a_run_is_replaced(finished, tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    with new_folder(tmp_path / "run", overwrite=True) as place:
        (place / "new").write_text("x")
        assert (tmp_path / "run" / "result.json").exists()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_a_user_put_beside_the_files_of_a_run_is_kept(finished, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished[0], tmp_path / "run"))
    (run / "notes.txt").write_text("mine")
    (run / "figures").mkdir()
    (run / "figures" / "one.png").touch()
    (run / "report.html").write_text("a page that the card does not know")
    (run / "thesis.txt").symlink_to("elsewhere")
    with new_folder(run, overwrite=True) as place:
        (place / "new").write_text("x")
    found = sorted(path.name for path in run.iterdir())
    assert found == ["figures", "new", "notes.txt", "thesis.txt"]
    assert (run / "figures" / "one.png").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_process_killed_while_it_replaced_a_run_loses_no_file_of_a_user(
    finished, tmp_path: Path
) -> None:
    old = Path(shutil.copytree(finished[0], tmp_path / ".run.0123abcd.old"))
    (old / "notes.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    with claimed(tmp_path / "run"):
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_is_followed_and_stays(finished, tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_folder(tmp_path / "link", overwrite=True) as folder:
        (folder / "new").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["new"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_inside_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file; name another"):
        check_free(tmp_path / "file" / "run")


def test_what_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        read_card(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        read_card(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(InputError, match="djgnn-run-1"):
        read_predictions(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["result.json", "predictions.csv", "weights.safetensors"])
def test_pipes_and_devices_in_a_run_folder_are_refused(finished, name: str, tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    file = tmp_path / "run" / name
    for make in (lambda: os.mkfifo(file), lambda: file.symlink_to("/dev/zero")):
        file.unlink()
        make()
        read = load_model if name == "weights.safetensors" else read_predictions
        with pytest.raises(InputError, match="not an ordinary file"):
            read(tmp_path / "run")
