"""Twin classes are exact."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.jumps import single_classes, twin_classes
from djgnn.jumps import twins as twins_module
from djgnn.jumps.twins import merge_coincident


def by_bytes(dense: np.ndarray) -> list[int]:
    seen: dict[bytes, int] = {}
    return [seen.setdefault(row.tobytes(), len(seen)) for row in dense]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 10_000))
def test_equal_rows_and_only_equal_rows_share_a_class(n: int, top: int, seed: int) -> None:
    dense = np.random.default_rng(seed).integers(0, top + 1, size=(n, n)).astype(np.float32)
    classes = twin_classes(sp.csr_array(dense))
    assert classes.class_of.tolist() == by_bytes(dense)
    members = [
        classes.members[s : s + c].tolist()
        for s, c in zip(classes.start, classes.count, strict=True)
    ]
    assert sorted(i for m in members for i in m) == list(range(n))
    assert all(m == sorted(m) for m in members)
    assert classes.representative.tolist() == [m[0] for m in members]


def test_weights_count_and_explicit_zeros_do_not() -> None:
    weighted = sp.csr_array(np.array([[0, 1.0], [0, 2.0]]))
    assert twin_classes(weighted).num_classes == 2
    zeros = sp.csr_array((np.array([0.0]), np.array([1]), np.array([0, 1, 1])), shape=(2, 2))
    assert twin_classes(zeros).num_classes == 1


def test_unsorted_and_repeated_entries_are_the_same_row() -> None:
    entries = (np.ones(4), np.array([1, 0, 0, 1]), np.array([0, 2, 4]))
    assert twin_classes(sp.csr_array(entries, shape=(2, 2))).num_classes == 1


def test_a_hash_collision_is_survived(monkeypatch) -> None:
    monkeypatch.setattr(
        twins_module, "_row_hashes", lambda rows: np.zeros(rows.shape[0], dtype=np.int64)
    )
    dense = np.random.default_rng(0).integers(0, 2, size=(9, 9)).astype(np.float32)
    assert twin_classes(sp.csr_array(dense)).class_of.tolist() == by_bytes(dense)


def test_single_classes_leave_everyone_alone() -> None:
    assert single_classes(4).class_of.tolist() == [0, 1, 2, 3]


def test_classes_at_one_position_are_merged_with_zero_of_either_sign() -> None:
    points = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    distinct, merged, group = merge_coincident(points, single_classes(4))
    assert distinct.tolist() == [[0.0, 1.0], [2.0, 1.0]]
    assert merged.class_of.tolist() == [0, 0, 1, 0]
    assert group is not None
    assert group.tolist() == [0, 0, 1, 0]
    _, apart, group = merge_coincident(points[1:3], single_classes(2))
    assert group is None
    assert apart.num_classes == 2


def test_hashes_of_equal_values_are_those_of_any() -> None:
    dense = (np.random.default_rng(0).random((30, 8)) < 0.4).astype(np.float32)
    equal = twins_module._row_hashes(sp.csr_array(dense))
    other = twins_module._row_hashes(sp.csr_array(np.vstack([dense, 2 * dense[:1]])))
    assert np.array_equal(equal, other[:-1])
    assert equal[0] != other[-1]
