"""What a pass of the model hands on, half way and at its end."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from djgnn.filters import FilterTable
from djgnn.pump import PumpOutput


@dataclass(frozen=True, eq=False)
class DJOutput:
    """Everything one pass computes.

    Shapes:
        logits ``[n, classes]``, embeddings of each part ``[n, width]``, alpha ``[branches]``.
    """

    logits: Tensor
    pump: PumpOutput
    table: FilterTable
    embeddings: tuple[Tensor, ...]
    alpha: Tensor

    @property
    def pump_loss(self) -> Tensor:
        """Trace ratio plus orthogonality."""
        return self.pump.trace_ratio + self.pump.orthogonality


@dataclass(frozen=True, eq=False)
class Encoding:
    """What a pass knows before its first random number.

    Shapes:
        jumps ``[n, branches * hidden]`` (X W), homophilic ``[n, hidden]`` (its first layer).
    """

    pump: PumpOutput
    table: FilterTable
    jumps: Tensor
    homophilic: Tensor | None

    @property
    def pump_loss(self) -> Tensor:
        """Trace ratio plus orthogonality."""
        return self.pump.trace_ratio + self.pump.orthogonality

    def detach(self) -> Encoding:
        """The same values without their history."""
        table = FilterTable(self.table.index, self.table.weight.detach(), self.table.branches)
        first = None if self.homophilic is None else self.homophilic.detach()
        return Encoding(self.pump, table, self.jumps.detach(), first)
