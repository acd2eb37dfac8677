"""Experts: a mixture of dense formulations, what they share, and what an undirected graph makes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from tests.oracles import dense_forward

from djgnn.model import DJExperts, ModelConfig
from djgnn.model.branch_mixture import ConvexMixture
from djgnn.model.expert_mixture import Mixed
from djgnn.model.experts import EXPERTS, expert_configs
from djgnn.model.operators import Parts, adjacency_matrix, direction_tells, is_directed

N, FEATURES, CLASSES = 30, 6, 3
SIZES = (FEATURES, 5, CLASSES, N)


def case(directed: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and edges with self loops, an empty row and twins."""
    rng = np.random.default_rng(0)
    dense = rng.random((N, N)) < 0.12
    dense[3] = dense[7] = dense[11]
    dense[5] = False
    if not directed:
        dense |= dense.T
    return torch.from_numpy(rng.normal(size=(N, FEATURES))), torch.from_numpy(dense).nonzero().t()


def model(directed: bool = True, **options: Any) -> DJExperts:
    given = {"experts": tuple(EXPERTS), "dropout": 0.0, "num_centers": 3, **options}
    made = DJExperts(*SIZES, directed, **given).double()
    made.reset_parameters(torch.Generator().manual_seed(0))
    weights = torch.arange(1.0, 1 + len(made.names), dtype=torch.float64)
    made.weights.copy_(weights / weights.sum())
    return made


@pytest.mark.parametrize("directed", [True, False])
def test_the_mixture_and_its_gradients_are_those_of_dense_formulations(directed: bool) -> None:
    x, edges = case(directed)
    made = model(directed)
    dense = torch.from_numpy(adjacency_matrix(edges, N).toarray())
    logits, pump_loss = made(x, edges)
    (logits.sin().sum() + pump_loss).backward()
    found = {key: p.grad.clone() for key, p in made.named_parameters()}
    made.zero_grad(set_to_none=True)
    each = [dense_forward(expert, x, dense) for expert in made.experts.values()]
    probability = sum(
        w * one.softmax(dim=1) for w, (one, _) in zip(made.weights, each, strict=True)
    )
    torch.testing.assert_close(logits, probability.log())
    losses = sum(loss for _, loss in each)
    torch.testing.assert_close(pump_loss, losses)
    (probability.log().sin().sum() + losses).backward()
    for key, p in made.named_parameters():
        torch.testing.assert_close(found[key], p.grad, msg=lambda m, key=key: f"{key}: {m}")


def test_shares_add_up_to_the_probabilities() -> None:
    made, generator = model(), torch.Generator().manual_seed(1)
    each = [
        8 * torch.randn(7, CLASSES, dtype=torch.float64, generator=generator) for _ in made.names
    ]
    shares, logits = made.shares(each), made.combine(each)
    assert shares.shape == (len(made.names), 7, CLASSES)
    torch.testing.assert_close(shares.sum(dim=0), logits.exp())
    torch.testing.assert_close(logits.exp().sum(dim=1), torch.ones(7, dtype=torch.float64))
    torch.testing.assert_close(shares.sum(dim=(1, 2)), 7 * made.weights)


def test_rows_are_mixed_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = Mixed({name: torch.nn.Identity() for name in ("a-1", "b-1", "a-2", "b-2")})
    mixture.folds = 2
    mixture.product.fill_(0.3)
    mixture.weights.copy_(torch.tensor([0.2, 0.1, 0.3, 0.1]))
    mixture.powers.copy_(torch.tensor([0.5, 1.0, 0.0, 0.4]))
    draw = torch.Generator().manual_seed(0)
    logits = [torch.randn(50, 3, generator=draw) for _ in range(4)]
    for fold in (None, torch.arange(50) % 3 - 1):
        whole = (mixture.shares(logits, fold), mixture.combine(logits, fold))
        with monkeypatch.context() as patch:
            patch.setattr("djgnn.model.expert_mixture.ROWS", 7)
            blocks = (mixture.shares(logits, fold), mixture.combine(logits, fold))
        for one, other in zip(whole, blocks, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_an_expert_without_weight_says_nothing_and_one_with_all_says_everything() -> None:
    made, generator = model(experts=("features", "rows", "given")), torch.Generator().manual_seed(2)
    each = list(torch.randn(3, 7, CLASSES, dtype=torch.float64, generator=generator))
    made.weights.copy_(torch.tensor([0.0, 1.0, 0.0]))
    torch.testing.assert_close(made.combine(each), each[1].log_softmax(dim=1))
    torch.testing.assert_close(made.shares(each)[1], each[1].softmax(dim=1))
    assert float(made.shares(each)[[0, 2]].abs().sum()) == 0


def test_certain_experts_give_finite_logarithms() -> None:
    mixed = Mixed({"a": torch.torch.nn.Identity(), "b": torch.torch.nn.Identity()})
    sure = torch.tensor([[500.0, -500.0]])
    found = mixed.combine([sure, -sure])
    torch.testing.assert_close(found, torch.full((1, 2), 0.5).log())
    assert torch.isfinite(mixed.combine([sure, sure])).all()


def test_experts_that_coincide_are_made_once() -> None:
    config = ModelConfig()
    directed, undirected = (expert_configs(config, flag) for flag in (True, False))
    assert ("features", "profile", *tuple(directed)[1:]) == config.experts
    assert tuple(directed) == tuple(EXPERTS)
    assert set(directed) - set(undirected) == {"transposed", "symmetric", "columns"}
    for found in (directed, undirected):
        assert len(set(found.values())) == len(found)
        assert all(own.experts == () for own in found.values())
    # Asked for alone, they are there.
    assert tuple(expert_configs(config.replace(experts=("columns", "rows")), False)) == ("columns",)
    joint = config.replace(experts=("joint", "given"), jumps=False, structure=False)
    assert tuple(expert_configs(joint, True)) == ("joint",)
    with pytest.raises(ValueError, match="experts must name at least one"):
        DJExperts(*SIZES, experts=())
    with pytest.raises(ValueError, match=r"experts must be .* \(got .*'everyone'"):
        ModelConfig(experts=("everyone",))


def test_left_out_copies_would_have_been_copies() -> None:
    """On an undirected graph, an expert that sees it as directed has the same logits."""
    x, edges = case(directed=False)
    assert not is_directed(adjacency_matrix(edges, N))
    both = model(True, experts=("given", "transposed", "rows", "columns"))
    for name, twin in (("transposed", "given"), ("columns", "rows")):
        both.experts[name].load_state_dict(both.experts[twin].state_dict())
    operators = both.prepare(edges)
    logits = {
        name: expert(*both.inputs_of(name, (x, operators)))[0]
        for name, expert in both.experts.items()
    }
    assert torch.equal(logits["transposed"], logits["given"])
    assert torch.equal(logits["columns"], logits["rows"])


def test_direction_is_that_of_edges_and_weights() -> None:
    assert not is_directed(sp.csr_array(np.eye(3)))
    assert not is_directed(sp.csr_array(np.array([[0, 2.0], [2.0, 0]])))
    assert is_directed(sp.csr_array(np.array([[0, 2.0], [1.0, 0]])))
    assert is_directed(sp.csr_array(np.array([[0, 1.0], [0, 0]])))


def test_what_experts_have_in_common_is_there_once() -> None:
    _, edges = case()
    made = model()
    held = {name: own() for name, own in made.prepare(edges).by_expert.items()}
    assert held.keys() == set(made.names)
    assert held["jumps"].adjacency is held["rows"].adjacency is held["joint"].adjacency
    assert held["jumps"].twins is held["joint"].twins
    assert held["symmetric"].homophilic is held["hops"].homophilic
    assert held["deep"].homophilic is not held["hops"].homophilic
    assert held["columns"].adjacency is not held["rows"].adjacency
    parts = {id(part) for own in held.values() for part in (own.adjacency, own.homophilic)}
    assert len(parts) == 3 + 4  # A in three ways, normalised in three ways, and the mean


def test_edges_are_prepared_once() -> None:
    x, edges = case()
    made, calls = model(), []
    operators = made.operators
    made.operators = lambda parts: calls.append(parts) or operators(parts)  # type: ignore[method-assign]
    before, _ = made(x, edges)
    sparse = x.to_sparse_csr()
    torch.testing.assert_close(made(sparse, edges)[0], before)
    assert len(calls) == 1
    assert isinstance(calls[0], Parts)
    edges[1] = (edges[1] + 1) % N
    assert not torch.allclose(made(x, edges)[0], before)
    assert len(calls) == 2
    made.float()
    assert made(x.float(), edges)[0].dtype == torch.float32
    assert len(calls) == 3


def test_a_copy_of_a_used_mixture_is_the_mixture() -> None:
    x, edges = case()
    made = model().eval()
    expected, _ = made(x, edges)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(copied(x, edges)[0], expected)
    again = model().eval()
    again.reset_parameters(torch.Generator().manual_seed(5))
    assert float(again.weights.std()) == 0
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(x, edges)[0], expected)


def test_experts_draw_their_dropout_from_one_generator() -> None:
    x, edges = case()
    made = DJExperts(*SIZES, num_centers=3).double()
    seeds = [made(x, edges, generator=torch.Generator().manual_seed(s))[0] for s in (0, 0, 1)]
    assert torch.equal(seeds[0], seeds[1])
    assert not torch.equal(seeds[0], seeds[2])


def test_repr_names_the_experts() -> None:
    assert repr(model(experts=("features", "deep"))) == "DJExperts(features, deep)"


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_dropping_branches_leaves_what_the_others_say(layers: int, dtype: torch.dtype) -> None:
    mixture = ConvexMixture(4, 5, CLASSES, layers).to(dtype)
    generator = torch.Generator().manual_seed(0)
    mixture.reset_parameters(generator)
    with torch.no_grad():
        mixture.alpha_logits.copy_(torch.tensor([3.0, -2.0, 0.5, 9.0]))
    parts = torch.randn(11, 4, 5, generator=generator).to(dtype)
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {}
    for dropped in ([3], [3, 1], [3, 1, 0]):
        quiet = parts.clone()
        quiet[:, dropped] = 0
        # What is left counts as it did: as if the dropped embeddings were zero.
        mixture_before = copy.deepcopy(mixture)
        mixture.drop(dropped[-1])
        torch.testing.assert_close(
            mixture([parts.view(11, 20)]), mixture_before([quiet.view(11, 20)]), **close
        )
        alpha = mixture.alpha.detach()
        assert bool((alpha[dropped] == 0).all())
        assert float(alpha.sum()) == pytest.approx(1)
        assert bool((alpha[[k for k in range(4) if k not in dropped]] > 0).all())
    assert F.one_hot(torch.tensor(2), 4).tolist() == mixture.alpha.tolist()


@pytest.mark.parametrize("layers", [1, 3])
def test_what_branches_add_makes_the_logits(layers: int) -> None:
    mixture, parts = ConvexMixture(4, 5, CLASSES, layers), torch.randn(7, 20)
    added = mixture.added([parts[:, :15], parts[:, 15:]])
    total = mixture.rest(added.sum(dim=1) + mixture.biases[0])
    torch.testing.assert_close(total, mixture([parts]))
    assert mixture.added([parts[:0]]).shape == (0, 4, 5 if layers == 3 else CLASSES)


def test_direction_says_nothing_where_every_edge_is_named_once() -> None:
    once = np.triu(np.ones((9, 9)))
    assert not direction_tells(sp.csr_array(once))
    assert not direction_tells(sp.csr_array((3, 3)))
    once[4, 0] = 1
    assert direction_tells(sp.csr_array(once))
    made = model(True, experts=("boosting", "given"), directions=False)
    assert not made.experts["boosting"].directed
    assert not made.only(["boosting", "given"]).directions
