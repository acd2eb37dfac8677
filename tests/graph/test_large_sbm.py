"""Degree-corrected block models of `benchmarks/large_sbm.py`: what is drawn was asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from djgnn.errors import InputError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def degree_corrected_sbm() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield pytest.importorskip("large_sbm").degree_corrected_sbm
        sys.modules.pop("large_sbm", None)


def test_edges_are_distinct_heterophilic_and_uneven(degree_corrected_sbm: Any) -> None:
    graph = degree_corrected_sbm(4000, 40_000, num_classes=5, num_features=3, homophily=0.2)
    source, target = graph.edge_index
    assert 0.9 * 40_000 < graph.num_edges <= 41_000
    assert np.unique(source * 4000 + target).size == graph.num_edges
    assert not (source == target).any()
    share = np.mean(graph.y[source] == graph.y[target])
    # 0.2, and a fifth of the 0.4 that go to any class.
    assert share == pytest.approx(0.28, abs=0.03)
    following = np.mean((graph.y[source] + 1) % 5 == graph.y[target])
    assert following == pytest.approx(0.48, abs=0.03)
    degree = np.bincount(source, minlength=4000)
    assert degree.max() > 20 * degree.mean()


def test_a_seed_means_one_graph(degree_corrected_sbm: Any) -> None:
    a, b, c = (degree_corrected_sbm(300, 2000, random_state=seed) for seed in (1, 1, 2))
    assert a.content_hash == b.content_hash != c.content_hash


@pytest.mark.parametrize(
    "options", [{"num_classes": 1}, {"homophily": 1.5}, {"exponent": 2.0}, {"num_edges": 10**6}]
)
def test_impossible_graphs_are_refused(degree_corrected_sbm: Any, options: dict) -> None:
    with pytest.raises(InputError, match=r"degree_corrected_sbm: .* \(got "):
        degree_corrected_sbm(**{"num_nodes": 100, "num_edges": 500, **options})
