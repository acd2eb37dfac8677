"""A tuned GAT: PyG's layer with residuals, normalisation and dropout."""

from __future__ import annotations

from dataclasses import dataclass

from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import undrawn
from djgnn.baselines.options import count
from djgnn.baselines.tuned import Tuned, TunedOptions
from djgnn.graph import Graph
from djgnn.training.inputs import num_features


@dataclass(frozen=True)
class Options(TunedOptions):
    """Options of a tuned GAT, see :class:`djgnn.baselines.tuned.TunedOptions`.

    Args:
        heads: Attention heads, which share the width.
    """

    heads: int = count(4)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_channels % self.heads:
            raise ValueError(
                f"hidden_channels must be a multiple of heads={self.heads} "
                f"(got {self.hidden_channels})"
            )


def build(config: BaselineConfig, graph: Graph) -> Tuned:
    """A tuned GAT for a graph; the convolution is that of :class:`djgnn.baselines.gat.GAT`."""
    from torch_geometric.nn import GATConv

    o = Options(**config.options)
    module = Tuned(
        num_features(graph),
        graph.num_classes,
        o,
        lambda a, b: undrawn(GATConv, a, b // o.heads, heads=o.heads),
    )
    module.capturable = False  # see GAT
    return module
