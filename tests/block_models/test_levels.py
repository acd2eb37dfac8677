"""The block models of Appendix B hit what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from levels import GAPS, NUM_LEVELS, SERIES, communities, sbm_at_level, sbm_level

from djgnn.errors import InputError
from djgnn.spectral import homophily, smallest_eigenpairs, structural_heterophily

NODES, DEGREE = 600, 80.0


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("series", SERIES)
def test_gap_and_levels_are_hit_within_sampling_error(series: str, gap: float) -> None:
    for level in range(NUM_LEVELS):
        wanted = sbm_level(series, gap, level, degree=DEGREE)
        graph = sbm_at_level(wanted, NODES, degree=DEGREE, random_state=level)
        edges = graph.num_edges / 2
        community = communities(graph)
        source, target = graph.edge_index
        found = 2 * (community[source] == community[target]).mean() - 1
        # Four standard errors of a share of the undirected edges.
        assert found == pytest.approx(gap, abs=8 * np.sqrt((1 - gap**2) / 4 / edges) + 2e-3)
        assert graph.num_edges / NODES == pytest.approx(DEGREE, rel=0.02)
        assert homophily(graph, method="node") == pytest.approx(wanted.node_homophily, abs=0.01)
        r = structural_heterophily(graph, num_seeds=3).median
        # R is as uncertain as the number of edges between the communities, and it uses the
        # clusters found, which for the smallest gap are not quite the planted ones.
        doubt = 0.06 + 4 / np.sqrt(edges * (1 - gap) / 2)
        assert r == pytest.approx(wanted.structural_heterophily, rel=doubt)


@pytest.mark.parametrize(("gap", "level"), [(0.5, 0), (0.67, 4), (0.98, 2)])
def test_the_walk_has_the_gap_and_the_preference_as_eigenvalues(gap: float, level: int) -> None:
    wanted = sbm_level("node", gap, level)
    graph = sbm_at_level(wanted, NODES, degree=DEGREE)
    walk = 1 - smallest_eigenpairs(graph, NODES).values
    for value in (gap, wanted.preference):
        assert np.abs(walk - value).min() < 0.03


def test_structural_heterophily_rises_evenly_and_flips_the_same_share_at_every_gap() -> None:
    for gap in GAPS:
        levels = [sbm_level("structural", gap, level, degree=40) for level in range(NUM_LEVELS)]
        steps = np.diff([level.structural_heterophily for level in levels])
        np.testing.assert_allclose(steps, steps[0])
        assert steps[0] > 0
        assert levels[0].structural_heterophily == pytest.approx(1)
        assert [level.flipped for level in levels] == [
            sbm_level("structural", 0.5, level).flipped for level in range(NUM_LEVELS)
        ]
    assert sbm_level("structural", 0.98, 5).structural_heterophily == pytest.approx(50)


def test_labels_leave_the_communities_by_the_wanted_share() -> None:
    for level in range(NUM_LEVELS):
        wanted = sbm_level("structural", 0.5, level)
        graph = sbm_at_level(wanted, 400)
        moved = (graph.y != communities(graph)).mean()
        assert moved == pytest.approx(wanted.flipped, abs=1 / 400)
        assert np.bincount(graph.y).tolist() == [200, 200]


def test_features_are_weak() -> None:
    from sklearn.linear_model import LogisticRegression

    scores = []
    for seed in range(8):
        graph = sbm_at_level(sbm_level("structural", 0.5, 0), 2000, random_state=seed)
        model = LogisticRegression().fit(graph.x[:1000], graph.y[:1000])
        scores.append(model.score(graph.x[1000:], graph.y[1000:]))
    assert 0.64 < np.mean(scores) < 0.74


def test_the_same_seed_gives_the_same_graph_and_another_does_not() -> None:
    wanted = sbm_level("node", 0.5, 2)
    hashes = [sbm_at_level(wanted, 100, random_state=s).content_hash for s in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("edge", 0.5, 0), r"structural, node \(got 'edge'\)"),
        (("node", 1.0, 0), r"below 1 \(got 1.0\)"),
        (("node", 0.5, 6), r"0 to 5 \(got 6\)"),
        (("node", 0.5, True), r"0 to 5 \(got True\)"),
    ],
)
def test_bad_levels_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sbm_level(*arguments)


@pytest.mark.parametrize("degree", [0.0, 300.0])
def test_a_degree_that_does_not_fit_is_refused(degree: float) -> None:
    with pytest.raises(InputError, match=rf"at most 266.7.*\(got {degree:g}\)"):
        sbm_at_level(sbm_level("structural", 0.5, 0), 400, degree=degree)
