"""Mini-batch training: an epoch sees every node once, and agrees with training on all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model.config import EXPERT_NAMES, NETWORK_NAMES
from djgnn.model.experts import EXPERTS
from djgnn.model.operators import Parts
from djgnn.model.views import GraphView
from djgnn.training import Fitted, resolve, train
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.config import RunConfig
from djgnn.training.folder import new_folder, write_run
from djgnn.training.inputs import build_djgnn, initialize, seeded
from djgnn.training.loop import Targets
from djgnn.training.minibatch import Batch, BatchPasses
from djgnn.training.passes import ProfilePasses, ViewPasses, choose_passes
from djgnn.training.progress import Hooks
from djgnn.training.recorder import Recorder
from djgnn.training.stored import load_model

GRAPH = random_splits(heterophilic_sbm(120, hub_size=2))
N = GRAPH.num_nodes


def exact(batch_size: int, **options: Any) -> tuple[BatchPasses, Targets, RunConfig, Any]:
    """Passes in double precision, without dropout."""
    own = {"hidden_channels": 6, "dropout": 0.0, "pump_weight": 0.7, "experts": ()}
    config = resolve("default", None, batch_size=batch_size, **{**own, **options})
    module, (x, _) = build_djgnn(config, GRAPH)
    initialize(module, 0)
    inputs = (x.double(), module.operators(Parts(GRAPH.adjacency, torch.float64)))
    targets = Targets.of(GRAPH, GRAPH.split(0), class_weight=config.training.class_weight)
    if targets.class_weight is not None:
        object.__setattr__(targets, "class_weight", targets.class_weight.double())
    passes = BatchPasses(module.double(), inputs, targets, config.training)
    return passes, targets, config, inputs


@pytest.mark.parametrize("batch_size", [N, 64, 30, 7])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize(
    "options",
    [{"label_smoothing": 0.0, "num_jumps": 5}, {"num_jumps": "auto"}, EXPERTS["jumps"]],
    ids=["fixed jumps", "joint", "jumps"],
)
def test_the_mean_of_an_epoch_is_the_whole(
    batch_size: int, class_weight: str | None, options: dict[str, Any]
) -> None:
    """At fixed weights: its losses and gradients average to those of all nodes."""
    passes, targets, config, inputs = exact(batch_size, class_weight=class_weight, **options)
    module, training = passes.module, config.training
    module.train()
    logits, pump_loss = module(*inputs)
    smooth = training.label_smoothing
    fit_loss = F.cross_entropy(
        logits[targets.train], targets.train_y, targets.class_weight, label_smoothing=smooth
    )
    whole = fit_loss + training.pump_weight * pump_loss
    whole.backward()
    wanted = {key: p.grad.clone() for key, p in module.named_parameters()}
    module.zero_grad(set_to_none=True)
    batches = passes.batches(seeded(3))
    losses = [passes.losses(b) for b in batches]
    for loss, own in losses:
        (loss / len(batches)).backward()
        torch.testing.assert_close(own, pump_loss.detach(), rtol=1e-12, atol=0)
    mean = sum(float(loss.detach()) for loss, _ in losses) / len(batches)
    assert mean == pytest.approx(float(whole.detach()), rel=1e-12)
    for key, p in module.named_parameters():
        torch.testing.assert_close(p.grad, wanted[key], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 7, 64, N - 1])
def test_an_epoch_sees_every_node_once(batch_size: int) -> None:
    passes, targets, _, _ = exact(batch_size)
    batches = passes.batches(seeded(0))
    nodes = torch.cat([b.nodes for b in batches])
    places = torch.cat([b.places for b in batches])
    assert torch.equal(nodes.sort().values, torch.arange(N))
    assert torch.equal(places.sort().values, torch.arange(targets.train.numel()))
    assert max(b.nodes.numel() for b in batches) <= batch_size
    for part in ("nodes", "places"):
        sizes = [getattr(b, part).numel() for b in batches]
        assert max(sizes) - min(sizes) <= 1
    for b in batches:
        assert torch.equal(b.nodes[: b.places.numel()], targets.train[b.places])
    again, other = passes.batches(seeded(0)), passes.batches(seeded(1))
    assert all(torch.equal(a.nodes, b.nodes) for a, b in zip(again, batches, strict=True))
    assert not all(torch.equal(a.nodes, b.nodes) for a, b in zip(other, batches, strict=True))


def test_tables_serve_one_evaluation_and_the_update_after_it() -> None:
    passes, _, _, _ = exact(-(-N // 5))
    optimizer = torch.optim.Adam(passes.module.parameters(), lr=0.1)
    passes.evaluate()
    held = passes.tables()
    passes.update(optimizer, seeded(0))
    passes.evaluate()
    moved = passes.tables()
    assert moved is not held
    passes.module.pump.requires_grad_(False)
    passes.update(optimizer, seeded(0))
    passes.evaluate()
    assert passes.tables() is moved  # a frozen pump moves no node


def test_an_evaluation_is_that_of_the_current_weights() -> None:
    passes, _, _, inputs = exact(30)
    passes.update(torch.optim.Adam(passes.module.parameters(), lr=0.1), seeded(0))
    found = passes.evaluate()
    with torch.no_grad():
        wanted = passes.module.eval()(*inputs)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def configuration(options: dict[str, Any]) -> RunConfig:
    """One network in batches, unless the options say otherwise."""
    given = {"hidden_channels": 8, "batch_size": 40, "experts": (), "patience": None, **options}
    return resolve("default").replace(**given)


def run(options: dict[str, Any], **hooks: Any) -> Fitted:
    config = configuration(options)
    module, inputs = build_djgnn(config, GRAPH)
    return train(module, inputs, GRAPH, 0, config.training, 0, Hooks(**hooks))[0]


def same(a: Fitted, b: Fitted) -> None:
    assert torch.equal(a.logits, b.logits)
    assert a.history == b.history
    np.testing.assert_array_equal(a.decisions, b.decisions)
    for key, value in a.module.state_dict().items():
        assert torch.equal(value, b.module.state_dict()[key]), key


@pytest.mark.parametrize("options", [{}, {"decoupled": True}, {"experts": EXPERT_NAMES}])
def test_a_stopped_run_resumes_to_the_same_bytes(options: dict[str, Any], tmp_path: Path) -> None:
    options = {"epochs": 5, "pump_epochs": 2, **options}
    whole = run(options)
    for _ in range(4):
        part = run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=lambda: True)
        assert part.interrupted
    rest = run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    same(rest, whole)
    same(run(options), whole)


def test_steps_along_sums_of_batches_are_steps_over_all_nodes() -> None:
    """Ten epochs of Adam in double precision, from the same weights."""
    histories = []
    for batch_size in (N, 30):
        passes, _, _, _ = exact(batch_size)
        optimizer = torch.optim.Adam(passes.module.parameters(), lr=0.02, weight_decay=0.01)
        losses = [passes.update(optimizer, seeded(k))[0] for k in range(10)]
        histories.append(torch.stack([*losses, passes.evaluate().abs().sum()]))
    torch.testing.assert_close(histories[1], histories[0], rtol=1e-7, atol=0)
    assert len(set(histories[0].tolist())) == 11


def test_a_batch_of_all_nodes_trains_as_without_batches() -> None:
    options = {"epochs": 3}
    same(run({**options, "batch_size": N}), run({**options, "batch_size": None}))
    assert run({**options}).history != run({**options, "batch_size": None}).history


def test_it_learns_what_training_on_all_learns() -> None:
    options = {"epochs": 40, "num_jumps": 5, "lr": 0.01, "select": "score"}
    few, whole = run(options), run({**options, "batch_size": None})
    assert few.validation >= whole.validation - 5
    assert few.history[-1].pump_loss < few.history[0].pump_loss


def test_the_loss_that_is_reported_is_that_of_all_nodes() -> None:
    """With steps too small to matter, the first epoch reports what one whole step does."""
    options = {"epochs": 1, "lr": 1e-9, "dropout": 0.0}
    few, whole = run(options).history[0], run({**options, "batch_size": None}).history[0]
    assert few.loss == pytest.approx(whole.loss, rel=1e-5)
    assert few.pump_loss == pytest.approx(whole.pump_loss, rel=1e-5)
    assert few.validation_loss == pytest.approx(whole.validation_loss, rel=1e-5)


def test_a_recording_shows_what_the_stored_model_shows() -> None:
    config = configuration({"epochs": 6})
    module, inputs = build_djgnn(config, GRAPH)
    recorder = Recorder(GRAPH.num_nodes)
    plain = run({"epochs": 6})
    fitted, _ = train(module, inputs, GRAPH, 0, config.training, 0, Hooks(observer=recorder))
    same(fitted, plain)
    recording = recorder.finish(fitted, inputs)
    assert list(recording.seen) == list(range(6))
    encoding = module.eval().encode(module.view(*inputs))
    at = list(recording.epochs).index(fitted.epoch)
    np.testing.assert_allclose(recording.u[at], encoding.pump.u.detach().numpy(), atol=1e-6)
    np.testing.assert_array_equal(recording.ranks[at], encoding.table.index.numpy())


def whole_jumps(*_: Any) -> None:
    raise AssertionError("all nodes at once went through the filters")


def test_experts_with_jumps_never_see_all_nodes_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not in training, nor to find idle jumps, nor when a stored run is read."""
    monkeypatch.setattr(GraphView, "aggregate", whole_jumps)
    config = configuration({"experts": EXPERT_NAMES, "epochs": 12})
    module, inputs = build_djgnn(config, GRAPH)
    fitted, result = train(module, inputs, GRAPH, 0, config.training, 0)
    assert len(fitted.experts) == len(EXPERT_NAMES) - 1  # of hops and mix one
    with new_folder(tmp_path / "run") as folder:
        write_run(folder, GRAPH, config, fitted, result, 0)
    stored = load_model(tmp_path / "run").logits
    np.testing.assert_allclose(stored, fitted.logits.numpy(), atol=1e-5)
    monkeypatch.undo()
    with torch.no_grad():
        whole, _ = fitted.module.eval()(*inputs)
    torch.testing.assert_close(fitted.logits, whole, rtol=1e-4, atol=1e-5)


def test_experts_without_jumps_are_trained_whole() -> None:
    config = configuration({"experts": NETWORK_NAMES})
    module, inputs = build_djgnn(config, GRAPH)
    targets = Targets.of(GRAPH, GRAPH.split(0))
    for name, expert in module.experts.items():
        own = module.inputs_of(name, inputs)
        found = choose_passes(expert, own, targets, config.training)
        if name == "profile":
            assert type(found) is ProfilePasses
        else:
            assert type(found) is (BatchPasses if expert.pump is not None else ViewPasses)
    alone = configuration({"experts": ("deep", "given"), "epochs": 4})
    fitted = [
        train(*build_djgnn(alone, GRAPH), GRAPH, 0, training, 0)[0]
        for training in (alone.training, alone.replace(batch_size=None).training)
    ]
    same(*fitted)


def test_few_training_nodes_leave_batches_without_any() -> None:
    _, targets, config, inputs = exact(2, decoupled=True)
    few = torch.arange(3)
    own = Targets(few, targets.train_y[:3], targets.val, targets.val_y, targets.test, "accuracy")
    module = exact(2)[0].module
    passes = BatchPasses(module, inputs, own, config.training)
    module.freeze_pump(module.view(*inputs))
    before = module.jumps.weight.detach().clone()
    loss, _ = passes.update(torch.optim.Adam(module.parameters(), lr=0.1), seeded(0))
    assert bool(torch.isfinite(loss))
    assert not torch.equal(module.jumps.weight, before)


def test_other_models_have_no_batches() -> None:
    config = resolve("default", None, batch_size=8).training
    targets = Targets.of(GRAPH, GRAPH.split(0))
    with pytest.raises(InputError, match=r"batch_size: only the DJ-GNN .*Linear \(got 8\)"):
        choose_passes(torch.nn.Linear(2, 2), (None, None), targets, config)


@pytest.mark.parametrize("size", [0, -3, 2.5, True])
def test_bad_sizes_are_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1"):
        resolve("default", None, batch_size=size)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", [{}, EXPERTS["jumps"]], ids=["joint", "jumps"])
def test_on_a_gpu_the_losses_and_logits_are_the_same(options: dict[str, Any]) -> None:
    config = configuration({"dropout": 0.0, **options})
    found = {}
    for device in ("cpu", "cuda"):
        module, inputs = build_djgnn(config, GRAPH, device)
        initialize(module, 0)
        targets = Targets.of(GRAPH, GRAPH.split(0), device)
        passes = BatchPasses(module, inputs, targets, config.training)
        batch = Batch(*(p.to(device) for p in (torch.arange(9), targets.train[:9].cpu())))
        loss, _ = passes.losses(batch)
        loss.backward()
        grads = [p.grad.cpu() for p in module.parameters() if p.grad is not None]
        found[device] = [loss.detach().cpu(), passes.evaluate().cpu(), *grads]
    for cpu, cuda in zip(found["cpu"], found["cuda"], strict=True):
        torch.testing.assert_close(cuda, cpu, rtol=1e-3, atol=1e-5)
