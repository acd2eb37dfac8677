"""New tables are read as those that the model was trained with: columns, weights, directions."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reseal import reseal

from djgnn.graph import heterophilic_sbm, read_npz, write_npz
from djgnn.training.conformal import coded_sets
from djgnn.training.folder import read_card

FAST = ("--set", "epochs=10", "--set", "hidden_channels=8", "--device", "cpu", "--no-report")
FAST += ("--set", "experts=[given, jumps]")
NAMES = ("--id-column", "account", "--source-column", "payer", "--target-column", "payee")
ZIPS = ("A1", "B2", "75001")
NEW = [["Z1", 4, "75001", "x"], ["Z2", 5, "75001", "y"]]
HEAD = ["account", "age", "zip", "note"]


def write(path: Path, *rows: Sequence[object]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables whose columns have unusual names, and new ones."""
    folder = tmp_path_factory.mktemp("own")
    graph = heterophilic_sbm(60)
    y = graph.labels
    nodes = [[f"a{i}", i % 7, ZIPS[i % 3], f"note {i}", f"k{c}"] for i, c in enumerate(y)]
    write(folder / "n.csv", [*HEAD, "kind"], *nodes)
    ends = graph.edge_index.T.tolist()
    edges = [[f"a{s}", f"a{t}", 10 * (1 + k % 5)] for k, (s, t) in enumerate(ends)]
    write(folder / "e.csv", ["payer", "payee", "amount"], *edges)
    write(folder / "nn.csv", HEAD, *NEW)
    write(folder / "none.csv", ["payer", "payee", "amount"])
    new = [["Z1", "a3", 50], ["Z1", "a8", 10], ["Z2", "a5", 30], ["Z2", "Z1", 20]]
    write(folder / "ne.csv", ["payer", "payee", "amount"], *new)
    write(folder / "back.csv", ["payer", "payee", "amount"], *([t, s, w] for s, t, w in new))
    return folder


def fit(djgnn: Callable[..., Any], place: Path, out: Path, *options: object) -> Path:
    tables = ("--nodes", place / "n.csv", "--edges", place / "e.csv", *NAMES)
    roles = ("--label", "kind", "--exclude", "note", "--column", "age=raw")
    done = djgnn("fit", "--folds", "1", *tables, *roles, *options, "--out", out, *FAST)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def runs(djgnn: Callable[..., Any], place: Path) -> Path:
    """Two runs: weighted, and symmetric without weights."""
    fit(djgnn, place, place / "weighted", "--weight-column", "amount")
    fit(djgnn, place, place / "both", "--symmetric", "--weight-column", "")
    return place


@pytest.fixture
def predict(djgnn: Callable[..., Any], runs: Path) -> Callable[..., Any]:
    def run(
        model: str | Path, *options: object, nodes: str | Path = "nn.csv", edges: str = "ne.csv"
    ) -> Any:
        tables = ("--nodes", runs / nodes, "--edges", runs / edges)
        return djgnn("predict", runs / model, *tables, *options, "--device", "cpu")

    return run


def shares(done: Any) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return [line.split(",") for line in done.stdout.splitlines()[1:]]


def test_columns_and_weights_are_those_of_the_fit(predict: Callable[..., Any]) -> None:
    plain = predict("weighted")
    assert plain.stderr == ""
    assert plain.stdout == predict("weighted", *NAMES, "--weight-column", "amount").stdout
    without = predict("weighted", "--weight-column", "")
    assert shares(without) != shares(plain)
    warning = "warning: --weight-column '': the model was trained with the weights in 'amount'\n"
    assert without.stderr == warning


def test_new_nodes_have_sets_by_the_thresholds_of_the_run(
    predict: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(predict("weighted").stdout.splitlines()))
    card = read_card(runs / "weighted")["sets"]
    assert (card["coverage"], card["by"]) == (0.9, "all")
    classes = read_card(runs / "weighted")["data"]["classes"]
    given = np.array([[float(row[f"p({name})"]) for name in classes] for row in rows])
    names = [row["node"] for row in rows]
    texts, place = coded_sets(card, given.astype(np.float32), names, classes)
    assert [row["set"] for row in rows] == [texts[i] for i in place]
    shutil.copytree(runs / "weighted", tmp_path / "old")
    file = tmp_path / "old" / "result.json"
    later = ("sets", "verdict", "files")
    old = {k: v for k, v in json.loads(file.read_text()).items() if k not in later}
    file.write_text(json.dumps(old))
    rows = list(csv.DictReader(predict(tmp_path / "old").stdout.splitlines()))
    assert [row["set"] for row in rows] == ["", ""]


def test_coverage_that_cannot_be_is_refused(
    djgnn: Callable[..., Any], place: Path, tmp_path: Path
) -> None:
    tables = ("--nodes", place / "n.csv", "--edges", place / "e.csv", "--out", tmp_path / "run")
    for option, value in (("--coverage", "1.5"), ("--coverage-by", "node")):
        done = djgnn("fit", *tables, option, value)
        assert done.returncode == 2
        assert f"error: {option} must be " in done.stderr


def test_a_weight_that_is_missing_is_never_one(predict: Callable[..., Any], runs: Path) -> None:
    write(runs / "bare.csv", ["payer", "payee"], ["Z1", "a3"], ["Z2", "a5"])
    done = predict("weighted", edges="bare.csv")
    assert done.returncode == 2
    assert "no column 'amount' for the weight" in done.stderr


def test_symmetry_is_that_of_the_fit(predict: Callable[..., Any]) -> None:
    there, back = predict("both"), predict("both", edges="back.csv")
    assert there.stderr == back.stderr == ""
    assert shares(there) == shares(back)
    one_way = predict("both", "--directed", "--duplicates", "sum")
    assert shares(one_way) != shares(there)
    assert one_way.stderr.splitlines() == [
        "warning: --duplicates sum: the model was trained with first",
        "warning: --directed: the model was trained with every edge both ways (--symmetric)",
    ]
    assert (
        "--symmetric: the model was trained with edges" in predict("weighted", "--symmetric").stderr
    )


def test_a_category_does_not_depend_on_the_other_rows(
    predict: Callable[..., Any], runs: Path
) -> None:
    write(runs / "mixed.csv", HEAD, *NEW[:1], ["Z2", 5, "A1", "y"])
    alone, mixed = (predict("both", nodes=n, edges="none.csv") for n in ("nn.csv", "mixed.csv"))
    assert alone.stderr == ""
    assert shares(alone)[0] == shares(mixed)[0]
    assert shares(alone)[1] != shares(mixed)[1]


def test_empty_categories_are_fine_and_labels_left_alone(
    predict: Callable[..., Any], runs: Path
) -> None:
    rows = [["Z1", 4, "", "x", "k9"], ["Z2", 5, "", "y", "-1"]]
    write(runs / "void.csv", [*HEAD, "kind"], *rows)
    done = predict("both", nodes="void.csv")
    assert done.stderr == ""
    assert len(shares(done)) == 2


def test_an_unseen_category_is_said_once_in_one_line(
    predict: Callable[..., Any], runs: Path
) -> None:
    write(runs / "far.csv", HEAD, NEW[0], ["Z2", 5, "C3", "y"])
    done = predict("both", nodes="far.csv")
    assert len(shares(done)) == 2
    assert done.stderr == (
        f"warning: {runs / 'far.csv'}: row 2, column 'zip': 'C3' was never seen in training and "
        "counts as no category (1 such rows)\n"
    )


BAD = {
    "missing number": ([["account", "zip"], ["Z1", "A1"]], "no feature column 'age'.*add it"),
    "missing category": ([["account", "age"], ["Z1", 4]], "no feature column 'zip'.*add it"),
    "text": ([HEAD, ["Z1", 4, "A1", ""], ["Z2", "abc", "A1", ""]], "row 2, column 'age'.*'abc'"),
    "all text": ([HEAD, ["Z1", "abc", "A1", ""]], "row 1, column 'age': is not a finite number"),
    "empty": ([HEAD, ["Z1", "", "A1", ""]], "row 1, column 'age': is empty"),
    "more": ([[*HEAD, "foo"], ["Z1", 4, "A1", "", 1]], "'foo' is not one.*--exclude"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_must_be_those_of_the_model(
    predict: Callable[..., Any], runs: Path, case: str
) -> None:
    rows, message = BAD[case]
    write(runs / "bad.csv", *rows)  # type: ignore[arg-type]
    done = predict("both", nodes="bad.csv", edges="none.csv")
    assert done.returncode == 2
    assert re.search(message, done.stderr), done.stderr


def forget(run: Path, out: Path, *keys: str) -> Path:
    """A copy of a run whose graph says nothing of how it was read."""
    shutil.copytree(run, out)
    graph = read_npz(out / "graph.npz")
    card = {key: value for key, value in graph.card.items() if key not in keys}
    write_npz(dataclasses.replace(graph, card=card), out / "graph.npz")
    reseal(out)
    return out


def test_graphs_that_do_not_come_from_tables_take_the_options_again(
    predict: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    nodes = write(runs / "text.csv", HEAD, ["Z1", 4, ZIPS[0], ""], ["Z2", 2, ZIPS[1], ""])
    named = (*NAMES, "--exclude", "note")
    old = forget(runs / "weighted", tmp_path / "weighted", "tables")
    done = predict(old, *named, nodes=nodes)
    assert "new edges have no weights and count as 1" in done.stderr
    told = predict(old, *named, "--weight-column", "amount", nodes=nodes)
    assert told.stderr == ""
    assert told.stdout == predict("weighted", nodes=nodes).stdout
    both = forget(runs / "both", tmp_path / "both", "tables")
    done = predict(both, *named, nodes=nodes)
    assert done.returncode == 0
    assert "the new edges go one way" in done.stderr
    told = predict(both, *named, "--symmetric", nodes=nodes)
    assert (told.stdout, told.stderr) == (predict("both", nodes=nodes).stdout, "")


def test_a_field_that_is_too_long_is_no_traceback(
    djgnn: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(runs / "both", tmp_path / "run")
    text = (run / "predictions.csv").read_text("utf-8").replace("\na0,", "\n" + 200_000 * "A" + ",")
    (run / "predictions.csv").write_text(text, "utf-8")
    reseal(run)
    done = djgnn("predict", run, "--json")
    assert (done.returncode, "damaged" in done.stderr) == (2, True), done.stderr[-300:]


def test_a_damaged_memory_is_an_error(
    predict: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(runs / "both", tmp_path / "run")
    graph = read_npz(run / "graph.npz")
    for tables in ({"roles": {}}, 7):
        card = {**graph.card, "tables": tables}
        write_npz(dataclasses.replace(graph, card=card), run / "graph.npz")
        reseal(run)
        done = predict(run)
        assert (done.returncode, "card['tables']: damaged" in done.stderr) == (2, True)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def _linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere.npz"))
    file.symlink_to("elsewhere.npz")


@pytest.mark.parametrize(
    ("spoil", "said"), [(_cut, "damaged"), (_linked, "link"), (Path.unlink, "graph.npz")]
)
def test_a_graph_that_is_read_ahead_is_checked_first(
    predict: Callable[..., Any], runs: Path, tmp_path: Path, spoil: Callable[..., None], said: str
) -> None:
    shutil.copytree(runs / "weighted", tmp_path / "run")
    spoil(tmp_path / "run" / "graph.npz")
    done = predict(tmp_path / "run")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "graph.npz" in done.stderr
    assert said in done.stderr
