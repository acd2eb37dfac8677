"""Two and three processes train as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jobs
import numpy as np
import pytest
from processes import run_group

from djgnn.graph import Graph
from djgnn.model import ModelConfig
from djgnn.model.config import NETWORK_NAMES, PLAIN_NAMES
from djgnn.training import TrainConfig
from djgnn.training.distributed import Group

RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "decoupled": {"decoupled": True, "pump_epochs": 3},
    "cumulative": {"support": "cumulative", "class_weight": "balanced"},
    "two-layer classifier": {"classifier_layers": 2},
    "one layer": {"hb_layers": 1, "scale": "volume", "engine": "blockwise"},
    "identity": {"source": "identity"},
    "bare": {"structure": False, "homophilic": False, "scale": "unit", "num_centers": 9},
    "symmetric": {"pump_adjacency": "symmetric", "homophilic_adjacency": "symmetric"},
}
DEFAULT = {
    key: getattr(section, key)
    for section in (ModelConfig(), TrainConfig())
    for key in ("experts", "num_jumps", "lr", "weight_decay", "label_smoothing")
    if hasattr(section, key)
}
"""What the preset has of what a recipe changes, beside width and epochs."""
DECOUPLED = {
    **DEFAULT,
    "experts": ("joint", "jumps", "deep"),
    "decoupled": True,
    "pump_epochs": 3,
    "epochs": 5,
}


def compare(found: list[dict[str, Any]], one: dict[str, Any], tolerance: float = 1e-5) -> None:
    """Every term of the losses agrees; the pump loss, a difference, passes through zero."""
    for other in found[1:]:
        for key in ("losses", "ranks", "logits", "weights"):
            np.testing.assert_array_equal(other[key], found[0][key], key)
    np.testing.assert_allclose(terms(found[0]), terms(one), rtol=tolerance, atol=1e-6)
    # Two nodes may be at the same distance, but for rounding, which depends on the processor.
    assert np.mean(found[0]["ranks"] != one["ranks"]) <= 1e-4
    close = np.isclose(found[0]["logits"], one["logits"], rtol=1e-3, atol=1e-4).all(axis=1)
    assert (~close).sum() <= 1e-3 * close.size
    np.testing.assert_allclose(found[0]["weights"], one["weights"], rtol=1e-3, atol=1e-4)
    for key in ("chosen", "epoch", "test"):
        assert found[0][key] == one[key], key


def terms(run: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Cross-entropy, pump loss and validation loss of every epoch."""
    whole, pump, validation = run["losses"].T
    return np.stack([whole - pump, pump, validation], axis=1)


def check(size: int, graph: Graph, recipes: dict[str, dict[str, Any]]) -> None:
    found = run_group(size, jobs.fit_many, graph, list(recipes.values()))
    alone = jobs.fit_many(Group(), graph, list(recipes.values()))
    for place, name in enumerate(recipes):
        try:
            compare([process[place] for process in found], alone[place])
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_an_evaluation_in_parts_is_the_whole_one() -> None:
    for whole, parts in run_group(3, jobs.evaluations, jobs.sbm()):
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "names"), [(2, list(RECIPES)), (3, ["default", "decoupled"])])
def test_twenty_epochs_of_a_generated_graph(size: int, names: list[str]) -> None:
    check(size, jobs.sbm(), {name: RECIPES[name] for name in names})


@pytest.mark.parametrize("size", [2, 3])
def test_experts(size: int) -> None:
    """Their weights, epochs and dropped jumps are those of one process too.

    Only a few epochs of all: in a deep network differences of rounding grow fast.
    """
    jumps = {**DEFAULT, "experts": ("joint", "jumps"), "epochs": 20}
    plain = {**DEFAULT, "experts": (*PLAIN_NAMES, "rows", "joint"), "epochs": 5}
    recipes = {"all": {**DEFAULT, "epochs": 5}, "jumps": jumps, "decoupled": DECOUPLED}
    recipes |= {"plain": plain, "mix": {**DEFAULT, "experts": ("mix", "jumps"), "epochs": 10}}
    check(size, jobs.sbm(), recipes)


@pytest.mark.parametrize(("size", "name"), [(2, "chameleon"), (2, "cora"), (3, "texas")])
def test_twenty_epochs_of_a_data_set(size: int, name: str, data_dir: Path) -> None:
    check(size, jobs.stored(name, data_dir), {"one network": {}})


@pytest.mark.parametrize(("size", "name"), [(2, "cora"), (3, "texas")])
def test_the_default_on_a_data_set(size: int, name: str, data_dir: Path) -> None:
    check(size, jobs.stored(name, data_dir), {"experts": {**DEFAULT, "epochs": 5}})


def test_branches_of_somebody_else() -> None:
    found = run_group(2, jobs.fit_with_own_branches, jobs.sbm())
    compare(found, jobs.fit_with_own_branches(Group(), jobs.sbm()))


def test_more_processes_than_nodes_and_shards_without_training_nodes() -> None:
    few = {"num_centers": 2, "epochs": 4}
    recipes = {"tiny": {**few, "num_jumps": 2}, "experts": {**DEFAULT, **few}}
    check(6, jobs.tiny(), recipes)


def test_the_passes_of_shards_give_the_bits_of_whole_ones() -> None:
    """One process with all rows: the same operations in the same order.

    But for the sum over hops, which one process computes in one piece (`model/hop_products.py`),
    and the gradient of hidden states, which shards sum jump by jump.
    """
    (found,) = run_group(1, jobs.both_passes, jobs.sbm())
    assert found.keys() == set(NETWORK_NAMES)
    for name, pairs in found.items():
        for sharded, whole in pairs:
            rounding = 1e-6 if name in ("diffusion", "jumps") else 0
            np.testing.assert_allclose(sharded, whole, rounding, rounding, err_msg=name)


def test_a_run_is_continued_by_another_number_of_processes(tmp_path: Path) -> None:
    """Stopped in the second expert, and in the fourth; only one process was told to."""
    graph, file = jobs.sbm(), tmp_path / "run"
    recipe = {**DEFAULT, "experts": ("joint", "rows", "jumps", "deep"), "epochs": 3}
    whole = jobs.fit_kept(Group(), graph, tmp_path / "whole" / "run", None, recipe)
    for size, epochs, trained in ((2, 5, 2), (3, 6, 4)):
        halted = run_group(size, jobs.fit_kept, graph, file, epochs, recipe)
        assert all(process["halted"] for process in halted)
        assert [process["experts"] for process in halted] == size * [trained]
    found = run_group(2, jobs.fit_kept, graph, file, None, recipe)
    assert not found[0]["halted"]
    np.testing.assert_allclose(found[0]["losses"], whole["losses"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1]["logits"], found[0]["logits"])
    assert len(found[0]["losses"]) == 12
