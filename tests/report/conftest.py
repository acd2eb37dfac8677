"""Small runs with hostile names, recorded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from djgnn.graph import Graph, heterophilic_sbm, random_splits
from djgnn.report.run_data import RunData, load_run
from djgnn.training.config import resolve
from djgnn.training.folder import new_folder, write_run
from djgnn.training.folds import with_splits
from djgnn.training.inputs import build_djgnn
from djgnn.training.progress import Hooks
from djgnn.training.recorder import Recorder
from djgnn.training.run import train

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "quote\" and 'quote'",
    "line\nbreak\u2028and\u2029more",
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
    "${name} %{y} &lt;b&gt;",
)
CLASSES = ("<b>bold</b>", 'a "quoted" class', "\u05e2\u05d1\u05e8\u05d9\u05ea", "two\nlines")


def hostile_graph(num_nodes: int = 96) -> Graph:
    """The generated graph with names that contain markup."""
    graph = random_splits(heterophilic_sbm(num_nodes), num_splits=2)
    names = [*HOSTILE, *graph.names()[len(HOSTILE) :]]
    return dataclasses.replace(graph, node_names=tuple(names), class_names=CLASSES)


def make_run(
    folder: Path, graph: Graph, *, sample: int = 700, folds: int | None = None, **changes: object
) -> Path:
    """Train a little, recorded, and write the folder."""
    experts = ("features", "joint", "jumps")
    options = {"hidden_channels": 8, "epochs": 12, "experts": experts, **changes}
    graph, config = with_splits(graph, resolve("default", **options), folds)
    module, inputs = build_djgnn(config, graph)
    recorder = Recorder(graph.num_nodes, sample)
    fitted, result = train(module, inputs, graph, 0, config.training, 0, Hooks(observer=recorder))
    with new_folder(folder) as place:
        recording = recorder.finish(fitted, inputs)
        if recording is not None:
            recording.write(place)
        write_run(place, graph, config, fitted, result, 0)
    return folder


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "hostile", hostile_graph())


@pytest.fixture(scope="session")
def run_data(run_folder: Path) -> RunData:
    return load_run(run_folder)
