"""`DJClassifier`: the Diffusion-Jump GNN as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from djgnn.checking import json_values
from djgnn.errors import InputError
from djgnn.graph.classifier_inputs import labelled_graph, labelled_nodes, to_learn_from, with_metric
from djgnn.model.explain import Explanation
from djgnn.parameters import NAMED, arguments_of, config_of, seed_of, splits_of
from djgnn.training.answers import accuracy, answer, answered_sets
from djgnn.training.conformal import Promise, Scope
from djgnn.training.folder import new_folder, read_history, run_card, write_model
from djgnn.training.held_out import held_out
from djgnn.training.inputs import build_djgnn, choose_device
from djgnn.training.progress import EpochRecord
from djgnn.training.run import train
from djgnn.training.stored import StoredModel, load_model


class DJClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph from the labels of some of them.

    Labels are dealt out into folds, and every expert has a member for each that learns from the
    others: so every label is learned from, and every labelled node is answered by members that did
    not learn from it. These answers choose epochs and weights of experts and calibrate the
    probabilities; labels of other nodes are never looked at. All nodes of the graph are classified,
    and so are nodes that arrive later, without retraining. A graph with a split of its own, such as
    the masks of PyG, keeps it: training nodes are learned from, validation nodes choose.

    Two ways to say what to learn from. ``DJClassifier().fit(graph, y)`` takes a graph and one label
    per node. ``DJClassifier(graph=graph).fit(nodes, y)`` takes nodes of that graph and their
    labels, as ``cross_val_score`` and ``GridSearchCV`` of scikit-learn do; labels that the graph
    has itself are never looked at then.

    Args:
        preset: ``"full"``, ``"default"`` (without the plain experts), ``"author"`` or ``"paper"``.
            It gives the value of every parameter from `num_jumps` to `select` that is ``None``.
        graph: The graph whose nodes are given to `fit`, `predict` and `score`: a `Graph`, a PyG
            ``Data`` or a networkx graph. ``None``: the graph itself is given to them.
        num_jumps: Number of jumps K, or ``"auto"``.
        hidden_channels: Width of every branch.
        dropout: Dropout rate.
        lr: Learning rate.
        weight_decay: Weight decay, or ``"auto"``.
        epochs: Most epochs to run, of every expert.
        patience: Stop after this many epochs without a better one on validation, or ``"auto"``.
        select: Whether epochs are chosen by the validation ``"loss"`` or ``"score"``.
        metric: That score: ``"accuracy"``, ``"macro_f1"``, and of two classes ``"roc_auc"`` or
            ``"average_precision"``, see :func:`djgnn.training.selection.score`. ``None``: that of
            the graph if it fits the labels, else accuracy. :meth:`score` is accuracy always; for
            others scikit-learn has scorers.
        options: Any other option of :class:`djgnn.model.ModelConfig` or
            :class:`djgnn.training.TrainConfig`, such as ``{"support": "paper"}``. A parameter
            above wins over the option of its name.
        folds: How many. ``None``: 4 with fewer than 20,000 labels, fewer if the classes are too
            small for that, else 1. With 1 a part of the labels is set aside instead. A graph that
            has a split itself keeps it.
        validation_size: That part, as a share, class by class.
        class_weight: ``None``, ``"balanced"``, or the factor of each label in the loss.
        random_state: Seed of the split, the weights and dropout; ``None``, or a `RandomState` of
            NumPy, draws one.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Attributes:
        classes_: The labels, sorted, in the type they came in.
        transduction_: The predicted label of every node of the fitted graph.
        probabilities_: Its calibrated probabilities, columns as `classes_`.
        embedding_: Positions U of the nodes, ``[n, p]``; of a mixture those of the expert with
            jumps that has the largest weight, without columns where there is none.
        history_: One record per epoch, of a mixture one expert after the other.
        validation_score_: `metric` on held-out nodes, in percent: out of their folds, or the part
            set aside.
        branch_weights_: The weight of every expert of a mixture (``full``, ``default``), or of
            every branch of one network (``author``, ``paper``).
        temperature_: What logits are divided by before the softmax, the first step of calibration.
        verdict_: The score to expect with its interval, simpler means beside it, whether the graph
            helps, and warnings; see :class:`djgnn.training.verdict.Verdict`.
        model_: The torch module.

    Example:
        >>> from djgnn.graph import heterophilic_sbm
        >>> graph = heterophilic_sbm(160)
        >>> known = np.where(np.arange(graph.num_nodes) % 2 == 0, graph.y, -1)
        >>> clf = DJClassifier(epochs=5, hidden_channels=8).fit(graph, known)
        >>> clf.predict(graph).shape == (graph.num_nodes,)
        True
        >>> nodes = np.flatnonzero(known >= 0)
        >>> same = DJClassifier(graph=graph, epochs=5, hidden_channels=8).fit(nodes, known[nodes])
        >>> bool((same.predict_proba([3, 5]) == clf.predict_proba(graph)[[3, 5]]).all())
        True
        >>> found = clf.explain(graph.names()[0])
        >>> shares = sum(part.shares[found.prediction] for part in found.experts)
        >>> bool(np.isclose(shares, np.exp(found.logits[found.prediction])))
        True
    """

    def __init__(
        self,
        preset: str = "full",
        *,
        graph: Any = None,
        num_jumps: int | str | None = None,
        hidden_channels: int | None = None,
        dropout: float | None = None,
        lr: float | None = None,
        weight_decay: float | str | None = None,
        epochs: int | None = None,
        patience: int | str | None = None,
        select: str | None = None,
        metric: str | None = None,
        options: Mapping[str, Any] | None = None,
        folds: int | None = None,
        validation_size: float = 0.25,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.graph = graph
        self.num_jumps = num_jumps
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.select = select
        self.metric = metric
        self.options = options
        self.folds = folds
        self.validation_size = validation_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = self.graph is not None
        tags.target_tags.required = self.graph is not None
        return tags

    def fit(self, X: Any, y: Any = None) -> DJClassifier:
        """Learn from the known labels.

        Args:
            X: The graph: a `Graph`, a PyG ``Data`` (labels in ``y``, and its masks, of which
                some may be missing) or a networkx graph, whose node attributes are columns:
                ``label``, ``class``, ``y`` or ``target`` has the labels, ``split`` the split, all
                others are features. If the classifier has a graph already: nodes of it, by number
                or by name.
            y: One label per node, numbers, truth values or text; ``None``, NaN, -1 and the empty
                string mean unknown. Or a mapping from the name of a node to its label, or a series
                of pandas whose index has the names. Without it the graph's own labels are used, and
                of a graph with splits only those of the training and validation nodes of its first.

        Raises:
            InputError: If there are no two classes to learn, or an argument is not allowed.
        """
        seed = seed_of(self.random_state)
        held = self.graph is not None
        graph, classes = labelled_nodes(self.graph, X, y) if held else labelled_graph(X, y)
        graph = to_learn_from(with_metric(graph, self.metric))
        named = {name: getattr(self, name) for name in NAMED}
        config = config_of(self.preset, named, self.options, self.class_weight, classes)
        labelled, config = splits_of(graph, config, self.folds, self.validation_size, seed)
        module, inputs = build_djgnn(config, labelled, choose_device(self.device))
        fitted, result = train(module, inputs, labelled, 0, config.training, seed)
        model: Any = fitted.module.eval()
        card = run_card(labelled, config, fitted, result, seed)
        card["labels"] = {"dtype": classes.dtype.str, "values": classes.tolist()}
        kept = None if fitted.evidence is None else held_out(labelled, fitted)
        stored = StoredModel(model, inputs, labelled, config, card, kept)
        return self._set_learned(stored, fitted.history)

    def _set_learned(self, stored: StoredModel, history: tuple[EpochRecord, ...]) -> DJClassifier:
        """Take the learned attributes from a trained model."""
        card = stored.card
        self.stored_, self.model_, self.history_ = stored, stored.module, history
        self.classes_ = stored.classes
        self.probabilities_ = stored.probabilities
        self.transduction_ = self.classes_[self.probabilities_.argmax(axis=1)]
        self.embedding_ = stored.positions
        self.validation_score_ = card["result"]["validation"]
        self.branch_weights_ = card["alpha"]
        self.temperature_ = stored.calibration.temperature
        self.verdict_ = card.get("verdict")
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Calibrated probabilities of nodes, columns as `classes_`.

        Args:
            X: Nodes of the fitted graph, by number or by name. Or the fitted graph: all of its
                nodes. Or a later one, with new nodes and their edges to known ones and among
                themselves: the new nodes alone, in their order; all of its nodes if none is new.
                Known nodes are recognised by name; without names they are the first n. Their
                predictions do not change.

        Raises:
            NotFittedError: Before `fit`.
            InputError: For nodes that are not there, and for a graph that has nothing to do with
                the fitted one.
        """
        check_is_fitted(self)
        return answer(self.stored_, X).shares

    def predict(self, X: Any) -> NDArray[Any]:
        """The labels of nodes, see :meth:`predict_proba`."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_set(
        self, X: Any, coverage: float = 0.9, coverage_by: Scope = "all"
    ) -> list[NDArray[Any]]:
        """Sets of labels that hold the right one as often as promised (conformal prediction).

        They are calibrated on held-out nodes, see :mod:`djgnn.training.conformal`.

        Args:
            X: As in :meth:`predict_proba`.
            coverage: The share of the nodes whose set shall have their label, above 0 and below 1.
            coverage_by: Of ``"all"`` nodes together, or of every ``"class"`` by itself.

        Returns:
            For every node its labels, the likeliest first. Where the model is right more often than
            `coverage`, those of the nodes that it is least sure of are empty.

        Raises:
            NotFittedError: Before `fit`.
            InputError: For a value that is not allowed, and as :meth:`predict_proba`.
        """
        check_is_fitted(self)
        try:
            promise = Promise(coverage, coverage_by)
        except ValueError as error:
            raise InputError(str(error)) from error
        return answered_sets(self.stored_, X, promise)

    def explain(self, node: str | int) -> Explanation:
        """Which experts, branches and neighbours made a node's prediction, and how much.

        Args:
            node: A node of the fitted graph, by name or by number.

        Raises:
            NotFittedError: Before `fit`.
            InputError: If there is no such node.
        """
        check_is_fitted(self)
        return self.stored_.explain(self.stored_.graph.index_of(node))

    def score(self, X: Any = None, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Share of the known labels that are predicted; unknown ones are left out.

        Without `y` the labels are the graph's own, and only nodes count that were not learned from:
        of a graph with the masks that were learned from its test nodes, of others all that are
        neither training nor validation nodes. Where there are none, those that were held
        out: each labelled node as the folds that it is not in predict it, or the validation nodes,
        on which epochs were chosen. That is measured; `verdict_` adds what averaging the folds is
        estimated to be worth for nodes without a label. With `y` all nodes count whose label is
        given.

        Args:
            X: As in :meth:`predict_proba`; the fitted graph by default.
            y: One label per node that `predict` answers for, or per node of the graph. ``graph.y``
                (numbers of ``graph.classes()``) stands for the graph's own labels.
            sample_weight: One weight per label.

        Raises:
            NotFittedError: Before `fit`.
            InputError: If there is not one label, or weight, per node, or none is known.
        """
        check_is_fitted(self)
        return accuracy(self.stored_, X, y, sample_weight)

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
        stored = self.stored_
        values = {k: v for k, v in self.get_params(deep=False).items() if k != "device"}
        values["graph"] = self.graph is not None
        if self.random_state is not None:
            values["random_state"] = stored.card["seed"]
        if isinstance(self.class_weight, Mapping):  # keys may be numbers, which JSON has not
            values["class_weight"] = list(self.class_weight.items())
        card = {**stored.card, "estimator": json_values(values)}
        with new_folder(folder, overwrite) as place:
            parts = (stored.graph, stored.config, stored.module, card, self.history_, stored.held)
            write_model(place, *parts)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> DJClassifier:
        """A trained classifier from a folder of :meth:`save` or of ``djgnn fit``.

        Raises:
            InputError: If it is damaged or incomplete. Nothing in it is ever executed.
        """
        stored, history = load_model(folder, choose_device(device)), read_history(folder)
        try:
            given = dict(stored.card.get("estimator") or arguments_of(stored))
            if isinstance(given.get("class_weight"), list):
                given["class_weight"] = dict(given["class_weight"])
            given["graph"] = stored.graph.without_labels() if given.get("graph") else None
            given = {"random_state": stored.card["seed"], **given, "device": device}
            return cls(**given)._set_learned(stored, history)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"{folder}: its card is damaged ({error}); fit again") from error
