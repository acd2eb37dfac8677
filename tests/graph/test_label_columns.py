"""Columns of labels as other programs write them."""

from __future__ import annotations

import polars as pl
import pytest

from djgnn.errors import DoubtfulLabelWarning
from djgnn.graph import Graph, from_frames, reading_of

EDGES = pl.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})


def labelled(values: list[str | None], **options: object) -> Graph:
    nodes = pl.DataFrame({"id": ["a", "b", "c", "d"], "label": values})
    return from_frames(EDGES, nodes, **options)


@pytest.mark.parametrize("values", [["ham", "ham ", "a", "a"], ["1", "1.0", "2", "2"]])
def test_classes_that_look_alike_are_pointed_at(values: list[str | None]) -> None:
    with pytest.warns(DoubtfulLabelWarning, match="are taken for two classes"):
        graph = labelled(values)
    assert graph.num_classes == 3


@pytest.mark.parametrize("word", ["NA", "nan", "NULL", "None", "?", "n/a"])
def test_a_class_that_looks_like_a_missing_label_is_pointed_at(word: str) -> None:
    with pytest.warns(DoubtfulLabelWarning, match=r"looks like a missing label.*`unknown=`"):
        graph = labelled(["a", "b", word, "a"])
    assert word in graph.classes()
    assert labelled(["a", "b", word, "a"], unknown=("", word)).y.tolist() == [0, 1, -1, 0]


def test_a_word_for_unknown_that_never_occurs_is_pointed_at() -> None:
    with pytest.warns(DoubtfulLabelWarning, match="no cell is 'hamm'"):
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
