"""A branch is its own file and a place in the list: everything else takes it from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.own_branches import OWN
from torch import Tensor

from djgnn.graph import Graph, arrivals, heterophilic_sbm, random_splits
from djgnn.model import DJGNN, graph_operators
from djgnn.model.batches import BatchedDJGNN
from djgnn.model.branches import BRANCHES
from djgnn.model.explain import explain
from djgnn.model.new_nodes import Memory
from djgnn.training import resolve, train
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.folder import new_folder, write_run
from djgnn.training.inputs import build_djgnn
from djgnn.training.progress import Hooks
from djgnn.training.stored import load_model

GRAPH = random_splits(heterophilic_sbm(140, hub_size=2))
N = GRAPH.num_nodes


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("djgnn.model.djgnn.BRANCHES", [*BRANCHES, *OWN])


def case() -> tuple[DJGNN, Tensor, Any]:
    model = DJGNN(GRAPH.num_features, 6, 4, num_nodes=N, num_jumps=3, dropout=0.0).double()
    model.reset_parameters(torch.Generator().manual_seed(0))
    operators = graph_operators(GRAPH.adjacency, dtype=torch.float64)
    return model.eval(), torch.tensor(GRAPH.x, dtype=torch.float64), operators


def test_it_is_in_the_model_and_mixed() -> None:
    model, x, operators = case()
    assert model.branch_names[-2:] == ("smoothed", "alone")
    assert model.mixture.alpha.numel() == len(model.branch_names)
    smoothed, alone = model.run(x, operators).embeddings[-2:]
    dense = torch.relu(operators.homophilic.to_dense() @ x @ model.smoothed.weight)
    torch.testing.assert_close(smoothed, dense)
    torch.testing.assert_close(alone, torch.relu(x @ model.alone.weight))


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
    for branch in (model.smoothed, model.alone):
        branch.register_forward_hook(lambda *call: seen.append(call[2]))
    new, _ = arrivals(later, known)
    Memory(model, x, operators).logits(new, torch.tensor(new.x, dtype=torch.float64))
    torch.testing.assert_close(seen[-2], torch.relu(x[:1] @ model.smoothed.weight))
    torch.testing.assert_close(seen[-1], torch.relu(x[:1] @ model.alone.weight))


def test_it_is_trained_and_explained() -> None:
    config = resolve("default", None, hidden_channels=8, epochs=3, experts=())
    module, inputs = build_djgnn(config, GRAPH)
    fitted, _ = train(module, inputs, GRAPH, 0, config.training, 0)
    found = explain(fitted.module, inputs, GRAPH, 5)
    assert [part.branch for part in found.branches[-2:]] == ["smoothed", "alone"]
    assert found.branches[-2].neighbours
    total = np.array(list(found.bias.values()))
    for part in found.branches:
        total += np.array(list(part.contributions.values()))
    np.testing.assert_allclose(total, list(found.logits.values()), atol=1e-5)


def test_a_stopped_run_resumes_and_a_stored_one_is_read_back(tmp_path: Path) -> None:
    config = resolve("default", None, hidden_channels=8, epochs=4, experts=())
    found = []
    for stop in (None, lambda: True, None):
        module, inputs = build_djgnn(config, GRAPH)
        checkpoint = None if not found else Checkpoint(tmp_path / "checkpoint" / "run", "k")
        hooks = Hooks(stop=stop, checkpoint=checkpoint)
        found.append(train(module, inputs, GRAPH, 0, config.training, 0, hooks))
    assert torch.equal(found[2][0].logits, found[0][0].logits)
    with new_folder(tmp_path / "run") as folder:
        write_run(folder, GRAPH, config, *found[0], 0)
    stored = load_model(tmp_path / "run")
    np.testing.assert_allclose(stored.logits, found[0][0].logits.numpy(), atol=1e-6)
    assert stored.card["alpha"].keys() >= {"smoothed", "alone"}
