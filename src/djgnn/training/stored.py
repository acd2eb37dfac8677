"""A trained model with everything it needs to predict again, in memory or from a folder."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from djgnn.errors import InputError
from djgnn.graph import Graph, Split, arrivals, check_related, read_npz
from djgnn.graph.classifier_inputs import own_classes
from djgnn.graph.files import readable_file
from djgnn.graph.new_nodes import places
from djgnn.model import DJGNN, DJExperts
from djgnn.model.experts import jump_network, networks
from djgnn.model.explain import Explanation, explain
from djgnn.model.new_nodes import ExpertMemory, Memory, remember
from djgnn.training.calibration import Calibration
from djgnn.training.card import (
    CONFIG,
    GRAPH,
    HELD_OUT,
    REMEDY,
    WEIGHTS,
    check_files,
    own_file,
    read_card,
)
from djgnn.training.config import RunConfig
from djgnn.training.folder import parts_of
from djgnn.training.held_out import HeldOut, read_held_out
from djgnn.training.inputs import blank_djgnn, dense_or_sparse, djgnn_inputs, num_features


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A trained DJ-GNN, the graph it learned from, and what makes probabilities of its logits.

    `held` is what a cross-fitted one says about held-out nodes; `known` has logits of experts that
    need not be computed again.
    """

    module: DJGNN | DJExperts
    inputs: tuple[Any, Any]
    graph: Graph
    config: RunConfig
    card: dict[str, Any]
    held: HeldOut | None = None
    known: Mapping[str, Tensor] | None = None

    @cached_property
    def calibration(self) -> Calibration:
        """What makes probabilities of its logits."""
        return Calibration.from_card(self.card["calibration"])

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The labels that the columns stand for, in the type they came in."""
        labels = self.card.get("labels")
        if labels is None:
            return own_classes(self.graph)
        kind = np.dtype(labels["dtype"])
        # Texts are as wide as the longest of them: a width in a file could be any.
        found = np.array(labels["values"], dtype=str if kind.kind == "U" else object)
        if kind.kind not in "OUbiuf" or found.shape != (self.graph.num_classes,):
            raise ValueError(f"labels: not those of {self.graph.num_classes} classes")
        return found if kind.kind == "U" else found.astype(kind)

    @cached_property
    def structure_sha256(self) -> str:
        """By which the graph is recognised, whatever labels it comes with."""
        return self.graph.without_labels().content_hash

    @cached_property
    def memory(self) -> Memory | ExpertMemory:
        """What new nodes are classified with."""
        return remember(self.module, *self.inputs)

    @cached_property
    def logits(self) -> NDArray[np.float32]:
        """Of the known nodes, ``[n, classes]``; by batches where it was trained in batches.

        Those of a mixture are logarithms of its probabilities; of a cross-fitted one labelled nodes
        are predicted only by members that did not learn from them.

        Raises:
            InputError: If they are not finite.
        """
        try:
            each = self.by_network
        except FloatingPointError as error:  # positions that are not finite
            raise self._overflow() from error
        if isinstance(self.module, DJGNN):
            return self._finite(each[""])
        with torch.no_grad():
            return self._finite(self.module.combine(list(each.values()), self.fold))

    def _finite(self, logits: Tensor) -> NDArray[np.float32]:
        if not bool(torch.isfinite(logits).all()):
            raise self._overflow()
        return logits.cpu().numpy()

    def _overflow(self) -> InputError:
        return InputError(
            f"{self.graph.name}: what the model computes is not finite, so {WEIGHTS} holds weights "
            f"that no training leaves, or the new nodes have features beyond all bounds; {REMEDY}"
        )

    @cached_property
    def fold(self) -> Tensor:
        """The fold of every known node that was held out of one, -1 of the others, ``[n]``."""
        found = torch.full((self.graph.num_nodes,), -1)
        folds = 1 if isinstance(self.module, DJGNN) else self.module.folds
        for k in range(folds if folds > 1 else 0):
            found[np.flatnonzero(self.graph.split(k).val)] = k
        return found.to(next(self.module.parameters()).device)

    @cached_property
    def by_network(self) -> dict[str, Tensor]:
        """The logits of every expert, ``[n, classes]``; of one network its own, without a name."""
        module: Any = self.module
        if isinstance(module, DJGNN):
            return {"": self._network(module, self.inputs)}
        device, known = module.weights.device, self.known or {}
        blank = torch.zeros(self.graph.num_nodes, module.out_channels, device=device)
        found = dict.fromkeys(module.names, blank)
        for name, weight in zip(module.names, module.influence()[:, 0, 0].tolist(), strict=True):
            if weight and name in known:
                found[name] = known[name].to(device)
            elif weight:
                own = module.inputs_of(name, self.inputs)
                found[name] = self._network(module.experts[name], own)
        return found

    @torch.no_grad()
    def _network(self, network: DJGNN, inputs: tuple[Any, Any]) -> Tensor:
        """The logits of one network."""
        network.eval()
        size = self.config.training.batch_size
        if size is None or size >= self.graph.num_nodes or not network.in_batches:
            logits: Tensor = network(*inputs)[0]
            return logits
        from djgnn.model.batches import BatchedDJGNN

        batched = BatchedDJGNN(network, *inputs)
        return batched.evaluate(batched.tables(), size)

    def prepare(self) -> None:
        """Make what new nodes need of the known ones, which :meth:`predict` does otherwise."""
        if isinstance(self.memory, ExpertMemory):
            _ = self.memory.networks

    @cached_property
    def positions(self) -> NDArray[np.float32]:
        """U of the known nodes, ``[n, p]``; of a mixture that of :func:`jump_network`.

        Without jumps it has no columns.
        """
        network = jump_network(self.module)
        if network is None or network.module.pump is None:
            return np.zeros((self.graph.num_nodes, 0), dtype=np.float32)
        operators = network.inputs_of(self.inputs)[1]
        with torch.no_grad():
            u: Tensor = network.module.pump(operators.adjacency, operators.degree).u
        return u.cpu().numpy()

    @cached_property
    def probabilities(self) -> NDArray[np.float32]:
        """Calibrated, of the known nodes, ``[n, classes]``."""
        return self.calibration.probabilities(self.logits)

    @cached_property
    def parts(self) -> Split:
        """Which nodes it learned from, was chosen on, and was tested on."""
        return parts_of(self.graph, self.module, int(self.card["result"]["split"]))

    @cached_property
    def judged(self) -> HeldOut:
        """What sets are calibrated on: the folds of a cross-fitted one, else validation nodes."""
        if self.held is not None:
            return self.held
        nodes = np.flatnonzero(self.parts.val)
        y = np.asarray(self.graph.y)[nodes]
        return HeldOut("validation", nodes, y, self.probabilities[nodes], {})

    @property
    def anchors(self) -> NDArray[np.bool_]:
        """The nodes whose labels it learned from."""
        return self.parts.train if self.parts.train.any() else self.parts.val

    def places(self, later: Graph) -> NDArray[np.int64]:
        """The number of every node of a later graph in the known one, -1 where it is new."""
        check_related(later, self.graph)
        return places(later, self.graph)

    def predict(self, later: Graph, only_new: bool = False) -> NDArray[np.float32]:
        """Calibrated probabilities of all nodes of a later graph, known and new.

        Known nodes keep theirs, or have zeros where `only_new` ones are wanted; new ones are
        placed, ranked and classified without retraining.

        Shapes:
            result ``[nodes of later, classes]``.

        Raises:
            InputError: If the features are not those of the known graph, or the model cannot
                place new nodes.
        """
        new, place = arrivals(later, self.graph)
        shares = np.zeros((later.num_nodes, self.graph.num_classes), dtype=np.float32)
        known = place >= 0
        if not only_new:
            shares[known] = self.probabilities[place[known]]
        if new.num_nodes:
            # Without features a known node has a column of its own; a new one has none.
            empty = np.zeros((new.num_nodes, num_features(self.graph)), dtype=np.float32)
            device = next(self.module.parameters()).device
            x = dense_or_sparse(empty if new.x is None else new.x, device)
            try:
                logits: Tensor = self.memory.logits(new, x)
            except ValueError as error:
                raise InputError(f"{self.graph.name}: {error}") from error
            shares[new.node] = self.calibration.probabilities(self._finite(logits))
        return shares

    def explain(self, node: int) -> Explanation:
        """Why a known node got its class, see :func:`djgnn.model.explain.explain`."""
        held_out = int(self.fold[node]) if 0 <= node < self.graph.num_nodes else -1
        about = (self.graph, node, self.parts, held_out)
        return explain(self.module, self.inputs, *about, known=self.by_network)


def load_model(
    folder: str | Path,
    device: torch.device | str = "cpu",
    but: str = "",
    known: Mapping[str, Tensor] | None = None,
    graph: Graph | None = None,
    trained: tuple[Any, Any] | None = None,
    hashes: Callable[[], Mapping[str, str]] = dict,
    ahead: Callable[[], Graph] | None = None,
) -> StoredModel:
    """Read a run folder back. Nothing in it is ever executed.

    Args:
        folder: The run.
        device: Where the model will be.
        but: A file that need not be the one that the run wrote.
        known: Logits of its experts, where they are at hand: the folder was written just now, and
            its files need not be checked.
        graph: Its graph, where it is at hand.
        trained: The model and its inputs, where they are at hand.
        hashes: Gives those of files that were hashed ahead.
        ahead: Gives its graph, where it is read already.

    Raises:
        InputError: If a part is missing, damaged, or does not fit the others.
    """
    place = Path(folder).expanduser()
    card = read_card(place)
    with ThreadPoolExecutor(1) as beside:
        wait = ahead or (None if graph else beside.submit(_read_graph, place).result)
        if known is None:
            check_files(place, card, but, hashes=hashes)
        graph = wait() if wait else graph
    assert graph is not None
    data = card["data"]
    counts = (graph.num_nodes, graph.num_edges, graph.num_features, list(graph.classes()))
    said = (data["num_nodes"], data["num_edges"], data["num_features"], data["classes"])
    if graph.content_hash != data["sha256"] or counts != said:
        raise InputError(f"{place / GRAPH}: is not the graph of this run; {REMEDY} (got {graph!r})")
    config = RunConfig.read_yaml(place / CONFIG)
    if trained is None:
        module = _read_module(place, config, graph).to(device)
        inputs = djgnn_inputs(module, graph, device)
        for network in networks(module) if config.training.decoupled else ():
            if network.module.pump is not None:
                network.module.freeze_pump(network.module.view(*network.inputs_of(inputs)))
    else:
        module, inputs = trained
    module.eval()
    folded = isinstance(module, DJExperts) and module.folds > 1
    held = read_held_out(place / HELD_OUT, graph) if folded else None
    return StoredModel(module, inputs, graph, config, card, held, known)


def _read_graph(place: Path) -> Graph:
    """The graph of a run, whose hash is known."""
    graph = read_npz(own_file(place, GRAPH))
    _ = graph.content_hash
    return graph


def _read_module(place: Path, config: RunConfig, graph: Graph) -> DJGNN | DJExperts:
    """The model of a run folder with its weights.

    Raises:
        InputError: If they do not fit the configuration and the graph, or are no numbers.
    """
    try:
        with torch.device("meta"):  # nothing is allocated for a configuration that does not fit
            module = blank_djgnn(config, graph)
    except RuntimeError as error:
        raise InputError(f"{place / CONFIG}: {error}; restore the file or fit again") from error
    path = place / WEIGHTS
    try:
        state = load_file(readable_file(path))
        wanted = {name: value.dtype for name, value in module.state_dict().items()}
        for name, value in state.items():
            if value.dtype != wanted.get(name, value.dtype):
                raise ValueError(f"{name} is of type {value.dtype}, not {wanted[name]}")
        module.load_state_dict(state, assign=True)
    except (InputError, OSError, RuntimeError, SafetensorError, ValueError) as error:
        raise InputError(
            f"{path}: damaged, missing, or not the weights of this configuration and graph; "
            f"restore the file or fit again (got {' '.join(str(error).split())[:300]})"
        ) from error
    # Of another mapping of the file: what is not used of this one takes no memory.
    if not all(bool(torch.isfinite(value).all()) for value in load_file(path).values()):
        raise InputError(f"{path}: holds weights that are not finite; fit again")
    if isinstance(module, DJExperts):
        mixed = torch.cat([module.weights, module.product.view(1)])
        if bool((mixed < 0).any()) or abs(float(mixed.sum()) - 1) > 1e-3:
            raise InputError(
                f"{path}: the weights of the experts and of their product must be at least 0 and "
                f"sum to 1; fit again (got {mixed.tolist()})"
            )
        if bool((module.powers < 0).any()) or (bool(module.product) and not module.powers.any()):
            raise InputError(
                f"{path}: the powers of the experts must be at least 0, and not all 0; fit again "
                f"(got {module.powers.tolist()})"
            )
    return module
