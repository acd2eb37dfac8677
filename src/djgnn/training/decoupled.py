"""The paper's mode for large graphs: the pump is trained alone, then its filters are fixed."""

from typing import Any

from torch import nn

from djgnn.model import DJGNN
from djgnn.training.config import TrainConfig
from djgnn.training.inputs import initialize
from djgnn.training.optimizer import Adam


def prepare(module: nn.Module, inputs: tuple[Any, Any], config: TrainConfig, seed: int) -> None:
    """Fresh weights for a model; decoupled, those of the pump are trained and fixed."""
    initialize(module, seed)
    if config.decoupled and isinstance(module, DJGNN) and module.pump is not None:
        train_pump(module, inputs, config)


def train_pump(module: DJGNN, inputs: tuple[Any, Any], config: TrainConfig) -> float:
    """Train the pump alone, without labels, then fix the filters.

    Returns:
        The pump's last loss.
    """
    view: Any = module.view(*inputs)
    if module.pump is None:
        raise ValueError("a model without jumps has no pump to train")
    optimizer = Adam(module.pump.parameters(), lr=config.pump_lr)
    value = float("nan")
    for _ in range(config.pump_epochs):
        optimizer.zero_grad()
        loss: Any = view.positions(module.pump).loss
        loss.backward()
        view.reduce(module.pump.parameters())
        optimizer.step()
        value = float(loss.detach())
    optimizer.zero_grad()  # the next optimiser must start without this gradient
    module.freeze_pump(view)
    return value
