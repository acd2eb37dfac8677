"""A tuned GCN: PyG's layer with residuals, normalisation and dropout."""

from __future__ import annotations

from dataclasses import dataclass

from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import undrawn
from djgnn.baselines.tuned import Tuned, TunedOptions
from djgnn.graph import Graph
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(TunedOptions):
    """Options of a tuned GCN, see :class:`djgnn.baselines.tuned.TunedOptions`."""


def build(config: BaselineConfig, graph: Graph) -> Tuned:
    """A tuned GCN for a graph; the convolution is that of :class:`djgnn.baselines.gcn.GCN`."""
    from torch_geometric.nn import GCNConv

    return Tuned(
        num_features(graph),
        graph.num_classes,
        Options(**config.options),
        lambda a, b: undrawn(GCNConv, a, b, cached=True),
    )
