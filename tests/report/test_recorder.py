from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from djgnn.errors import InputError
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn
from djgnn.training.recorder import RECORD, Recorder, Recording
from djgnn.training.run import train


@pytest.fixture(scope="module")
def graph():
    return random_splits(heterophilic_sbm(64))


def _train(graph, recorder, **changes):
    options = {"hidden_channels": 8, "epochs": 9, **changes}
    config = resolve("default", **options)
    module, inputs = build_djgnn(config, graph)
    fitted, _ = train(module, inputs, graph, 0, config.training, 0, observer=recorder)
    return fitted, inputs


def test_looking_on_changes_nothing(graph):
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


def test_with_a_gate_the_kept_model_is_the_one_recorded(graph):
    recorder = Recorder(graph.num_nodes)
    fitted, inputs = _train(graph, recorder, structure_gate=True)
    found = recorder.finish(fitted, inputs)
    assert found.alpha.shape == (len(fitted.history), len(fitted.module.branch_names))


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
    with pytest.raises(InputError, match="--record"):
        Recording.read(tmp_path)


def test_a_model_that_was_not_observed_has_no_recording(graph):
    fitted, inputs = _train(graph, None)
    with pytest.raises(InputError, match="not observed"):
        Recorder(graph.num_nodes).finish(fitted, inputs)
