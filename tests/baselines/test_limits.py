"""Limits in which a system must equal something known: an MLP, or a layer of PyG."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.baselines.conftest import dense, looped, received, scaled
from torch_geometric.nn import APPNP, GATConv, GCN2Conv, GCNConv, MixHopConv, SAGEConv
from torch_geometric.nn import LINKX as PygLINKX

from djgnn.baselines import baseline_config
from djgnn.bench.cell import build, train_split
from djgnn.graph import Graph, random_splits


def copy_into_mlp(mlp, *layers) -> None:
    with torch.no_grad():
        for mine, (weight, bias) in zip(mlp.layers, layers, strict=True):
            mine.weight.copy_(weight)
            mine.bias.copy_(bias)


def test_gcn_on_a_graph_without_edges_is_the_mlp(graph: Graph, built) -> None:
    bare = Graph(np.zeros((2, 0)), graph.num_nodes, x=graph.x, y=graph.y)
    gcn, inputs = built("gcn", bare)
    mlp, mlp_inputs = built("mlp", bare)
    copy_into_mlp(mlp, *((m.weight, c.bias) for m, c in zip(gcn.maps, gcn.layers, strict=True)))
    torch.testing.assert_close(gcn(*inputs), mlp(*mlp_inputs))


def test_mlp_does_not_see_the_graph(graph: Graph, built) -> None:
    module, (x, edges) = built("mlp", graph)
    torch.testing.assert_close(module(x, edges), module(x, edges[:, :3]))


def test_gprgnn_that_has_not_learned_is_appnp(graph: Graph, built) -> None:
    module, (x, edges) = built("gprgnn", graph, alpha=0.3, num_hops=4, adjacency="given")
    h = module.decoder(module.encoder(x).relu())
    torch.testing.assert_close(module(x, edges), APPNP(4, 0.3)(h, edges), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("variant", [False, True])
def test_gcnii_is_made_of_pygs_layers(variant: bool, graph: Graph, built) -> None:
    module, (x, edges) = built("gcnii", graph, alpha=0.3, lam=1.5, variant=variant, num_layers=3)
    h = first = module.encoder(x).relu()
    for number, layer in enumerate(module.layers, start=1):
        conv = GCN2Conv(8, 0.3, 1.5, number, shared_weights=not variant)
        with torch.no_grad():
            conv.weight1.copy_(layer.weight[:8])
            if variant:
                # PyG splits the share of the identity the same way, with each weight on its own.
                conv.weight1.copy_(layer.weight[:8] / 0.7)
                conv.weight2.copy_(layer.weight[8:] / 0.3)
        h = conv(h, first, edges).relu()
    torch.testing.assert_close(module(x, edges), module.decoder(h), atol=1e-5, rtol=1e-4)


def test_gcnii_with_alpha_one_is_an_mlp(graph: Graph, built) -> None:
    module, (x, edges) = built("gcnii", graph, alpha=1.0, num_layers=1, lam=float(np.e - 1))
    # One layer with beta = 1: ReLU(ReLU(X W0) W1) W2, three plain layers.
    mlp, _ = built("mlp", graph, num_layers=3)
    zero = torch.zeros(8)
    copy_into_mlp(
        mlp,
        (module.encoder.weight, module.encoder.bias),
        (module.layers[0].weight, zero),
        (module.decoder.weight, module.decoder.bias),
    )
    torch.testing.assert_close(module(x, edges), mlp(x, edges))
    torch.testing.assert_close(module(x, edges), module(x, edges[:, :3]))


def test_fsgnn_with_zero_hops_is_an_mlp(graph: Graph, built) -> None:
    module, (x, edges) = built("fsgnn", graph, num_hops=0, hop_norm=False)
    mlp, _ = built("mlp", graph)
    decoder = module.decoder
    copy_into_mlp(mlp, (module.weight, module.bias), (decoder.weight, decoder.bias))
    torch.testing.assert_close(module(x, edges), mlp(x, edges))


def test_a_perceptron_on_zero_hops_is_an_mlp(graph: Graph, built) -> None:
    module, (x, edges) = built("hops_mlp", graph, num_hops=0)
    mlp, _ = built("mlp", graph)
    copy_into_mlp(mlp, *((layer.weight, layer.bias) for layer in module.layers))
    torch.testing.assert_close(module(x, edges), mlp(x, edges))


def test_linkx_without_the_adjacency_is_an_mlp(graph: Graph, built) -> None:
    module, (x, edges) = built("linkx", graph, structure=False, num_layers=1)
    mlp, _ = built("mlp", graph)
    parts = (module.nodes.layers[0], module.head.layers[0])
    copy_into_mlp(mlp, *((part.weight, part.bias) for part in parts))
    torch.testing.assert_close(module(x, edges), mlp(x, edges))


def test_linkx_is_pygs(graph: Graph, built) -> None:
    module, (x, edges) = built("linkx", graph, num_layers=1, adjacency="transposed")
    other = PygLINKX(graph.num_nodes, x.shape[1], 8, graph.num_classes, num_layers=1)
    with torch.no_grad():
        other.edge_lin.weight.copy_(module.edges.layers[0].weight)
        other.edge_lin.bias.copy_(module.edges.layers[0].bias)
        other.cat_lin1.weight.copy_(module.join.weight[:8].t())
        other.cat_lin2.weight.copy_(module.join.weight[8:].t())
        other.cat_lin1.bias.copy_(module.join.bias)
        other.cat_lin2.bias.zero_()
        for mlp, mine in ((other.node_mlp, module.nodes), (other.final_mlp, module.head)):
            mlp.lins[0].weight.copy_(mine.layers[0].weight.t())
            mlp.lins[0].bias.copy_(mine.layers[0].bias)
    expected = other.eval()(dense(x), edges)
    torch.testing.assert_close(module(x, edges), expected, atol=1e-5, rtol=1e-4)


def test_a_graphsage_layer_is_pygs(graph: Graph, built) -> None:
    module, (x, edges) = built("graphsage", graph, num_layers=1, adjacency="given")
    layer, conv = module.layers[0], SAGEConv(x.shape[1], graph.num_classes)
    with torch.no_grad():
        conv.lin_l.weight.copy_(layer.near.weight.t())
        conv.lin_l.bias.copy_(layer.near.bias)
        conv.lin_r.weight.copy_(layer.own.weight.t())
    torch.testing.assert_close(module(x, edges), conv(dense(x), edges), atol=1e-5, rtol=1e-4)


def test_a_mixhop_layer_is_pygs(graph: Graph, built) -> None:
    module, (x, edges) = built("mixhop", graph, max_power=2, adjacency="given")
    layer, conv = module.layers[0], MixHopConv(x.shape[1], 8, powers=[0, 1, 2])
    with torch.no_grad():
        for power in range(3):
            conv.lins[power].weight.copy_(layer.weight[:, 8 * power : 8 * power + 8].t())
        conv.bias.copy_(layer.bias)
    mixed = module.mix(0, x, module.constants(x, edges))
    torch.testing.assert_close(mixed, conv(dense(x), edges), atol=1e-5, rtol=1e-4)


def test_mixhop_with_power_zero_is_an_mlp(graph: Graph, built) -> None:
    module, (x, edges) = built("mixhop", graph, max_power=0, num_layers=1, batch_norm=False)
    mlp, _ = built("mlp", graph)
    parts = (module.layers[0], module.decoder)
    copy_into_mlp(mlp, *((part.weight, part.bias) for part in parts))
    torch.testing.assert_close(module(x, edges), mlp(x, edges))


def test_pairnorm_centres_and_scales(graph: Graph, built) -> None:
    module, (x, edges) = built("pairnorm", graph, scale=3.0)
    a = scaled(looped(received(edges, graph.num_nodes)))
    h = a @ (x @ module.maps[0].weight) + module.layers[0].bias
    h = h - h.mean(dim=0)
    h = 3 * h / h.square().sum(dim=1).mean().sqrt()
    expected = a @ (h.relu() @ module.maps[1].weight) + module.layers[1].bias
    torch.testing.assert_close(module(x, edges), expected, atol=1e-4, rtol=1e-4)


def test_a_tuned_network_without_additions_is_its_plain_self(graph: Graph, built) -> None:
    plain = {"norm": "none", "residual": False}
    module, (x, edges) = built("tuned_gcn", graph, **plain)
    a = scaled(looped(received(edges, graph.num_nodes)))
    h = module.encoder(x)
    for layer in module.layers:
        h = (a @ (h @ layer.lin.weight.t()) + layer.bias).relu()
    torch.testing.assert_close(module(x, edges), module.decoder(h), atol=1e-5, rtol=1e-4)
    sage, (x, edges) = built("tuned_sage", graph, **plain)
    h, none = sage.encoder(x), edges[:, :0]
    for layer in sage.layers:
        h = (layer.own(h) + layer.near.bias).relu()
    torch.testing.assert_close(sage(x, none), sage.decoder(h), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["tuned_gcn", "tuned_gat", "tuned_sage"])
def test_fifteen_layers_still_learn(name: str, graph: Graph) -> None:
    deep = {"num_layers": 15, "norm": "batch", "residual": True, "dropout": 0.0}
    config = baseline_config(name, hidden_channels=32, **deep, weight_decay=0.0, epochs=40)
    ready = random_splits(graph, num_splits=1)
    history = train_split(build(config, ready), ready, 0).history
    assert history[-1].loss < 0.2 * history[0].loss


def test_dir_gnn_against_the_edges_is_itself_with_the_directions_exchanged(
    graph: Graph, built
) -> None:
    module, (x, edges) = built("dir_gnn", graph, alpha=0.3)
    turned, _ = built("dir_gnn", graph, alpha=0.7)
    with torch.no_grad():
        for mine, other in zip(turned.layers, module.layers, strict=True):
            mine.weight.copy_(torch.cat(other.weight.chunk(2, dim=1)[::-1], dim=1))
            mine.bias.copy_(torch.cat(other.bias.chunk(2)[::-1]))
        turned.decoder.load_state_dict(module.decoder.state_dict())
    torch.testing.assert_close(turned(x, edges.flip(0)), module(x, edges), atol=1e-5, rtol=1e-4)


def test_gcn_is_made_of_pygs_layers(graph: Graph, built) -> None:
    module, (x, edges) = built("gcn", graph, adjacency="given")
    h = dense(x)
    for number, (linear, mine) in enumerate(zip(module.maps, module.layers, strict=True)):
        conv = GCNConv(*linear.weight.shape)
        with torch.no_grad():
            conv.lin.weight.copy_(linear.weight.t())
            conv.bias.copy_(mine.bias)
        h = conv(h.relu() if number else h, edges)
    torch.testing.assert_close(module(x, edges), h, atol=1e-5, rtol=1e-4)


def test_gat_is_made_of_pygs_layers(graph: Graph, built) -> None:
    module, (x, edges) = built("gat", graph, adjacency="given")
    h = dense(x)
    for number, (linear, mine) in enumerate(zip(module.maps, module.layers, strict=True)):
        conv = GATConv(linear.in_channels, mine.out_channels, heads=mine.heads)
        conv.load_state_dict(mine.state_dict() | {"lin.weight": linear.weight.t()})
        h = conv(F.elu(h) if number else h, edges)
    torch.testing.assert_close(module(x, edges), h, atol=1e-5, rtol=1e-4)
