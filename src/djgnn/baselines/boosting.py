"""Gradient boosting (scikit-learn's) on features, their means over neighbours, and degrees."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.baselines.base import Adjacency, Baseline, Matrix, Options
from djgnn.baselines.matrices import row_scale
from djgnn.checking import Count, Natural, Share
from djgnn.model.node_statistics import leading_directions, product
from djgnn.model.table_experts import ABSENT, as_matrix
from djgnn.training.config import TrainConfig
from djgnn.training.optimizer import Adam
from djgnn.training.targets import Targets


@dataclass(frozen=True)
class BoostingOptions(Options):
    """Options of boosted trees; `lr` is their shrinkage, `weight_decay` their L2 penalty."""

    adjacency: Adjacency = "given"
    num_hops: Natural = 2  #: Steps of the mean over neighbours, in both directions of the edges.
    components: Count = 64  #: Wider features are reduced to so many columns by a truncated SVD.
    iterations: Count = 10  #: Boosting iterations of an epoch; each is one tree per class.
    max_leaf_nodes: Count = 31  #: Most leaves of a tree.
    min_samples_leaf: Count = 20  #: Fewest training nodes of a leaf.
    max_features: Share = 0.3  #: Share of the columns that a split chooses from.

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_leaf_nodes < 2 or not self.max_features:
            raise ValueError(
                "max_leaf_nodes must be at least 2 and max_features positive "
                f"(got {self.max_leaf_nodes} and {self.max_features})"
            )


class Boosting(Baseline):
    r"""Boosted trees on the rows of

    .. math::
        [X \Vert M X \Vert .. \Vert M^K X \Vert \bar M X \Vert .. \Vert \bar M^K X \Vert d],

    where X is reduced to few columns, M and :math:`\bar M` are the means over the targets and over
    the sources of edges (one of them, if they are equal), and d are the numbers of targets, sources
    and neighbours. The module itself knows the logits of its nodes, nothing else.

    Scikit-learn's ``HistGradientBoostingClassifier``: Guolin Ke, Qi Meng, Thomas Finley, Taifeng
    Wang, Wei Chen, Weidong Ma, Qiwei Ye, Tie-Yan Liu: LightGBM: A Highly Efficient Gradient
    Boosting Decision Tree. NeurIPS 2017.
    """

    options: BoostingOptions
    training_defaults: ClassVar = {"epochs": 50, "lr": 0.1, "weight_decay": 0.0, "patience": 5}
    node_parameters = ("logits",)
    iterations: Tensor

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        values = torch.zeros(self.num_nodes, out_channels)
        self.logits = nn.Parameter(values, requires_grad=False)
        self.register_buffer("iterations", torch.zeros((), dtype=torch.int64))

    def init_weights(self, generator: Generator) -> None:
        """Without any tree all classes are equal."""
        self.logits.zero_()
        self.iterations.zero_()

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> np.ndarray[Any, Any]:
        """The columns that the trees see."""
        back = sp.csr_array(adjacency.T)
        ways = [adjacency, back][: 1 + bool((adjacency != back).nnz)]
        columns = [self.reduce(like)]
        for way in ways:
            mean, spread = row_scale(way), columns[0]
            for _ in range(self.options.num_hops):
                spread = product(mean, spread)
                columns.append(spread)
        degrees = [way.sum(axis=1) for way in (adjacency, back, (adjacency + back) > 0)]
        return np.column_stack([*columns, *degrees])

    def reduce(self, x: Matrix) -> np.ndarray[Any, Any]:
        """The features, or where they are wider their first singular vectors, scaled."""
        whole: Any = as_matrix(x).astype(np.float64)
        width = min(self.options.components, x.shape[0])
        if x.shape[1] > width:
            return np.asarray(whole @ leading_directions(whole, width))
        return whole.toarray() if sp.issparse(whole) else np.asarray(whole)

    def passes(
        self, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
    ) -> "BoostingPasses":
        """What the training loop does instead of following a gradient."""
        return BoostingPasses(self, self.constants(*inputs), targets, config)

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits of the trees so far."""
        return self.logits


class BoostingPasses:
    """An update adds trees that are fitted to the training nodes, then asks them about all nodes.

    The trees themselves are not kept: a run that is restored fits them again, to the same bits.

    Args:
        module: Where logits and the number of iterations are kept.
        columns: What the trees see of each node.
        targets: Training nodes and their labels.
        config: Shrinkage and penalty.
    """

    encoding = None

    def __init__(
        self,
        module: Boosting,
        columns: np.ndarray[Any, Any],
        targets: Targets,
        config: TrainConfig,
    ) -> None:
        self.module, self.columns, self.targets, self.config = module, columns, targets, config
        self._trees: Any = None

    def make_trees(self, seed: int) -> Any:
        """The classifier, without a tree; it sets no nodes aside for early stopping."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        o, config = self.module.options, self.config
        return HistGradientBoostingClassifier(
            learning_rate=config.lr,
            l2_regularization=config.weight_decay,
            max_leaf_nodes=o.max_leaf_nodes,
            min_samples_leaf=o.min_samples_leaf,
            max_features=o.max_features,
            early_stopping=False,
            warm_start=True,
            random_state=seed % 2**32,
        )

    def update(self, optimizer: Adam, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Add the trees of an epoch; the optimiser has nothing to do."""
        module, targets = self.module, self.targets
        if self._trees is None:
            self._trees = self.make_trees(0 if generator is None else generator.initial_seed())
        module.iterations += module.options.iterations
        rows, y = targets.nodes[0], targets.labels[0]
        weight = None if targets.class_weight is None else targets.class_weight.cpu().numpy()[y]
        self._trees.set_params(max_iter=int(module.iterations))
        self._trees.fit(self.columns[rows], y, sample_weight=weight)
        module.logits.copy_(self.predict())
        fitted = module.logits[targets.train]
        loss = F.cross_entropy(fitted, targets.train_y, targets.class_weight)
        return loss, torch.zeros_like(loss)

    def predict(self) -> Tensor:
        """Log probabilities of all nodes."""
        raw = torch.from_numpy(self._trees.decision_function(self.columns))
        if raw.ndim == 1:  # two classes: the log-odds of the second
            raw = torch.stack([torch.zeros_like(raw), raw], dim=1)
        known = raw.log_softmax(dim=1)
        logits = known.new_full(tuple(self.module.logits.shape), math.log(ABSENT))
        logits[:, torch.from_numpy(self._trees.classes_)] = known
        return logits

    def evaluate(self) -> Tensor:
        """Logits of all nodes."""
        return self.module.logits.clone()
