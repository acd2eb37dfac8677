"""A recording of a training run: positions, ranks and weights at a few epochs.

Recording draws no random number, reads no label and does not change the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.graph.npz import read_arrays
from djgnn.model import DJGNN
from djgnn.model.views import Encoding
from djgnn.training.loop import Fitted
from djgnn.training.progress import EpochRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECORD = "record.npz"
SAMPLE_SIZE = 700
GROWTH = 1.25
MAX_BYTES = 256 * 2**20
LAST_EPOCH, LARGEST = 2**31, 1e15
SHAPES: dict[str, tuple[str, ...]] = {
    "nodes": ("nodes",),
    "epochs": ("snapshots",),
    "u": ("snapshots", "nodes", "channels"),
    "ranks": ("snapshots", "nodes", "ranks"),
    "weight": ("snapshots", "nodes", "ranks"),
    "logits": ("snapshots", "nodes", "classes"),
    "scale": ("snapshots",),
    "seen": ("epochs",),
    "alpha": ("epochs", "branches"),
    "trace_ratio": ("epochs",),
    "orthogonality": ("epochs",),
}
WHOLE = ("nodes", "epochs", "ranks", "seen")
LOSSES = ("trace_ratio", "orthogonality")


@dataclass(frozen=True, eq=False)
class Recording:
    """Snapshots of a run on a sample of its nodes, and a few figures of every epoch.

    Attributes:
        nodes: ``[m]``, the sampled nodes, ascending; all of them in a small graph.
        epochs: ``[s]``, the epochs of the snapshots; the selected one is among them.
        u: ``[s, m, p]``, positions.
        ranks: ``[s, m, R]``, the nodes at each rank of the sampled ones, anywhere in the graph.
        weight: ``[s, m, R]``, their coefficients exp(-s d).
        logits: ``[s, m, classes]``.
        scale: ``[s]``, the factor of the distances.
        seen: ``[e]``, the observed epochs: all, unless the run was resumed.
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
            sizes: Known lengths by name, `channels`, `ranks`, `classes` and `branches` (see
                `SHAPES`), and `num_nodes`, the nodes of the graph.

        Raises:
            InputError: If the file is there but cannot be read, or does not fit together.
        """
        path = Path(folder).expanduser() / RECORD
        if not path.is_file():
            return None
        try:
            return cls(**_checked(path, read_arrays(path, list(SHAPES), MAX_BYTES), sizes))
        except InputError as error:
            raise InputError(
                f"{error}; record the run again, or delete the file to do without it"
            ) from error


def _checked(
    path: Path, arrays: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """The arrays of a recording, if their types, shapes and ranges fit together and to the run."""
    lengths = dict(sizes)
    num_nodes = lengths.pop("num_nodes", np.iinfo(np.int64).max)
    found: dict[str, NDArray[Any]] = {}
    for key, names in SHAPES.items():
        if key not in arrays:
            raise InputError(f"{path}: key {key!r} is missing")
        array, whole = arrays[key], key in WHOLE
        # Equal names have equal lengths.
        fits = array.ndim == len(names) and all(
            length > 0 and lengths.setdefault(name, length) == length
            for name, length in zip(names, array.shape, strict=True)
        )
        if array.dtype.kind not in ("iu" if whole else "f") or not fits:
            wanted = ", ".join(f"{name} {lengths.get(name, '> 0')}" for name in names)
            raise InputError(
                f"{path}: key {key!r} must hold {'whole' if whole else 'floating point'} numbers "
                f"in the shape [{wanted}] (got {array.dtype} {list(array.shape)})"
            )
        with np.errstate(over="ignore"):  # an infinity is found below
            kept = np.int64 if whole else np.float64 if key == "scale" else np.float32
            found[key] = array.astype(kept)
        low, high = (0, LAST_EPOCH) if whole else (-LARGEST, LARGEST)
        high = num_nodes if key in ("nodes", "ranks") else high
        if key not in LOSSES and not ((found[key] >= low) & (found[key] < high)).all():
            least, most = found[key].min(), found[key].max()
            raise InputError(
                f"{path}: key {key!r} must lie from {low} to below {high} (got {least} to {most})"
            )
        if key in ("nodes", "epochs") and (np.diff(found[key]) <= 0).any():
            raise InputError(f"{path}: key {key!r} must ascend, each value once")
    return found


@dataclass(eq=False)
class _Take:
    """What was seen of one model; a run with a structure gate trains two."""

    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    alpha: list[Tensor] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)

    def add_epoch(self, epoch: int, module: DJGNN, encoding: Encoding) -> None:
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
        if epoch < 4:
            return True
        before, now = np.floor(np.log([epoch - 1, epoch]) / np.log(GROWTH))
        return bool(before != now)

    def __call__(
        self, record: EpochRecord, module: nn.Module, encoding: Encoding | None, logits: Tensor
    ) -> None:
        """Observe one epoch; models without jumps are skipped."""
        if not isinstance(module, DJGNN) or encoding is None:
            return
        if record.epoch == 0 or id(module) not in self._takes:
            self._takes[id(module)] = _Take()
        take = self._takes[id(module)]
        take.add_epoch(record.epoch, module, encoding)
        if self.wants(record.epoch):
            take.snapshots[record.epoch] = self._snapshot(module, encoding, logits)

    def finish(self, fitted: Fitted, inputs: tuple[Any, Any]) -> Recording:
        """The recording of the model that was kept.

        A model whose training had ended before the run was resumed was not observed: its recording
        has the selected epoch alone.

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
        if fitted.epoch not in take.snapshots:
            view: Any = module.view(*inputs)
            with torch.no_grad():
                encoding = view.whole(module.encode(view))
            take.snapshots[fitted.epoch] = self._snapshot(module, encoding, fitted.logits)
            if not take.seen:
                take.add_epoch(fitted.epoch, module, encoding)
        epochs = sorted(take.snapshots)
        stacked = {
            key: torch.stack([take.snapshots[e][key] for e in epochs]).numpy()
            for key in ("u", "ranks", "weight", "logits", "scale")
        }
        if module.log_scale is None:  # a scale that is not learned is that of the graph
            stacked["scale"][:] = float(torch.as_tensor(module.scale(inputs[1].volume)))
        losses = torch.stack(take.losses).cpu().numpy()
        return Recording(
            nodes=self.nodes,
            epochs=np.array(epochs),
            **stacked,
            seen=np.array(take.seen),
            alpha=torch.stack(take.alpha).cpu().numpy(),
            trace_ratio=losses[:, 0],
            orthogonality=losses[:, 1],
        )

    def _snapshot(self, module: DJGNN, encoding: Encoding, logits: Tensor) -> dict[str, Tensor]:
        rows = torch.from_numpy(self.nodes).to(logits.device)
        table = encoding.table
        parts = {"u": encoding.pump.u, "ranks": table.index, "weight": table.weight}
        parts["logits"] = logits
        found = {key: part.detach()[rows].cpu() for key, part in parts.items()}
        learned = module.log_scale
        scale = 0.0 if learned is None else float(learned.detach().exp())
        return {**found, "scale": torch.tensor(scale, dtype=torch.float64)}
