"""Columns of labels as other programs write them."""

from __future__ import annotations

import polars as pl
import pytest

from djgnn.errors import MissingLabelWarning
from djgnn.graph import Graph, from_frames, reading_of

EDGES = pl.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})


def labelled(values: list[str | None], **options: object) -> Graph:
    nodes = pl.DataFrame({"id": ["a", "b", "c", "d"], "label": values})
    return from_frames(EDGES, nodes, **options)


def test_spaces_are_no_class_of_their_own() -> None:
    graph = labelled(["ham", "ham ", " spam", "spam"])
    assert graph.classes() == ("ham", "spam")
    assert graph.y.tolist() == [0, 0, 1, 1]


def test_a_number_is_one_class_however_it_is_written() -> None:
    assert labelled(["1", "1.0", "2", "2.00"]).y.tolist() == [0, 0, 1, 1]
    assert labelled(["1.0", "1.0", "2.0", "2.0"]).classes() == ("1.0", "2.0")
    assert labelled(["1.5", "1", "1.5", "-1.0"]).y.tolist() == [1, 0, 1, -1]


@pytest.mark.parametrize("word", ["NA", "nan", "NULL", "None", "?", "n/a"])
def test_a_class_that_looks_like_a_missing_label_is_pointed_at(word: str) -> None:
    with pytest.warns(MissingLabelWarning, match=r"looks like a missing label.*--unknown"):
        graph = labelled(["a", "b", word, "a"])
    assert word in graph.classes()
    assert labelled(["a", "b", word, "a"], unknown=("", word)).y.tolist() == [0, 1, -1, 0]


def test_a_word_for_unknown_that_never_occurs_is_pointed_at() -> None:
    with pytest.warns(MissingLabelWarning, match="no cell is 'hamm'"):
        labelled(["a", "b", "a", "a"], unknown=("", "hamm"))


@pytest.mark.parametrize("written", [["True", "False"], ["true", "false"]])
def test_truth_values_survive_a_change_of_format(written: list[str]) -> None:
    """Text in one table, truth values in the other; either way round."""
    text = pl.DataFrame(
        {"id": ["a", "b", "c", "d"], "vip": 2 * written, "age": [1.0, 2.0, 3.0, 4.0]}
    )
    truth = text.with_columns(vip=pl.Series([True, False, True, False]))
    for first, later in ((text, truth), (truth, text)):
        graph = from_frames(EDGES, first)
        again = from_frames(EDGES, later, **reading_of(graph))
        assert (again.x != graph.x).sum() == 0
