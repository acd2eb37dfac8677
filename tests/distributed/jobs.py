"""What the processes of the tests do; a module of its own, so that they can import it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from djgnn.graph import Graph, heterophilic_sbm, random_splits, read_npz
from djgnn.model import DJGNN
from djgnn.model.operators import ADJACENCIES, Parts, WholeGraph, gcn_normalize
from djgnn.training import Fitted, RunConfig, resolve, train
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.distributed import Group
from djgnn.training.distributed.exchange import (
    Plan,
    gather_inputs,
    gather_results,
    owned,
    reduce_gradients,
)
from djgnn.training.distributed.rows import OwnRows, without_rows
from djgnn.training.distributed.shard import Shard
from djgnn.training.distributed.view import ShardParts, shard_djgnn
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets
from djgnn.training.passes import choose_passes
from djgnn.training.progress import Hooks

BASE: dict[str, Any] = {
    "hidden_channels": 16,
    "epochs": 20,
    "patience": None,
    "experts": (),
    "num_jumps": 5,
    "lr": 0.01,  # at higher rates differences of rounding grow faster
    "weight_decay": 5e-4,
    "label_smoothing": None,
}


FOLDER: dict[str, Any] = {"hidden_channels": 8, "patience": None}


def sbm() -> Graph:
    return random_splits(heterophilic_sbm(300, hub_size=1))


def stored(name: str, data: Path) -> Graph:
    return Graph.load(name, data=data)


def tiny() -> Graph:
    """Five nodes, one of them alone; only the first two are trained on."""
    parts = ([1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1])
    train, val, test = (np.array(part, dtype=np.bool_) for part in parts)
    return Graph(
        edge_index=np.array([[0, 1, 2, 1], [1, 2, 0, 0]]),
        num_nodes=5,
        x=np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32),
        y=np.array([0, 1, 0, 1, 1]),
        train_mask=train,
        val_mask=val,
        test_mask=test,
    )


def configuration(recipe: dict[str, Any]) -> RunConfig:
    """One network that runs to the end, unless the recipe says otherwise."""
    return resolve("default").replace(**{**BASE, **recipe})


def fit_many(group: Group, graph: Graph, recipes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Train once per recipe: losses of every epoch, rank lists after every epoch, logits."""
    return [_fit(group, graph, recipe) for recipe in recipes]


def _fit(group: Group, graph: Graph, recipe: dict[str, Any]) -> dict[str, Any]:
    config = configuration(recipe)
    module, inputs = build_djgnn(config, graph, group=group)
    tables: list[Any] = []

    def observe(record: Any, model: Any, encoding: Any, logits: Any) -> None:
        if encoding is not None:  # a network
            tables.append(encoding.table.index.numpy())

    fitted, result = train(module, inputs, graph, 0, config.training, 0, Hooks(observer=observe))
    return {
        "losses": losses_of(fitted),
        "ranks": np.concatenate([table.reshape(-1) for table in tables]),
        "logits": fitted.logits.numpy(),
        "chosen": [(r.name, r.epoch, r.epochs, r.dropped) for r in fitted.experts],
        "weights": np.array([r.weight for r in fitted.experts]),
        "epoch": fitted.epoch,
        "test": result.test,
        "halted": fitted.interrupted,
    }


def losses_of(fitted: Fitted) -> np.ndarray[Any, Any]:
    """Loss, pump loss and validation loss of every epoch."""
    return np.array([(r.loss, r.pump_loss, r.validation_loss) for r in fitted.history])


def fit_with_own_branches(group: Group, graph: Graph) -> dict[str, Any]:
    """Train with two branches that are not part of the package."""
    from tests.own_branches import OWN

    from djgnn.model import djgnn
    from djgnn.model.branches import BRANCHES

    djgnn.BRANCHES = [*BRANCHES, *OWN]
    try:
        return _fit(group, graph, {"epochs": 6})
    finally:
        djgnn.BRANCHES = BRANCHES


def both_passes(group: Group, graph: Graph) -> dict[str, list[tuple[Any, Any]]]:
    """Gradients and logits of a few steps of every expert, by shards and by whole passes."""
    config = resolve("default", None, hidden_channels=16)
    with_world()
    found: dict[str, list[Any]] = {}
    for build in (partial(shard_djgnn, group=group), build_djgnn):
        mixed, whole = build(config, graph)
        for name, module in mixed.experts.items():
            initialize(module, 0)
            targets, generator = Targets.of(graph, graph.split(0)), seeded(0)
            optimizer = torch.optim.Adam(module.parameters(), weight_decay=1e-3, fused=True)
            inputs = mixed.inputs_of(name, whole)
            passes, seen = choose_passes(module, inputs, targets, config.training), []
            for _ in range(3):
                passes.update(optimizer, generator)
                seen.append(passes.evaluate().numpy())
                if name != "profile":
                    seen.append(passes.added(targets.val).numpy())
                seen += [p.detach().numpy().copy() for p in module.parameters()]
            found.setdefault(name, []).append(seen)
    return {name: list(zip(*both, strict=True)) for name, both in found.items()}


def with_world() -> None:
    """Connect a process that is alone with itself, as no run would."""
    torch.distributed.init_process_group("gloo")


def fit_kept(
    group: Group, graph: Graph, file: Path, epochs: int | None, recipe: dict[str, Any]
) -> dict[str, Any]:
    """Train with a checkpoint, and stop after so many epochs."""
    config = configuration(recipe)
    module, inputs = build_djgnn(config, graph, group=group)
    seen: list[int] = []
    hooks = Hooks(
        on_epoch=lambda total, record: seen.append(record.epoch),
        # Only one process is told to stop.
        stop=lambda: group.any(len(seen) == epochs and group.rank == group.size - 1),
        checkpoint=Checkpoint(file, "key", 3600.0, group),
    )
    fitted, _ = train(module, inputs, graph, 0, config.training, 0, hooks)
    return {
        "losses": losses_of(fitted),
        "logits": fitted.logits.numpy(),
        "experts": len(fitted.experts),
        "halted": fitted.interrupted,
    }


def fit_folder(group: Group, file: Path, out: Path, epochs: int) -> dict[str, Any]:
    """What `djgnn fit` does with these options, and its card; all weights are dropped as large ones
    are."""
    from djgnn.cli import memory
    from djgnn.cli.fit import run_fit
    from djgnn.cli.options import FitOptions

    memory.SHARED_MAPPED = 0
    config = resolve("full").replace(**{**FOLDER, "epochs": epochs})
    options = FitOptions(out, device="cpu", quiet=True, report=False)
    return run_fit(read_npz(file), config, options, group)


def gradients(group: Group, graph: Graph, options: dict[str, Any]) -> dict[str, Any]:
    """Gradients of one step in float64, with dropout, and the loss."""
    config = resolve("default", None, **{"hidden_channels": 8, "experts": (), **options})
    sizes = (graph.num_features, 8, graph.num_classes, graph.num_nodes)
    module = DJGNN(*sizes, config.model.num_jumps, config=config.model).double()
    initialize(module, 0)
    x = torch.tensor(graph.x, dtype=torch.float64)
    targets = Targets.of(graph, graph.split(0))
    kept: dict[str, Any] = {}

    class Keep(torch.optim.SGD):
        def step(self, *_: Any) -> None:
            kept.update({k: p.grad.numpy() for k, p in module.named_parameters()})

    optimizer = Keep(module.parameters())
    parts = Parts(graph.adjacency, torch.float64)
    if not group.alone:
        rows, whole = OwnRows.of(group, graph.adjacency), WholeGraph(graph.adjacency)
        parts = ShardParts(rows, group, torch.float64, whole=whole)
        x = x[rows.shard.first : rows.shard.last]
    passes = choose_passes(module, (x, module.operators(parts)), targets, config.training)
    loss, _ = passes.update(optimizer, seeded(0))
    return {"loss": float(loss), **kept}


def evaluations(group: Group, graph: Graph) -> list[np.ndarray[Any, Any]]:
    """Logits of all nodes, computed together and in three parts."""
    config = resolve("default", None, hidden_channels=8, experts=())
    module, inputs = build_djgnn(config, graph, group=group)
    initialize(module, 0)
    targets, found = Targets.of(graph, graph.split(0)), []
    for parts in (1, 3):
        with mock.patch("djgnn.training.passes.parts_of", lambda *_, count=parts: count):
            found.append(choose_passes(module, inputs, targets, config.training).evaluate())
    return [logits.numpy() for logits in found]


def held_rows(group: Group, graph: Graph) -> dict[str, Any]:
    """What a process has of a graph that only the first one was given."""
    config = resolve("default", None, hidden_channels=4, experts=("rows", "deep", "profile"))
    mine = graph if group.first else without_rows(graph)
    module, (x, operators) = shard_djgnn(config, mine, group)
    own, table = operators.by_expert["rows"](), operators.by_expert["profile"]()
    rows = OwnRows.of(group, graph.adjacency if group.first else None)
    found: dict[str, Any] = {
        "bounds": (own.shard.first, own.shard.last),
        "features": x.numpy(),
        "adjacency": own.adjacency.shape,
        "degree": own.degree.numpy(),
        "edges": mine.num_edges,
        "whole": (table.adjacency, table.features),
        "module": (module.in_channels, module.out_channels, module.directed),
    }
    parts = ShardParts(rows, group)
    for treatment in ADJACENCIES:
        own_rows = rows.treated(treatment)
        found[treatment] = own_rows.toarray()
        looped = gcn_normalize(own_rows, rows.shard.first, parts.of_all)
        found[f"normalised {treatment}"] = looped.toarray()
    return found


def collectives(group: Group, whole: torch.Tensor, bounds: tuple[int, ...]) -> dict[str, Any]:
    """A loss through every exchange at once, and the gradient of the own rows."""
    shard = Shard(bounds, group.rank)
    own = whole[shard.first : shard.last].clone().requires_grad_()
    factor = torch.ones((), dtype=whole.dtype, requires_grad=True)
    everywhere = gather_inputs(group, own * factor, shard.sizes)
    # Each process weighs the rows of all differently: their gradients must be summed.
    part = (everywhere.tanh() * (1 + group.rank)).sum()
    needed = torch.arange(group.rank % 2, whole.shape[0], 2)
    fetched = Plan.of(shard, needed).fetch(own.square())
    part = part + (fetched.sin() * (2 + group.rank)).sum()
    parts = gather_results(group, part[None], [1] * group.size)
    results = gather_results(group, own.exp(), shard.sizes)
    alike = owned(everywhere, shard.first, shard.last).cos().prod()
    loss = parts.sum().square() + results.cos().square().sum() + alike
    loss.backward()
    reduce_gradients([factor])
    assert factor.grad is not None
    assert own.grad is not None
    return {"loss": float(loss), "own": own.grad.numpy(), "factor": float(factor.grad)}


def agreements(group: Group) -> dict[str, Any]:
    """What processes agree on, and how they fail together."""
    from djgnn.errors import InputError

    def bad() -> int:
        if group.rank == 1:
            raise InputError("file: cannot be read (got nothing)")
        return 3

    def worse() -> int:
        if group.first:
            raise IsADirectoryError("a folder")
        return 3

    found: dict[str, Any] = {
        "any": (group.any(group.rank == 1), group.any(False)),
        "shared": group.shared(lambda: ("from", group.rank)),
        "together": group.together(lambda: group.rank),
    }
    for name, work in (("one", bad), ("first", worse)):
        try:
            group.together(work)
        except (InputError, OSError, RuntimeError) as error:
            found[name] = (type(error).__name__, str(error))
    return found
