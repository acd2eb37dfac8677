"""One way to name a graph: every format and every override, as options of a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from djgnn.cli.source import Source, load, read_ahead, say_reading, with_flags
from djgnn.errors import InputError
from djgnn.graph import (
    Graph,
    heterophilic_sbm,
    random_splits,
    write_graphml,
    write_npz,
    write_tables,
)

QUICK = [
    "--set",
    "epochs=4",
    "--set",
    "hidden_channels=8",
    "--device",
    "cpu",
    "--set",
    "experts=[features, jumps]",
]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_splits(heterophilic_sbm(90, hub_size=1))


def test_every_format_gives_the_same_graph(graph: Graph, tmp_path: Path) -> None:
    import polars as pl

    write_npz(graph, tmp_path / "own.npz")
    write_graphml(graph, tmp_path / "own.graphml")
    for suffix in ("csv", "tsv"):
        write_tables(graph, tmp_path / f"e.{suffix}", tmp_path / f"n.{suffix}")
    for name in "en":
        table = pl.read_csv(tmp_path / f"{name}.csv")
        table.write_parquet(tmp_path / f"{name}.parquet")
    sources = [
        Source(dataset="own", data=tmp_path),
        Source(graph=tmp_path / "own.npz"),
        Source(graph=tmp_path / "own.graphml", column=["f*=raw"]),
        Source(edges=tmp_path / "own.graphml", column=["f*=raw"]),
        *(
            Source(edges=tmp_path / f"e.{s}", nodes=tmp_path / f"n.{s}", column=["f*=raw"])
            for s in ("csv", "tsv", "parquet")
        ),
    ]
    assert {load(source).content_hash for source in sources} == {graph.content_hash}


def test_columns_can_be_named_and_left_out(djgnn: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("p,q,r,s\na,b,2,9\na,b,4,9\nb,c,1,9\n")
    (tmp_path / "n.csv").write_text("k,kind,n1,n2,when\na,x,1,2,\nb,y,3,4,\nc,x,5,6,\n")
    options = {
        "--edges": tmp_path / "e.csv",
        "--nodes": tmp_path / "n.csv",
        "--source-column": "q",
        "--target-column": "p",
        "--weight-column": "r",
        "--id-column": "k",
        "--label": "kind",
        "--duplicates": "mean",
    }
    given = [part for pair in options.items() for part in pair]
    left_out = djgnn("inspect", *given, "--exclude", "when", "--exclude", "n1", "--json")
    assert left_out.returncode == 0, left_out.stderr
    found = json.loads(left_out.stdout)
    assert (found["size"]["edges"], found["size"]["features"]) == (2, 1)
    assert found["labels"]["classes"] == {"x": 2, "y": 1}
    chosen = djgnn("inspect", *given, "--feature", "n2", "--feature", "n1", "--json")
    assert json.loads(chosen.stdout)["size"]["features"] == 2
    read = load(
        Source(
            edges=tmp_path / "e.csv",
            nodes=tmp_path / "n.csv",
            source_column="q",
            target_column="p",
            weight_column="r",
            id_column="k",
            label="kind",
            features=["n2"],
            column=["n2=raw"],
            duplicates="mean",
        )
    )
    assert read.edge_index.tolist() == [[1, 2], [0, 1]]
    assert read.edge_weight.tolist() == [3, 1]
    assert read.x.tolist() == [[2], [4], [6]]


def test_nodes_that_only_edges_name_can_be_added(tmp_path: Path, capsys) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\nb,c\n")
    (tmp_path / "n.csv").write_text("id,y,size\na,1,3\nb,0,4\n")
    files = {"edges": tmp_path / "e.csv", "nodes": tmp_path / "n.csv"}
    with pytest.raises(InputError, match="add_nodes=") as error:
        load(Source(**files))
    assert "add all such nodes with --add-nodes" in with_flags(str(error.value))
    read = load(Source(**files, add_nodes=True))
    assert (read.names(), read.y.tolist()) == (("a", "b", "c"), [1, 0, -1])
    say_reading(read, quiet=False)
    said = capsys.readouterr().err
    assert "3 nodes by 'id', 1 of them named by edges alone (--add-nodes)" in said
    assert "1 rows repeat an edge, the first counts (--duplicates first, sum, mean, max)" in said


def test_what_unknown_means_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    (tmp_path / "n.csv").write_text("id,y\na,1\nb,-1\nc,?\nd,\n")
    files = {"edges": tmp_path / "e.csv", "nodes": tmp_path / "n.csv"}
    assert load(Source(**files)).classes() == ("1", "?")
    assert load(Source(**files, unknown=[""])).classes() == ("-1", "1", "?")
    read = load(Source(**files, unknown=["?"]))
    assert (read.classes(), read.y.tolist()) == (("-1", "1"), [1, 0, -1, -1])


def test_fit_takes_a_graphml_file(djgnn: Callable[..., Any], graph: Graph, tmp_path: Path) -> None:
    write_graphml(graph, tmp_path / "own.graphml")
    for option, out in (("--edges", "a"), ("--graph", "b")):
        done = djgnn("fit", option, tmp_path / "own.graphml", "--out", tmp_path / out, *QUICK)
        assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / n / "predictions.csv").read_text() for n in "ab")
    assert first == second


def test_a_file_is_read_ahead(graph: Graph, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "g.npz"
    write_npz(graph, file)
    source = Source(graph=file)
    ahead = read_ahead(source)
    assert ahead is not None
    assert load(source, ahead=ahead) is ahead()
    assert ahead().content_hash == load(source).content_hash
    file.write_bytes(b"none")
    refused = read_ahead(source)
    assert refused is not None
    with pytest.raises(InputError, match="not a readable"):
        load(source, ahead=refused)
    assert read_ahead(Source(graph=tmp_path / "g.graphml")) is None
    monkeypatch.setenv("RANK", "1")
    assert read_ahead(source) is None
