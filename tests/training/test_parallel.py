"""Experts that are trained at the same time end as if they were trained one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures.thread import BrokenThreadPool
from pathlib import Path
from typing import Any

import pytest
import torch

from djgnn.graph import cross_folds, heterophilic_sbm, random_splits
from djgnn.model import DJGNN
from djgnn.training import (
    Fitted,
    RunConfig,
    experts,
    kernel_warmup,
    parallel,
    resolve,
    threads,
    train,
)
from djgnn.training.checkpoint import Checkpoint
from djgnn.training.config import MOST_PATIENCE, TrainConfig
from djgnn.training.expert_training import Training
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import Targets
from djgnn.training.progress import EpochRecord, Hooks

GRAPH = random_splits(heterophilic_sbm(160, hub_size=1))


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many experts are trained at a time."""
    before = torch.get_num_threads()

    def to(lanes: int) -> None:
        monkeypatch.setattr(threads, "LANE_NODES", 0)
        monkeypatch.setattr(threads, "available", lambda: lanes)
        torch.set_num_threads(lanes)

    yield to  # type: ignore[misc]
    torch.set_num_threads(before)


def small(**changes: Any) -> RunConfig:
    sizes = {"hidden_channels": 8, "epochs": 70, "patience": "auto", "lr": 0.03}
    return resolve("default", None, **{**sizes, **changes})


def run(config: RunConfig, graph: Any = GRAPH, **hooks: Any) -> Fitted:
    module, inputs = build_djgnn(config, graph)
    return train(module, inputs, graph, 0, config.training, 0, Hooks(**hooks))[0]


def same(one: Fitted, other: Fitted) -> None:
    assert one.history == other.history
    assert torch.equal(one.logits, other.logits)
    ours, theirs = one.module.state_dict(), other.module.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_lane_that_cannot_be_opened_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(number: int) -> None:
        raise RuntimeError("no stream")

    monkeypatch.setattr(parallel, "_with_threads", failing)
    trainings: Any = [(lambda hooks: None, Hooks())]
    with (
        contextlib.closing(parallel.in_turn(trainings, [True], 1)) as results,
        pytest.raises(BrokenThreadPool),
    ):
        next(results)()


@pytest.mark.parametrize("folds", [None, 2])
def test_the_result_is_that_of_one_after_the_other(several: Any, folds: int | None) -> None:
    graph = GRAPH if folds is None else cross_folds(heterophilic_sbm(160), folds)
    config, heard = small(folds=folds), list[EpochRecord]()

    def follow(epochs: int, record: EpochRecord) -> None:
        assert threading.current_thread() is threading.main_thread()
        heard.append(record)

    several(1)
    alone = run(config, graph)
    several(3)
    together = run(config, graph, on_epoch=follow)
    same(alone, together)
    names = list(dict.fromkeys(record.expert for record in heard))
    assert names == [record.name for record in together.experts]  # in turn
    assert set(heard) >= set(together.history)  # more, where one had to be trained again


def test_a_stopped_run_is_continued_to_the_same_end(several: Any, tmp_path: Path) -> None:
    several(2)
    config, whole = small(), run(small())
    place = Checkpoint(tmp_path / "run", "key", every=0.0)
    asked = 0

    def enough() -> bool:
        nonlocal asked
        asked += 1
        return asked > 100

    part = run(config, checkpoint=place, stop=enough)
    assert part.interrupted
    assert len(part.history) < len(whole.history)
    same(whole, run(config, checkpoint=place))


def test_an_error_ends_all_of_them(several: Any) -> None:
    several(2)

    def fails(epochs: int, record: EpochRecord) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small(epochs=10_000, patience=None), on_epoch=fails)
    assert threading.active_count() == 1 + sum(
        not each.name.startswith("ThreadPool") for each in threading.enumerate()[1:]
    )


@dataclasses.dataclass
class Pretended:
    """A training that ends as its rival tells, and after another one, if it has to wait."""

    name: str
    loss: float
    ended: threading.Event
    after: threading.Event | None = None
    runs: int = 0
    fold: int = 0
    long: bool = False

    def run(self, rival: Callable[[], float], hooks: Hooks) -> Any:
        self.runs += 1
        if self.after is not None:
            assert self.after.wait(60)
        made = Made(rival(), self.loss)
        self.ended.set()
        return made

    def differs(self, fitted: Any, rival: float) -> bool:
        return bool(fitted.rival != rival)


@dataclasses.dataclass
class Made:
    rival: float
    validation_loss: float
    interrupted: bool = False


def test_who_did_not_know_its_rival_is_trained_again() -> None:
    ends = [threading.Event() for _ in range(3)]
    first = Pretended("first", 0.5, ends[0], after=ends[1])  # the second is sooner
    second, third = Pretended("second", 0.7, ends[1]), Pretended("third", 0.6, ends[2], ends[0])
    each: Any = [first, second, third]
    found = dict(experts._results(each, Hooks(), 2))
    rivals = [math.inf, 0.5, 0.5]
    assert [made.rival for made in found.values()] == rivals  # type: ignore[union-attr]
    assert first.runs == 1
    assert second.runs == 2


def test_a_long_training_begins_before_its_turn() -> None:
    ends, begun = [threading.Event() for _ in range(5)], list[str]()

    class Noted(Pretended):
        def run(self, rival: Callable[[], float], hooks: Hooks) -> Any:
            begun.append(self.name)
            return super().run(rival, hooks)

    each: Any = [Noted(f"{i}", 1.0, end, long=i == 4) for i, end in enumerate(ends)]
    found = [name for name, _ in experts._results(each, Hooks(), 2)]
    assert found == ["0", "1", "2", "3", "4"]
    first = list(dict.fromkeys(begun))  # some are trained again, as they did not know the others
    assert first.index("4") < first.index("3")


@pytest.mark.parametrize(("rival", "differs"), [(math.inf, False), (1.0, False), (0.1, True)])
def test_what_a_rival_would_have_changed(rival: float, differs: bool) -> None:
    config = small(epochs=60)
    module, inputs = build_djgnn(config, GRAPH)
    targets = Targets.of(GRAPH, GRAPH.split(0))
    training = Training("features", module, inputs, targets, config.training, 0, 0, False)  # type: ignore[arg-type]
    losses = [1.0 - 0.005 * n for n in range(60)]
    history = [EpochRecord(n, 0.0, 0.0, 0.0, loss, 0.0) for n, loss in enumerate(losses)]
    fitted: Any = dataclasses.make_dataclass("Short", ["history", "interrupted"])(history, False)
    assert training.differs(fitted, rival) is differs
    fitted.history = history[:40]  # it did not end there by itself
    assert training.differs(fitted, math.inf)
    fitted.interrupted = True
    assert not training.differs(fitted, math.inf)


def test_plain_experts_run_beside_networks_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts, "beside", lambda: 2)
    config = small(experts=("shares", "boosting", "forest", "features", "given", "joint"))
    where, real = dict[str, bool](), Training.run

    def spy(self: Training, *given: Any) -> Fitted:
        where[self.name] = threading.current_thread() is threading.main_thread()
        return real(self, *given)

    monkeypatch.setattr(Training, "run", spy)
    heard = list[str]()
    beside = run(config, on_epoch=lambda epochs, record: heard.append(record.expert))
    assert {name for name, main in where.items() if main} == {"features", "given", "joint"}
    # All but the forest are waited for when a network with jumps is first compared with them.
    order = ["features", "given", "joint", "shares", "boosting", "forest"]
    assert list(dict.fromkeys(heard)) == order
    assert heard[: heard.index("shares")].count("joint") == MOST_PATIENCE
    assert [each.name for each in beside.experts] == list(config.model.experts)
    where.clear()
    same(beside, run(config, observer=lambda *given: None))  # one after the other
    assert all(where.values())


BESIDE = small(experts=("shares", "boosting", "features", "joint"))


def test_what_has_ended_beside_a_gpu_when_a_run_is_stopped_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experts, "beside", lambda: 2)
    ended, real = threading.Event(), Training.run

    def spy(self: Training, *given: Any) -> Fitted:
        if self.name == "boosting":  # it would last much longer
            over.wait()
        found = real(self, *given)
        if self.name == "shares":
            ended.set()
        return found

    over, asked = threading.Event(), list[str]()

    def stop() -> bool:
        main = threading.current_thread() is threading.main_thread()
        if not (main and asked.count("joint") == 2):
            return False
        ended.wait()
        time.sleep(0.1)  # until the lane says so
        over.set()
        return True

    monkeypatch.setattr(Training, "run", spy)
    part = run(BESIDE, stop=stop, on_epoch=lambda epochs, record: asked.append(record.expert))
    assert part.interrupted
    assert {"shares", "features", "joint"} <= {each.name for each in part.experts}


@pytest.mark.parametrize("calls", [1, 40, 61, 62, 75])
def test_a_run_that_is_stopped_beside_a_gpu_ends_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calls: int
) -> None:
    monkeypatch.setattr(experts, "beside", lambda: 1)
    place, asked = Checkpoint(tmp_path / "run", "key", every=0.0), 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > calls

    run(BESIDE, checkpoint=place, stop=stop)
    same(run(BESIDE), run(BESIDE, checkpoint=place))


def test_who_was_stopped_with_its_rival_asks_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(TrainConfig, "compares", lambda self, epochs, *rest: epochs > 5)
    monkeypatch.setattr(TrainConfig, "ends", lambda self, losses, best, rival, *rest: rival < 1)
    config = small()
    module, inputs = build_djgnn(config, GRAPH)
    targets, heard = Targets.of(GRAPH, GRAPH.split(0)), list[EpochRecord]()
    training = Training("features", module, inputs, targets, config.training, 0, 0, False)  # type: ignore[arg-type]
    place = Checkpoint(tmp_path / "run", "key", every=0.0)

    def hooks(stop: Callable[[], bool]) -> Hooks:
        follow = lambda epochs, record: heard.append(record)  # noqa: E731
        return Hooks(on_epoch=follow, stop=stop, checkpoint=place.stage("features"))

    part = training.run(lambda: math.inf, hooks(lambda: len(heard) == 7))
    assert part.interrupted
    assert len(part.history) == 7
    place.finish()
    again = training.run(lambda: 0.5, hooks(lambda: False))
    assert (again.interrupted, len(again.history)) == (False, 7)


def test_matrices_and_kernels_are_made_early(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(experts=("shares", "given", "jumps", "joint"))
    module, inputs = build_djgnn(config, GRAPH)
    targets = Targets.of(GRAPH, GRAPH.split(0))
    trainings = [
        Training(name, module, inputs, targets, config.training, 0, 0, False)  # type: ignore[arg-type]
        for name in module.names  # type: ignore[union-attr]
    ]
    compiled, done = list[list[str]](), threading.Event()

    def compiles(network: DJGNN, device: torch.device) -> None:
        compiled.append([branch.name for branch in network.parts])
        if len(compiled) == 2:
            done.set()

    monkeypatch.setattr(kernel_warmup, "triton_available", lambda: True)
    monkeypatch.setattr(kernel_warmup, "compile_kernels", compiles)
    with kernel_warmup.early(trainings, wanted=True):
        assert done.wait(60)
    assert compiled == [["jumps"], ["jumps", "homophilic", "structure"]]
    with kernel_warmup.early(trainings, wanted=False):
        pass
    assert len(compiled) == 2


def test_layers_of_the_deep_network_are_compiled_early(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    config = small(experts=("features", "deep"), hidden_channels=16)
    module, inputs = build_djgnn(config, GRAPH)
    targets = Targets.of(GRAPH, GRAPH.split(0))
    compiled = list[int]()

    def compiles(branch: Any, device: torch.device) -> None:
        early_layer(branch, device)
        compiled.append(branch.num_layers)

    early_layer = kernel_warmup.compile_layer
    monkeypatch.setattr(kernel_warmup, "triton_available", lambda: True)
    monkeypatch.setattr(kernel_warmup, "compile_layer", compiles)
    trainings = [
        Training(name, module, inputs, targets, config.training, 0, 0, False)  # type: ignore[arg-type]
        for name in module.names  # type: ignore[union-attr]
    ]
    kernel_warmup._prepare(trainings, lambda: False)
    assert compiled == [15]
    monkeypatch.setattr(kernel_warmup, "WIDTHS", ())  # the kernels do not take every width
    kernel_warmup._prepare(trainings, lambda: False)
    assert compiled == [15]


@pytest.mark.parametrize("name", ["jumps", "joint"])
def test_the_trial_of_kernels_trains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_warmup, "NODES", 200)
    module, _ = build_djgnn(small(experts=(name,)), GRAPH)
    passed, real = list[str](), kernel_warmup.ViewPasses.update

    def update(self: Any, *given: Any) -> Any:
        losses = real(self, *given)
        passed.append(name)
        assert all(bool(loss.isfinite()) for loss in losses)
        return losses

    monkeypatch.setattr(kernel_warmup.ViewPasses, "update", update)
    kernel_warmup.compile_kernels(module.experts[name], torch.device("cpu"))  # type: ignore[union-attr, arg-type]
    assert len(passed) == kernel_warmup.EPOCHS
