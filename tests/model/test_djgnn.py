"""The model against its O(n^2) formulation, and what must hold whatever the weights are."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from tests.oracles import dense_forward

from djgnn.filters import SUPPORTS
from djgnn.graph.operator import SparseOperator
from djgnn.model import DJGNN, ModelConfig, graph_operators, preset
from djgnn.model.experts import EXPERTS
from djgnn.model.operators import adjacency_matrix, gcn_normalize, treat
from djgnn.model.views import scaled_degrees

N, F, C = 24, 6, 3


def case(seed: int = 0, n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and edges with self loops, empty rows and twins."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n, n)) < 0.15
    dense[3] = dense[7] = dense[11]
    dense[5] = False
    edges = torch.from_numpy(np.stack(np.nonzero(dense)))
    return torch.from_numpy(rng.normal(size=(n, F))), edges


def model(seed: int = 0, n: int = N, **options) -> DJGNN:
    options = {"dropout": 0.0, "num_centers": 3, "num_jumps": 4, **options}
    sizes = (options.pop("in_channels", F), options.pop("hidden_channels", 5), C, n)
    made = DJGNN(*sizes, **options).double()
    made.reset_parameters(torch.Generator().manual_seed(seed))
    return made


EVERY = {"hops": 2, "diffusion": 3, "deep": 2, "mix": 2}
VARIANTS = [
    {"support": support, "scale": scale}
    for support, scale in itertools.product(
        ("shell", "paper", "author", "cumulative"), ("unit", "volume", "learned")
    )
] + [
    {"source": "identity"},
    {"hb_layers": 1},
    {"homophilic": False},
    {"structure": False},
    {"homophilic": False, "structure": False},
    {"classifier_layers": 3},
    {"num_jumps": 1, "support": "author"},
    {"num_jumps": "auto"},
    {"jump_inputs": "hidden", "num_jumps": "auto"},
    {"jump_inputs": "hidden", "pump_adjacency": "transposed", "source": "identity"},
    {"pump_adjacency": "transposed", "homophilic_adjacency": "symmetric"},
    {"pump_adjacency": "symmetric", "homophilic_adjacency": "transposed"},
    {"hops": 0, "homophilic": False},
    {"hops": 3, "classifier_layers": 2},
    {"diffusion": 1},
    {"diffusion": 4, "homophilic_adjacency": "symmetric"},
    {"deep": 3, "homophilic_adjacency": "transposed"},
    {"hops": 1, "diffusion": 2, "deep": 1, "jumps": False},
    {"mix": 1, "homophilic_adjacency": "transposed"},
    {"mix": 3, "hops": 1, "classifier_layers": 2},
    *EXPERTS.values(),
    # Features that are narrower than a branch are aggregated before they are multiplied.
    {"hidden_channels": 7, "num_jumps": "auto"},
    *({"hidden_channels": 7, "support": each} for each in SUPPORTS),
    {"hidden_channels": 6, "homophilic_adjacency": "symmetric", "mix": 3},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_logits_loss_and_gradients_equal_the_dense_formulation(options: dict) -> None:
    x, edges = case()
    made = model(**options)
    dense = torch.from_numpy(adjacency_matrix(edges, N).toarray())
    results = []
    for forward, graph in ((made, edges), (lambda *a: dense_forward(made, *a), dense)):
        made.zero_grad()
        logits, pump_loss = forward(x, graph)
        (logits.sin().sum() + pump_loss).backward()
        grads = {key: p.grad.clone() for key, p in made.named_parameters() if p.grad is not None}
        results.append((logits.detach(), pump_loss.detach(), grads))
    (a, la, ga), (b, lb, gb) = results
    torch.testing.assert_close(a, b)
    torch.testing.assert_close(la, lb)
    assert set(ga) == set(gb) == {key for key, _ in made.named_parameters()}
    for key in ga:
        torch.testing.assert_close(ga[key], gb[key], msg=lambda m, key=key: f"{key}: {m}")


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("hidden", [5, 7])
def test_a_graph_of_one_node_has_gradients(support: str, hidden: int) -> None:
    made = model(n=1, num_jumps=1, support=support, hidden_channels=hidden)
    logits, pump_loss = made(torch.ones(1, F, dtype=torch.float64), torch.zeros(2, 1).long())
    (logits.sum() + pump_loss).backward()
    assert torch.isfinite(logits).all()


def test_no_feature_columns_are_allowed() -> None:
    _, edges = case()
    made = model(in_channels=0, mix=2)
    logits, _ = made(torch.zeros(N, 0, dtype=torch.float64), edges)
    logits.sum().backward()
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("sparse", [True, False])
def test_training_works_after_inference_mode(sparse: bool) -> None:
    x, edges = case()
    made = model(hidden_channels=8, mix=2)
    given = SparseOperator.from_torch(x.to_sparse()) if sparse else x
    operators = made.prepare(edges)
    with torch.inference_mode():
        expected = made(given, operators)[0].clone()
        torch.testing.assert_close(made(x.clone(), operators)[0], expected)
    logits, _ = made(given, operators)
    logits.sum().backward()
    torch.testing.assert_close(logits.detach(), expected.clone())


@pytest.mark.parametrize("rows", [1, 7, N])
def test_deep_layers_are_the_same_block_by_block(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("djgnn.model.residual.BLOCK_ROWS", rows)
    test_logits_loss_and_gradients_equal_the_dense_formulation(EXPERTS["deep"])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 33, 40])
def test_automatic_jumps_reach_as_far_as_the_graph_has_nodes(n: int) -> None:
    rng = np.random.default_rng(n)
    dense = torch.from_numpy((rng.random((n, n)) < 0.4).astype(np.float64))
    dense[0, 0] = 1  # a trace ratio needs an edge
    x, edges = torch.from_numpy(rng.normal(size=(n, F))), dense.nonzero().t()
    made = model(n=n, num_jumps="auto", jump_inputs="hidden")
    assert made.num_ranks == 2 ** int(np.log2(min(n, 32)))
    logits, pump_loss = made(x, edges)
    expected, expected_loss = dense_forward(made, x, dense)
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(pump_loss, expected_loss)


@pytest.mark.parametrize("options", [{}, {"jump_inputs": "hidden", **EVERY}])
def test_every_parameter_learns(options: dict) -> None:
    x, edges = case()
    made = model(classifier_layers=2, **options)
    logits, pump_loss = made(x, edges)
    (logits.square().sum() + pump_loss).backward()
    for key, parameter in made.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key


def test_sparse_features_in_any_layout_give_the_same_logits() -> None:
    x, edges = case()
    x = x * (x > 0)
    made = model(**EVERY)
    expected, _ = made(x, edges)
    for form in (x.to_sparse_csr(), x.to_sparse_coo(), SparseOperator.from_torch(x.to_sparse())):
        logits, _ = made(form, edges)
        torch.testing.assert_close(logits, expected)


def test_renumbering_the_nodes_renumbers_the_logits() -> None:
    x, edges = case(seed=4)
    # Without twins: ties between twins are settled by index, which a renumbering changes.
    rng = np.random.default_rng(5)
    dense = rng.random((N, N)) < 0.3
    edges = torch.from_numpy(np.stack(np.nonzero(dense)))
    order = torch.from_numpy(rng.permutation(N))
    place = torch.argsort(order)
    made, moved = model(), model()
    with torch.no_grad():
        moved.pump.weight.copy_(made.pump.weight[:, order])
        moved.structure.weight.copy_(made.structure.weight[order])
    logits, loss = made(x, edges)
    again, loss_again = moved(x[order], place[edges])
    torch.testing.assert_close(again, logits[order])
    torch.testing.assert_close(loss_again, loss)


def test_alpha_is_convex_and_silencing_a_branch_removes_it() -> None:
    x, edges = case()
    made = model()
    alpha = made.mixture.alpha.detach()
    assert float(alpha.sum()) == pytest.approx(1)
    assert (alpha > 0).all()
    assert made.branch_names == (
        "jump0",
        "jump1",
        "jump2",
        "jump3",
        "jump4",
        "homophilic",
        "structure",
    )
    with torch.no_grad():
        made.mixture.alpha_logits[-1] = -1e9
    before, _ = made(x, edges)
    with torch.no_grad():
        made.structure.weight.add_(1)
    after, _ = made(x, edges)
    torch.testing.assert_close(before, after)


def test_ranks_are_kept_until_the_pump_moves() -> None:
    x, edges = case()
    made = model()
    first = made.run(x, edges).table.index
    held = made.ranks._ranks
    made(x, edges)
    assert made.ranks._ranks is held
    with torch.no_grad():
        made.pump.weight.normal_(generator=torch.Generator().manual_seed(1))
    assert not torch.equal(made.run(x, edges).table.index, first)
    assert made.ranks._ranks is not held


def test_a_changed_edge_list_is_noticed() -> None:
    x, edges = case()
    made = model()
    before, _ = made(x, edges)
    edges[1] = (edges[1] + 1) % N
    after, _ = made(x, edges)
    assert not torch.allclose(before, after)


def test_edge_weights_and_sparse_features_changed_in_place_are_noticed() -> None:
    x, edges = case()
    made, weight, sparse = model(), torch.ones(edges.shape[1], dtype=x.dtype), x.to_sparse()
    before, _ = made(sparse, edges, weight)
    weight.mul_(10)
    heavier, _ = made(sparse, edges, weight)
    assert not torch.allclose(before, heavier)
    sparse.mul_(3)
    assert not torch.allclose(made(sparse, edges, weight)[0], heavier)


def test_weights_that_are_negative_or_ask_for_a_gradient_are_refused() -> None:
    x, edges = case()
    weight = torch.ones(edges.shape[1], dtype=x.dtype, requires_grad=True)
    with pytest.raises(ValueError, match="edge_weight must be constant"):
        model()(x, edges, weight)
    with pytest.raises(ValueError, match="edge_weight must be zero or more"):
        model()(x, edges, -torch.ones(edges.shape[1], dtype=x.dtype))


@pytest.mark.parametrize("features", ["dense", "csr"])
def test_a_copy_of_a_used_model_is_the_model(features: str) -> None:
    x, edges = case()
    x = x if features == "dense" else x.to_sparse_csr()
    made = model().eval()
    expected, _ = made(x, edges)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(copied(x, edges)[0], expected)
    prepared = copy.deepcopy(made.prepare(edges))
    assert torch.equal(made(x, prepared)[0], expected)


def test_a_moved_model_prepares_the_graph_again() -> None:
    x, edges = case()
    made = model()
    made(x, edges)
    made.float()
    logits, _ = made(x.float(), edges)
    assert logits.dtype == torch.float32


def test_edge_weights_reach_pump_and_branches() -> None:
    x, edges = case()
    made = model()
    ones, _ = made(x, edges, torch.ones(edges.shape[1], dtype=torch.float64))
    torch.testing.assert_close(ones, made(x, edges)[0])
    twos, _ = made(x, edges, torch.full((edges.shape[1],), 2.0, dtype=torch.float64))
    assert not torch.allclose(ones, twos)


def test_dropout_comes_from_the_generator_and_eval_is_silent() -> None:
    x, edges = case()
    made = model(dropout=0.5)
    seeds = [made(x, edges, generator=torch.Generator().manual_seed(s))[0] for s in (0, 0, 1)]
    assert torch.equal(seeds[0], seeds[1])
    assert not torch.equal(seeds[0], seeds[2])
    made.eval()
    assert torch.equal(made(x, edges)[0], made(x, edges)[0])


def test_freezing_the_pump_fixes_filters_of_weight_one() -> None:
    x, edges = case()
    made = model()
    operators = made.prepare(edges)
    table = made.freeze_pump(made.view(x, operators))
    assert torch.equal(table.weight, torch.ones_like(table.weight))
    logits, _ = made(x, operators)
    logits.sum().backward()
    assert made.pump.weight.grad is None
    made.reset_parameters()
    assert made.pump.weight.requires_grad


@pytest.mark.parametrize("options", [{}, EVERY, *EXPERTS.values()], ids=str)
def test_decoding_some_rows_gives_those_rows(options: dict) -> None:
    x, edges = case()
    made = model(**options).eval()
    operators = made.prepare(edges)
    chosen = torch.tensor([7, 0, 3])
    expected, _ = made(x, operators)
    view = made.view(x, operators)
    encoding = made.encode(view)
    torch.testing.assert_close(made.decode(encoding, view.rows(chosen)), expected[chosen])
    torch.testing.assert_close(made.decode(encoding.detach(), view), expected)
    added = made.added(view.rows(chosen))
    bias = made.mixture.biases[0]
    torch.testing.assert_close(made.mixture.rest(added.sum(dim=1) + bias), expected[chosen])


def test_one_homophilic_layer_of_some_rows() -> None:
    x, edges = case()
    chosen = torch.tensor([7, 0, 3])
    operators = model().prepare(edges)
    view = model().view(x, operators)
    one_layer = model(hb_layers=1).eval()
    some = one_layer.decode(one_layer.encode(view), view.rows(chosen))
    torch.testing.assert_close(some, one_layer(x, operators)[0][chosen])


def test_symmetric_treatment_is_the_union_of_both_directions() -> None:
    _, edges = case()
    given = adjacency_matrix(edges, N)
    union = treat(given, "symmetric").toarray()
    assert np.array_equal(union, np.maximum(given.toarray(), given.toarray().T))
    assert np.array_equal(treat(given, "given").toarray(), given.toarray())
    with pytest.raises(ValueError, match=r"adjacency must be one of .* \(got 'both'\)"):
        treat(given, "both")
    operators = graph_operators(given, pump_adjacency="symmetric", homophilic_adjacency="given")
    assert float(operators.volume) == union.sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degrees_are_scaled_by_those_of_known_nodes(dtype: torch.dtype) -> None:
    known = torch.tensor([0.0, 1, 1, 7, 30], dtype=dtype)
    scaled = scaled_degrees(known, known)
    assert scaled.shape == (5, 1)
    assert float(scaled.mean()) == pytest.approx(0, abs=1e-6)
    assert float(scaled.std(correction=0)) == pytest.approx(1, rel=1e-6)
    torch.testing.assert_close(scaled_degrees(known[3:4], known), scaled[3:4])
    # Where all known nodes have one degree, another is not infinitely far from it.
    for degree in (1, 3, 7, 11):
        regular = torch.full((1000,), float(degree), dtype=dtype)
        assert float(scaled_degrees(regular, regular).abs().max()) < 1e-5
        other = float(scaled_degrees(regular[:1] + 2, regular))
        assert other == pytest.approx(np.log((degree + 3) / (degree + 1)), rel=1e-4)


def test_gcn_normalisation_sets_the_diagonal_to_one() -> None:
    _, edges = case()
    dense = adjacency_matrix(edges, N).toarray()
    np.fill_diagonal(dense, 1)
    root = 1 / np.sqrt(dense.sum(axis=1))
    expected = root[:, None] * dense * root
    assert np.allclose(gcn_normalize(adjacency_matrix(edges, N)).toarray(), expected)


def test_more_jumps_than_nodes_is_refused_and_as_many_are_fine() -> None:
    with pytest.raises(ValueError, match="only 3 nodes; use fewer jumps"):
        DJGNN(2, 4, 2, num_nodes=3, num_jumps=4)
    x, edges = torch.rand(3, 2), torch.tensor([[0], [1]])
    logits, _ = DJGNN(2, 4, 2, num_nodes=3, num_jumps=3)(x, edges)
    assert torch.isfinite(logits).all()


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"scale must be one of .* \(got 'big'\)"):
        DJGNN(2, 4, 2, num_nodes=9, scale="big")
    with pytest.raises(ValueError, match="has no option 'speed'"):
        DJGNN(2, 4, 2, num_nodes=9, speed=3)
    with pytest.raises(ValueError, match=r"dropout must be .* \(got 1.0\)"):
        ModelConfig(dropout=1.0)
    with pytest.raises(ValueError, match=r"num_jumps must be .* \(got 0\)"):
        ModelConfig(num_jumps=0)
    small = DJGNN(3, 4, 2, num_nodes=9, num_jumps=2)
    for x in (torch.rand(12, 3), torch.rand(7, 3), torch.rand(9, 5), torch.rand(12, 3).to_sparse()):
        with pytest.raises(ValueError, match=r"shape \[9, 3\]: .* one graph.* \(got \["):
            small(x, torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match=r"nodes between 0 and 8 \(got 0 to 9\)"):
        DJGNN(2, 4, 2, num_nodes=9)(torch.rand(9, 2), torch.tensor([[0], [9]]))
    with pytest.raises(ValueError, match=r"preset must be one of .* \(got 'best'\)"):
        preset("best")


def test_repr_is_terse() -> None:
    assert repr(model()) == "DJGNN(6, 5, 3, num_nodes=24, num_jumps=4, support='shell')"
