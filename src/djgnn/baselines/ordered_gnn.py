"""Ordered GNN (Song et al., 2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.checking import Count, Number, Rate
from djgnn.model.dropout import drop


@dataclass(frozen=True)
class OrderedGNNOptions(Options):
    """Options of an Ordered GNN."""

    hidden_channels: Count = 256  #: Width of every layer, a multiple of `num_chunks`.
    num_layers: Count = 8  #: Rounds of aggregation.
    num_chunks: Count = 64  #: Groups of channels; a group shares a gate.
    input_layers: Count = 1  #: Layers of the encoder.
    shared_gate: bool = False  #: One gate network for all rounds.
    dropout: Rate = 0.3  #: In the encoder and before the classifier.
    gate_dropout: Rate = 0.1  #: Before every round.
    #: Decay of encoder and classifier; negative means the training's.
    encoder_weight_decay: Number = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        wide, num_chunks = self.hidden_channels, self.num_chunks
        if wide % num_chunks:
            raise ValueError(f"hidden_channels must be a multiple of {num_chunks=} (got {wide})")


class OrderedGNN(Baseline):
    r"""Hops written into channels in order, behind gates that only open,

    .. math::
        M = \mathrm{mean}_{N(i)} H, \quad
        \tilde g = \mathrm{cumsum}(\mathrm{softmax}(W_g [H \Vert M])), \quad
        g \leftarrow g + (1 - g) \circ \tilde g, \quad
        H \leftarrow \mathrm{LN}(g \circ H + (1-g) \circ M).

    Yunchong Song, Chenghu Zhou, Xinbing Wang, Zhouhan Lin: Ordered GNN: Ordering Message Passing to
    Deal with Heterophily and Over-smoothing. ICLR 2023.
    """

    options: OrderedGNNOptions
    training_defaults: ClassVar = {"epochs": 2000, "patience": 200}
    loops, scaling = "removed", "row"  # the mean over the neighbours

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        o, wide = self.options, self.options.hidden_channels
        sizes = [in_channels, *[wide] * (o.input_layers - 1)]
        gates = range(1 if o.shared_gate else o.num_layers)
        self.encoder = nn.ModuleList(Linear(a, wide, init="fan_in") for a in sizes)
        self.encoder_norms = nn.ModuleList(nn.LayerNorm(wide) for _ in sizes)
        self.gates = nn.ModuleList(Linear(2 * wide, o.num_chunks, init="fan_in") for _ in gates)
        self.norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(o.num_layers))
        self.decoder = Linear(wide, out_channels, init="fan_in")

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Gates and their norms; encoder and classifier."""
        own = self.options.encoder_weight_decay
        inner = [*self.gates.parameters(), *self.norms.parameters()]
        parts = (self.encoder, self.encoder_norms, self.decoder)
        outer = [parameter for part in parts for parameter in part.parameters()]
        return [
            {"params": inner, "weight_decay": weight_decay},
            {"params": outer, "weight_decay": weight_decay if own < 0 else own},
        ]

    def encode(self, x: Matrix, generator: Generator | None) -> Tensor:
        """The first representation."""
        h: Any = x
        for layer, norm in zip(self.encoder, self.encoder_norms, strict=True):
            h = norm(layer(h, self.options.dropout, generator).relu())
        return cast(Tensor, h)

    def rounds(
        self, h: Tensor, mean: Matrix, generator: Generator | None = None
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

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        mean = self.constants(x, edge_index)
        h, _ = self.rounds(self.encode(x, generator), mean, generator)
        return self.decoder(h, self.options.dropout, generator)
