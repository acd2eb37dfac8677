"""Systems against their equations, written out with n x n matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from tests.baselines.conftest import dense, looped, received, scaled

from djgnn.baselines import hops_mlp
from djgnn.baselines.ordered_gnn import OrderedGNNOptions
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator


def test_gat_is_its_equation(graph: Graph, built) -> None:
    module, (x, edges) = built("gat", graph, num_layers=1, adjacency="given")
    layer = module.layers[0]
    wh = x @ module.maps[0].weight
    mine, theirs = wh @ layer.att_dst[0, 0], wh @ layer.att_src[0, 0]
    logits = F.leaky_relu(mine[:, None] + theirs[None, :], 0.2)
    near = looped(received(edges, graph.num_nodes)) > 0
    alpha = logits.masked_fill(~near, -math.inf).softmax(dim=1)
    torch.testing.assert_close(module(x, edges), alpha @ wh + layer.bias, atol=1e-5, rtol=1e-4)


def test_h2gcn_is_its_equation(graph: Graph, built) -> None:
    module, (x, edges) = built("h2gcn", graph, num_rounds=2)
    a = received(edges, graph.num_nodes)
    a.fill_diagonal_(0)
    two = ((a @ a > 0) & (a == 0)).float()
    two.fill_diagonal_(0)
    one, two = scaled(a), scaled(two)
    r0 = (dense(x) @ module.encoder.weight).relu()
    r1 = torch.cat([one @ r0, two @ r0], dim=1)
    r2 = torch.cat([one @ r1, two @ r1], dim=1)
    expected = module.decoder(torch.cat([r0, r1, r2], dim=1))
    torch.testing.assert_close(module(x, edges), expected, atol=1e-5, rtol=1e-4)


def test_ggcn_is_its_dense_formulation(graph: Graph, built) -> None:
    module, (x, edges) = built("ggcn", graph, num_layers=3, adjacency="given", decay_rate=0.7)
    p = scaled(looped(received(edges, graph.num_nodes)))
    ratio = p.diagonal()[:, None] / p.clamp_min(1e-9) - 1

    def layer(part, f: torch.Tensor) -> torch.Tensor:
        cosine = F.normalize(f, dim=1) @ F.normalize(f, dim=1).t()
        cosine.fill_diagonal_(0)
        s = cosine * p * F.softplus(part.degree[0] * ratio + part.degree[1])
        c = part.parts.softmax(dim=0)
        total = c[0] * s.relu() @ f - c[1] * (-s).relu() @ f + c[2] * f
        return F.softplus(part.scale) * total

    with torch.no_grad():
        for part in module.layers:
            part.parts.copy_(torch.tensor([0.3, -0.5, 0.1]))
            part.degree.copy_(torch.tensor([0.4, 0.2]))
        kept, first = module.encoder(dense(x)).chunk(2, dim=1)
        h1 = layer(module.layers[0], first)
        r1 = F.elu(kept) + F.elu(h1)
        h2 = layer(module.layers[1], module.weights[0](r1))
        r2 = r1 + math.log(0.7 / 3**3 + 1) * F.elu(h2)
        expected = layer(module.layers[2], module.weights[1](r2))
        torch.testing.assert_close(module(x, edges), expected, atol=1e-4, rtol=1e-4)


def test_cgnn_flows_as_the_matrix_exponential_says(graph: Graph, built) -> None:
    module, (x, edges) = built("cgnn", graph, time=3.0, step=0.25)
    with torch.no_grad():
        module.alpha.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
        start = module.encoder(x)
        reached = module.flow(start, module.constants(x, edges))
    n = graph.num_nodes
    p = scaled(looped(received(edges, n))).double().numpy()
    generator = 0.5 * module.alpha.sigmoid().detach().double().numpy()[:, None] * (p - np.eye(n))
    block = np.block([[generator, np.eye(n)], [np.zeros((n, 2 * n))]])
    moved = scipy.linalg.expm(3.0 * block)[:n]
    expected = (moved[:, :n] + moved[:, n:]) @ start.double().numpy()
    np.testing.assert_allclose(reached.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_fsgnn_propagates_the_features_themselves(graph: Graph, built) -> None:
    module, (x, edges) = built("fsgnn", graph, num_hops=2, adjacency="given")
    with torch.no_grad():
        module.attention.copy_(torch.arange(5) / 5)
    a = received(edges, graph.num_nodes)
    plain, loops = scaled(a), scaled(a + torch.eye(len(a)))
    sources = [dense(x)]
    for power in (plain, loops):
        sources += [power @ dense(x), power @ power @ dense(x)]
    weights, biases = module.weight.chunk(5, dim=1), module.bias.chunk(5)
    alpha = module.attention.softmax(dim=0)
    parts = [
        a_m * F.normalize(s @ w + b, dim=1)
        for a_m, s, w, b in zip(alpha, sources, weights, biases, strict=True)
    ]
    expected = module.decoder(torch.cat(parts, dim=1).relu())
    torch.testing.assert_close(module(x, edges), expected, atol=1e-5, rtol=1e-4)


def test_hops_of_all_aggregations_are_their_dense_formulation(graph: Graph, built) -> None:
    module, (x, edges) = built("hops_mlp", graph, aggregations="all", adjacency="given")
    near = looped(received(edges, graph.num_nodes))
    inside, whole = near.bool()[:, :, None], dense(x)

    def largest(h: torch.Tensor) -> torch.Tensor:
        return h.expand(len(h), -1, -1).masked_fill(~inside, -math.inf).amax(dim=1)

    rules = [scaled(near).matmul, near.matmul, largest, lambda h: -largest(-h)]
    expected = [whole, *(h for rule in rules for h in (rule(whole), rule(rule(whole))))]
    for part, one in zip(module.constants(x, edges), expected, strict=True):
        torch.testing.assert_close(dense(part), one, atol=1e-5, rtol=1e-4)
    first, last = module.layers
    logits = last(first(torch.cat(expected, dim=1)).relu())
    torch.testing.assert_close(module(x, edges), logits, atol=1e-4, rtol=1e-4)


def test_a_perceptron_on_hops_is_its_equation(graph: Graph, built) -> None:
    module, (x, edges) = built("hops_mlp", graph, num_hops=3, num_layers=3, adjacency="given")
    p, parts = scaled(looped(received(edges, graph.num_nodes))), [dense(x)]
    for _ in range(3):
        parts.append(p @ parts[-1])
    h = torch.cat(parts, dim=1)
    for layer in module.layers[:-1]:
        h = layer(h).relu()
    torch.testing.assert_close(module(x, edges), module.layers[-1](h), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("norm", "dim"), [("layer", 1), ("batch", 0)])
def test_standardised_hops_have_mean_zero_and_variance_one(
    norm: str, dim: int, graph: Graph, built
) -> None:
    module, (x, edges) = built("hops_mlp", graph, norm=norm, num_hops=1)
    p = scaled(looped(received(edges, graph.num_nodes)))
    spread = torch.cat([dense(x), p @ dense(x)], dim=1).var(dim=dim, correction=0)
    whole = torch.cat([dense(part) for part in module.constants(x, edges)], dim=1)
    torch.testing.assert_close(whole.mean(dim=dim), torch.zeros_like(spread), atol=1e-5, rtol=0)
    torch.testing.assert_close(whole.var(dim=dim, correction=0), spread / (spread + 1e-5))


def test_hops_held_sparse_and_dense_give_the_same_logits(
    graph: Graph, built, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(hops_mlp, "SPARSE", share)
        module, inputs = built("hops_mlp", graph, aggregations="all")
        kinds = {isinstance(part, SparseOperator) for part in module.constants(*inputs)}
        assert kinds == {share == 1.0}
        found.append(module(*inputs))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("style", ["diagonal", "dominant", "sum"])
def test_graff_descends_its_energy(style: str, graph: Graph, built) -> None:
    module, (x, edges) = built("graff", graph, weights=style)
    with torch.no_grad():
        module.beta.fill_(0.4)
    w = module.mixing()
    torch.testing.assert_close(w, w.t())
    p = module.constants(x, edges)
    h0 = module.encode(x, None).detach()
    h = torch.randn(h0.shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    energy = (h * h * module.omega.shift).sum() - (h * (p @ (h @ w))).sum()
    energy = energy - 2 * module.beta * (h * h0).sum()
    (gradient,) = torch.autograd.grad(energy, h)
    torch.testing.assert_close(module.slope(h, h0, p), -gradient / 2, atol=1e-4, rtol=1e-4)


def test_graff_takes_a_shorter_last_step(graph: Graph, built) -> None:
    module, (x, edges) = built("graff", graph, time=0.7, step=0.5)
    h0, p = module.encode(x, None), module.constants(x, edges)
    h = h0 + 0.5 * module.slope(h0, h0, p)
    h = h + 0.2 * module.slope(h, h0, p)
    torch.testing.assert_close(module(x, edges), module.decoder(h.relu()))


@pytest.mark.parametrize("structure", [False, True])
def test_acmii_gcn_is_its_equation(structure: bool, graph: Graph, built) -> None:
    module, (x, edges) = built("acmii_gcn", graph, structure=structure, residual=False)
    a = received(edges, graph.num_nodes)
    p = a + torch.eye(len(a))
    p = p / p.sum(dim=1, keepdim=True)

    def layer(part, h: torch.Tensor) -> torch.Tensor:
        low, high, own = (h @ w for w in part.linear.weight.chunk(3, dim=1))
        channels = [p @ low.relu(), (torch.eye(len(p)) - p) @ high.relu(), own.relu()]
        if structure:
            channels.append((a @ part.rows).relu())
        keys = [c @ v for c, v in zip(channels, part.vectors, strict=True)]
        logits = torch.stack(keys, dim=1).sigmoid() @ part.mixing / len(channels)
        alpha = logits.softmax(dim=1)
        total = sum(alpha[:, i : i + 1] * c for i, c in enumerate(channels))
        return total if structure else 3 * total

    expected = layer(module.second, layer(module.first, dense(x)).relu())
    torch.testing.assert_close(module(x, edges), expected, atol=1e-5, rtol=1e-4)


def test_the_gates_of_ordered_gnn_only_open(graph: Graph, built) -> None:
    module, (x, edges) = built("ordered_gnn", graph, num_layers=4)
    mean = module.constants(x, edges)
    _, gates = module.rounds(module.encode(x, None), mean)
    gates = torch.stack(gates)
    assert (gates.diff(dim=2) >= -1e-6).all(), "along the channels"
    assert (gates.diff(dim=0) >= -1e-6).all(), "from round to round"
    assert (gates >= 0).all()
    torch.testing.assert_close(gates[:, :, -1], torch.ones_like(gates[:, :, -1]))


def test_an_open_gate_keeps_what_was_there(graph: Graph, built) -> None:
    module, (x, edges) = built("ordered_gnn", graph, num_layers=1)
    with torch.no_grad():
        module.gates[0].weight.zero_()
        module.gates[0].bias.copy_(torch.tensor([100.0, 0, 0, 0]))
    h = module.encode(x, None)
    kept, _ = module.rounds(h, module.constants(x, edges))
    torch.testing.assert_close(kept, F.layer_norm(h, (8,)), atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match=r"multiple of num_chunks=64 \(got 100\)"):
        OrderedGNNOptions(hidden_channels=100)


def test_asgc_fits_every_feature_by_least_squares(graph: Graph, built) -> None:
    module, (x, edges) = built("asgc", graph, num_hops=3, ridge=0.1)
    a = received(edges, graph.num_nodes).double()
    a = a + torch.diag((a.sum(dim=1) == 0).double())
    s, features = scaled(a).numpy(), dense(x).double().numpy()
    made = module.constants(x, edges)
    for column in (0, 3):
        powers = [features[:, column]]
        for _ in range(3):
            powers.append(s @ powers[-1])
        z = np.stack(powers, axis=1)
        row = np.array([math.sqrt(len(z) * 0.1), 0, 0, 0])
        left, right = np.vstack([z, row]), np.append(z[:, 0], 0)
        beta = np.linalg.lstsq(left, right, rcond=None)[0]
        np.testing.assert_allclose(made[:, column].numpy(), z @ beta, rtol=1e-4, atol=1e-5)


def test_asgc_without_ridge_keeps_the_features(graph: Graph, built) -> None:
    module, (x, edges) = built("asgc", graph, ridge=0.0)
    torch.testing.assert_close(module.constants(x, edges), dense(x), atol=1e-5, rtol=1e-4)
