"""Graphs to every format and back, with the names people really use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.graph import (
    Graph,
    load,
    read_graphml,
    read_npz,
    read_tables,
    write_graphml,
    write_npz,
    write_tables,
)
from djgnn.graph.checks import MASKS

# Names that people really use look like other things at times, and are said to.
pytestmark = pytest.mark.filterwarnings("ignore::djgnn.errors.DoubtfulLabelWarning")
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
ODD = st.sampled_from(
    ["007", "7", " 7", "a b", 'say "hi"', "x,y", "a;b", "tab\t", "nan", "ü", "\n", "'"]
)
AS_IT_IS: dict[str, Any] = {"columns": {"f*": "raw"}, "unknown": ("", "-1")}
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def graphs(draw: st.DrawFn, name: st.SearchStrategy[str] = NAME | ODD) -> Graph:
    """Small graphs with names, labels, masks, weights and features of all kinds."""
    names = draw(st.lists(name, min_size=2, max_size=6, unique=True))
    n = len(names)
    plain = name.map(str.strip).filter(lambda c: c not in ("", "-1"))  # spaces do not count
    classes = draw(st.lists(plain, min_size=2, max_size=3, unique=True))
    label = st.integers(-1, len(classes) - 1)
    y = np.array([0, 1, *draw(st.lists(label, min_size=n - 2, max_size=n - 2))])
    part = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    masks = [(part == k) & (y >= 0) for k in range(3)]
    pairs = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=8, unique=True))
    weights = st.lists(st.floats(0, 1e6, width=32), min_size=len(pairs), max_size=len(pairs))
    width = draw(st.integers(0, 3))
    x = np.array(draw(st.lists(FLOAT, min_size=n * width, max_size=n * width)), np.float32)
    return Graph(
        np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
        n,
        x=x.reshape(n, width) if width else None,
        y=y,
        edge_weight=draw(st.none() | weights),  # type: ignore[arg-type]
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        node_names=tuple(names),
        class_names=tuple(classes),
    )


def assert_same(back: Graph, g: Graph, masks: bool = True) -> None:
    assert back.node_names == g.node_names
    assert (back.adjacency != g.adjacency).nnz == 0
    assert back.num_edges == g.num_edges
    assert (back.x is None) == (g.x is None)
    assert g.x is None or back.x.tobytes() == g.x.tobytes()
    assert label_names(back) == label_names(g)
    if masks and any(getattr(g, key).any() for key in MASKS):
        for key in MASKS:
            assert (getattr(back, key) == getattr(g, key)).all()


def label_names(g: Graph) -> list[str | None]:
    return [g.classes()[c] if c >= 0 else None for c in g.y]


def test_names_with_control_characters_do_not_hide_the_separator(tmp_path: Path) -> None:
    names = {"node_names": ("\x1e\t", "0"), "class_names": ("0", "0\x1e0")}
    masks = dict.fromkeys(MASKS, np.zeros((2, 1), dtype=bool)) | {
        "train_mask": np.ones((2, 1), bool)
    }
    g = Graph(np.zeros((2, 0)), num_nodes=2, y=np.array([0, 1]), **masks, **names)
    write_tables(g, tmp_path / "e.csv", tmp_path / "n.csv")
    assert_same(read_tables(tmp_path / "e.csv", tmp_path / "n.csv", **AS_IT_IS), g)


@settings(max_examples=60, deadline=None)
@given(g=graphs(), suffix=st.sampled_from(["csv", "tsv", "parquet"]))
def test_tables(g: Graph, suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(g, folder / f"e.{suffix}", folder / f"n.{suffix}")
    back = read_tables(folder / f"e.{suffix}", folder / f"n.{suffix}", **AS_IT_IS)
    assert_same(back, g)
    assert (back.edge_index == g.edge_index).all()


XML = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(g=graphs(XML.filter(lambda t: not {"\ufffe", "\uffff"} & set(t)) | ODD))
def test_graphml(g: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("graphml") / "g.graphml"
    write_graphml(g, file)
    back = read_graphml(file, **AS_IT_IS)
    assert_same(back, g)
    assert (back.edge_index == g.edge_index).all()


@settings(max_examples=30, deadline=None)
@given(g=graphs((NAME | ODD).filter(lambda t: not t.endswith("\0"))))
def test_npz(g: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("npz") / "g.npz"
    write_npz(g, file)
    back = read_npz(file)
    assert_same(back, g)
    assert back.content_hash == g.content_hash


def columns(g: Graph) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """An edge table and a node table as plain lists."""
    names = g.node_names
    edges = {
        f: [names[i] for i in e] for f, e in zip(("source", "target"), g.edge_index, strict=True)
    }
    if g.edge_weight is not None:
        edges["weight"] = g.edge_weight.tolist()
    part = [
        [k for k, m in zip(("train", "val", "test"), MASKS, strict=True) if getattr(g, m)[i, 0]]
        for i in range(g.num_nodes)
    ]
    nodes = {
        "node": list(names),
        "label": label_names(g),
        "split": [p[0] if p else None for p in part],
    }
    for f in range(g.num_features):
        nodes[f"f{f}"] = g.x[:, f].tolist()
    return edges, nodes


@settings(max_examples=40, deadline=None)
@given(g=graphs(), library=st.sampled_from(["polars", "pandas"]))
def test_frames(g: Graph, library: str) -> None:
    frame = pytest.importorskip(library).DataFrame
    edges, nodes = columns(g)
    if not edges["source"]:
        edges = {key: np.array([], dtype=str if key != "weight" else float) for key in edges}
    assert_same(Graph.from_frames(frame(edges), frame(nodes), **AS_IT_IS), g)


@settings(max_examples=40, deadline=None)
@given(g=graphs())
def test_networkx(g: Graph) -> None:
    networkx = pytest.importorskip("networkx")
    other = networkx.DiGraph()
    for i, name in enumerate(g.node_names):
        other.add_node(name, kind=label_names(g)[i], v=None if g.x is None else g.x[i])
    weight = np.ones(g.num_edges) if g.edge_weight is None else g.edge_weight
    for (s, t), w in zip(g.edge_index.T, weight, strict=True):
        other.add_edge(g.node_names[s], g.node_names[t], w=w)
    options = {} if g.x is None else {"features": "v"}
    assert_same(Graph.from_networkx(other, label="kind", weight="w", **options), g, masks=False)


@settings(max_examples=30, deadline=None)
@given(g=graphs())
def test_scipy_and_pyg(g: Graph) -> None:
    import torch
    from torch_geometric.data import Data

    weight = np.ones(g.num_edges) if g.edge_weight is None else g.edge_weight
    matrix = sp.coo_array((weight, g.edge_index), shape=(g.num_nodes,) * 2)
    kept = {key: getattr(g, key) for key in ("node_names", "class_names", *MASKS)}
    back = Graph.from_scipy(matrix, x=g.x, y=g.y, **kept)
    assert back.node_names == g.node_names
    assert (back.adjacency != g.adjacency).nnz == 0
    assert label_names(back) == label_names(g)
    arrays = {"edge_index": g.edge_index, "y": g.y, "x": g.x, "edge_weight": g.edge_weight}
    arrays |= {key: getattr(g, key) for key in MASKS}
    data = Data(**{k: torch.from_numpy(v.copy()) for k, v in arrays.items() if v is not None})
    assert Graph.from_pyg(data).content_hash == g.content_hash


@settings(max_examples=30, deadline=None)
@example(ids=[0, -(2**63) - 1])
@example(ids=[1, 2**70])
@given(
    ids=st.lists(st.integers() | ODD | st.floats(0, 9) | st.booleans(), min_size=2, unique_by=str)
)
def test_mixed_types_of_ids_are_kept_as_their_text(ids: list[Any]) -> None:
    pandas = pytest.importorskip("pandas")
    nodes = pandas.DataFrame({"id": pandas.Series(ids, dtype=object)})
    ends = pandas.Series(ids[::-1], dtype=object)
    edges = pandas.DataFrame({"source": pandas.Series(ids, dtype=object), "target": ends})
    if all(isinstance(v, float) for v in ids) and any(v != int(v) for v in ids):
        with pytest.raises(InputError, match="whole numbers or text"):
            Graph.from_frames(edges, nodes)
        return
    g = Graph.from_frames(edges, nodes)
    if all(isinstance(v, float) for v in ids):
        ids = list(map(int, ids))
    assert [t.lower() for t in g.node_names] == [str(v).lower() for v in ids]
    assert g.edge_index.tolist() == [list(range(len(ids))), list(range(len(ids)))[::-1]]


def test_round_trip_of_data_sets(data_dir: Path, tmp_path: Path) -> None:
    for name in ("texas", "minesweeper", "fb100_reed98"):
        g = load(name, data=data_dir)
        write_tables(g, tmp_path / "e.csv", tmp_path / "n.csv", split=2)
        back = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", **AS_IT_IS)
        assert (back.edge_index == g.edge_index).all()
        difference = back.x != g.x
        assert difference.nnz == 0 if sp.issparse(g.x) else not difference.any()
        assert (back.y == g.y).all()
        assert (back.val_mask[:, 0] == g.val_mask[:, 2]).all()


def test_whole_numbers_are_written_as_such(tmp_path: Path) -> None:
    x = np.array([[1, 0.1, 16777216], [0, 2, 3e38]], dtype=np.float32)
    write_tables(Graph(np.zeros((2, 0)), 2, x=x), tmp_path / "e.csv", tmp_path / "n.csv")
    assert (tmp_path / "n.csv").read_text().splitlines()[1] == '"0",1,0.1,16777216.0'
    back = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", **AS_IT_IS)
    assert (back.x == x).all()


def test_empty_names_cannot_be_written(tmp_path: Path) -> None:
    g = Graph(np.zeros((2, 0)), 2, node_names=("", "a"))
    with pytest.raises(InputError, match="empty name"):
        write_tables(g, tmp_path / "e.csv", tmp_path / "n.csv")
