from __future__ import annotations

import numpy as np
import pytest

from djgnn.errors import InputError
from djgnn.spectral import (
    dirichlet_energy,
    normalized_adjacency,
    propagate_labels,
    transition_matrix,
)

OPERATORS = {"random_walk": transition_matrix, "symmetric": normalized_adjacency}


def labels_of(a, seed):
    rng = np.random.default_rng(seed + 500)
    y = rng.integers(0, 3, a.shape[0])
    y[rng.random(a.shape[0]) < 0.7] = -1
    y[0] = 2
    return y


def dense_solution(a, y, alpha, operator):
    one_hot = np.zeros((y.size, 3))
    one_hot[y >= 0, y[y >= 0]] = 1
    m = OPERATORS[operator](a).toarray()
    return (1 - alpha) * np.linalg.solve(np.eye(y.size) - alpha * m, one_hot)


@pytest.mark.parametrize("operator", ["random_walk", "symmetric"])
def test_closed_form_iteration_and_dense_algebra_agree_on_200_graphs(make_graph, operator):
    alpha = 0.9
    for seed in range(200):
        # D^-1/2 A D^-1/2 of a directed graph can have a spectral radius above 1: no limit then.
        a = make_graph(seed, directed=None if operator == "random_walk" else False)
        y = labels_of(a, seed)
        closed = propagate_labels(a, y, alpha=alpha, operator=operator)
        steps = propagate_labels(a, y, alpha=alpha, operator=operator, num_iterations=2000)
        dense = dense_solution(a, y, alpha, operator)
        np.testing.assert_allclose(closed.scores, dense, atol=1e-9)
        np.testing.assert_allclose(steps.scores, dense, atol=1e-9)
        np.testing.assert_array_equal(closed.reached, dense.max(axis=1) > 1e-14)
        assert (closed.prediction[~closed.reached] == -1).all()


def test_conjugate_gradients_give_the_same(make_graph, monkeypatch):
    for operator in ("random_walk", "symmetric"):
        a = make_graph(9, n=60, connected=True)
        y = labels_of(a, 9)
        direct = propagate_labels(a, y, alpha=1 / 1.1, operator=operator)
        with monkeypatch.context() as patch:
            patch.setattr("djgnn.spectral.systems.FACTOR_ENTRIES", 0)
            other = propagate_labels(a, y, alpha=1 / 1.1, operator=operator)
        np.testing.assert_allclose(direct.scores, other.scores, atol=1e-9)


def test_each_operator_minimises_its_own_objective_and_the_papers_pairing_does_not(make_graph):
    a = make_graph(5, n=30, connected=True)
    d = np.asarray(a.sum(axis=1)).ravel()
    y = labels_of(a, 5)
    one_hot = np.zeros((30, 3))
    one_hot[y >= 0, y[y >= 0]] = 1
    mu = 0.5

    def gradient(f, operator, weights):
        step = f - normalized_adjacency(a) @ f
        if operator == "random_walk":
            step = d[:, None] * f - a @ f
        return step + mu * weights[:, None] * (f - one_hot)

    walk = propagate_labels(a, y, alpha=1 / (1 + mu)).scores
    symmetric = propagate_labels(a, y, alpha=1 / (1 + mu), operator="symmetric").scores
    assert np.abs(gradient(symmetric, "symmetric", np.ones(30))).max() < 1e-10
    assert np.abs(gradient(walk, "random_walk", d)).max() < 1e-10
    # Theorem 2 as printed: Tr(F' Delta F) + mu |F - Y|^2 with the random-walk F.
    assert np.abs(gradient(walk, "random_walk", np.ones(30))).max() > 1e-3
    best = dirichlet_energy(a, walk) + mu * (d[:, None] * (walk - one_hot) ** 2).sum()
    nearby = walk + 1e-3
    assert best < dirichlet_energy(a, nearby) + mu * (d[:, None] * (nearby - one_hot) ** 2).sum()


def test_series_with_the_right_power(make_graph):
    a = make_graph(6, n=20, connected=True)
    y, alpha, t = labels_of(a, 6), 0.8, 7
    one_hot = np.zeros((20, 3))
    one_hot[y >= 0, y[y >= 0]] = 1
    m = alpha * transition_matrix(a).toarray()
    powers = [np.linalg.matrix_power(m, i) @ one_hot for i in range(t + 1)]
    series = powers[t] + (1 - alpha) * sum(powers[:t])
    found = propagate_labels(a, y, alpha=alpha, num_iterations=t).scores
    np.testing.assert_allclose(found, series, atol=1e-12)


def test_agrees_with_pyg(make_graph):
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torch_geometric.nn")
    for seed in range(0, 20, 4):
        a = make_graph(seed + 2, n=25, connected=True)
        a.data[:] = 1.0
        a.setdiag(0)
        a.eliminate_zeros()
        y = labels_of(a, seed)
        edges = torch.tensor(np.stack(a.nonzero()), dtype=torch.long)
        weight = torch.tensor(normalized_adjacency(a)[a.nonzero()])
        known = torch.tensor(y >= 0)
        model = models.LabelPropagation(num_layers=300, alpha=0.8)
        one_hot = torch.zeros(25, 3, dtype=torch.float64)
        one_hot[torch.arange(25)[known], torch.tensor(y)[known]] = 1
        theirs = model(one_hot, edges, edge_weight=weight, post_step=lambda out: out)
        ours = propagate_labels(a, y, alpha=0.8, operator="symmetric", num_iterations=300)
        np.testing.assert_allclose(ours.scores, theirs.numpy(), atol=1e-9)
        by_itself = model(one_hot, edges, post_step=lambda out: out)  # float32 weights inside
        np.testing.assert_allclose(ours.scores, by_itself.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.0}, r"strictly between 0 and 1 \(got 1.0\)"),
        ({"operator": "lazy"}, r"got 'lazy'"),
        ({"num_iterations": -1}, r"negative \(got -1\)"),
    ],
)
def test_errors(options, message):
    with pytest.raises(InputError, match=message):
        propagate_labels(np.ones((2, 2)), [0, 1], **options)
