"""Later tables are read as those of a graph were."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

from djgnn.errors import InputError, UnseenCategoryWarning
from djgnn.graph import Graph, from_frames, read_graphml, reading_of, write_graphml

NODES = {"k": ["a", "b", "c"], "zip": ["A1", "75001", ""], "a=b": [1.5, 2, 3], "name": list("xyx")}
EDGES = {"p": ["a", "b"], "q": ["b", "c"], "fee": [2.0, 3.0], "weight": [7.0, 7.0]}
OPTIONS: dict[str, Any] = {"node": "k", "source": "p", "target": "q", "weight": "fee"}


def graph(**options: Any) -> Graph:
    given = {**OPTIONS, "columns": {"a=b": "raw"}, **options}
    return from_frames(pl.DataFrame(EDGES), pl.DataFrame(NODES), **given)


def later(known: Graph, nodes: Any, edges: Any = None, **options: Any) -> Graph:
    frame = pl.DataFrame({"p": ["z"], "q": ["a"], "fee": [5.0]} if edges is None else edges)
    given = {**reading_of(known), "others": known.names(), **options}
    return from_frames(frame, pl.DataFrame(nodes), **given)


NEW = {"k": ["z"], "zip": [75001], "a=b": ["4"], "name": ["y"]}


def test_columns_levels_and_rules_are_kept() -> None:
    known = graph(duplicates="sum", symmetric=True, exclude=["name"])
    said = known.card["tables"]
    assert [(c["name"], c["kind"]) for c in said["columns"]] == [
        ("zip", "category"),
        ("a=b", "raw"),
    ]
    assert said["columns"][0]["levels"] == ["75001", "A1"]
    assert (said["duplicates"], said["symmetric"], said["unused"]) == ("sum", True, ["name"])
    roles = {"node": "k", "source": "p", "target": "q", "weight": "fee", "label": "", "split": ""}
    assert said["roles"] == roles
    new = later(known, NEW)
    assert new.card["features"] == known.card["features"]
    assert new.x[0].tolist() == [1, 0, 4]
    assert new.edge_weight.tolist() == [5, 5]


def test_numbers_become_the_categories_that_they_were() -> None:
    known = graph()
    for cell in (75001, 75001.0, "75001"):
        assert later(known, {**NEW, "zip": [cell]}).x[0].tolist() == [1, 0, 4, 0, 1]
    for cell in (None, float("nan"), ""):
        assert later(known, {**NEW, "zip": [cell]}).x[0].tolist() == [0, 0, 4, 0, 1]
    with pytest.warns(UnseenCategoryWarning, match=r"row 1, column 'zip': '75002'"):
        assert later(known, {**NEW, "zip": [75002]}).x[0].tolist() == [0, 0, 4, 0, 1]


def test_a_usual_name_is_found_where_the_old_one_is_gone() -> None:
    known = graph()
    nodes = {"id": NEW["k"], **{key: NEW[key] for key in ("zip", "a=b", "name")}}
    edges = {"source": ["z"], "target": ["a"], "fee": [5.0]}
    assert later(known, nodes, edges).node_names == ("z", "a", "b", "c")
    bare = {key: NEW[key] for key in ("zip", "a=b", "name")}
    with pytest.raises(InputError, match="for the node"):  # 'name' is a feature
        later(known, bare)
    with pytest.raises(InputError, match="no column 'fee' for the weight"):
        later(known, NEW, {"p": ["z"], "q": ["a"], "weight": [5.0]})
    with pytest.raises(InputError, match=r"'zip', which the model .* do not leave it out"):
        later(known, NEW, exclude=["zip"])


def test_graphml_and_tables_follow_each_other(tmp_path: Any) -> None:
    write_graphml(Graph(np.array([[0], [1]]), 2, x=np.array([[1.0], [2]])), tmp_path / "g.graphml")
    known = read_graphml(tmp_path / "g.graphml", columns={"f0": "raw"})
    frames = ({"source": ["z"], "target": ["0"]}, {"id": ["z"], "f0": [3]})
    new = later(known, frames[1], frames[0])
    assert (new.node_names, new.x.tolist()) == (("z", "0", "1"), [[3], [0], [0]])
    back = read_graphml(tmp_path / "g.graphml", **reading_of(new))
    assert back.x.tolist() == known.x.tolist()


def test_a_graph_that_does_not_come_from_tables_has_no_options() -> None:
    assert reading_of(dataclasses.replace(graph(), card={})) == {}


def test_a_damaged_card_is_an_error() -> None:
    known = graph()
    old = {key: value for key, value in known.card["tables"].items() if key != "columns"}
    for wrong in (
        {**old, "features": [["zip"]]},
        {"roles": {}},
        7,
        {**known.card["tables"], "columns": [{"name": "zip"}]},
    ):
        with pytest.raises(InputError, match=r"card\['tables'\]: damaged, .*; fit again"):
            reading_of(dataclasses.replace(known, card={"tables": wrong}))
