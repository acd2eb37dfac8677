"""Branches, their convex mixture, the DJGNN and its presets."""

from djgnn.model.config import PRESETS, ModelConfig, preset
from djgnn.model.djgnn import DJGNN
from djgnn.model.operators import GraphOperators, graph_operators
from djgnn.model.views import DJOutput

__all__ = [
    "DJGNN",
    "PRESETS",
    "DJOutput",
    "GraphOperators",
    "ModelConfig",
    "graph_operators",
    "preset",
]
