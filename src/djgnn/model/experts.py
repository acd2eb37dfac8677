"""Experts: small networks with a head each, and the convex mixture of their probabilities.

Branches that share a classifier starve each other: the one that fits the training nodes fastest
takes the whole gradient. An expert is a :class:`djgnn.model.DJGNN` of few branches, usually one,
with weights, classifier and loss of its own. As nothing is shared, the sum of their losses is
minimised by training them one after another, each to its own best epoch. Experts on a table of the
graph (:mod:`djgnn.model.profile`, :mod:`djgnn.model.table_experts`) take part beside the networks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator
from djgnn.model.config import PLAIN_NAMES, Expert, ModelConfig
from djgnn.model.djgnn import DJGNN
from djgnn.model.expert_mixture import Mixed
from djgnn.model.forest import Forest
from djgnn.model.operators import EdgeMemory, Parts, adjacency_matrix
from djgnn.model.profile import Profile
from djgnn.model.table_experts import ClassShares, LabelPropagation, TableExpert
from djgnn.model.trees import BoostedTrees

_ALONE: dict[str, Any] = {"jumps": False, "homophilic": False, "structure": False}
EXPERTS: dict[Expert, dict[str, Any]] = {
    "features": {**_ALONE, "hops": 0},
    "given": {**_ALONE, "homophilic": True, "homophilic_adjacency": "given"},
    "transposed": {**_ALONE, "homophilic": True, "homophilic_adjacency": "transposed"},
    "symmetric": {**_ALONE, "homophilic": True, "homophilic_adjacency": "symmetric"},
    "hops": {**_ALONE, "hops": 3, "homophilic_adjacency": "symmetric"},
    "mix": {**_ALONE, "mix": 2, "homophilic_adjacency": "symmetric"},
    "diffusion": {**_ALONE, "diffusion": 10, "homophilic_adjacency": "symmetric"},
    "rows": {**_ALONE, "structure": True, "pump_adjacency": "given"},
    "columns": {**_ALONE, "structure": True, "pump_adjacency": "transposed"},
    "deep": {
        **_ALONE,
        "deep": 15,
        "homophilic_adjacency": "symmetric",
        "pump_adjacency": "symmetric",
    },
    "jumps": {**_ALONE, "jumps": True, "jump_inputs": "hidden"},
    "joint": {},
}
"""How the network of each expert differs from the configuration of the model.

``joint`` is the paper's network, whose classifier sees jumps, homophilic and structure branch at
once; ``jumps`` has jumps over hidden states; the others have one branch without jumps, that of
``mix`` half as wide.
"""
TABLE: dict[str, type[TableExpert]] = {
    "shares": ClassShares,
    "propagation": LabelPropagation,
    "boosting": BoostedTrees,
    "forest": Forest,
    "profile": Profile,
}
"""The experts that see a table of the graph."""
UNDIRECTED: dict[str, Any] = {"pump_adjacency": "given", "homophilic_adjacency": "given"}
"""What the directions of an undirected graph all are."""


def expert_configs(config: ModelConfig, directed: bool) -> dict[str, ModelConfig]:
    """The networks of a mixture, by name; those that coincide are made once.

    Args:
        config: The model.
        directed: Whether the graph is; otherwise experts that differ in direction coincide.
    """
    found: dict[str, ModelConfig] = {}
    for name in config.experts:
        if name in TABLE:
            continue
        own = {**EXPERTS[name], **({} if directed else UNDIRECTED), "experts": (), "folds": None}
        if name == "mix":
            own["hidden_channels"] = -(-config.hidden_channels // 2)
        made = config.replace(**own)
        if made not in found.values():
            found[name] = made
    return found


def member(kind: str, fold: int, folds: int) -> str:
    """The name of an expert of a fold; without folds that of its kind."""
    return kind if folds == 1 else f"{kind}-{fold + 1}"


def kind_of(name: str) -> str:
    """What kind of expert a member is.

    Example:
        >>> kind_of(member("jumps", 0, 4)), kind_of("jumps")
        ('jumps', 'jumps')
    """
    return name.partition("-")[0]


class _Once:
    """A function without arguments whose result is kept; unlike a cached one it can be pickled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.found: Any = None

    def __call__(self) -> Any:
        """The result of the first call."""
        if self.found is None:
            self.found = self.make()
        return self.found


@dataclass(frozen=True, eq=False)
class ExpertOperators:
    """The operators of every expert of a graph, each made when first asked for.

    What several need is there once.
    """

    by_expert: Mapping[str, Callable[[], Any]]


class DJExperts(Mixed):
    """The Diffusion-Jump GNN as a mixture of experts, the default model of this package.

    Args:
        in_channels: Number of node features F.
        hidden_channels: Width of every branch.
        out_channels: Number of classes.
        num_nodes: Number of nodes n.
        directed: Whether the graph is directed; otherwise some experts would be copies.
        config: Any other option; its `hidden_channels` gives way to the argument.
        directions: Whether trees look at targets and sources of edges by themselves, see
            :func:`djgnn.model.operators.direction_tells`.
        **options: Fields of the configuration to replace.

    Shapes:
        x ``[n, F]``, edge_index ``[2, E]``; output the logarithms of the probabilities
        ``[n, classes]`` and the sum of the experts' pump losses.

    Raises:
        ValueError: For an unknown option or a configuration without experts.

    Example:
        >>> x, edge_index = torch.rand(6, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> model = DJExperts(3, 8, 2, num_nodes=6)
        >>> logits, pump_loss = model(x, edge_index)
        >>> torch.allclose(logits.exp().sum(dim=1), torch.ones(6))
        True
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int,
        directed: bool = True,
        config: ModelConfig | None = None,
        directions: bool = True,
        **options: Any,
    ) -> None:
        own = (config or ModelConfig()).replace(hidden_channels=hidden_channels, **options)
        configs = expert_configs(own, directed)
        if not configs:
            raise ValueError("experts must name at least one that is a network")
        made: dict[str, nn.Module] = {}
        sizes = (out_channels, num_nodes)
        folds = own.folds or 1
        for fold, name in itertools.product(range(folds), own.experts):
            place = member(name, fold, folds)
            if name in TABLE:
                two_ways = directed and (directions or name not in PLAIN_NAMES)
                made[place] = TABLE[name].build(own, in_channels, *sizes, two_ways)
            elif name in configs:
                one = configs[name]
                widths = (in_channels, one.hidden_channels)
                made[place] = DJGNN(*widths, *sizes, one.num_jumps, config=one)
        super().__init__(made)
        self.offsets = torch.zeros(out_channels)
        self.config, self.folds, self.directed, self.directions = own, folds, directed, directions
        self.configs = {n: configs[kind_of(n)] for n in made if kind_of(n) in configs}
        self.in_channels, self.out_channels, self.num_nodes = in_channels, out_channels, num_nodes
        self._prepared = EdgeMemory()

    def only(self, kinds: Collection[str]) -> DJExperts:
        """The same experts without those of other kinds; they must be of weight 0."""
        kept = tuple(kind for kind in self.config.experts if kind in kinds)
        sizes = (self.config.hidden_channels, self.out_channels, self.num_nodes, self.directed)
        config = self.config.replace(experts=kept)
        with torch.device("meta"):  # the experts of this one take the places of those made here
            found = DJExperts(self.in_channels, *sizes, config=config, directions=self.directions)
        places = [self.names.index(name) for name in found.names]
        found.experts = nn.ModuleDict({name: self.experts[name] for name in found.names})
        for values in ("weights", "temperatures", "powers"):
            setattr(found, values, getattr(self, values)[places])
        found.product, found.offsets = self.product, self.offsets
        return found

    def inputs_of(self, name: str, inputs: tuple[Any, Any]) -> tuple[Any, Any]:
        """The features and the expert's own operators."""
        return inputs[0], inputs[1].by_expert[name]()

    def prepare(self, edge_index: Tensor, edge_weight: Tensor | None = None) -> ExpertOperators:
        """Operators of a graph in this model's precision, on its device."""
        adjacency = adjacency_matrix(edge_index, self.num_nodes, edge_weight)
        return self.operators(Parts(adjacency, *self._kind))

    @property
    def _kind(self) -> tuple[torch.dtype, torch.device]:
        return self.weights.dtype, self.weights.device

    def operators(self, parts: Parts) -> ExpertOperators:
        """The operators of all experts, from the parts of a graph or of a process."""
        by_kind: dict[str, Callable[[], Any]] = {}
        for name in self.names:
            kind, own = kind_of(name), self.configs.get(name)
            make = parts.whole if own is None else partial(parts.operators, **own.treatment())
            by_kind.setdefault(kind, _Once(make))
        return ExpertOperators({name: by_kind[kind_of(name)] for name in self.names})

    def forward(
        self,
        x: Tensor | SparseOperator,
        edge_index: Tensor | ExpertOperators,
        edge_weight: Tensor | None = None,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities and the pump losses.

        Args:
            x: Node features.
            edge_index: Edges, or operators made by :meth:`prepare`.
            edge_weight: Weight of each edge, 1 if absent.
            generator: Source of dropout's randomness.
        """
        operators = edge_index
        if isinstance(operators, Tensor):
            operators = self._prepared(operators, edge_weight, self._kind, self.prepare)
        first: Any = self.experts[next(iter(self.configs))]
        inputs = (first.as_features(x), operators)  # converted once for all
        found = [
            expert(*self.inputs_of(name, inputs), generator=generator)
            for name, expert in self.experts.items()
        ]
        logits, losses = zip(*found, strict=True)
        return self.combine(logits), torch.stack(losses).sum()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"


@dataclass(frozen=True, eq=False)
class Member:
    """An expert of a model with its weight and temperature, or the model itself, without a name."""

    name: str
    weight: float
    temperature: float
    module: DJGNN | TableExpert
    model: DJGNN | DJExperts

    def inputs_of(self, inputs: tuple[Any, Any]) -> tuple[Any, Any]:
        """What the expert takes, of what the whole model takes."""
        model = self.model
        return model.inputs_of(self.name, inputs) if isinstance(model, DJExperts) else inputs


@dataclass(frozen=True, eq=False)
class Network(Member):
    """A member that is a network."""

    module: DJGNN


def members(model: DJGNN | DJExperts, fold: int = -1) -> tuple[Member, ...]:
    """Who has a part in a model's answer for nodes of a fold, of the largest weight first."""
    if isinstance(model, DJGNN):
        return (Network("", 1.0, 1.0, model, model),)
    experts: Any = model.experts.items()
    found: list[Member] = []
    weights = model.influence(torch.tensor([fold]))[:, 0, 0].tolist()
    named = zip(experts, weights, model.temperatures.tolist(), strict=True)
    for (name, own), weight, temperature in named:
        kind = Member if kind_of(name) in TABLE else Network
        if weight > 0:
            found.append(kind(name, weight, temperature, own, model))
    return tuple(sorted(found, key=lambda member: -member.weight))


def networks(model: DJGNN | DJExperts) -> tuple[Network, ...]:
    """The members that are networks."""
    return tuple(member for member in members(model) if isinstance(member, Network))


def jump_network(model: DJGNN | DJExperts) -> Network | None:
    """The network with jumps that has the largest weight, if there is any."""
    return next((n for n in networks(model) if n.module.pump is not None), None)


def main_network(model: DJGNN | DJExperts) -> Network:
    """The heaviest network with jumps, without jumps the heaviest.

    Where no network has any weight, as in a run that was stopped before the first, it is the first.
    """
    found = jump_network(model) or next(iter(networks(model)), None)
    if found is None:
        experts: Any = model.experts
        name = next(iter(cast(DJExperts, model).configs))
        found = Network(name, 0.0, 1.0, experts[name], model)
    return found
