"""Branches, their convex mixture, the DJGNN, experts and presets."""

from djgnn.model.config import PRESETS, ModelConfig, preset
from djgnn.model.djgnn import DJGNN
from djgnn.model.experts import DJExperts
from djgnn.model.operators import GraphOperators, graph_operators
from djgnn.model.views import DJOutput

__all__ = [
    "DJGNN",
    "PRESETS",
    "DJExperts",
    "DJOutput",
    "GraphOperators",
    "ModelConfig",
    "graph_operators",
    "preset",
]
