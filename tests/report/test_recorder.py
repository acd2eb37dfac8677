from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from djgnn.cli.fit import run_fit
from djgnn.cli.options import FitOptions
from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.training.config import resolve
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.progress import Hooks
from djgnn.training.recorder import RECORD, Recorder, Recording
from djgnn.training.run import train


@pytest.fixture(scope="module")
def graph():
    return random_splits(heterophilic_sbm(64))


def _train(graph, recorder, **changes):
    options = {"hidden_channels": 8, "epochs": 9, "experts": (), "num_jumps": 4, **changes}
    config = resolve("default", **options)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0, Hooks(observer=recorder))
    return fitted, inputs


def test_recording_changes_nothing(graph):
    seen, _ = _train(graph, Recorder(graph.num_nodes))
    unseen, _ = _train(graph, None)
    assert torch.equal(seen.logits, unseen.logits)
    assert seen.history == unseen.history


def test_snapshots_are_those_of_the_run(graph):
    recorder = Recorder(graph.num_nodes, sample_size=20)
    fitted, inputs = _train(graph, recorder)
    found = recorder.finish(fitted, inputs)
    at = found.epochs.tolist().index(fitted.epoch)
    with torch.no_grad():
        output = fitted.module.run(*inputs)
    assert np.array_equal(found.u[at], output.pump.u.numpy()[found.nodes])
    assert np.array_equal(found.ranks[at], output.table.index.numpy()[found.nodes])
    assert np.allclose(found.logits[at], output.logits.numpy()[found.nodes], atol=1e-5)
    assert np.allclose(found.alpha[fitted.epoch], output.alpha.numpy())
    assert float(output.pump.trace_ratio) == pytest.approx(
        found.trace_ratio[fitted.epoch], abs=1e-5
    )
    assert found.seen.tolist() == list(range(9))
    assert found.nodes.size == 20
    assert set(found.epochs.tolist()) == {0, 1, 2, 3, 4, 5, 6, 8} | {fitted.epoch}


def test_of_a_mixture_the_heaviest_expert_with_jumps_is_recorded(graph):
    recorder = Recorder(graph.num_nodes)
    fitted, inputs = _train(
        graph, recorder, experts=("features", "joint", "jumps"), num_jumps="auto"
    )
    for name in ("joint", "jumps"):
        fitted.module.weights.copy_(torch.tensor([0.5, 0.1, 0.4]))
        if name == "joint":
            fitted.module.weights.copy_(torch.tensor([0.0, 0.8, 0.2]))
        expert, own = fitted.module.experts[name], fitted.module.inputs_of(name, inputs)
        found = recorder.finish(fitted, inputs)
        record = next(record for record in fitted.experts if record.name == name)
        with torch.no_grad():
            output = expert.run(*own)
        at = found.epochs.tolist().index(record.epoch)
        assert np.array_equal(found.u[at], output.pump.u.numpy())
        assert found.alpha.shape == (record.epochs, len(expert.branch_names))


def test_without_jumps_there_is_nothing_to_record(graph):
    for changes in ({"experts": ("features", "given")}, {"jumps": False}):
        recorder = Recorder(graph.num_nodes)
        assert recorder.finish(*_train(graph, recorder, **changes)) is None


def test_a_fixed_scale_is_written_down(graph):
    recorder = Recorder(graph.num_nodes)
    fitted, inputs = _train(graph, recorder, scale="volume")
    assert recorder.finish(fitted, inputs).scale == pytest.approx(
        [1 / float(graph.adjacency.sum())] * len(recorder.finish(fitted, inputs).epochs)
    )


def test_a_recording_comes_back_from_its_file(graph, tmp_path: Path):
    recorder = Recorder(graph.num_nodes)
    fitted, inputs = _train(graph, recorder)
    found = recorder.finish(fitted, inputs)
    assert Recording.read(tmp_path) is None
    found.write(tmp_path)
    back = Recording.read(tmp_path)
    assert back is not None
    assert np.array_equal(back.u, found.u)
    assert np.array_equal(back.epochs, found.epochs)


def test_a_damaged_recording_is_named(tmp_path: Path):
    (tmp_path / RECORD).write_bytes(b"no zip")
    with pytest.raises(InputError, match="record the run again"):
        Recording.read(tmp_path)


def test_a_model_that_was_not_observed_has_its_kept_epoch_alone(graph):
    fitted, inputs = _train(graph, None)
    found = Recorder(graph.num_nodes).finish(fitted, inputs)
    assert found.epochs.tolist() == [fitted.epoch] == found.seen.tolist()


@pytest.fixture(scope="module")
def arrays(graph):
    recorder = Recorder(graph.num_nodes, sample_size=20)
    found = recorder.finish(*_train(graph, recorder))
    return dataclasses.asdict(found)


@pytest.mark.parametrize(
    ("key", "change", "says"),
    [
        ("nodes", lambda v: v + 10**6, "from 0 to below 78"),
        ("nodes", lambda v: v[::-1], "ascending"),
        ("ranks", lambda v: v - 10**6, "from 0 to below 78"),
        ("epochs", lambda v: v.astype(str), "whole numbers"),
        ("epochs", lambda v: v[:0], "shape"),
        ("u", lambda v: v[:1], r"shape \[snapshots \d+, nodes 20"),
        ("u", lambda v: v * np.nan, "below"),
        ("logits", lambda v: v[:, :, :1], "shape .*classes 4"),
        ("logits", lambda v: np.full(v.shape, 1e300), "below"),
        ("alpha", lambda v: v[:, :1], "shape"),
        ("scale", lambda v: v[0], "shape"),
        ("seen", lambda v: v - 1, "from 0"),
        ("weight", lambda v: v.astype(object), "objects"),
        ("weight", None, "floating point numbers"),
    ],
)
def test_a_recording_that_does_not_fit_is_refused(graph, arrays, tmp_path, key, change, says):
    changed = {k: v for k, v in arrays.items() if k != key}
    if change is not None:
        changed[key] = change(arrays[key])
    np.savez(tmp_path / RECORD, **changed)
    with pytest.raises(
        InputError, match=rf"record\.npz: key '{key}'.*{says}.*record the run again"
    ):
        Recording.read(tmp_path, num_nodes=graph.num_nodes, classes=4, branches=7)


def test_a_recording_is_not_inflated_beyond_its_limit(arrays, tmp_path):
    huge = np.broadcast_to(np.float32(0), (1, 1, 2**26 + 2**20))
    np.savez_compressed(tmp_path / RECORD, **{**arrays, "weight": huge})
    assert (tmp_path / RECORD).stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(InputError, match=r"record\.npz: would take .* limit of 0\.25 GiB"):
        Recording.read(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize("expert", ["jumps", "features"])
def test_a_cross_fitted_run_is_recorded_or_says_that_nothing_jumps(
    expert: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = resolve("default", None, epochs=3, hidden_channels=4, experts=(expert,))
    graph, config = with_splits(heterophilic_sbm(80), config)
    assert config.model.folds == 4
    run_fit(graph, config, FitOptions(tmp_path / "run", device="cpu", record=True, report=False))
    kept = (tmp_path / "run" / RECORD).is_file()
    said = capsys.readouterr().err
    assert kept == (expert == "jumps") == ("--record: nothing was kept" not in said)
