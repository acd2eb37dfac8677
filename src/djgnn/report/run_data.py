"""Everything a page or a figure shows of one run, gathered from its folder once."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from djgnn.errors import InputError
from djgnn.graph import Graph, read_npz
from djgnn.model import DJGNN
from djgnn.model.djgnn import DJOutput
from djgnn.training.config import RunConfig
from djgnn.training.folder import read_card, read_predictions
from djgnn.training.inputs import build_djgnn
from djgnn.training.recorder import Recording

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from djgnn.graph import Split


@dataclass(frozen=True, eq=False)
class RunData:
    """One run: what its files say, and what its model does on its graph.

    Attributes:
        folder: Where it was read.
        card: ``result.json``.
        config: ``config.yaml``.
        history: Columns of ``history.csv``.
        predictions: Columns of ``predictions.csv``, as text.
        graph: The graph it was trained on.
        recording: Snapshots of its training; ``None`` if it was not recorded.
        probabilities: ``[n, classes]``.
        u: ``[n, p]``, positions.
        ranks: ``[n, R]``, the nodes at each rank.
        weight: ``[n, R]``, their coefficients exp(-s d).
        branches: Ranks that each jump keeps.
        alpha: Mixing weight of every branch, by name.
        contributions: ``[n, branches, classes]``; with `bias` they add up to the logits. ``None``
            if the classifier is not linear.
        bias: ``[classes]``.
        scale: The factor of the distances.
    """

    folder: Path
    card: dict[str, Any]
    config: RunConfig
    history: dict[str, NDArray[np.float64]]
    predictions: dict[str, list[str]]
    graph: Graph
    recording: Recording | None
    probabilities: NDArray[np.float32]
    u: NDArray[np.float32]
    ranks: NDArray[np.int64]
    weight: NDArray[np.float32]
    branches: tuple[tuple[int, ...], ...]
    alpha: dict[str, float]
    contributions: NDArray[np.float32] | None
    bias: NDArray[np.float32]
    scale: float

    @property
    def split(self) -> Split:
        """The split it was trained on."""
        return self.graph.split(int(self.card["result"]["split"]))

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of every node, -1 where it is not known."""
        y = self.graph.y
        return np.full(self.graph.num_nodes, -1) if y is None else y

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Predicted class of every node, as ``predictions.csv`` has it."""
        code = {name: c for c, name in enumerate(self.graph.classes())}
        return np.array([code[name] for name in self.predictions["prediction"]], dtype=np.int64)


def load_run(
    folder: str | Path,
    *,
    graph: Graph | None = None,
    dataset: str | None = None,
    data: str | Path | None = None,
) -> RunData:
    """Read a run folder, rebuild its model and run it once.

    Args:
        folder: What `djgnn fit --out` wrote.
        graph: The graph of the run, where it is at hand.
        dataset: Name of the data set, for a folder without its graph.
        data: Folder with data sets, looked in first.

    Raises:
        InputError: If a file is missing or damaged, or the graph is not the one of the run.
    """
    path = Path(folder).expanduser()
    card = read_card(path)
    config = RunConfig.read_yaml(path / "config.yaml")
    graph = _graph(path, card, dataset, data) if graph is None else graph
    module, inputs = _model(path, config, graph)
    with torch.no_grad():
        output = module.run(*inputs)
    parts = branch_contributions(output, module)
    temperature = float(card.get("calibration", {}).get("temperature", 1.0))
    return RunData(
        folder=path,
        card=card,
        config=config,
        history=read_history(path / "history.csv"),
        predictions=_columns(read_predictions(path)),
        graph=graph,
        recording=Recording.read(path),
        probabilities=torch.softmax(output.logits / temperature, dim=1).numpy(),
        u=output.pump.u.numpy(),
        ranks=output.table.index.numpy(),
        weight=output.table.weight.numpy(),
        branches=module.branches,
        alpha=dict(zip(module.branch_names, output.alpha.tolist(), strict=True)),
        contributions=None if parts is None else parts.numpy(),
        bias=module.mixture.biases[-1].detach().numpy(),
        scale=float(torch.as_tensor(module.scale(inputs[1])).detach()),
    )


def branch_contributions(output: DJOutput, module: DJGNN) -> Tensor | None:
    r"""What each branch adds to the logits, :math:`\alpha_k H^k W_k^\top`.

    Shapes:
        result ``[n, branches, classes]``; ``None`` for a classifier of several layers.
    """
    mixture = module.mixture
    if len(mixture.weights) > 1:
        return None
    h = mixture.hidden_channels
    weight = mixture.weights[0].detach().view(module.out_channels, -1, h)
    parts = []
    for k, part in enumerate(torch.split(torch.cat(output.embeddings, dim=1), h, dim=1)):
        parts.append(output.alpha[k] * (part @ weight[:, k].t()))
    return torch.stack(parts, dim=1)


def read_history(path: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of a ``history.csv``.

    Raises:
        InputError: If it is missing or not a table of numbers.
    """
    try:
        columns = _columns(path.read_text("utf-8"))
        return {key: np.array(values, dtype=np.float64) for key, values in columns.items()}
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run `djgnn fit` again") from error


def _columns(text: str) -> dict[str, list[str]]:
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return {key: [row[j] for row in rows] for j, key in enumerate(header)}


def _graph(
    folder: Path, card: dict[str, Any], dataset: str | None, data: str | Path | None
) -> Graph:
    wanted = card["data"]
    stored = folder / "graph.npz"
    graph = (
        read_npz(stored)
        if stored.is_file() and dataset is None
        else Graph.load(dataset or wanted["name"], data=data)
    )
    if graph.content_hash != wanted["sha256"]:
        raise InputError(
            f"{folder}: its graph is not here: '{wanted['name']}' was trained on, sha256 "
            f"{wanted['sha256'][:12]}; name the right one with --dataset, or run `djgnn fit` again "
            f"(got {graph.content_hash[:12]})"
        )
    return graph


def _model(folder: Path, config: RunConfig, graph: Graph) -> tuple[DJGNN, tuple[Any, Any]]:
    from safetensors.torch import load_file

    module, inputs = build_djgnn(config, graph)
    path = folder / "weights.safetensors"
    try:
        module.load_state_dict(load_file(path))
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not the weights of this run ({reason})") from error
    if config.training.decoupled:
        module.freeze_pump(inputs[1])
    return module.eval(), inputs
