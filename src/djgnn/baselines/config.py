"""What every baseline is configured with."""

from __future__ import annotations

from dataclasses import dataclass, field

from djgnn.training.config import TrainConfig


@dataclass(frozen=True)
class BaselineConfig:
    """Options shared by the baselines.

    Args:
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers.
        dropout: Before every layer but the first, and on the features of the MLP.
        adjacency: What message passing sees: ``"symmetric"`` or ``"given"``.
        training: How it is trained.
    """

    hidden_channels: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    adjacency: str = "symmetric"
    training: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            epochs=1000, lr=0.01, weight_decay=5e-4, patience=100, pump_weight=0.0
        )
    )
