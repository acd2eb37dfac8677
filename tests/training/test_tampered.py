"""A run folder vouches for its files: whatever is changed is refused by name."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.reseal import reseal

from djgnn.errors import InputError
from djgnn.graph import files, heterophilic_sbm, random_splits, read_npz, write_npz
from djgnn.report.comparison import comparison_payload
from djgnn.report.page import write_run_page
from djgnn.report.run_data import load_run
from djgnn.training import resolve, train
from djgnn.training.card import RESULT, amend_card, read_card
from djgnn.training.folder import new_folder, read_predictions, write_run
from djgnn.training.inputs import build_djgnn
from djgnn.training.stored import load_model

WEIGHTS, GRAPH, CONFIG = "weights.safetensors", "graph.npz", "config.yaml"
PREDICTIONS, HISTORY, SUSPECTS = "predictions.csv", "history.csv", "suspects.csv"


def make(path: Path, seed: int) -> Path:
    graph = random_splits(heterophilic_sbm(80, random_state=seed))
    config = resolve("default", None, hidden_channels=4, epochs=3, experts=("features", "joint"))
    module, inputs = build_djgnn(config, graph)
    fitted, result = train(module, inputs, graph, 0, config.training, seed)
    with new_folder(path) as folder:
        write_run(folder, graph, config, fitted, result, seed)
    write_run_page(load_run(path))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("run", "other")):
        make(place / name, seed)
    return place


def flip(name: str) -> Callable[[Path], None]:
    """One bit in the middle of a file."""

    def change(run: Path) -> None:
        content = bytearray((run / name).read_bytes())
        content[len(content) // 2] ^= 1
        (run / name).write_bytes(content)

    return change


def cut(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes((run / name).read_bytes()[:-9])


def drop(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).unlink()


def swap(name: str) -> Callable[[Path], None]:
    """The file of another run."""
    return lambda run: (run / name).write_bytes((run.parent / "other" / name).read_bytes())


def link(name: str) -> Callable[[Path], None]:
    """The same content, but elsewhere."""

    def change(run: Path) -> None:
        (run / name).rename(run.parent / name)
        (run / name).symlink_to(run.parent / name)

    return change


def text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        before = (run / name).read_text("utf-8")
        assert old in before
        (run / name).write_text(before.replace(old, new, 1), "utf-8")

    return change


def card(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        values = json.loads((run / RESULT).read_text("utf-8"))
        change(values)
        (run / RESULT).write_text(json.dumps(values), "utf-8")

    return edit


TAMPERED: list[tuple[str, str, Callable[[Path], None]]] = [
    *((name, "a bit", flip(name)) for name in (WEIGHTS, GRAPH, CONFIG, PREDICTIONS, HISTORY)),
    *((name, "a bit", flip(name)) for name in (SUSPECTS, "report.html")),
    *((name, "half copied", cut(name)) for name in (WEIGHTS, GRAPH, CONFIG, PREDICTIONS, RESULT)),
    *((name, "missing", drop(name)) for name in (WEIGHTS, GRAPH, CONFIG, PREDICTIONS, HISTORY)),
    *((name, "missing", drop(name)) for name in (SUSPECTS, RESULT)),
    *(
        (name, "of another run", swap(name))
        for name in (WEIGHTS, GRAPH, PREDICTIONS, "report.html")
    ),
    *((name, "a link", link(name)) for name in (WEIGHTS, GRAPH, CONFIG, PREDICTIONS, RESULT)),
    (CONFIG, "another option", text(CONFIG, "epochs: 3", "epochs: 4")),
    (PREDICTIONS, "another part", text(PREDICTIONS, ",test,", ",train,")),
    (RESULT, "a better score", card(lambda c: c["result"].update(test=99.0))),
    (RESULT, "another temperature", card(lambda c: c["calibration"].update(temperature=0.5))),
    (RESULT, "classes in another order", card(lambda c: c["data"]["classes"].reverse())),
    (RESULT, "no hashes", card(lambda c: c.pop("files"))),
    (RESULT, "one hash less", card(lambda c: c["files"].pop(WEIGHTS))),
    (RESULT, "another hash", card(lambda c: c["files"].update({WEIGHTS: "0" * 64}))),
]


@pytest.mark.parametrize(
    ("name", "change"), [(n, c) for n, _, c in TAMPERED], ids=[f"{n}: {w}" for n, w, _ in TAMPERED]
)
def test_a_changed_file_is_named(
    runs: Path, tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    for run in ("run", "other"):
        shutil.copytree(runs / run, tmp_path / run)
    change(tmp_path / "run")
    for read in (load_model, read_predictions):
        with pytest.raises(InputError, match=rf"/run/{name}: "):
            read(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change"), [(n, c) for n, _, c in TAMPERED], ids=[f"{n}: {w}" for n, w, _ in TAMPERED]
)
def test_a_changed_file_is_named_by_hashes_that_were_made_ahead(
    runs: Path,
    tmp_path: Path,
    name: str,
    change: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "WORTH_AHEAD", 0)
    for run in ("run", "other"):
        shutil.copytree(runs / run, tmp_path / run)
    change(tmp_path / "run")
    with pytest.raises(InputError, match=rf"/run/{name}: "):
        load_model(tmp_path / "run", hashes=files.hash_ahead(tmp_path / "run"))


def test_there_are_thirty_of_them_and_an_unchanged_run_is_read(runs: Path) -> None:
    assert len(TAMPERED) >= 30
    load_model(runs / "run")
    assert len(read_predictions(runs / "run")) == 1 + read_card(runs / "run")["data"]["num_nodes"]


def _weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        state = load_file(run / WEIGHTS)
        name = next(key for key, value in state.items() if value.ndim == 2)
        save_file({**state, name: change(state[name])}, run / WEIGHTS)

    return edit


def _labels(run: Path) -> None:
    graph = read_npz(run / GRAPH)
    write_npz(dataclasses.replace(graph, y=np.roll(graph.y, 1)), run / GRAPH)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_weights(lambda w: torch.full_like(w, 3e38)), f"not finite, so {WEIGHTS}"),
        (_weights(lambda w: w * float("nan")), f"{WEIGHTS}: holds weights that are not finite"),
        (_weights(lambda w: w.long()), f"{WEIGHTS}: .*is of type torch.int64, not torch.float32"),
        (_weights(lambda w: w.half()), f"{WEIGHTS}: .*is of type torch.float16"),
        (_labels, f"{GRAPH}: is not the graph of this run"),
        (card(lambda c: c["data"].update(num_edges=1)), f"{GRAPH}: is not the graph of this run"),
        (card(lambda c: c["data"]["classes"].reverse()), f"{GRAPH}: is not the graph of this run"),
        (text(PREDICTIONS, "node,", "nodes,"), f"{PREDICTIONS}: damaged, it has other columns"),
        (cut(PREDICTIONS), f"{PREDICTIONS}: damaged"),
    ],
)
def test_files_that_do_not_fit_are_refused_though_the_card_vouches_for_them(
    runs: Path, tmp_path: Path, change: Callable[[Path], None], says: str
) -> None:
    run = Path(shutil.copytree(runs / "run", tmp_path / "run"))
    change(run)
    reseal(run)
    with pytest.raises(InputError, match=says):
        load_run(run)


@pytest.mark.parametrize("name", [WEIGHTS, GRAPH, CONFIG, PREDICTIONS, HISTORY])
@pytest.mark.parametrize("old", [False, True])
def test_a_card_must_vouch_for_every_file_that_is_read(
    runs: Path, tmp_path: Path, name: str, old: bool
) -> None:
    run = Path(shutil.copytree(runs / "run", tmp_path / "run"))
    values = json.loads((run / RESULT).read_text("utf-8"))
    if old:  # of version 0.1, which has no hashes; still, links may lead anywhere
        link(name)(run)
        values = {key: value for key, value in values.items() if key not in ("files", "verdict")}
        (run / RESULT).write_text(json.dumps(values), "utf-8")
    else:
        del values["files"][name]
        amend_card(run, values)
    says = "is a link" if old else "the card does not vouch for this file"
    for read in (load_model, read_predictions):
        with pytest.raises(InputError, match=f"/run/{name}: {says}"):
            read(run)
    if name == CONFIG:
        with pytest.raises(InputError, match=says):
            comparison_payload([run, run])


@pytest.mark.parametrize("name", ["../other/graph.npz", "/etc/hostname", "sub/file"])
def test_a_card_cannot_name_files_elsewhere(runs: Path, tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(runs / "run", tmp_path / "run"))
    values = read_card(run)
    amend_card(run, {**values, "files": {**values["files"], name: "0" * 64}})
    with pytest.raises(InputError, match=r"result\.json: damaged, names a file elsewhere"):
        load_model(run)


def test_a_deleted_page_is_not_missed_and_a_changed_one_is_written_anew(
    runs: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(runs / "run", tmp_path / "run"))
    flip("report.html")(run)
    write_run_page(load_run(run))
    load_model(run)
    (run / "report.html").unlink()
    load_model(run)
    (run / "notes.txt").write_text("of the user")
    load_model(run)
