"""Many hops in one piece, against one hop after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from djgnn.graph import heterophilic_sbm
from djgnn.model.operators import Parts
from djgnn.model.views import GraphView, View
from djgnn.training import resolve
from djgnn.training.inputs import blank_djgnn

GRAPH = heterophilic_sbm(60)
INDEX = torch.tensor([0, 7, 8, 59])


def view_of(index: Tensor | None, x: Tensor | None = None) -> GraphView:
    model = blank_djgnn(resolve("paper"), GRAPH)
    operators = model.operators(Parts(GRAPH.adjacency))
    whole = operators.view(torch.zeros(GRAPH.num_nodes, 1) if x is None else x)
    return whole if index is None else whole.rows(index)


@pytest.mark.parametrize("index", [None, INDEX])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_blocks_go_their_hops(index: Tensor | None, hops: int) -> None:
    view = view_of(index)
    h = torch.randn(GRAPH.num_nodes, 8 * (hops + 1), requires_grad=True)
    found, wanted = view.hop_blocks(h, 8), View.hop_blocks(view, h, 8)
    assert torch.equal(found, wanted)
    slope = torch.randn_like(found)
    assert torch.equal(*(torch.autograd.grad(each, h, slope)[0] for each in (found, wanted)))


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_blocks_go_their_hops_to_all_nodes(hops: int) -> None:
    view = view_of(INDEX)
    h = torch.randn(GRAPH.num_nodes, 8 * (hops + 1), requires_grad=True)
    found, wanted = view.spread_blocks(h, 8), View.spread_blocks(view, h, 8)
    assert torch.equal(found, wanted)
    assert torch.equal(view.hop_blocks(h, 8), wanted[INDEX])
    slope = torch.randn_like(found)
    assert torch.equal(*(torch.autograd.grad(each, h, slope)[0] for each in (found, wanted)))


@pytest.mark.parametrize("index", [None, INDEX])
@pytest.mark.parametrize("hops", [1, 2, 10])
@pytest.mark.parametrize("learned", [True, False])
def test_sums_over_hops(index: Tensor | None, hops: int, learned: bool) -> None:
    view = view_of(index)
    h = torch.randn(GRAPH.num_nodes, 8, requires_grad=True)
    weights = torch.randn(hops + 1, requires_grad=learned)
    found, wanted = view.hop_sum(h, weights), View.hop_sum(view, h, weights)
    torch.testing.assert_close(found, wanted)
    slope, inputs = torch.randn_like(found), (h, weights) if learned else (h,)
    gradients = (torch.autograd.grad(each, inputs, slope) for each in (found, wanted))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(view.hop_sum(h, weights), found)


def test_narrow_features_go_their_hops_before_they_are_multiplied() -> None:
    x = torch.randn(GRAPH.num_nodes, 3)
    view, weight = view_of(None, x), torch.randn(3, 12, requires_grad=True)
    slope = torch.randn(GRAPH.num_nodes, 12)
    for each in (view, view.rows(INDEX)):  # hops reach all nodes; rows are chosen later
        found, wanted = each.hops(weight, 4), View.hops(view, weight, 4)
        torch.testing.assert_close(found, wanted)
        gradients = (torch.autograd.grad(part, weight, slope)[0] for part in (found, wanted))
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)
        one = each.hop(weight[:, :4], torch.ones(4))
        torch.testing.assert_close(one, view.operators.homophilic @ (x @ weight[:, :4]) + 1)


def test_hops_of_features_that_learn_have_gradients() -> None:
    x = torch.randn(GRAPH.num_nodes, 3, requires_grad=True)
    view, weight = view_of(None, x), torch.randn(3, 12)
    slope = torch.randn(GRAPH.num_nodes, 12)
    wanted = torch.autograd.grad(View.hops(view, weight, 4), x, slope)[0]
    assert torch.equal(torch.autograd.grad(view.hops(weight, 4), x, slope)[0], wanted)
    assert wanted.any()
