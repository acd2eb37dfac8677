"""Ordered GNN (Song et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from djgnn.baselines.base import Baseline, operator, row_scale, without_loops
from djgnn.baselines.config import BaselineConfig
from djgnn.baselines.drawing import Linear, drop
from djgnn.baselines.options import Options as BaseOptions
from djgnn.baselines.options import count, option, rate
from djgnn.graph import Graph
from djgnn.graph.operator import SparseOperator
from djgnn.training.inputs import num_features

TRAINING = {"epochs": 2000, "patience": 200}


@dataclass(frozen=True)
class Options(BaseOptions):
    """Options of an Ordered GNN.

    Args:
        hidden_channels: Width of every layer, a multiple of `num_chunks`.
        num_layers: Rounds of aggregation.
        num_chunks: Channels that share a gate, counted as groups.
        input_layers: Layers of the encoder.
        shared_gate: One gate network for all rounds.
        dropout: In the encoder and before the classifier.
        gate_dropout: Before every round.
        encoder_weight_decay: Decay of encoder and classifier; negative means the training's.
    """

    hidden_channels: int = count(256)
    num_layers: int = count(8)
    num_chunks: int = count(64)
    input_layers: int = count(1)
    shared_gate: bool = False
    dropout: float = rate(0.3)
    gate_dropout: float = rate(0.1)
    encoder_weight_decay: float = option(-1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_channels % self.num_chunks:
            raise ValueError(
                f"hidden_channels must be a multiple of num_chunks={self.num_chunks} "
                f"(got {self.hidden_channels})"
            )


class OrderedGNN(Baseline):
    r"""Hops written into channels in order, behind gates that only open,

    .. math::
        M = \mathrm{mean}_{N(i)} H, \quad
        \tilde g = \mathrm{cumsum}(\mathrm{softmax}(W_g [H \Vert M])), \quad
        g \leftarrow g + (1 - g) \circ \tilde g, \quad
        H \leftarrow \mathrm{LN}(g \circ H + (1-g) \circ M).

    Yunchong Song, Chenghu Zhou, Xinbing Wang, Zhouhan Lin: Ordered GNN: Ordering Message Passing to
    Deal with Heterophily and Over-smoothing. ICLR 2023.

    Args:
        in_channels: Number of features.
        out_channels: Number of classes.
        options: Width, depth, gates and rates.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``, logits ``[n, classes]``.
    """

    def __init__(self, in_channels: int, out_channels: int, options: Options) -> None:
        super().__init__()
        self.options = o = options
        wide = o.hidden_channels
        self.encoder = nn.ModuleList(
            Linear(wide if layer else in_channels, wide, init="fan_in")
            for layer in range(o.input_layers)
        )
        self.encoder_norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(o.input_layers))
        self.gates = nn.ModuleList(
            Linear(2 * wide, o.num_chunks, init="fan_in")
            for _ in range(1 if o.shared_gate else o.num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(o.num_layers))
        self.decoder = Linear(wide, out_channels, init="fan_in")
        self.reset_parameters()

    def prepare(self, adjacency: sp.csr_array, like: Tensor | SparseOperator) -> SparseOperator:
        """The average over those a node hears, itself left out."""
        return operator(row_scale(without_loops(adjacency)), like)

    def parameter_groups(
        self, weight_decay: float, structure_weight_decay: float
    ) -> list[dict[str, Any]]:
        """Gates and their norms; encoder and classifier."""
        own = self.options.encoder_weight_decay
        inner = [*self.gates.parameters(), *self.norms.parameters()]
        held = {id(part) for part in inner}
        outer = [part for part in self.parameters() if id(part) not in held]
        return [
            {"params": inner, "weight_decay": weight_decay},
            {"params": outer, "weight_decay": weight_decay if own < 0 else own},
        ]

    def encode(self, x: Tensor | SparseOperator, generator: torch.Generator | None) -> Tensor:
        """The first representation."""
        h: Any = x
        for layer, norm in zip(self.encoder, self.encoder_norms, strict=True):
            h = norm(layer(h, self.options.dropout, generator).relu())
        result: Tensor = h
        return result

    def rounds(
        self, h: Tensor, mean: SparseOperator, generator: torch.Generator | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """The last representation, and the gates of every round, ``[n, chunks]``."""
        o = self.options
        gate, opened = h.new_zeros(o.num_chunks), []
        for number, norm in enumerate(self.norms):
            h = drop(h, o.gate_dropout, self.training, generator)
            near = mean @ h
            raw = self.gates[0 if o.shared_gate else number](torch.cat([h, near], dim=1))
            gate = gate + (1 - gate) * raw.softmax(dim=1).cumsum(dim=1)
            opened.append(gate)
            wide = gate.repeat_interleave(o.hidden_channels // o.num_chunks, dim=1)
            h = norm(wide * h + (1 - wide) * near)
        return h, opened

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits."""
        mean = self.constants(x, edge_index)
        h, _ = self.rounds(self.encode(x, generator), mean, generator)
        logits: Tensor = self.decoder(h, self.options.dropout, generator)
        return logits


def build(config: BaselineConfig, graph: Graph) -> OrderedGNN:
    """An Ordered GNN for a graph."""
    return OrderedGNN(num_features(graph), graph.num_classes, Options(**config.options))
