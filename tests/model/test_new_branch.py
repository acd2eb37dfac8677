"""A branch is its own file and a place in the list: everything else takes it from there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from djgnn.graph import Graph, arrivals, heterophilic_sbm, random_splits
from djgnn.model import DJGNN, graph_operators
from djgnn.model.arrivals import Memory
from djgnn.model.batches import BatchedDJGNN
from djgnn.model.branches import BRANCHES, Branch
from djgnn.model.dropout import relu_dropout
from djgnn.model.explain import explain
from djgnn.training import resolve, train
from djgnn.training.inputs import build_djgnn

GRAPH = random_splits(heterophilic_sbm(140, hub_size=2))
N = GRAPH.num_nodes


class SmoothedBranch(Branch):
    """One hop of the features, ReLU(A X W + b), as somebody would write it in forty lines."""

    name = "smoothed"

    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.bias = nn.Parameter(torch.zeros(hidden_channels))

    @classmethod
    def build(cls, config: Any, in_channels: int, num_nodes: int) -> Branch:
        return cls(in_channels, config.hidden_channels)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)

    def encode(self, view: Any) -> Tensor:
        return view.hop(self.weight, self.bias)

    def forward(self, encoding: Any, view: Any, generator: Any = None) -> Tensor:
        h = view.hop_rows(encoding.parts[self.name])
        return relu_dropout(h, 0.0, self.training, generator, view.windows[1])

    def matrix(self, operators: Any) -> Any:
        return operators.homophilic


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("djgnn.model.djgnn.BRANCHES", [*BRANCHES, SmoothedBranch])


def case() -> tuple[DJGNN, Tensor, Any]:
    model = DJGNN(GRAPH.num_features, 6, 4, num_nodes=N, num_jumps=3, dropout=0.0).double()
    model.reset_parameters(torch.Generator().manual_seed(0))
    operators = graph_operators(GRAPH.adjacency, dtype=torch.float64)
    return model.eval(), torch.tensor(GRAPH.x, dtype=torch.float64), operators


def test_it_is_in_the_model_and_mixed() -> None:
    model, x, operators = case()
    assert model.branch_names[-1] == "smoothed"
    assert model.mixture.alpha.numel() == len(model.branch_names)
    embedding = model.run(x, operators).embeddings[-1]
    dense = torch.relu(operators.homophilic.to_dense() @ x @ model.smoothed.weight)
    torch.testing.assert_close(embedding, dense)


def test_some_rows_and_batches_are_the_whole() -> None:
    model, x, operators = case()
    whole, _ = model(x, operators)
    view, chosen = model.view(x, operators), torch.tensor([7, 0, 3])
    torch.testing.assert_close(model.decode(model.encode(view), view.rows(chosen)), whole[chosen])
    batched = BatchedDJGNN(model, x, operators)
    torch.testing.assert_close(batched.logits(chosen, batched.tables()), whole[chosen])
    torch.testing.assert_close(batched.evaluate(batched.tables(), 50), whole)


def test_new_nodes_get_it() -> None:
    """A new node without edges: its normalised row of A is its self loop alone."""
    model, x, operators = case()
    names = (*GRAPH.names(), "new")
    later = Graph(GRAPH.edge_index, N + 1, x=np.vstack([GRAPH.x, GRAPH.x[:1]]), node_names=names)
    known = Graph(GRAPH.edge_index, N, x=GRAPH.x, node_names=GRAPH.names())
    seen: list[Tensor] = []
    model.smoothed.register_forward_hook(lambda *call: seen.append(call[2]))
    new, _ = arrivals(later, known)
    Memory(model, x, operators).logits(new, torch.tensor(new.x, dtype=torch.float64))
    torch.testing.assert_close(seen[-1], torch.relu(x[:1] @ model.smoothed.weight))


def test_it_is_trained_and_explained() -> None:
    config = resolve("default", None, hidden_channels=8, epochs=3, structure_gate=False)
    module, inputs = build_djgnn(config, GRAPH)
    fitted, _ = train(module, inputs, GRAPH, 0, config.training, 0)
    found = explain(fitted.module, inputs, GRAPH, 5)
    assert found.branches[-1].branch == "smoothed"
    assert found.branches[-1].neighbours
    total = np.array(list(found.bias.values()))
    for part in found.branches:
        total += np.array(list(part.contributions.values()))
    np.testing.assert_allclose(total, list(found.logits.values()), atol=1e-5)
