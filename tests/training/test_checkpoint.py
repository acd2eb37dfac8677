"""A run that is stopped and continued ends where the uninterrupted one does, bit for bit."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model.config import EXPERT_NAMES
from djgnn.training import Fitted, RunConfig, checkpoint, resolve, train
from djgnn.training.checkpoint import Checkpoint, fingerprint, threads_before
from djgnn.training.inputs import build_djgnn
from djgnn.training.loop import ExpertRecord
from djgnn.training.progress import EpochRecord, Hooks
from djgnn.training.recorder import Recorder

GRAPH = random_splits(heterophilic_sbm(120, hub_size=1))


def configuration(options: dict[str, object]) -> RunConfig:
    """One network, unless the options name experts."""
    given = {"hidden_channels": 8, "experts": (), "patience": None, **options}
    return resolve("default").replace(**given)


def run(options: dict[str, object], **hooks: object) -> Fitted:
    config = configuration(options)
    module, inputs = build_djgnn(config, GRAPH)
    return train(module, inputs, GRAPH, 0, config.training, 0, Hooks(**hooks))[0]


ALL = {"experts": EXPERT_NAMES, "epochs": 3}
SOME = {"experts": ("joint", "deep", "rows"), "epochs": 6}


class After:
    """Says stop once, after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


class Killed(Exception):
    """The process is gone."""


class Killing:
    """Ends the process in an epoch, before it can be kept."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def __call__(self, total: int, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def timeless(fitted: Fitted) -> list[ExpertRecord]:
    return [dataclasses.replace(record, seconds=0) for record in fitted.experts]


def same(a: Fitted, b: Fitted) -> None:
    assert torch.equal(a.logits, b.logits)
    assert a.history == b.history
    assert a.epoch == b.epoch
    assert timeless(a) == timeless(b)
    assert (a.validation, a.validation_loss) == (b.validation, b.validation_loss)
    assert a.calibration == b.calibration
    np.testing.assert_array_equal(a.decisions, b.decisions)
    np.testing.assert_array_equal(a.decided, b.decided)
    ours, theirs = a.module.state_dict(), b.module.state_dict()
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key


@pytest.mark.parametrize("stops", [(1,), (5, 3), (14,), (9, 1, 1)])
@pytest.mark.parametrize("decoupled", [False, True])
def test_stopping_and_going_on_changes_nothing(
    stops: tuple[int, ...], decoupled: bool, tmp_path: Path
) -> None:
    options = {"epochs": 15, "decoupled": decoupled, "pump_epochs": 3}
    whole = run(options)
    assert not whole.interrupted
    key = fingerprint("a run")
    for epochs in stops:
        part = run(options, checkpoint=Checkpoint(tmp_path / "run", key), stop=After(epochs))
        assert part.interrupted
        assert 0 <= part.epoch < 15
    same(run(options, checkpoint=Checkpoint(tmp_path / "run", key)), whole)
    again = run(options, checkpoint=Checkpoint(tmp_path / "run", key))
    same(again, whole)


@pytest.fixture(scope="module")
def all_experts() -> Fitted:
    """A run of the preset `full` that nothing disturbed."""
    fitted = run(ALL)
    assert len(fitted.experts) == len(EXPERT_NAMES) - 1  # of hops and mix one
    return fitted


@pytest.mark.parametrize("epochs", range(1, 3 * len(EXPERT_NAMES) - 7, 4))
def test_a_run_of_experts_killed_in_any_of_them_ends_the_same(
    epochs: int, all_experts: Fitted, tmp_path: Path
) -> None:
    """Three epochs each, one of class shares and forest: in the first, second or last of any."""
    with pytest.raises(Killed):
        run(ALL, checkpoint=Checkpoint(tmp_path / "run", "k", 0), on_epoch=Killing(epochs))
    same(run(ALL, checkpoint=Checkpoint(tmp_path / "run", "k", 0)), all_experts)


def test_a_run_of_experts_that_is_stopped_again_and_again_ends_the_same(
    all_experts: Fitted, tmp_path: Path
) -> None:
    trained = []
    for epochs in (2, 3, 5, 1, 4):
        part = run(ALL, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(epochs))
        assert part.interrupted
        trained.append(len(part.experts))
    assert trained == sorted(trained)
    assert 1 <= trained[0] < trained[-1] < len(EXPERT_NAMES)
    same(run(ALL, checkpoint=Checkpoint(tmp_path / "run", "k")), all_experts)
    same(run(ALL, checkpoint=Checkpoint(tmp_path / "run", "k")), all_experts)  # all had ended


@pytest.mark.parametrize("options", [{"decoupled": True, "pump_epochs": 3}, {"batch_size": 40}])
def test_experts_in_other_modes_resume_too(options: dict[str, object], tmp_path: Path) -> None:
    options = {**SOME, **options}
    for epochs in (2, 7):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(epochs))
    same(run(options, checkpoint=Checkpoint(tmp_path / "run", "k")), run(options))


def test_dropped_jumps_are_dropped_again(tmp_path: Path) -> None:
    options = {"experts": ("joint", "jumps"), "epochs": 25}
    whole = run(options)
    assert any(record.dropped for record in whole.experts)
    run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(30))
    same(run(options, checkpoint=Checkpoint(tmp_path / "run", "k")), whole)


@pytest.mark.parametrize("stage", SOME["experts"])
def test_a_damaged_or_foreign_stage_is_refused(stage: str, tmp_path: Path) -> None:
    run(SOME, checkpoint=Checkpoint(tmp_path / "run", "k"))
    file, others = tmp_path / f"{stage}.safetensors", [n for n in SOME["experts"] if n != stage]
    assert {f.stem for f in tmp_path.iterdir()} == {*SOME["experts"]}
    whole = file.read_bytes()
    for other in others:  # of the same run, but of another expert
        file.write_bytes((tmp_path / f"{other}.safetensors").read_bytes())
        with pytest.raises(InputError, match=f"{stage}.safetensors: belongs to a run with other"):
            run(SOME, checkpoint=Checkpoint(tmp_path / "run", "k"))
    for damaged in (whole[: len(whole) // 2], b""):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{stage}.safetensors: damaged"):
            run(SOME, checkpoint=Checkpoint(tmp_path / "run", "k"))
    file.write_bytes(whole)
    with pytest.raises(InputError, match=r"joint\.safetensors: belongs to a run with other"):
        run(SOME, checkpoint=Checkpoint(tmp_path / "run", "another"))
    same(run(SOME, checkpoint=Checkpoint(tmp_path / "run", "k")), run(SOME))


def test_what_is_scored_is_what_is_stored() -> None:
    fitted = run({"epochs": 12})
    model = copy.deepcopy(fitted.module).eval()
    inputs = build_djgnn(configuration({}), GRAPH)[1]
    with torch.no_grad():
        logits, _ = model(*inputs)
    torch.testing.assert_close(logits, fitted.logits)
    predicted, parts = fitted.logits.argmax(dim=1).numpy(), GRAPH.split(0)
    assert fitted.validation == pytest.approx(100 * (predicted == GRAPH.y)[parts.val].mean())
    np.testing.assert_array_equal(fitted.decisions[fitted.epoch], predicted[parts.test])


def _spoil(name: str, about: dict, tensors: dict[str, torch.Tensor]) -> None:
    first = next(k for k in tensors if k.endswith("exp_avg"))
    kept = next(k for k in tensors if k.startswith("kept."))
    if name == "moment of another shape":
        tensors[first] = torch.zeros(1)
    elif name == "moment of another type":
        tensors[first] = tensors[first].half()
    elif name == "moment missing":
        del tensors[first]
    elif name == "moment of nobody":
        tensors["adam.999.step"] = torch.zeros(1)
    elif name == "step that is no number":
        tensors[first.replace("exp_avg", "step")] = torch.tensor(float("nan"))
    elif name == "weight missing":
        del tensors[kept]
    elif name == "weight of another shape":
        tensors[kept] = torch.zeros(3)
    elif name == "no history":
        tensors["history"] = tensors["history"][:0]
    elif name == "history of nothing":
        tensors["history"] = tensors["history"] * float("inf")
    elif name == "decisions of other nodes":
        tensors["decisions"] = tensors["decisions"][:, :2]
    elif name == "decisions of fewer epochs":
        tensors["decisions"] = tensors["decisions"][:1]
    elif name == "logits of other nodes":
        tensors["kept_logits"] = torch.zeros(2, 2)
    elif name == "best epoch to come":
        about["kept_epoch"] = 10**9
    elif name == "best epoch nowhere":
        about["kept_epoch"] = -3
    elif name == "endless seconds":
        about["seconds"] = 10**400
    elif name == "seconds that are no number":
        about["seconds"] = float("nan")
    else:
        about["ended"] = "yes"


SPOILT = (
    "moment of another shape", "moment of another type", "moment missing", "moment of nobody",
    "step that is no number", "weight missing", "weight of another shape", "no history",
    "history of nothing", "decisions of other nodes", "decisions of fewer epochs",
    "logits of other nodes", "best epoch to come", "best epoch nowhere",
    "endless seconds", "seconds that are no number", "ended or not",
)  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_checkpoint_is_refused_before_anything_is_touched(
    name: str, tmp_path: Path
) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    options = {"epochs": 6}
    run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(3))
    file = tmp_path / "run"
    with safe_open(file, framework="pt") as held:
        metadata, tensors = held.metadata(), {k: held.get_tensor(k) for k in held.keys()}  # noqa: SIM118
    about = json.loads(metadata["about"])
    _spoil(name, about, tensors)
    tensors = {key: value.clone() for key, value in tensors.items()}
    save_file(tensors, file, {**metadata, "about": json.dumps(about)})
    with pytest.raises(InputError, match="delete it and start anew"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))


def test_a_checkpoint_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run")
    with pytest.raises(InputError, match="pipe"):
        run({"epochs": 2}, checkpoint=Checkpoint(tmp_path / "run", "k"))


def test_early_stopping_is_remembered(tmp_path: Path) -> None:
    options = {"epochs": 200, "patience": 4}
    whole = run(options)
    assert len(whole.history) < 200
    for epochs in (2, 4):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(epochs))
    same(run(options, checkpoint=Checkpoint(tmp_path / "run", "k")), whole)


@pytest.mark.parametrize("experts", [(), ("joint", "deep")])
def test_a_training_that_was_over_before_is_recorded_at_its_selected_epoch(
    experts: tuple[str, ...], tmp_path: Path
) -> None:
    """Killed in the second expert, or between the end and the writing of the run."""
    options = {"epochs": 12, "experts": experts, "num_jumps": 3}
    run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=After(17))
    recorder = Recorder(GRAPH.num_nodes)
    fitted = run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), observer=recorder)
    inputs = build_djgnn(configuration(options), GRAPH)[1]
    recording = recorder.finish(fitted, inputs)
    epoch = fitted.experts[0].epoch if experts else fitted.epoch
    assert recording.epochs.tolist() == [epoch]
    assert len(recording.seen) == len(recording.alpha) == len(recording.trace_ratio) == 1
    module: Any = fitted.module.experts["joint"] if experts else fitted.module
    with torch.no_grad():
        own = fitted.module.inputs_of("joint", inputs) if experts else inputs
        logits = module.eval()(*own)[0].numpy()
    np.testing.assert_allclose(recording.logits[0], logits[recording.nodes])


def test_how_often_is_a_matter_of_time(tmp_path: Path) -> None:
    written = []

    class Counted(Checkpoint):
        def save(self, *state: object) -> None:
            written.append(1)
            super().save(*state)

        def stage(self, name: str) -> Checkpoint:
            return Counted(self.path.with_name(name), self.key, self.every)

    options = {"epochs": 6}
    run(options, checkpoint=Counted(tmp_path / "often" / "run", "k", every=0))
    assert len(written) == 6
    written.clear()
    run(options, checkpoint=Counted(tmp_path / "seldom" / "run", "k", every=3600))
    assert len(written) == 1
    written.clear()
    run(SOME, checkpoint=Counted(tmp_path / "experts" / "run", "k", every=3600))
    assert len(written) == len(SOME["experts"])


def test_what_has_ended_is_stored_without_what_would_go_on(tmp_path: Path) -> None:
    def kinds(file: Path) -> set[str]:
        with safe_open(file, framework="pt") as stored:
            return {key.split(".")[0] for key in stored.keys()}  # noqa: SIM118

    run({"epochs": 3}, checkpoint=Checkpoint(tmp_path / "ended", "k"))
    run({"epochs": 3}, checkpoint=Checkpoint(tmp_path / "stopped", "k"), stop=After(2))
    assert kinds(tmp_path / "stopped") - kinds(tmp_path / "ended") == {
        "module",
        "adam",
        "generator",
    }


def test_writing_takes_a_tenth_of_the_time_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def slowly(*_: object) -> None:
        now[0] += 5

    monkeypatch.setattr(checkpoint, "flush", slowly)
    written = Checkpoint(tmp_path / "run", "k", every=10)
    run({"epochs": 3}, checkpoint=written)
    now[0] += 49
    assert not written.due
    now[0] += 1
    assert written.due


def test_what_is_no_checkpoint_of_this_run_is_refused(tmp_path: Path) -> None:
    options = {"epochs": 3}
    run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    file = tmp_path / "run"
    with pytest.raises(InputError, match="other data, options or seed"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "another"))
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"\x00" * 100, whole[:8] + b"[" + whole[9:]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="not a checkpoint"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    save_file(
        {"a": torch.zeros(1)},
        file,
        metadata={"format": "djgnn-checkpoint-1", "about": '{"key": "k"}'},
    )
    with pytest.raises(InputError, match="damaged"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))


TAMPERED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "kept": lambda value: value.to(torch.int8) if value.is_floating_point() else value,
    "module": lambda value: value.double() if value.is_floating_point() else value,
    "kept_logits": lambda value: value * math.nan,
    "held": lambda value: torch.zeros(7, 7, 7),
    "decisions": lambda value: value.long(),
    "history: scores": lambda value: value + torch.tensor([0, 0, 0, 0, 0, 1e4]),
    "history: losses": lambda value: value + torch.tensor([0, 1e308, 0, 0, 0, 0]).double(),
    "history: losses of kept": lambda value: value + torch.tensor([0, 0, 0, 0, math.nan, 0]),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_values_that_no_training_leaves_are_refused(what: str, tmp_path: Path) -> None:
    options = {"epochs": 3}
    asked = iter([False, True])
    run(options, checkpoint=Checkpoint(tmp_path / "run", "k"), stop=lambda: next(asked))
    with safe_open(tmp_path / "run", "pt") as file:
        about, names = file.metadata(), file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    key = what.partition(":")[0]
    changed = {
        name: TAMPERED[what](value) if name.partition(".")[0] == key else value
        for name, value in tensors.items()
    }
    save_file(changed, tmp_path / "run", about)
    with pytest.raises(InputError, match=rf"run: damaged \({what}"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    save_file({**tensors, "held": tensors["held"][1:].clone()}, tmp_path / "run", about)
    with pytest.raises(InputError, match="of another number of nodes"):
        run(options, checkpoint=Checkpoint(tmp_path / "run", "k"))
    save_file(tensors, tmp_path / "run", about)
    same(run(options, checkpoint=Checkpoint(tmp_path / "run", "k")), run(options))


def test_a_frozen_pump_stays_where_it_was_left() -> None:
    """A gradient left over from training the pump must not move it once it is frozen."""
    fitted = run({"epochs": 4, "decoupled": True, "pump_epochs": 3})
    assert len({record.pump_loss for record in fitted.history}) == 1


def test_files_are_written_beside_the_training_in_order_and_failures_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stream:
        def wait_event(self, event: Any) -> None:
            done.append("waited")

        def record(self) -> None:
            done.append("recorded")

    done: list[str] = []
    for name in ("Event", "Stream"):
        monkeypatch.setattr(torch.cuda, name, Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    writer, go = checkpoint._Writer(), threading.Event()

    def first() -> None:
        go.wait()
        done.append("first")

    def full() -> None:
        raise OSError(28, "no space")

    writer.begin(first)
    writer.begin(lambda: done.append("second"))
    assert "first" not in done  # nobody waited for it
    go.set()
    writer.finish()
    assert [each for each in done if each in ("first", "second")] == ["first", "second"]
    writer.begin(full)
    with pytest.raises(OSError, match="no space"):
        writer.finish()
    writer.finish()


def test_checkpoints_that_do_not_say_their_threads_are_passed_over(tmp_path: Path) -> None:
    for number, about in enumerate(({}, {"about": "{}"}, {"about": "[]"}, {"about": "{"})):
        save_file({"a": torch.zeros(1)}, tmp_path / f"{number}.safetensors", about)
    assert threads_before(tmp_path) is None
    save_file({"a": torch.zeros(1)}, tmp_path / "9.safetensors", {"about": '{"threads": 1}'})
    assert threads_before(tmp_path) == 1
