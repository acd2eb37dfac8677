"""What a checkpoint must hold to be continued: a fused optimiser works on raw memory."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch

from djgnn.training.progress import EpochRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

MOMENTS = frozenset(("step", "exp_avg", "exp_avg_sq"))
LISTS = frozenset(("u", "ranks", "changes"))


def check_progress(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse a history that is none.

    Raises:
        KeyError: If something is missing.
        ValueError: If something is not what it should be.
    """
    history, decisions = tensors["history"], tensors["decisions"]
    wanted = (history.shape[0], len(fields(EpochRecord)))
    _require(history.dtype == torch.float64 and history.shape == wanted, "history")
    epochs = torch.arange(history.shape[0], dtype=torch.float64)
    _require(torch.equal(history[:, 0], epochs), "history: numbers of the epochs")
    _require(decisions.ndim == 2 and decisions.shape[0] == history.shape[0], "decisions")
    kept, seconds = about["kept_epoch"], about["seconds"]
    _require(type(kept) is int and -1 <= kept < history.shape[0], "kept_epoch")
    real = isinstance(seconds, int | float) and abs(seconds) < 1e300
    _require(real and math.isfinite(seconds) and seconds >= 0, "seconds")
    _require(isinstance(about["ended"], bool), "ended")
    _require(kept < 0 or tensors["kept_logits"].ndim == 2, "kept_logits")


def check_weights(held: Mapping[str, Tensor], module: nn.Module) -> None:
    """Refuse weights that are not those of the module, by name, shape and type.

    Raises:
        ValueError: If they are not.
    """
    wanted = module.state_dict()
    _require(held.keys() == wanted.keys(), "kept: names of the weights")
    for name, value in held.items():
        same = value.shape == wanted[name].shape and value.dtype == wanted[name].dtype
        _require(same, f"kept.{name}")


def check_moments(state: Mapping[int, Mapping[str, Tensor]], optimizer: Any) -> None:
    """Refuse moments that are not of the parameters' shapes and types.

    Raises:
        ValueError: If one is not.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, entry in state.items():
        _require(0 <= number < len(parameters) and entry.keys() == MOMENTS, f"adam.{number}")
        like = parameters[number]
        for name in ("exp_avg", "exp_avg_sq"):
            same = entry[name].shape == like.shape and entry[name].dtype == like.dtype
            _require(same, f"adam.{number}.{name}")
        step = entry["step"]
        _require(step.numel() == 1 and step.dtype == torch.float32, f"adam.{number}.step")
        _require(0 <= float(step) < 2**53, f"adam.{number}.step")


def check_lists(lists: Mapping[str, Tensor]) -> None:
    """Refuse rank lists that are none; whether they are of this graph is seen when they are used.

    Raises:
        ValueError: If they are not.
    """
    if not lists:
        return
    _require(lists.keys() == LISTS, "lists")
    whole = all(lists[name].dtype == torch.int64 for name in ("ranks", "changes"))
    _require(whole and lists["ranks"].ndim == 2 and lists["u"].is_floating_point(), "lists")
    _require(lists["changes"].numel() == 1 and int(lists["changes"]) >= 0, "lists.changes")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what}: not as it was written")
