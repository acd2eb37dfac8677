"""A recording of a training run: what the homophiliation looked like, at a few epochs.

It looks on and changes nothing: no random number is drawn and no label is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.graph.npz_arrays import read_arrays
from djgnn.model import DJGNN
from djgnn.model.outputs import Encoding
from djgnn.training.loop import Fitted
from djgnn.training.passes import encode_all
from djgnn.training.progress import EpochRecord
from djgnn.training.record_check import MAX_BYTES, check_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECORD = "record.npz"
SAMPLE_SIZE = 700
GROWTH = 1.25


@dataclass(frozen=True, eq=False)
class Recording:
    """Snapshots of a run on a sample of its nodes, and a few figures of every epoch.

    Attributes:
        nodes: ``[m]``, the sampled nodes, ascending; all of them where there are few.
        epochs: ``[s]``, the epochs of the snapshots; the selected one is among them.
        u: ``[s, m, p]``, positions.
        ranks: ``[s, m, R]``, the nodes at each rank of the sampled ones, anywhere in the graph.
        weight: ``[s, m, R]``, their coefficients exp(-s d).
        logits: ``[s, m, classes]``.
        scale: ``[s]``, the factor of the distances.
        seen: ``[e]``, the epochs that were looked at: all, but for a run that was continued.
        alpha: ``[e, branches]``, mixing weights after each of them.
        trace_ratio: ``[e]``, the pump's first loss after each of them.
        orthogonality: ``[e]``, its second.
    """

    nodes: NDArray[np.int64]
    epochs: NDArray[np.int64]
    u: NDArray[np.float32]
    ranks: NDArray[np.int64]
    weight: NDArray[np.float32]
    logits: NDArray[np.float32]
    scale: NDArray[np.float64]
    seen: NDArray[np.int64]
    alpha: NDArray[np.float32]
    trace_ratio: NDArray[np.float32]
    orthogonality: NDArray[np.float32]

    def write(self, folder: str | Path) -> None:
        """Store it in a run folder, as ``record.npz``."""
        with atomic_write(Path(folder) / RECORD) as stream:
            np.savez_compressed(stream, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def read(cls, folder: str | Path, **sizes: int) -> Recording | None:
        """The recording of a run folder; ``None`` if the run was not recorded.

        Args:
            folder: The run folder.
            sizes: What is known of the run, see :func:`djgnn.training.record_check.check_record`.

        Raises:
            InputError: If the file is there but cannot be read, or does not fit together.
        """
        path = Path(folder).expanduser() / RECORD
        if not path.is_file():
            return None
        names = [f.name for f in fields(cls)]
        try:
            found = read_arrays(path, names, MAX_BYTES)
            return cls(**check_record(path, found, sizes))
        except InputError as error:
            raise InputError(
                f"{error}; run `djgnn fit --record` again, or delete the file to go on without it"
            ) from error


@dataclass(frozen=True, eq=False)
class _Snapshot:
    epoch: int
    u: Tensor
    ranks: Tensor
    weight: Tensor
    logits: Tensor
    scale: float


@dataclass(eq=False)
class _Take:
    """What was seen of one model; a run with a structure gate trains two."""

    snapshots: list[_Snapshot] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    alpha: list[Tensor] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)

    def look(self, epoch: int, module: DJGNN, encoding: Encoding) -> None:
        """Note the figures of an epoch."""
        pump = encoding.pump
        self.seen.append(epoch)
        self.alpha.append(module.mixture.alpha.detach())
        self.losses.append(torch.stack([pump.trace_ratio, pump.orthogonality]).detach())


class Recorder:
    """An observer of the training loop that keeps snapshots at geometrically spaced epochs.

    Between snapshots an epoch costs the copy of a few numbers. The selected epoch is added at the
    end, from the model as it was kept.

    Args:
        num_nodes: Number of nodes n of the graph.
        sample_size: Most nodes to keep; chosen evenly at random, without their labels.
        seed: Seed of that choice.

    Example:
        >>> [e for e in range(50) if Recorder(10).wants(e)]
        [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 23, 29, 36, 45]
    """

    def __init__(self, num_nodes: int, sample_size: int = SAMPLE_SIZE, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        size = min(num_nodes, sample_size)
        self.nodes = np.sort(rng.choice(num_nodes, size, replace=False))
        self._takes: dict[int, _Take] = {}

    def wants(self, epoch: int) -> bool:
        """Whether an epoch is one of the spaced ones."""
        return epoch < 4 or _step(epoch) != _step(epoch - 1)

    def __call__(
        self, record: EpochRecord, module: nn.Module, encoding: Encoding | None, logits: Tensor
    ) -> None:
        """Look at one epoch; models without jumps are passed over."""
        if not isinstance(module, DJGNN) or encoding is None:
            return
        if record.epoch == 0 or id(module) not in self._takes:
            self._takes[id(module)] = _Take()
        take = self._takes[id(module)]
        take.look(record.epoch, module, encoding)
        if self.wants(record.epoch):
            take.snapshots.append(self._snapshot(record.epoch, module, encoding, logits))

    def finish(self, fitted: Fitted, inputs: tuple[Any, Any]) -> Recording:
        """The recording of the model that was kept.

        Of a model that was not observed, as its training had ended before the run was continued,
        it has the selected epoch alone.

        Args:
            fitted: What training gave.
            inputs: What it was trained on, x and operators.

        Raises:
            InputError: If that model has no jumps.
        """
        module = fitted.module
        if not isinstance(module, DJGNN):
            raise InputError(
                f"recording: only a DJ-GNN can be recorded (got {type(module).__name__})"
            )
        take = self._takes.get(id(module), _Take())
        shots = {s.epoch: s for s in take.snapshots}
        if fitted.epoch not in shots:
            encoding = encode_all(module, inputs)
            shots[fitted.epoch] = self._snapshot(fitted.epoch, module, encoding, fitted.logits)
            if not take.seen:
                take.look(fitted.epoch, module, encoding)
        fixed = (
            None
            if module.log_scale is not None
            else float(torch.as_tensor(module.scale(inputs[1])))
        )
        return self._recording(take, [shots[e] for e in sorted(shots)], fixed)

    def _snapshot(self, epoch: int, module: DJGNN, encoding: Encoding, logits: Tensor) -> _Snapshot:
        rows = torch.from_numpy(self.nodes).to(logits.device)
        parts = (encoding.pump.u, encoding.table.index, encoding.table.weight, logits)
        u, ranks, weight, scores = (part.detach()[rows].cpu() for part in parts)
        scale = math.nan if module.log_scale is None else float(module.log_scale.detach().exp())
        return _Snapshot(epoch, u, ranks, weight, scores, scale)

    def _recording(
        self, take: _Take, shots: list[_Snapshot], fixed_scale: float | None
    ) -> Recording:
        def stack(key: str) -> NDArray[Any]:
            values: NDArray[Any] = torch.stack([getattr(s, key) for s in shots]).numpy()
            return values

        losses = torch.stack(take.losses).cpu().numpy()
        return Recording(
            nodes=self.nodes,
            epochs=np.array([s.epoch for s in shots]),
            u=stack("u"),
            ranks=stack("ranks"),
            weight=stack("weight"),
            logits=stack("logits"),
            scale=np.array([s.scale if fixed_scale is None else fixed_scale for s in shots]),
            seen=np.array(take.seen),
            alpha=torch.stack(take.alpha).cpu().numpy(),
            trace_ratio=losses[:, 0],
            orthogonality=losses[:, 1],
        )


def _step(epoch: int) -> int:
    return int(np.floor(np.log(epoch) / np.log(GROWTH)))
