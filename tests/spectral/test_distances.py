from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from walks import walk_until

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.spectral import (
    absorbing_walk,
    commute_time_embedding,
    commute_times,
    degrees,
    diffusion_distances,
    diffusion_embedding,
    embedding_distances,
    escape_probabilities,
    nearest_nodes,
    set_escape_probability,
    summed_diffusion,
    walk_spectrum,
)


def all_pairs(n: int) -> np.ndarray:
    return np.stack(np.triu_indices(n, 1), axis=1)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("time", [0, 1, 2, 7])
def test_direct_spectral_and_dense_diffusion_distances_agree(make_graph, seed, time):
    a = make_graph(seed, directed=False)
    if not a.nnz:
        return
    n, d = a.shape[0], degrees(a)
    pairs = all_pairs(n)
    direct = diffusion_distances(a, pairs, time)
    spectral = embedding_distances(diffusion_embedding(a, time), pairs)
    np.testing.assert_allclose(direct, spectral, atol=1e-8)
    live = (d[pairs] > 0).all(axis=1)
    assert np.isnan(direct[~live]).all()
    keep = np.flatnonzero(d > 0)
    p = np.linalg.matrix_power(a.toarray()[keep] / d[keep, None] @ np.eye(n)[:, keep], time)
    i, j = np.searchsorted(keep, pairs[live]).T
    dense = np.sqrt(((p[i] - p[j]) ** 2 * (d.sum() / d[keep])).sum(axis=1))
    np.testing.assert_allclose(direct[live], dense, atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_commute_time_is_volume_times_effective_resistance(make_graph, seed):
    a = make_graph(seed, n=40, connected=True)
    pairs = all_pairs(40)
    inverse = np.linalg.pinv(np.diag(degrees(a)) - a.toarray())
    e = np.eye(40)[pairs[:, 0]] - np.eye(40)[pairs[:, 1]]
    exact = a.sum() * np.einsum("mi,ij,mj->m", e, inverse, e)
    np.testing.assert_allclose(commute_times(a, pairs), exact, rtol=1e-10, atol=1e-8)
    spectral = embedding_distances(commute_time_embedding(a, num=39), pairs) ** 2
    np.testing.assert_allclose(spectral, exact, rtol=1e-10, atol=1e-8)
    truncated = embedding_distances(commute_time_embedding(a, num=5), pairs) ** 2
    assert (truncated <= exact + 1e-9).all()
    # Round trips of hitting times: the definition itself.
    there, back = (absorbing_walk(a, [k]).expected_steps for k in (17, 3))
    assert commute_times(a, [[3, 17]])[0] == pytest.approx(there[3] + back[17], rel=1e-9)


def test_sketch_is_within_its_error(make_graph):
    a = make_graph(1, n=120, connected=True)
    pairs = all_pairs(120)
    exact = commute_times(a, pairs)
    sketch = commute_time_embedding(a, method="sketch", num=512)
    ratio = embedding_distances(sketch, pairs) ** 2 / exact
    assert abs(ratio.mean() - 1) < 0.02
    assert ratio.std() < 1.5 * np.sqrt(2 / 512)
    assert np.abs(ratio - 1).max() < 0.35


@pytest.mark.parametrize("seed", range(10))
def test_summation_identities(make_graph, seed):
    a = make_graph(seed, n=15, connected=True)  # connected, with an odd cycle
    pairs = all_pairs(15)
    p, weight, power, total = a.toarray() / degrees(a)[:, None], a.sum() / degrees(a), np.eye(15), 0
    for _ in range(4000):
        last = ((power[pairs[:, 0]] - power[pairs[:, 1]]) ** 2 * weight).sum(axis=1)
        total, power = total + last, power @ p
    assert last.max() < 1e-12
    np.testing.assert_allclose(last, diffusion_distances(a, pairs, 3999) ** 2, atol=1e-12)
    steps = summed_diffusion(a, pairs, over="steps")
    np.testing.assert_allclose(total, steps, rtol=1e-6)
    gamma, psi = walk_spectrum(a)
    differences = (psi[pairs[:, 0]] - psi[pairs[:, 1]]) ** 2
    half = sum(differences[:, 1:] @ gamma[1:] ** t for t in range(4000))
    commute = commute_times(a, pairs)
    np.testing.assert_allclose(half, commute, rtol=1e-6)
    np.testing.assert_allclose(summed_diffusion(a, pairs, over="half_steps"), commute, rtol=1e-6)
    # The identity as printed (whole steps = commute time) is off by far more than rounding.
    assert np.abs(steps / commute - 1).max() > 0.01


def test_whole_steps_sum_to_the_commute_time_of_the_two_step_walk(make_graph):
    a = make_graph(4, n=15, connected=True).toarray()
    d = a.sum(axis=1)
    two_step = a @ np.diag(1 / d) @ a  # same degrees, walk P^2
    pairs = all_pairs(15)
    np.testing.assert_allclose(
        summed_diffusion(a, pairs), commute_times(two_step, pairs), rtol=1e-8
    )


def test_bipartite_and_disconnected_graphs_do_not_get_a_guess():
    path = np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1)
    sums = summed_diffusion(path, [[0, 1], [0, 2], [1, 1]])
    assert np.isinf(sums[0])
    assert np.isfinite(sums[1:]).all()
    np.testing.assert_allclose(summed_diffusion(path, [[0, 1]], over="half_steps"), [4.0])
    apart = sp.block_diag([path, path]).toarray()
    with pytest.raises(InputError, match=r"2 components"):
        summed_diffusion(apart, [[0, 1]])
    np.testing.assert_allclose(commute_times(apart, [[0, 4], [0, 1], [3, 4]]), [np.inf, 4, 4])
    assert escape_probabilities(apart, [[0, 4]]).tolist() == [0.0]
    with pytest.warns(DisconnectedWarning, match="3 of 6"):
        z = commute_time_embedding(apart, num=2)
    indices, distances = nearest_nodes(z, 1)
    assert indices.ravel().tolist()[3:] == [-1, -1, -1]
    assert np.isnan(distances[3:]).all()


def test_walk_spectrum_is_orthonormal_in_the_stationary_law(make_graph):
    a = make_graph(8, n=25, connected=True)
    gamma, psi = walk_spectrum(a)
    pi = degrees(a) / a.sum()
    np.testing.assert_allclose(psi.T @ (pi[:, None] * psi), np.eye(25), atol=1e-10)
    p = a.toarray() / degrees(a)[:, None]
    cube = pi * np.einsum("r,ir,kr->ik", gamma**3, psi, psi)
    np.testing.assert_allclose(cube, np.linalg.matrix_power(p, 3), atol=1e-10)


def test_truncated_spectrum_of_a_larger_graph_matches_the_full_one(make_graph):
    a = make_graph(0, n=700, connected=True)
    full, _ = walk_spectrum(a)
    part, _ = walk_spectrum(a, num=6)
    np.testing.assert_allclose(np.abs(part), np.abs(full[:6]), atol=1e-9)
    pairs = np.array([[0, 5], [17, 300]])
    truncated = embedding_distances(diffusion_embedding(a, 2, num=6), pairs)
    assert (truncated <= diffusion_distances(a, pairs, 2) + 1e-9).all()


@pytest.mark.parametrize("columns", [3, 12])
def test_nearest_nodes_against_brute_force(columns):
    z = np.random.default_rng(columns).standard_normal((60, columns))
    indices, distances = nearest_nodes(z, 4)
    full = np.linalg.norm(z[:, None] - z[None], axis=2)
    np.fill_diagonal(full, np.inf)
    np.testing.assert_array_equal(indices, np.argsort(full, axis=1)[:, :4])
    np.testing.assert_allclose(distances, np.sort(full, axis=1)[:, :4], atol=1e-12)
    np.testing.assert_allclose(embedding_distances(z, [[0, 1]]), full[0, 1])


def test_nearest_by_commute_time_and_by_diffusion(make_graph):
    a = make_graph(3, n=30, connected=True)
    pairs = np.stack(np.meshgrid(np.arange(30), np.arange(30), indexing="ij"), -1).reshape(-1, 2)
    exact = commute_times(a, pairs).reshape(30, 30)
    np.fill_diagonal(exact, np.inf)
    indices, distances = nearest_nodes(commute_time_embedding(a, num=29), 3)
    np.testing.assert_array_equal(indices, np.argsort(exact, axis=1)[:, :3])
    np.testing.assert_allclose(distances**2, np.sort(exact, axis=1)[:, :3], rtol=1e-8)
    near, _ = nearest_nodes(diffusion_embedding(a, 2), 1)
    direct = diffusion_distances(a, pairs, 2).reshape(30, 30)
    np.fill_diagonal(direct, np.inf)
    np.testing.assert_array_equal(near.ravel(), direct.argmin(axis=1))


def test_escape_probability_of_a_pair_by_simulation_and_by_definition(make_graph):
    a = make_graph(2, n=12, connected=True)
    p = a.toarray() / degrees(a)[:, None]
    reach = absorbing_walk(a, [0, 7]).probabilities[:, 1]  # reach 7 before 0
    by_first_step = p[0] @ np.where(np.arange(12) == 7, 1, np.where(np.arange(12) == 0, 0, reach))
    formula = escape_probabilities(a, [[0, 7]])[0]
    assert formula == pytest.approx(by_first_step, rel=1e-9)
    # The paper's 1/CT lacks the factor vol/d.
    assert formula * commute_times(a, [[0, 7]])[0] == pytest.approx(a.sum() / degrees(a)[0])
    rng = np.random.default_rng(0)
    first = rng.choice(12, size=20_000, p=p[0])
    ends, _ = walk_until(a, first, [0, 7])
    assert (ends == 7).mean() == pytest.approx(formula, abs=0.016)


def test_escape_probability_of_a_set_is_a_one_step_average(make_graph):
    a = make_graph(5, n=20, connected=True)
    inside = np.arange(6)
    p, pi = a.toarray() / degrees(a)[:, None], degrees(a)
    expected = pi[:6] @ p[:6, 6:].sum(axis=1) / pi[:6].sum()
    assert set_escape_probability(a, inside) == pytest.approx(expected)
    assert np.isnan(set_escape_probability(np.zeros((2, 2)), [0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: commute_times([[0, 1], [0, 0]], [[0, 1]]), "commute time: .*symmetrize"),
        (lambda: commute_times([[0, 1], [1, 0]], [0, 1]), r"shape \[m, 2\]"),
        (lambda: commute_time_embedding([[0, 1], [1, 0]], method="x"), r"got 'x'"),
        (lambda: diffusion_distances([[0, 1], [1, 0]], [[0, 1]], -1), r"whole number.*-1"),
        (lambda: diffusion_embedding([[0, 1], [1, 0]], -1.0), r"negative \(got -1.0\)"),
        (lambda: walk_spectrum(np.zeros((2, 2))), "no edge"),
        (lambda: walk_spectrum(sp.eye_array(6000)), r"how many eigenpairs.*6000 nodes"),
        (lambda: nearest_nodes(np.zeros((3, 1)), 3), r"there are 2 other nodes.*got 3"),
    ],
)
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()
