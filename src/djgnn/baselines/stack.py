"""A stack of plain models: MLP, GCN and LINKX, mixed as the experts of the DJ-GNN are."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Generator, Tensor

from djgnn.baselines.base import Matrix, Options
from djgnn.baselines.gcn import GCN, GCNOptions
from djgnn.baselines.linkx import LINKX, LINKXOptions
from djgnn.baselines.mlp import MLP, MLPOptions
from djgnn.checking import Count, Rate
from djgnn.model.expert_mixture import Mixed


@dataclass(frozen=True)
class StackOptions(Options):
    """Options of all members; others have each member's defaults."""

    hidden_channels: Count = 64  #: Width of every member.
    dropout: Rate = 0.5  #: Dropout of every member.


class Stack(Mixed):
    r"""Three models of their own and the convex mixture of their probabilities.

    Every member is trained by itself to its best epoch; the weights of the mixture are the most
    likely ones on validation nodes (:mod:`djgnn.training.experts`). What it gets is what mixing
    gives without jumps.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``, logarithms of probabilities.
    """

    options: StackOptions
    training_defaults: ClassVar[dict[str, Any]] = {}
    node_parameters: ClassVar[tuple[str, ...]] = tuple(
        f"experts.linkx.{name}" for name in LINKX.node_parameters
    )

    def __init__(
        self, options: StackOptions, in_channels: int, out_channels: int, num_nodes: int
    ) -> None:
        own: dict[str, Any] = {
            "hidden_channels": options.hidden_channels,
            "dropout": options.dropout,
        }
        sizes = (in_channels, out_channels, num_nodes)
        super().__init__(
            {
                "mlp": MLP(MLPOptions(**own), *sizes),
                "gcn": GCN(GCNOptions(**own), *sizes),
                "linkx": LINKX(LINKXOptions(**own), *sizes),
            }
        )
        self.options = options

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logarithms of the mixture's probabilities."""
        return self.combine([m(x, edge_index, generator) for m in self.experts.values()])
