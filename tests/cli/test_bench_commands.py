"""`djgnn bench` beyond one cell, as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from djgnn.graph import heterophilic_sbm, random_splits, write_npz

QUICK = ("--epochs", 2, "--device", "cpu", "--workers", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    graph = random_splits(heterophilic_sbm(40, hub_size=1), num_splits=2)
    write_npz(graph, path / "own.npz")
    return path


def test_a_table_is_printed_and_written(djgnn, folder: Path, tmp_path: Path) -> None:
    command = (
        "bench", "table1", "--models", "mlp,gcn", "--datasets", "own", "--data", folder,
        "--splits", "0-1", "--out", tmp_path / "t", *QUICK,
    )  # fmt: skip
    done = djgnn(*command)
    assert done.returncode == 0, done.stderr
    assert "mlp on own: test" in done.stdout
    assert "4/4" in done.stderr
    names = {file.name for file in (tmp_path / "t").iterdir()}
    assert {"table.md", "table.html", "table.tex", "results.jsonl", "splits"} <= names
    again = djgnn(*command, "--json")
    assert again.stderr == ""
    shown = json.loads(again.stdout)
    assert [cell["model"] for cell in shown["cells"]] == ["mlp", "gcn"]
    assert [len(cell["splits"]) for cell in shown["cells"]] == [2, 2]
    assert "djgnn bench table1 --models mlp,gcn" in (tmp_path / "t" / "table.md").read_text()


@pytest.mark.parametrize("own", [("untuned",), ("equal-budget", "--trials", 2)])
def test_a_leaderboard_is_written_into_the_documentation(
    djgnn, folder: Path, tmp_path: Path, own: tuple
) -> None:
    done = djgnn(
        "bench", *own, "--models", "mlp,gcn", "--datasets", "own", "--data", folder, "--splits",
        "0-1", "--seeds", "0-1", "--out", tmp_path / "t", "--docs", tmp_path / "docs", *QUICK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mlp on own: test") == 2
    page = (tmp_path / "docs" / "table.md").read_text()
    assert f"Command: djgnn bench {own[0]} " in page
    assert "Seeds: 0, 1." in page


def test_names_of_variants_are_not_markup(djgnn, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text('"mlp:[/x]": {dropout: 0.1}\n')
    own = ("--variants", tmp_path / "v.yaml", "--datasets", "own", "--data", folder)
    done = djgnn("bench", "untuned", *own, "--splits", "0", "--out", tmp_path / "t", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "mlp:[/x] on own: test" in done.stdout


def test_a_search_feeds_a_run_and_a_table(djgnn, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    out = tmp_path / "search"
    tuned = djgnn(
        "bench", "tune", "--model", "mlp", "--dataset", "own", "--trials", 2, "--splits", "0",
        "--data", folder, "--out", out, "--json", *QUICK,
    )  # fmt: skip
    assert tuned.returncode == 0, tuned.stderr
    card = json.loads(tuned.stdout)["searches"][0]
    assert card["trials"] == 2
    best = Path(card["folder"]) / "best.yaml"
    cell = djgnn(
        "bench", "run", "--model", "mlp", "--dataset", "own", "--data", folder, "--splits", "0",
        "--config", best, "--device", "cpu", "--json",
    )  # fmt: skip
    assert cell.returncode == 0, cell.stderr
    found = json.loads(cell.stdout)
    assert found["splits"][0]["validation"] == pytest.approx(card["validation_mean"])
    assert found["config"]["source"].startswith("best of 2 trials on validation")
    table = djgnn(
        "bench", "table1", "--models", "mlp", "--datasets", "own", "--data", folder,
        "--splits", "0", "--tuned", out, "--out", tmp_path / "t", "--device", "cpu",
        "--workers", 0,
    )  # fmt: skip
    assert table.returncode == 0, table.stderr
    none = djgnn("bench", "tune", "--model", "mlp", "--dataset", "own", "--trials", 0)
    assert none.returncode == 2
    assert "Invalid value for '--trials'" in none.stderr
    assert "best of 2 trials, chosen on validation" in (tmp_path / "t" / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table1", "--protocol", "best"), "--protocol: must be one of validation, oracle"),
        (("table1", "--models", "nothing"), "must be one of the models|must be one of djgnn"),
        (("table1", "--reference", "gat"), "--reference: must be one of mlp"),
        (("table1", "--workers", -1), "Invalid value for '--workers'"),
        (("table1", "--splits", "7"), "splits: own has 0 to 1"),
        (("table1", "--import", "no.jsonl"), "no.jsonl: no such file"),
    ],
)
def test_wrong_options_are_named(
    djgnn, folder: Path, tmp_path: Path, arguments: tuple, message: str
) -> None:
    name, *rest = arguments
    models = () if "--models" in rest else ("--models", "mlp")
    done = djgnn(
        "bench", name, "--datasets", "own", "--data", folder, "--out", tmp_path / "t",
        "--epochs", 1, *models, *rest,
    )  # fmt: skip
    assert done.returncode == 2
    assert any(part in done.stderr for part in message.split("|"))
