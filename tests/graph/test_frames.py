"""Data frames, and the lookup of names."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from djgnn.errors import DoubtfulLabelWarning, InputError, ReadingWarning
from djgnn.graph import Graph, from_frames

EDGES = pl.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})


def test_pandas_with_categories_gaps_and_an_index() -> None:
    pd = pytest.importorskip("pandas")
    nodes = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "color": pd.Categorical(["red", None, "blue"]),
            "count": pd.array([1, 2, 3], dtype="Int64"),
            "good": [True, False, True],
            "label": ["x", np.nan, "y"],
        },
        index=[9, 8, 7],
    )
    edges = pd.DataFrame(EDGES.to_dict(as_series=False))
    g = Graph.from_frames(edges, nodes, columns={"count": "raw"})
    assert g.card["features"] == ["color=blue", "color=red", "count", "good"]
    assert g.x.tolist() == [[0, 1, 1, 1], [0, 0, 2, 0], [1, 0, 3, 1]]
    assert (g.y.tolist(), g.class_names) == ([0, -1, 1], ("x", "y"))
    assert g.name == "graph"


def test_rules_and_names_are_those_of_tables() -> None:
    nodes = pl.DataFrame({"key": ["a", "b", "c"], "z": [1, 2, 3], "w": [4, 5, 6]})
    g = from_frames(
        EDGES.lazy(),
        nodes,
        node="key",
        exclude=["w"],
        symmetric=True,
        name="mine",
        columns={"z": "raw"},
    )
    assert (g.x.tolist(), g.num_edges, g.name) == ([[1], [2], [3]], 4, "mine")
    only = from_frames(EDGES, nodes, node="key", features=[])
    assert (only.x, only.y) == (None, None)


def test_columns_with_names_like_patterns() -> None:
    nodes = pl.DataFrame({"id": ["a", "b", "c"], "^.*$": [1, 2, 3], "*": [1.5, 2, 3]})
    edges = EDGES.rename({"source": "^.*$"})
    g = from_frames(edges, nodes, source="^.*$")
    assert g.card["features"] == ["^.*$", "*"]
    assert g.edge_index.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([1, 2], "nodes: must be a polars or pandas data frame"),
        (pl.DataFrame(), "nodes: has no columns"),
        (pl.DataFrame({"id": [1.5, 2.5]}), "nodes: column 'id' holds ids"),
        (pl.DataFrame({"id": ["a", "b"], "z": [[1], [2]]}), "nodes: column 'z' holds lists"),
        (
            pl.DataFrame({"id": ["a", "b"], "z": [b"1", b"2"]}),
            "nodes: column 'z' holds lists or bytes",
        ),
        (pl.DataFrame({"id": ["a", "b", "a"], "z": [1, 2, 3]}), "nodes: row 3, column 'id'"),
        (
            pl.DataFrame({"id": ["a", "b"], "z": [1, 2]}),
            "edges: row 2, column 'target': no such node",
        ),
    ],
)
def test_bad_frames_name_the_frame_and_the_place(nodes: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_frames(EDGES, nodes)


@pytest.mark.parametrize("count", [2, 300, 70_000])
def test_every_name_is_found_and_no_other(count: int) -> None:
    rng = np.random.default_rng(count)
    names = pl.Series([f"{'0' * (i % 3)}{i}" for i in range(count)])
    key = np.unique(rng.integers(0, count**2, 5000))
    wanted = np.stack([key // count, key % count])
    edges = pl.DataFrame({"source": names.gather(wanted[0]), "target": names.gather(wanted[1])})
    assert (from_frames(edges, pl.DataFrame({"id": names})).edge_index == wanted).all()
    for stranger in ("x", None, "", "+1", "1x"):
        first = pl.DataFrame({"source": [names[0]], "target": [stranger]}, schema=edges.schema)
        with pytest.raises(InputError, match="row 1, column 'target'"):
            from_frames(first, pl.DataFrame({"id": names}), add_nodes=False)
        if key.size > 100:
            with pytest.warns(ReadingWarning, match="1 of .* left out, the first in row 1"):
                from_frames(first.vstack(edges), pl.DataFrame({"id": names}), add_nodes=False)


def test_minus_one_among_floats_is_unknown() -> None:
    nodes = pl.DataFrame({"id": list("abcd"), "y": [0.0, -1.0, np.nan, 2.0]})
    with pytest.warns(DoubtfulLabelWarning, match="1 cells '-1.0' are taken for unknown"):
        g = from_frames(EDGES, nodes)
    assert (g.class_names, g.y.tolist()) == (("0.0", "2.0"), [0, -1, -1, 1])
