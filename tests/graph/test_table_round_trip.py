"""Graphs to tables and back, with the names people really use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.graph import Graph, load, read_tables, write_tables

NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
ODD = st.sampled_from(
    ["007", "7", " 7", "a b", 'say "hi"', "x,y", "a;b", "tab\t", "nan", "ü", "\n", "'"]
)
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_round_trip_with_odd_names(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = data.draw(st.lists(NAME | ODD, min_size=2, max_size=6, unique=True))
    n = len(names)
    classes = data.draw(
        st.lists((NAME | ODD).filter(lambda c: c != "-1"), min_size=2, max_size=3, unique=True)
    )
    label = st.integers(-1, len(classes) - 1)
    y = np.array([0, 1, *data.draw(st.lists(label, min_size=n - 2, max_size=n - 2))])
    part = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    masks = [(part == k) & (y >= 0) for k in range(3)]
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=8, unique=True))
    weight = data.draw(
        st.none() | st.lists(st.floats(0, 1e6, width=32), min_size=len(pairs), max_size=len(pairs))
    )
    width = data.draw(st.integers(0, 3))
    x = np.array(data.draw(st.lists(FLOAT, min_size=n * width, max_size=n * width)), np.float32)
    g = Graph(
        np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
        n,
        x=x.reshape(n, width) if width else None,
        y=y,
        edge_weight=weight,  # type: ignore[arg-type]
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        node_names=tuple(names),
        class_names=tuple(classes),
    )
    folder = tmp_path_factory.mktemp("tables")
    suffix = data.draw(st.sampled_from(["csv", "tsv"]))
    write_tables(g, folder / f"e.{suffix}", folder / f"n.{suffix}")
    back = read_tables(folder / f"e.{suffix}", folder / f"n.{suffix}")
    assert back.node_names == g.node_names
    assert (back.edge_index == g.edge_index).all()
    assert (back.adjacency != g.adjacency).nnz == 0
    assert (back.x is None) == (g.x is None)
    assert g.x is None or (back.x == g.x).all()
    assert label_names(back) == label_names(g)
    if any(mask.any() for mask in masks):
        for key in ("train_mask", "val_mask", "test_mask"):
            assert (getattr(back, key) == getattr(g, key)).all()


def label_names(g: Graph) -> list[str | None]:
    return [g.classes()[c] if c >= 0 else None for c in g.y]


def test_round_trip_of_data_sets(data_dir: Path, tmp_path: Path) -> None:
    for name in ("texas", "minesweeper", "fb100_reed98"):
        g = load(name, data=data_dir)
        write_tables(g, tmp_path / "e.csv", tmp_path / "n.csv", split=2)
        back = read_tables(tmp_path / "e.csv", tmp_path / "n.csv")
        assert (back.edge_index == g.edge_index).all()
        difference = back.x != g.x
        assert difference.nnz == 0 if sp.issparse(g.x) else not difference.any()
        assert (back.y == g.y).all()
        assert (back.val_mask[:, 0] == g.val_mask[:, 2]).all()


def test_whole_numbers_are_written_as_such(tmp_path: Path) -> None:
    x = np.array([[1, 0.1, 16777216], [0, 2, 3e38]], dtype=np.float32)
    write_tables(Graph(np.zeros((2, 0)), 2, x=x), tmp_path / "e.csv", tmp_path / "n.csv")
    assert (tmp_path / "n.csv").read_text().splitlines()[1] == '"0",1,0.1,16777216.0'
    back = read_tables(tmp_path / "e.csv", tmp_path / "n.csv")
    assert (back.x == x).all()


def test_empty_names_cannot_be_written(tmp_path: Path) -> None:
    g = Graph(np.zeros((2, 0)), 2, node_names=("", "a"))
    with pytest.raises(InputError, match="empty name"):
        write_tables(g, tmp_path / "e.csv", tmp_path / "n.csv")
