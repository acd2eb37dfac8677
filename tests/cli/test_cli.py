"""The commands, as a person calls them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from djgnn import DJClassifier
from djgnn.cli import main
from djgnn.errors import DeprecatedWarning, DJGNNWarning
from djgnn.graph import heterophilic_sbm, random_splits, write_npz, write_tables
from djgnn.training import RunConfig

DEFAULT = ["--set", "epochs=8", "--set", "hidden_channels=8", "--device", "cpu"]
QUICK = [*DEFAULT, "--set", "experts=[features, jumps]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with one data set as npz and as tables."""
    path = tmp_path_factory.mktemp("data")
    graph = random_splits(heterophilic_sbm(120, hub_size=1), num_splits=2)
    write_npz(graph, path / "own.npz")
    write_tables(graph, path / "edges.csv", path / "nodes.csv")
    return path


def test_help_answers_at_once_without_torch() -> None:
    probe = "import sys, djgnn.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
    begun = time.perf_counter()
    command = [sys.executable, "-m", "djgnn", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"djgnn --help: {time.perf_counter() - begun:.2f} s")
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("demo", "fit", "predict", "datasets", "bench"))


def test_fit_predict_round_trip(djgnn, folder: Path, tmp_path: Path) -> None:
    done = djgnn("fit", "--dataset", "own", "--data", folder, "--out", tmp_path / "run", *DEFAULT)
    assert done.returncode == 0, done.stderr
    weights = json.loads((tmp_path / "run" / "result.json").read_text())["alpha"]
    most = max(weights, key=weights.__getitem__)
    said = f"({len(weights)} experts, most weight: {most} {weights[most]:.2f}, chosen on validation"
    assert said in done.stdout
    judged = json.loads((tmp_path / "run" / "result.json").read_text())["verdict"]
    assert done.stdout.splitlines()[0] == judged["text"]
    assert judged["source"] == "test"
    assert all(f"warning: {text}" in done.stderr for text in judged["warnings"])
    assert weights.keys() <= set(
        RunConfig.read_yaml(tmp_path / "run" / "config.yaml").model.experts
    )
    shown = djgnn("predict", tmp_path / "run")
    rows = list(csv.DictReader(shown.stdout.splitlines()))
    assert len(rows) == 127
    assert list(rows[0])[:4] == ["node", "prediction", "probability", "margin"]
    written = djgnn("predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    assert written.returncode == 0
    assert (tmp_path / "p.csv").read_text() == shown.stdout
    as_json = json.loads(djgnn("predict", tmp_path / "run", "--json").stdout)
    assert as_json == rows


def test_names_of_any_script_are_printed_whatever_the_terminal(folder: Path, tmp_path) -> None:
    import os

    write_npz(
        random_splits(replace(heterophilic_sbm(60), class_names=("é", "ü", "中", "ß"))),
        tmp_path / "own.npz",
    )
    command = [sys.executable, "-m", "djgnn", "fit", "--dataset", "own", "--data", str(tmp_path)]
    command += ["--out", str(tmp_path / "run"), "--json", *QUICK]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))["data"]["classes"] == ["é", "ü", "中", "ß"]


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999", "1.5"])
def test_seeds_that_are_none_are_refused(djgnn, folder: Path, tmp_path: Path, seed: str) -> None:
    source = ("--dataset", "own", "--data", folder)
    done = djgnn("fit", *source, "--out", tmp_path / "run", "--seed", seed, *QUICK)
    assert done.returncode == 2
    assert "--seed" in done.stderr


@pytest.mark.parametrize(
    "option",
    ["batch_size=64.0", "epochs=null", "patience=.inf", "class_weight=[a, b]", "lr=fast",
     "lr=null", "weight_decay=true", "dropout=x", "classifier_layers=2000000", "epochs=1e400"],
)  # fmt: skip
def test_options_of_the_wrong_kind_are_named(djgnn, folder, tmp_path: Path, option: str) -> None:
    source = ("--dataset", "own", "--data", folder)
    done = djgnn("fit", *source, "--out", tmp_path / "run", "--set", option)
    assert done.returncode == 2
    assert f"{option.split('=')[0]} " in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_s_options_are_those_of_its_classifier(djgnn, folder: Path, tmp_path: Path) -> None:
    source = ("--dataset", "own", "--data", folder)
    assert djgnn("fit", *source, "--out", tmp_path / "run", *QUICK).returncode == 0
    clf = DJClassifier.load(tmp_path / "run")
    assert (clf.hidden_channels, clf.epochs) == (8, 8)
    assert clf.options == {"experts": ("features", "jumps")}


def test_main_options_have_flags(djgnn, folder: Path, tmp_path: Path) -> None:
    command = ("fit", "--dataset", "own", "--data", folder, "--out", tmp_path / "run", *QUICK)
    given = ("--epochs", 6, "--patience", 2, "--jumps", 1, "--no-report")
    done = djgnn(*command, *given, "--set", "num_jumps=4")
    assert done.returncode == 0, done.stderr
    written = RunConfig.read_yaml(tmp_path / "run" / "config.yaml")
    assert (written.training.epochs, written.training.patience) == (6, 2)
    assert written.model.num_jumps == 1
    assert djgnn(*command, "--overwrite", "--jumps", 0).returncode == 2


def test_batches(djgnn, folder: Path, tmp_path: Path) -> None:
    source = ("--dataset", "own", "--data", folder)
    for name, more in {
        "a": ("--batch-size", 40),
        "b": ("--set", "batch_size=40"),
        "all": ("--batch-size", 1000),
        "none": (),
    }.items():
        done = djgnn("fit", *source, "--out", tmp_path / name, "--no-report", *more, *QUICK)
        assert done.returncode == 0, done.stderr
    history = {p.name: (p / "history.csv").read_bytes() for p in tmp_path.iterdir()}
    assert history["a"] == history["b"] != history["none"]
    assert history["all"] == history["none"]
    assert "batch_size: 40" in (tmp_path / "a" / "config.yaml").read_text()
    wrong = djgnn("fit", *source, "--out", tmp_path / "wrong", "--batch-size", 0)
    assert wrong.returncode == 2
    assert "batch_size must be a whole number of at least 1" in wrong.stderr
    cell = ("bench", "run", "--dataset", "own", "--data", folder, "--set", "batch_size=40")
    other = djgnn(*cell, "--model", "gcn", "--set", "epochs=2", "--device", "cpu")
    assert other.returncode == 2
    assert "only the DJ-GNN is trained in mini-batches" in other.stderr
    own = djgnn(*cell, "--model", "djgnn", "--splits", "0", "--json", *QUICK)
    assert json.loads(own.stdout)["config"]["training"]["batch_size"] == 40


def test_own_tables_give_the_same_predictions_as_the_data_set(
    djgnn, folder: Path, tmp_path: Path
) -> None:
    tables = ("--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv")
    tables += ("--column", "f*=raw")
    for name, source in (("a", ("--dataset", "own", "--data", folder)), ("b", tables)):
        done = djgnn("fit", *source, "--out", tmp_path / name, *QUICK)
        assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / n / "predictions.csv").read_text() for n in "ab")
    assert first == second


def test_tables_without_splits_are_cross_fitted_and_unlabelled_nodes_predicted(
    djgnn, tmp_path: Path
) -> None:
    edges = "source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % 40}\n" for i in range(40))
    rows = "".join(f"n{i},{i % 5},{'ab'[i % 2] if i < 30 else ''}\n" for i in range(40))
    (tmp_path / "e.csv").write_text(edges)
    (tmp_path / "n.csv").write_text("id,size,label\n" + rows)
    done = djgnn(
        "fit", "--edges", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv",
        "--out", tmp_path / "run", "--json", *QUICK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    assert card["data"]["classes"] == ["a", "b"]
    text = (tmp_path / "run" / "predictions.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert {r["part"] for r in rows} == {"validation", ""}  # every label was held out once
    assert all(r["prediction"] in "ab" for r in rows[30:])


def test_bench_run_prints_one_json_object(djgnn, folder: Path) -> None:
    done = djgnn(
        "bench", "run", "--model", "djgnn", "--dataset", "own", "--data", folder,
        "--splits", "0-1", "--json", *QUICK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cell = json.loads(done.stdout)
    assert [s["split"] for s in cell["splits"]] == [0, 1]
    assert cell["protocol"] == "validation"


def test_bench_run_shows_both_protocols_labelled(djgnn, folder: Path) -> None:
    done = djgnn(
        "bench", "run", "--model", "mlp", "--dataset", "own", "--data", folder,
        "--protocol", "oracle", "--set", "epochs=5", "--device", "cpu",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "validation-selected test" in done.stdout
    assert "not comparable with honest figures" in done.stdout


def test_datasets_lists_what_is_here(djgnn, folder: Path) -> None:
    rows = {r["name"]: r for r in json.loads(djgnn("datasets", "--data", folder, "--json").stdout)}
    assert rows["own"]["path"].endswith("own.npz")
    assert rows["texas"]["card"]["num_nodes"] == 183
    shown = djgnn("datasets", "--data", folder)
    assert "own" in shown.stdout


BAD = {
    "no graph": (["fit", "--out", "OUT"], "give either --dataset"),
    "two graphs": (["fit", "--dataset", "own", "--edges", "e", "--out", "OUT"], "give either"),
    "edges without nodes": (["fit", "--edges", "e.csv", "--out", "OUT"], "--nodes: missing"),
    "missing file": (
        ["fit", "--edges", "no.csv", "--nodes", "no.csv", "--out", "OUT"],
        "no such file",
    ),
    "unknown set": (["bench", "run", "--model", "djgnn", "--dataset", "owm"], "own"),
    "unknown model": (["bench", "run", "--model", "gin", "--dataset", "own"], "must be one of"),
    "unknown protocol": (
        ["bench", "run", "--model", "mlp", "--dataset", "own", "--protocol", "best"],
        "must be one of validation, oracle",
    ),
    "unknown split": (
        ["bench", "run", "--model", "mlp", "--dataset", "own", "--splits", "0-9"],
        "own has 0 to 1",
    ),
    "bad splits": (
        ["bench", "run", "--model", "mlp", "--dataset", "own", "--splits", "all"],
        "must be like",
    ),
    "unknown preset": (
        ["fit", "--dataset", "own", "--preset", "best", "--out", "OUT"],
        "preset must be",
    ),
    "unknown option": (
        ["fit", "--dataset", "own", "--set", "speed=1", "--out", "OUT"],
        "no option 'speed'",
    ),
    "bad value": (
        ["fit", "--dataset", "own", "--set", "num_jumps=0", "--out", "OUT"],
        "at least 1",
    ),
    "folds among the options": (
        ["fit", "--dataset", "own", "--set", "folds=2", "--out", "OUT"],
        "give --folds 2",
    ),
    "no pair": (["fit", "--dataset", "own", "--set", "lr", "--out", "OUT"], "KEY=VALUE"),
    "too many jumps": (
        ["fit", "--dataset", "own", "--set", "num_jumps=999", "--out", "OUT"],
        "use fewer jumps",
    ),
    "bad device": (["fit", "--dataset", "own", "--device", "tpu", "--out", "OUT"], "auto, cpu"),
    "split out of range": (["fit", "--dataset", "own", "--split", "7", "--out", "OUT"], "0 to 1"),
    "no run": (["predict", "."], "not a run folder"),
    "unknown command": (["fitt"], "No such command"),
    "missing option": (["fit", "--dataset", "own"], "--out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_status_2_one_message_and_nothing_written(
    djgnn, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, message = BAD[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DJGNN_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    done = djgnn(*[str(tmp_path / "run") if a == "OUT" else a for a in arguments])
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_never_replaced(djgnn, folder: Path, tmp_path: Path) -> None:
    run, table = tmp_path / "run", tmp_path / "mine.csv"
    done = djgnn("fit", "--dataset", "own", "--data", folder, "--out", run, *QUICK)
    assert done.returncode == 0, done.stderr
    table.write_text("id,label\n1,a\n")
    card = (run / "result.json").read_bytes()
    for command in (
        ("predict", run, "--out", table),
        ("report", run, "--out", table),
        ("predict", run, "--out", run / "result.json"),
        ("predict", run, "--out", run / "predictions.csv"),
        ("report", run, "--out", run / "result.json"),
    ):
        refused = djgnn(*command)
        assert refused.returncode == 2, command
        assert "name another file" in refused.stderr.replace("\n", " ")
    assert table.read_text() == "id,label\n1,a\n"
    assert (run / "result.json").read_bytes() == card
    for name, command in (("p.csv", "predict"), ("p.json", "predict"), ("r.html", "report")):
        more = ("--json",) if name == "p.json" else ()
        (tmp_path / name).touch()  # nothing is lost
        for _ in range(2):  # an earlier one of the same kind may be replaced
            done = djgnn(command, run, "--out", tmp_path / name, *more)
            assert done.returncode == 0, done.stderr


def test_labels_that_are_all_different_are_no_classes(djgnn, tmp_path: Path) -> None:
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    edges.write_text("source,target\na,b\nb,c\n")
    nodes.write_text("id,x,y\na,1,0.5\nb,2,0.7\nc,3,0.9\n")
    done = djgnn("fit", "--edges", edges, "--nodes", nodes, "--out", tmp_path / "run", *QUICK)
    assert done.returncode == 2
    for said in ("n.csv", "column 'y'", "--label"):
        assert said in done.stderr


def test_a_stopped_run_is_pointed_at(djgnn, folder: Path, tmp_path: Path) -> None:
    again = ("fit", "--dataset", "own", "--data", folder, "--out", tmp_path / "run", *QUICK)
    assert djgnn(*again).returncode == 0
    (tmp_path / ".run.checkpoint").mkdir()
    refused = djgnn(*again)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    both = djgnn(*again, "--resume", "--overwrite")
    assert both.returncode == 2
    assert "give one of them" in both.stderr


def test_an_existing_run_is_not_overwritten_unasked(djgnn, folder: Path, tmp_path: Path) -> None:
    again = ("fit", "--dataset", "own", "--data", folder, "--out", tmp_path / "run", *QUICK)
    assert djgnn(*again).returncode == 0
    refused = djgnn(*again)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert djgnn(*again, "--overwrite").returncode == 0
    assert [f.name for f in tmp_path.iterdir()] == ["run"]


def test_deprecations_and_other_warnings_are_lines_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import djgnn.cli.app

    def command(**options: object) -> None:
        for _ in range(2):
            text = "--old is deprecated and goes away in 2.0;\nuse --new"
            warnings.warn(text, DeprecatedWarning, stacklevel=1)
        warnings.warn("expert left out", DJGNNWarning, stacklevel=1)

    monkeypatch.setattr(djgnn.cli.app, "app", command)
    main()
    assert capsys.readouterr().err.splitlines() == [
        "warning: --old is deprecated and goes away in 2.0; use --new",
        "warning: expert left out",
    ]
    assert issubclass(DeprecatedWarning, DeprecationWarning)  # as Python's own, for programs
