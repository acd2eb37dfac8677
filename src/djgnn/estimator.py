"""`DJClassifier`: the Diffusion-Jump GNN with scikit-learn's manners."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from djgnn.errors import InputError
from djgnn.graph import Graph, random_splits

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class DJClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph from the labels of some of them.

    A part of the labels is set aside to choose the epoch on; labels of other nodes are never
    looked at. All nodes of the graph are classified.

    Args:
        preset: ``"default"``, ``"author"`` or ``"paper"``.
        options: Any option of :class:`djgnn.model.ModelConfig` or
            :class:`djgnn.training.TrainConfig` to change, such as ``{"num_jumps": 3}``.
        validation_size: Share of the labels set aside, class by class.
        random_state: Seed of the split, the weights and dropout.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Attributes:
        classes_: The labels, sorted.
        transduction_: The predicted label of every node.
        probabilities_: Its probabilities, columns as `classes_`.
        embedding_: Positions U of the nodes, ``[n, p]``.
        history_: One record per epoch.
        validation_score_: Score on the part set aside, in percent.
        branch_weights_: The learned mixing weight of every branch.
        model_: The torch module.

    Example:
        >>> from djgnn.graph import heterophilic_sbm
        >>> graph = heterophilic_sbm(160)
        >>> known = np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)
        >>> fast = {"epochs": 5, "hidden_channels": 8}
        >>> clf = DJClassifier(options=fast).fit(graph, known)
        >>> clf.predict(graph).shape == (graph.num_nodes,)
        True
    """

    def __init__(
        self,
        preset: str = "default",
        options: Mapping[str, Any] | None = None,
        validation_size: float = 0.25,
        random_state: int = 0,
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.options = options
        self.validation_size = validation_size
        self.random_state = random_state
        self.device = device

    def fit(self, graph: Graph, y: ArrayLike | None = None) -> DJClassifier:
        """Learn from the known labels.

        Args:
            graph: The graph.
            y: One label per node, of any type; ``None``, NaN, -1 and the empty string mean
                unknown. Without it the graph's own labels are used, and of a graph with splits
                only those of the training and validation nodes of its first.

        Raises:
            InputError: If there are no two classes to learn, or an option is not allowed.
        """
        from djgnn.training.config import resolve
        from djgnn.training.folder import branch_weights
        from djgnn.training.inputs import build_djgnn, choose_device
        from djgnn.training.run import probabilities, train

        labelled, classes = self._labelled(graph, y)
        try:
            config = resolve(self.preset, **dict(self.options or {}))
        except (TypeError, ValueError) as error:
            raise InputError(f"options: {error}") from error
        module, inputs = build_djgnn(config, labelled, choose_device(self.device))
        fitted, _ = train(module, inputs, labelled, 0, config.training, self.random_state)
        model: Any = fitted.module
        self.model_ = model
        self.classes_ = classes
        self.probabilities_ = probabilities(fitted)
        self.transduction_ = classes[self.probabilities_.argmax(axis=1)]
        self.history_ = fitted.history
        self.validation_score_ = fitted.validation
        self.embedding_ = model.run(*inputs).pump.u.detach().cpu().numpy()
        self.branch_weights_ = branch_weights(fitted)
        self.graph_hash_ = structure_hash(graph)
        return self

    def predict_proba(self, graph: Graph) -> NDArray[np.float32]:
        """Probabilities of every node of the fitted graph, columns as `classes_`.

        Raises:
            NotFittedError: Before `fit`.
            InputError: For another graph than the one that was fitted.
        """
        check_is_fitted(self)
        if structure_hash(graph) != self.graph_hash_:
            raise InputError(
                "graph: is not the one this classifier was fitted on; call fit with it first "
                f"(got {graph!r})"
            )
        probabilities: NDArray[np.float32] = self.probabilities_
        return probabilities

    def predict(self, graph: Graph) -> NDArray[Any]:
        """The label of every node of the fitted graph.

        Raises:
            NotFittedError: Before `fit`.
            InputError: For another graph than the one that was fitted.
        """
        self.predict_proba(graph)
        labels: NDArray[Any] = self.transduction_
        return labels

    def score(self, graph: Graph, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the known labels in y that are predicted; unknown ones are left out."""
        truth = np.asarray(y, dtype=object)
        known = ~_unknown(truth)
        hits = self.predict(graph)[known].astype(str) == truth[known].astype(str)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(hits, weights=weight))

    def _labelled(self, graph: Graph, y: ArrayLike | None) -> tuple[Graph, NDArray[Any]]:
        """The graph with codes for labels and one split, and what the codes stand for."""
        if y is None:
            names = np.array(graph.classes())
            if graph.num_splits:
                parts = graph.split(0)
                nowhere = np.zeros(graph.num_nodes, dtype=np.bool_)
                return graph.with_masks(parts.train, parts.val, nowhere), names
            return self._split(graph), names
        values = np.asarray(y, dtype=object)
        if values.shape != (graph.num_nodes,):
            raise InputError(
                f"y: must have one label per node, [{graph.num_nodes}] (got {list(values.shape)})"
            )
        unknown = _unknown(values)
        given = np.array(values[~unknown].tolist())
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
        return self._split(bare), classes

    def _split(self, graph: Graph) -> Graph:
        if not 0 < self.validation_size < 1:
            raise InputError(
                f"validation_size: must be between 0 and 1 (got {self.validation_size!r})"
            )
        share = 1 - self.validation_size
        return random_splits(
            graph, train=share, val=self.validation_size, random_state=self.random_state
        )


def structure_hash(graph: Graph) -> str:
    """What predictions depend on: structure and features, not labels or splits."""
    bare = dataclasses.replace(
        graph, y=None, train_mask=None, val_mask=None, test_mask=None, class_names=None
    )
    return bare.content_hash


def _unknown(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.array(
        [v is None or v == "" or v == -1 or (isinstance(v, float) and v != v) for v in values],
        dtype=np.bool_,
    )
