from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits
from djgnn.graph.checks import check_trainable

EDGES = np.array([[0, 1, 2], [1, 2, 0]])


def small(**changes: object) -> Graph:
    fields: dict[str, object] = {
        "edge_index": EDGES,
        "num_nodes": 4,
        "x": np.arange(8.0).reshape(4, 2),
        "y": np.array([0, 1, 0, 1]),
        "train_mask": np.array([1, 1, 0, 0], bool),
        "val_mask": np.array([0, 0, 1, 0], bool),
        "test_mask": np.array([0, 0, 0, 1], bool),
    }
    return Graph(**(fields | changes))  # type: ignore[arg-type]


BAD = {
    "empty graph": ({"num_nodes": 0, "edge_index": np.zeros((2, 0))}, "empty"),
    "out of range": (
        {"edge_index": [[0], [4]]},
        r"edge_index\[1, 0\]: no such node.*below num_nodes=4.*\(got 4\)",
    ),
    "negative id": ({"edge_index": [[-1], [0]]}, "count from 0"),
    "fractional id": ({"edge_index": [[0.5], [1]]}, "whole numbers"),
    "text ids": ({"edge_index": [["a"], ["b"]]}, "whole numbers"),
    "three rows": ({"edge_index": np.zeros((3, 2), int)}, r"\[2, \*\], sources above"),
    "nan feature": ({"x": np.array([[1.0], [np.nan], [0], [0]])}, r"x\[1, 0\]"),
    "sparse nan": ({"x": sp.csr_array([[1.0], [0], [0], [np.inf]])}, r"x\[3, 0\]"),
    "too large for float32": ({"x": np.full((4, 1), 1e300)}, "finite"),
    "text features": ({"x": np.array([["a"]] * 4)}, "numbers"),
    "rows of x": ({"x": np.ones((3, 1))}, "one row per node"),
    "labels too short": ({"y": np.array([0, 1])}, "one entry per node"),
    "label -2": ({"y": np.array([0, 1, -2, 0])}, "unknown"),
    "weight negative": ({"edge_weight": [1, -1, 1]}, "negative"),
    "weight huge": ({"edge_weight": [1, 1e300, 1]}, "finite"),
    "weight short": ({"edge_weight": [1.0]}, "one entry per edge"),
    "overlap": ({"val_mask": np.array([1, 0, 0, 0], bool)}, "overlap"),
    "label outside": ({"y": np.array([0, -1, 0, 1])}, "no label"),
    "mask missing": ({"val_mask": None}, "val_mask: missing"),
    "mask of numbers": ({"val_mask": np.array([0, 0, 0.5, 0])}, "boolean"),
    "splits differ": ({"val_mask": np.zeros((4, 2), bool)}, "same number"),
    "names twice": ({"node_names": ["a", "a", "b", "c"]}, "occurs twice"),
    "names short": ({"node_names": ["a"]}, "one per node"),
    "class without name": ({"class_names": ["a"]}, "no name"),
    "metric": ({"card": {"metric": "magic"}}, "accuracy"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_training_needs_two_classes_training_and_validation_nodes() -> None:
    none, some = np.zeros(4, bool), np.array([1, 1, 0, 0], bool)
    y = np.array([0, 1, 0, 1])
    check_trainable(y, some, ~some, 2)
    with pytest.raises(InputError, match="no validation node"):
        check_trainable(y, some, none, 2)
    with pytest.raises(InputError, match="no training node"):
        check_trainable(y, none, some, 2)
    with pytest.raises(InputError, match="one class"):
        check_trainable(np.zeros(4, int), some, ~some, 1)
    with pytest.raises(InputError, match="no node has a label"):
        check_trainable(np.full(4, -1), some, ~some, 0)
    with pytest.raises(InputError, match="training nodes are all of one class"):
        check_trainable(np.array([0, 0, 1, 1]), some, ~some, 2)


def test_fields_cannot_be_changed_and_input_is_not_aliased() -> None:
    x = np.ones((4, 2), dtype=np.float32)
    g = small(x=x)
    x[0] = 7
    assert g.x[0, 0] == 1
    with pytest.raises(FrozenInstanceError):
        g.num_nodes = 5  # type: ignore[misc]
    for part in (g.edge_index, g.x, g.y, g.train_mask):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0
    sparse = small(x=sp.csr_array(np.eye(4)))
    with pytest.raises(ValueError, match="read-only"):
        sparse.x.data[0] = 5
    with pytest.raises(TypeError):
        g.card["metric"] = "roc_auc"  # type: ignore[index]


CHANGES = {
    "order of edges": {"edge_index": EDGES[:, ::-1]},
    "edge": {"edge_index": [[0, 1, 2], [1, 2, 3]]},
    "weight": {"edge_weight": [1, 1, 1]},
    "feature": {"x": np.arange(8.0).reshape(4, 2) + 1},
    "no features": {"x": None},
    "sparse": {"x": sp.csr_array(np.arange(8.0).reshape(4, 2))},
    "label": {"y": np.array([1, 1, 0, 1])},
    "masks": {"train_mask": np.array([1, 0, 0, 0], bool)},
}


def test_every_change_changes_the_hash() -> None:
    hashes = {name: small(**change).content_hash for name, change in CHANGES.items()}
    hashes["as it was"] = small().content_hash
    wide = np.hstack([np.arange(8.0).reshape(4, 2), np.zeros((4, 1))])
    hashes["wider sparse"] = small(x=sp.csr_array(wide)).content_hash
    assert len(set(hashes.values())) == len(hashes)
    assert small().content_hash == small(name="other", card={"metric": "roc_auc"}).content_hash


def test_copies_are_equal_and_read_only() -> None:
    g = small(card={"metric": "roc_auc"}, node_names=list("abcd"))
    for twin in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), replace(g)):
        assert twin.content_hash == g.content_hash
        assert twin.metric == "roc_auc"
        assert not twin.edge_index.flags.writeable


def test_adjacency_is_as_given_with_parallel_edges_summed() -> None:
    g = Graph(np.array([[0, 0, 1, 1], [1, 1, 1, 0]]), 2, edge_weight=np.array([1, 2, 4, 8]))
    assert g.adjacency.toarray().tolist() == [[0, 3], [8, 4]]


def test_one_dimensional_masks_are_one_split() -> None:
    g = small()
    assert g.num_splits == 1
    assert g.split(0).val.tolist() == [False, False, True, False]
    with pytest.raises(InputError, match="splits 0 to 0"):
        g.split(1)
    with pytest.raises(InputError, match="no splits"):
        Graph(EDGES, 4).split(0)


@pytest.mark.parametrize("stratify", [True, False])
def test_random_splits_cover_labelled_nodes_once(stratify: bool) -> None:
    y = np.repeat([0, 1, 2, -1], [50, 30, 3, 7])
    g = Graph(np.zeros((2, 0)), 90, y=y)
    g = random_splits(g, num_splits=4, stratify=stratify, random_state=3)
    total = g.train_mask.astype(int) + g.val_mask + g.test_mask
    assert (total == (y >= 0)[:, None]).all()
    assert len({column.tobytes() for column in g.train_mask.T}) == 4
    if stratify:
        for mask in (g.train_mask, g.val_mask, g.test_mask):
            assert all((y[mask[:, s]] == 2).sum() == 1 for s in range(4))
            assert np.isin([0, 1, 2], y[mask[:, 0]]).all()
        assert g.train_mask[y == 0].sum(axis=0).tolist() == [30] * 4


def test_random_splits_are_a_function_of_the_seed() -> None:
    g = Graph(np.zeros((2, 0)), 40, y=np.arange(40) % 2)
    one = random_splits(g, num_splits=1, random_state=5).train_mask[:, 0]
    many = random_splits(g, num_splits=3, random_state=5).train_mask
    assert (one == many[:, 0]).all()
    assert not (one == random_splits(g, random_state=6).train_mask[:, 0]).all()


@pytest.mark.parametrize("bad", [{"train": 0}, {"train": 0.9, "val": 0.2}, {"num_splits": 0}])
def test_random_splits_refuse_bad_shares(bad: dict[str, float]) -> None:
    g = Graph(np.zeros((2, 0)), 4, y=np.array([0, 1, 0, 1]))
    with pytest.raises(InputError):
        random_splits(g, **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="without labels"):
        random_splits(Graph(np.zeros((2, 0)), 4))


def test_import_is_light() -> None:
    code = (
        "import sys, djgnn.graph; "
        "print([m for m in ('torch', 'polars', 'torch_geometric', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_splits_and_no_labels_leave_the_rest_as_it_is() -> None:
    graph = Graph(np.array([[0, 1], [1, 2]]), 3, y=np.array([0, 1, 0]), class_names=("a", "b"))
    before, adjacency = graph.content_hash, graph.adjacency
    split = graph.with_masks(*np.eye(3, dtype=np.bool_))
    assert split.content_hash == replace(graph, **masks_of(split)).content_hash != before
    assert split.labels is graph.labels is graph.y
    bare = split.without_labels(("c",))
    assert bare.labels.tolist() == [-1, -1, -1]
    assert not bare.labels.flags.writeable
    assert split.adjacency is bare.adjacency is adjacency
    assert (bare.y, bare.num_splits, bare.class_names) == (None, 0, ("c",))
    assert bare.content_hash == Graph(graph.edge_index, 3).content_hash
    with pytest.raises(InputError, match="overlaps"):
        graph.with_masks(*np.ones((3, 3), dtype=np.bool_))


def masks_of(graph: Graph) -> dict[str, np.ndarray]:
    return {key: getattr(graph, key) for key in ("train_mask", "val_mask", "test_mask")}


def test_a_read_only_view_of_what_can_change_is_copied() -> None:
    held = np.ones((3, 2), dtype=np.float32)
    view = held[:]
    view.flags.writeable = False
    graph = Graph(np.zeros((2, 0)), 3, x=view)
    held[0, 0] = 5
    assert graph.x[0, 0] == 1


def test_a_name_is_no_longer_than_a_cell_that_can_be_read_again() -> None:
    edges = np.array([[0], [1]])
    assert Graph(edges, 2, node_names=("a" * 100_000, "b")).names()[1] == "b"
    for key in ("node_names", "class_names"):
        with pytest.raises(InputError, match=rf"{key}\[0\]: is longer than 100000 characters"):
            Graph(edges, 2, y=np.array([0, 1]), **{key: ("a" * 100_001, "b")})
