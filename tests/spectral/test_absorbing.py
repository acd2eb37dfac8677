from __future__ import annotations

import numpy as np
import pytest
from walks import walk_until

from djgnn.errors import InputError
from djgnn.spectral import (
    absorbing_walk,
    harmonic_extension,
    random_walker,
    transition_matrix,
)


def dense_absorption(a, absorbing):
    """Absorption probabilities as the limit of powers of the chain: 2^60 steps."""
    chain = transition_matrix(a).toarray()
    chain[absorbing] = 0.0
    chain[absorbing, absorbing] = 1.0
    for _ in range(60):
        chain = chain @ chain
    return chain[:, absorbing]


def test_agrees_with_dense_algebra_on_200_graphs(make_graph):
    lost = 0
    for seed in range(200):
        a = make_graph(seed)
        rng = np.random.default_rng(seed)
        absorbing = rng.choice(a.shape[0], size=int(rng.integers(1, 5)), replace=False)
        walk = absorbing_walk(a, absorbing)
        dense = dense_absorption(a, absorbing)
        np.testing.assert_allclose(walk.probabilities, dense, atol=1e-9)
        np.testing.assert_array_equal(walk.certain, dense.sum(axis=1) > 1 - 1e-9)
        assert np.isinf(walk.expected_steps[~walk.certain]).all()
        lost += int((~walk.certain).sum())
    assert lost > 1000


def test_mean_times_against_the_fundamental_matrix(make_graph):
    for seed in range(20):
        a = make_graph(seed, n=20, connected=True)
        absorbing = np.array([3, 11])
        rest = np.setdiff1d(np.arange(20), absorbing)
        p = (a / a.sum(axis=1)[:, None]).toarray()
        times = np.linalg.solve(np.eye(18) - p[np.ix_(rest, rest)], np.ones(18))
        np.testing.assert_allclose(absorbing_walk(a, absorbing).expected_steps[rest], times)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_simulated_walks_agree_within_sampling_error(make_graph, seed):
    a = make_graph(seed, n=15, connected=True)
    exact = absorbing_walk(a, [2, 8, 13])
    walks = 20_000
    ends, steps = walk_until(a, np.zeros(walks, dtype=int), [2, 8, 13], random_state=seed)
    share = np.array([(ends == k).mean() for k in (2, 8, 13)])
    error = np.sqrt(exact.probabilities[0] * (1 - exact.probabilities[0]) / walks)
    assert (np.abs(share - exact.probabilities[0]) < 4.5 * error + 1e-12).all()
    assert abs(steps.mean() - exact.expected_steps[0]) < 4.5 * steps.std() / np.sqrt(walks)


def test_simulated_walks_on_a_directed_weighted_graph_with_a_dead_end():
    a = np.array([[0, 1, 3, 0], [0, 0, 0, 0], [2, 0, 0, 2], [0, 0, 0, 0]], dtype=float)
    ends, _ = walk_until(a, np.zeros(20_000, dtype=int), [1])
    exact = absorbing_walk(a, [1]).probabilities[0, 0]
    assert exact == pytest.approx(0.4)
    assert (ends == 1).mean() == pytest.approx(exact, abs=0.015)
    assert set(np.unique(ends)) == {-1, 1}


def test_random_walker_sums_absorption_by_class_and_is_harmonic(make_graph):
    a = make_graph(7, n=24, connected=True)
    y = np.full(24, -1)
    y[[0, 5, 9, 20]] = [0, 2, 0, 1]
    walker = random_walker(a, y)
    one_hot = np.eye(3)[[0, 2, 0, 1]]
    by_node = absorbing_walk(a, [0, 5, 9, 20]).probabilities @ one_hot
    np.testing.assert_allclose(walker.scores, by_node, atol=1e-12)
    harmonic = harmonic_extension(a, [0, 5, 9, 20], one_hot)
    np.testing.assert_allclose(walker.scores, harmonic, atol=1e-10)
    np.testing.assert_allclose(walker.scores.sum(axis=1), 1)
    assert walker.reached.all()


def test_random_walker_marks_what_it_cannot_reach():
    a = np.zeros((5, 5))
    a[0, 1] = a[1, 0] = a[2, 3] = a[3, 2] = 1
    walker = random_walker(a, [4, -1, -1, -1, -1])
    assert walker.prediction.tolist() == [4, 4, -1, -1, -1]
    assert walker.reached.tolist() == [True, True, False, False, False]
    with pytest.raises(InputError, match="known class"):
        random_walker(a, [-1] * 5)
    with pytest.raises(InputError, match=r"got 2 ids, 1 distinct"):
        absorbing_walk(a, [1, 1])
