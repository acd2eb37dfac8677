"""`DJClassifier`: the Diffusion-Jump GNN with scikit-learn's manners."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from djgnn.errors import DJGNNWarning, InputError
from djgnn.estimator_checks import check_graph, factors, node_weights, seed_of
from djgnn.graph import Graph, check_related, random_splits
from djgnn.graph.labels import codes_of, is_unknown, one_per_node

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.model.explain import Explanation
    from djgnn.training.stored import StoredModel


class DJClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph from the labels of some of them.

    A part of the labels is set aside to choose the epoch on and to calibrate the probabilities;
    labels of other nodes are never looked at. All nodes of the graph are classified, and so are
    nodes that arrive later, without retraining.

    Args:
        preset: ``"default"``, ``"author"`` or ``"paper"``.
        options: Any option of :class:`djgnn.model.ModelConfig` or
            :class:`djgnn.training.TrainConfig` to change, such as ``{"num_jumps": 3}``.
        validation_size: Share of the labels set aside, class by class.
        class_weight: ``None``, ``"balanced"``, or the factor of each label in the loss.
        random_state: Seed of the split, the weights and dropout; ``None``, or a `RandomState` of
            NumPy, draws one.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Attributes:
        classes_: The labels, sorted.
        transduction_: The predicted label of every node of the fitted graph.
        probabilities_: Its calibrated probabilities, columns as `classes_`.
        embedding_: Positions U of the nodes, ``[n, p]``.
        history_: One record per epoch.
        validation_score_: Score on the part set aside, in percent.
        branch_weights_: The learned mixing weight of every branch.
        temperature_: What logits are divided by before they are called probabilities.
        model_: The torch module.

    Example:
        >>> from djgnn.graph import heterophilic_sbm
        >>> graph = heterophilic_sbm(160)
        >>> known = np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)
        >>> fast = {"epochs": 5, "hidden_channels": 8}
        >>> clf = DJClassifier(options=fast).fit(graph, known)
        >>> clf.predict(graph).shape == (graph.num_nodes,)
        True
        >>> clf.explain(graph.names()[0]).branches[0].branch
        'jump0'
    """

    def __init__(
        self,
        preset: str = "default",
        options: Mapping[str, Any] | None = None,
        validation_size: float = 0.25,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.options = options
        self.validation_size = validation_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def fit(self, graph: Graph, y: ArrayLike | None = None) -> DJClassifier:
        """Learn from the known labels.

        Args:
            graph: The graph.
            y: One label per node, numbers or text; ``None``, NaN, -1 and the empty string mean
                unknown. Without it the graph's own labels are used, and of a graph with splits
                only those of the training and validation nodes of its first.

        Raises:
            InputError: If there are no two classes to learn, or an argument is not allowed.
        """
        from djgnn.training.config import resolve
        from djgnn.training.folder import run_card
        from djgnn.training.inputs import build_djgnn, choose_device
        from djgnn.training.run import train
        from djgnn.training.stored import StoredModel

        check_graph(graph)
        seed = seed_of(self.random_state)
        labelled, classes = self._labelled(graph, y, seed)
        try:
            config = resolve(self.preset, **dict(self.options or {}))
            if self.class_weight is not None:
                config = config.replace(class_weight=factors(self.class_weight, classes))
        except (TypeError, ValueError) as error:
            raise InputError(f"options: {error}") from error
        module, inputs = build_djgnn(config, labelled, choose_device(self.device))
        fitted, result = train(module, inputs, labelled, 0, config.training, seed)
        model: Any = fitted.module
        card = run_card(labelled, fitted, result, seed)
        card["labels"] = {"dtype": classes.dtype.str, "values": classes.tolist()}
        card["structure_sha256"] = structure_hash(graph)
        self.history_ = fitted.history
        return self._adopt(StoredModel(model.eval(), inputs, labelled, config, card))

    def _adopt(self, stored: StoredModel) -> DJClassifier:
        """Take the learned attributes from a trained model."""
        card = stored.card
        self.stored_ = stored
        self.model_ = stored.module
        self.classes_ = _labels(card)
        self.probabilities_ = stored.probabilities
        self.transduction_ = self.classes_[self.probabilities_.argmax(axis=1)]
        self.embedding_ = stored.positions
        self.validation_score_ = card["result"]["validation"]
        self.branch_weights_ = card["alpha"]
        self.temperature_ = stored.temperature
        return self

    def predict_proba(self, graph: Graph) -> NDArray[np.float32]:
        """Calibrated probabilities of every node of a graph, columns as `classes_`.

        The graph is the fitted one, or a later one that has new nodes, with their edges to known
        nodes and among themselves. Nodes are recognised by name; without names the first n are
        the known ones. What is said of known nodes does not move.

        Raises:
            NotFittedError: Before `fit`.
            InputError: For a graph that has nothing to do with the fitted one.
        """
        check_is_fitted(self)
        check_graph(graph)
        stored = self.stored_
        if structure_hash(graph) == stored.card.get("structure_sha256", ""):
            return self.probabilities_.copy()
        check_related(graph, stored.graph)
        found: NDArray[np.float32] = stored.predict(graph)
        return found

    def predict(self, graph: Graph) -> NDArray[Any]:
        """The label of every node of a graph, see :meth:`predict_proba`."""
        shares = self.predict_proba(graph)
        labels: NDArray[Any] = self.classes_[shares.argmax(axis=1)]
        return labels

    def explain(self, node: str | int) -> Explanation:
        """Which branches and which neighbours made a node's prediction, and how much.

        Args:
            node: A node of the fitted graph, by name or by number.

        Raises:
            NotFittedError: Before `fit`.
            InputError: If there is no such node.
        """
        check_is_fitted(self)
        found: Explanation = self.stored_.explain(self.stored_.graph.index_of(node))
        return found

    def score(
        self, graph: Graph, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the known labels that are predicted; unknown ones are left out.

        Args:
            graph: The graph.
            y: One label per node, as in :meth:`fit`. The graph's own labels by default, which
                ``graph.y`` (numbers of ``graph.classes()``) stands for as well.
            sample_weight: One weight per node.

        Raises:
            NotFittedError: Before `fit`.
            InputError: If there is not one label, or weight, per node, or none is known.
        """
        shares, own = self.predict_proba(graph), graph.y
        if y is None:
            if own is None:
                raise InputError("y: give one label per node; the graph has none of its own")
            truth = np.array([*graph.classes(), None], dtype=object)[own]
        else:
            truth = one_per_node(y, graph.num_nodes)
            codes_given = np.asarray(y).dtype.kind == "i" and self.classes_.dtype.kind == "U"
            if own is not None and codes_given and np.array_equal(truth, own):
                truth = np.array([*graph.classes(), None], dtype=object)[own]
        known = np.array([not is_unknown(label) for label in truth])
        if not known.any():
            raise InputError("y: no label is known; give some to compare with")
        codes = codes_of(truth[known], self.classes_.tolist())
        if (codes < 0).any():
            warnings.warn(
                f"y: {int((codes < 0).sum())} of {codes.size} labels are no class of the model and "
                f"count as missed; its classes are {self.classes_.tolist()[:5]} "
                f"(got {truth[known][codes < 0][0]!r})",
                DJGNNWarning,
                stacklevel=2,
            )
        hits = shares.argmax(axis=1)[known] == codes
        return float(np.average(hits, weights=node_weights(sample_weight, known)))

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the trained model into a folder: graph, options, weights, card; no pickle.

        Args:
            folder: Appears once everything is in it.
            overwrite: Replace a model that is there already.

        Raises:
            NotFittedError: Before `fit`.
            InputError: If something is there that may not be replaced.
        """
        check_is_fitted(self)
        from djgnn.training.folder import new_folder, write_history, write_model

        stored: StoredModel = self.stored_
        card = {**stored.card, "estimator": self._parameters()}
        with new_folder(folder, overwrite) as place:
            write_model(place, stored.graph, stored.config, stored.module, card)
            write_history(place / "history.csv", self.history_)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> DJClassifier:
        """A trained classifier from a folder of :meth:`save` or of ``djgnn fit --out``.

        Raises:
            InputError: If it is damaged or incomplete. Nothing in it is ever executed.
        """
        from djgnn.training.folder import read_history
        from djgnn.training.inputs import choose_device
        from djgnn.training.stored import load_model

        stored = load_model(folder, choose_device(device))
        history = read_history(folder)
        stored.card.setdefault("structure_sha256", structure_hash(stored.graph))
        try:
            given = dict(stored.card.get("estimator") or _arguments(stored))
            if isinstance(given.get("class_weight"), list):
                given["class_weight"] = dict(given["class_weight"])
            seed = int(stored.card.get("seed", 0))
            clf = cls(**{"random_state": seed, **given, "device": device})._adopt(stored)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"{folder}: its card is damaged ({error}); fit again") from error
        clf.history_ = history
        return clf

    def _parameters(self) -> dict[str, Any]:
        """The constructor's arguments as plain values, for JSON."""
        values: dict[str, Any] = self.get_params(deep=False)
        values.pop("device")
        values["options"] = None if self.options is None else dict(self.options)
        if self.random_state is not None:
            values["random_state"] = self.stored_.card["seed"]
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = [[_plain(k), v] for k, v in self.class_weight.items()]
        return values

    def _labelled(self, graph: Graph, y: ArrayLike | None, seed: int) -> tuple[Graph, NDArray[Any]]:
        """The graph with codes for labels and one split, and what the codes stand for."""
        if y is None:
            names = np.array(graph.classes())
            if graph.num_splits:
                parts = graph.split(0)
                nowhere = np.zeros(graph.num_nodes, dtype=np.bool_)
                return graph.with_masks(parts.train, parts.val, nowhere), names
            return self._split(graph, seed), names
        values = one_per_node(y, graph.num_nodes)
        unknown = np.array([is_unknown(label) for label in values])
        given = np.array(values[~unknown].tolist())
        if given.dtype.kind not in "biufU":
            raise InputError(
                "y: labels must be numbers, truth values or text; write others as text, as with "
                f"y.astype(str) (got {type(values[~unknown][0]).__name__})"
            )
        classes, codes = np.unique(given, return_inverse=True)
        numbers = np.full(graph.num_nodes, -1, dtype=np.int64)
        numbers[~unknown] = codes
        bare = dataclasses.replace(
            graph,
            y=numbers,
            class_names=tuple(map(str, classes)),
            train_mask=None,
            val_mask=None,
            test_mask=None,
        )
        return self._split(bare, seed), classes

    def _split(self, graph: Graph, seed: int) -> Graph:
        if not 0 < self.validation_size < 1:
            raise InputError(
                f"validation_size: must be between 0 and 1 (got {self.validation_size!r})"
            )
        share = 1 - self.validation_size
        return random_splits(graph, train=share, val=self.validation_size, random_state=seed)


def structure_hash(graph: Graph) -> str:
    """What predictions depend on: structure and features, not labels or splits."""
    bare = dataclasses.replace(
        graph, y=None, train_mask=None, val_mask=None, test_mask=None, class_names=None
    )
    return bare.content_hash


def _arguments(stored: StoredModel) -> dict[str, Any]:
    """Arguments of the constructor that train as a run was trained."""
    from djgnn.training.config import resolve

    config = stored.config
    usual = resolve(config.preset)
    options = {
        f.name: getattr(mine, f.name)
        for mine, theirs in ((config.model, usual.model), (config.training, usual.training))
        for f in dataclasses.fields(mine)
        if getattr(mine, f.name) != getattr(theirs, f.name)
    }
    if stored.card.get("structure_gate"):  # the gate would decide again
        options.pop("structure", None)
    return {"preset": config.preset, "options": options or None}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _labels(card: dict[str, Any]) -> NDArray[Any]:
    """The classes in the type that they were given in."""
    stored = card.get("labels")
    if stored is None:
        return np.array(card["data"]["classes"])
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
