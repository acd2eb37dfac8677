"""A tuned GraphSAGE: mean aggregation with residuals, normalisation and dropout."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.graphsage import SAGELayer
from djgnn.baselines.tuned import Tuned, TunedOptions
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(TunedOptions):
    """Options of a tuned GraphSAGE, see :class:`djgnn.baselines.tuned.TunedOptions`."""


class TunedSAGE(Tuned):
    """A tuned network whose convolutions are :class:`djgnn.baselines.graphsage.SAGELayer`."""

    def edges(self, x: Tensor | SparseOperator, edge_index: Tensor) -> Tensor | SparseOperator:
        """The average over those a node hears."""
        mean: SparseOperator = self.constants(x, edge_index)
        return mean


def build(config: BaselineConfig, graph: Graph) -> TunedSAGE:
    """A tuned GraphSAGE for a graph."""
    o = Options(**config.options)
    return TunedSAGE(num_features(graph), graph.num_classes, o, SAGELayer)
