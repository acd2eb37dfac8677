"""A recording of a training run: positions, ranks and weights at a few epochs.

Recording draws no random number, reads no label and does not change the training.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write
from djgnn.graph.npz import read_arrays
from djgnn.model import DJGNN
from djgnn.model.experts import jump_network
from djgnn.model.views import Encoding
from djgnn.training.card import RECORD
from djgnn.training.loop import Fitted
from djgnn.training.progress import EpochRecord

SAMPLE_SIZE = 700
GROWTH = 1.25
MAX_BYTES = 256 * 2**20
REMEDY = "record the run again, or delete the file to do without it"
ASCENDING = ("nodes", "epochs")


@dataclass(frozen=True, eq=False)
class Recording:
    """Snapshots of a run on a sample of its nodes, and a few figures of every epoch.

    The annotation of an array has the type it is kept in, the names of its lengths, and what its
    values lie below: a number, a size of the run, or no limit. Whole numbers are not negative.

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

    nodes: Annotated[NDArray[np.int64], np.int64, "nodes", "num_nodes"]
    epochs: Annotated[NDArray[np.int64], np.int64, "snapshots", 2**31]
    u: Annotated[NDArray[np.float32], np.float32, "snapshots nodes channels", 1e15]
    ranks: Annotated[NDArray[np.int64], np.int64, "snapshots nodes ranks", "num_nodes"]
    weight: Annotated[NDArray[np.float32], np.float32, "snapshots nodes ranks", 1e15]
    logits: Annotated[NDArray[np.float32], np.float32, "snapshots nodes classes", 1e15]
    scale: Annotated[NDArray[np.float64], np.float64, "snapshots", 1e15]
    seen: Annotated[NDArray[np.int64], np.int64, "epochs", 2**31]
    alpha: Annotated[NDArray[np.float32], np.float32, "epochs branches", 1e15]
    trace_ratio: Annotated[NDArray[np.float32], np.float32, "epochs", None]
    orthogonality: Annotated[NDArray[np.float32], np.float32, "epochs", None]

    def write(self, folder: str | Path) -> None:
        """Store it in a run folder, as ``record.npz``."""
        with atomic_write(Path(folder) / RECORD) as stream:
            np.savez_compressed(stream, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def read(cls, folder: str | Path, **sizes: int) -> Self | None:
        """The recording of a run folder; ``None`` if the run was not recorded.

        Args:
            folder: The run folder.
            sizes: Known lengths by name, `channels`, `ranks`, `classes` and `branches`, and
                `num_nodes`, the nodes of the graph.

        Raises:
            InputError: If the file is there but cannot be read, or does not fit together.
        """
        path = Path(folder).expanduser() / RECORD
        if not path.is_file():
            return None
        try:
            arrays = read_arrays(path, [f.name for f in fields(cls)], MAX_BYTES)
        except InputError as error:
            raise InputError(f"{error}; {REMEDY}") from error
        lengths = {"num_nodes": np.iinfo(np.int64).max, **sizes}
        for key, hint in get_type_hints(cls, include_extras=True).items():
            kind, names, limit = hint.__metadata__
            array, axes, whole = arrays.get(key, np.zeros(0)), names.split(), kind is np.int64
            high, got = lengths.get(limit, limit), f"{array.dtype} {list(array.shape)}"
            fits = array.dtype.kind in ("iu" if whole else "f") and array.ndim == len(axes)
            fits = fits and all(
                length > 0 and lengths.setdefault(name, length) == length
                for name, length in zip(axes, array.shape, strict=True)
            )
            if fits:
                with np.errstate(over="ignore"):  # an infinity is out of range
                    array = arrays[key] = array.astype(kind)
                got += f" from {array.min()} to {array.max()}"
                inside = high is None or (array >= (0 if whole else -high)) & (array < high)
                ascends = key not in ASCENDING or (np.diff(array) > 0).all()
                fits = bool(np.all(inside) and ascends)
            if not fits:
                wanted = ", ".join(f"{name} {lengths.get(name, '> 0')}" for name in axes)
                values = "" if high is None else f", from {0 if whole else -high} to below {high}"
                raise InputError(
                    f"{path}: key {key!r} must hold {'whole' if whole else 'floating point'} "
                    f"numbers in the shape [{wanted}]{values}"
                    f"{', ascending' if key in ASCENDING else ''}; {REMEDY} "
                    f"(got {got if key in arrays else 'nothing'})"
                )
        return cls(**arrays)


class Recorder:
    """An observer of the training loop that keeps snapshots at geometrically spaced epochs.

    Between snapshots an epoch costs the copy of a few numbers. The selected epoch is added at the
    end, from the model as it was kept.

    Args:
        num_nodes: Number of nodes n of the graph.
        sample_size: Most nodes to keep; chosen evenly at random, without their labels.

    Example:
        >>> [e for e in range(50) if Recorder(10).wants(e)]
        [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 23, 29, 36, 45]
    """

    def __init__(self, num_nodes: int, sample_size: int = SAMPLE_SIZE) -> None:
        size, rng = min(num_nodes, sample_size), np.random.default_rng(0)
        self.nodes = np.sort(rng.choice(num_nodes, size, replace=False))
        # Of every network, for each expert is trained by itself: snapshots and figures by epoch.
        self._seen: dict[int, tuple[dict[int, dict[str, Tensor]], dict[int, Tensor]]] = {}

    def wants(self, epoch: int) -> bool:
        """Whether an epoch is one of the spaced ones."""
        step = np.log(GROWTH)
        return bool(epoch < 4 or np.log(epoch) // step != np.log(epoch - 1) // step)

    def __call__(
        self, record: EpochRecord, module: nn.Module, encoding: Encoding | None, logits: Tensor
    ) -> None:
        """Observe one epoch; networks without jumps are skipped."""
        if not isinstance(module, DJGNN) or module.pump is None or encoding is None:
            return
        if record.epoch == 0 or id(module) not in self._seen:
            self._seen[id(module)] = ({}, {})
        snapshots, figures = self._seen[id(module)]
        figures[record.epoch] = _figures(module, encoding)
        if self.wants(record.epoch):
            snapshots[record.epoch] = self._snapshot(module, encoding, logits)

    def finish(self, fitted: Fitted, inputs: tuple[Any, Any]) -> Recording | None:
        """The recording of the model that was kept; ``None`` if it has no jumps.

        Of a mixture it is that of :func:`djgnn.model.experts.jump_network`. A network whose
        training had ended before the run was resumed was not observed: its recording has the
        selected epoch alone.

        Args:
            fitted: What training gave.
            inputs: What it was trained on, x and operators.
        """
        network = jump_network(fitted.module)  # type: ignore[arg-type]
        if network is None:
            return None
        module, own = network.module, network.inputs_of(inputs)
        kept = {record.name: record.epoch for record in fitted.experts}.get(network.name)
        epoch = fitted.epoch if kept is None else kept
        snapshots, seen = self._seen.get(id(module), ({}, {}))
        if epoch not in snapshots:
            module.eval()
            view: Any = module.view(*own)
            with torch.no_grad():
                part = module.encode(view)
                logits = view.gather(module.decode(part, view))
            encoding = view.whole(part)
            snapshots[epoch] = self._snapshot(module, encoding, logits)
            seen = seen or {epoch: _figures(module, encoding)}
        epochs = sorted(snapshots)
        stacked = {
            key: torch.stack([snapshots[e][key] for e in epochs]).numpy()
            for key in ("u", "ranks", "weight", "logits", "scale")
        }
        if module.log_scale is None:  # a scale that is not learned is that of the graph
            stacked["scale"][:] = float(torch.as_tensor(module.scale(own[1].volume)))
        figures = torch.stack(list(seen.values())).cpu().numpy()
        return Recording(
            nodes=self.nodes,
            epochs=np.array(epochs),
            **stacked,
            seen=np.array(list(seen)),
            alpha=figures[:, 2:],
            trace_ratio=figures[:, 0],
            orthogonality=figures[:, 1],
        )

    def _snapshot(self, module: DJGNN, encoding: Encoding, logits: Tensor) -> dict[str, Tensor]:
        rows, table = torch.from_numpy(self.nodes).to(logits.device), encoding.table
        parts = {"u": encoding.pump.u, "ranks": table.index, "weight": table.weight}
        found = {key: v.detach()[rows].cpu() for key, v in {**parts, "logits": logits}.items()}
        learned = module.log_scale
        scale = 0.0 if learned is None else float(learned.detach().exp())
        return {**found, "scale": torch.tensor(scale, dtype=torch.float64)}


def _figures(module: DJGNN, encoding: Encoding) -> Tensor:
    """The pump's two losses and the mixing weights after an epoch, ``[2 + branches]``."""
    losses = torch.stack([encoding.pump.trace_ratio, encoding.pump.orthogonality])
    return torch.cat([losses, module.mixture.alpha]).detach()
