"""Columns of labels as other programs write them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from djgnn.errors import DoubtfulLabelWarning
from djgnn.graph import Graph, from_frames, reading_of

EDGES = pl.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})


def labelled(values: list[Any], **options: object) -> Graph:
    nodes = pl.DataFrame({"id": ["a", "b", "c", "d"], "label": values})
    return from_frames(EDGES, nodes, **options)


def test_classes_that_look_alike_are_pointed_at() -> None:
    with pytest.warns(DoubtfulLabelWarning, match="are taken for two classes"):
        graph = labelled(["1", "1.0", "2", "2"])
    assert graph.num_classes == 3
    with pytest.warns(DoubtfulLabelWarning, match="'RED' and 'red' are taken for two classes"):
        assert labelled(["red", "RED", "blue", "blue"]).num_classes == 3
    assert labelled(["ham", "ham ", "a", "a"]).num_classes == 2


@pytest.mark.parametrize("word", ["NA", "nan", "NULL", "n/a", "\\N", " "])
def test_words_for_a_missing_label_are_no_class(word: str) -> None:
    graph = labelled(["a", "b", word, "a"])
    assert (graph.y.tolist(), graph.class_names) == ([0, 1, -1, 0], ("a", "b"))


@pytest.mark.parametrize("word", ["?", "unknown", "Unlabeled", "-", "n.a.", "none given"])
def test_a_class_that_looks_like_a_missing_label_is_pointed_at(word: str) -> None:
    with pytest.warns(DoubtfulLabelWarning, match=r"looks like a missing label.*`unknown=`"):
        graph = labelled(["a", "b", word, "a"])
    assert word in graph.classes()
    with pytest.warns(DoubtfulLabelWarning, match="looks like a missing label"):
        assert "NA" in labelled(["a", "b", "NA", "a"], unknown=("",)).classes()
    assert labelled(["a", "b", word, "a"], unknown=("", word)).y.tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        (["-1", "0", "1", ""], "-1"),
        (["None", "low", "high", "low"], "None"),
        (["NA", "low", "high", None], "NA"),
        (["-1", "0", "1", "NA"], "-1"),
        ([-1.0, 0.0, 1.0, float("nan")], "-1.0"),
    ],
)
def test_a_word_for_unknown_that_may_be_a_class_is_pointed_at(cells: list[Any], word: str) -> None:
    with pytest.warns(
        DoubtfulLabelWarning, match=f"1 cells '{word}' are taken for unknown"
    ) as seen:
        assert labelled(cells).num_classes == 2
    assert len(seen) == 1


def test_unknown_that_is_written_in_one_way_is_not_pointed_at() -> None:
    for cells in (["-1", "0", "1", "-1"], ["NA", "low", "high", "NA"], ["x", "y", "NULL", "-1"]):
        assert labelled(cells).num_classes == 2
    assert labelled(["-1", "0", "1", None], unknown="").num_classes == 3
    assert labelled(["-1", "0", "1", "NA"], unknown="NA").num_classes == 3


def test_whole_numbers_that_look_like_a_quantity_are_pointed_at() -> None:
    def numbered(values: list[int]) -> Graph:
        names = [f"n{place}" for place in range(len(values))]
        edges = pl.DataFrame({"source": names[:-1], "target": names[1:]})
        return from_frames(edges, pl.DataFrame({"id": names, "label": values}))

    with pytest.warns(DoubtfulLabelWarning, match="30 whole numbers from 18 to 48 .* a quantity"):
        numbered([18, *range(20, 49)])
    for codes in (list(range(40)), list(range(1, 41)), list(range(100, 9000, 300))):
        assert numbered(codes).num_classes == len(codes)


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
