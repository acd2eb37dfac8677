"""`ModelConfig`: every choice of the architecture, and the presets."""

import dataclasses
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from msgspec import Meta

from djgnn.checking import Count, Rate, check_fields, check_names

PRESETS = ("default", "full", "author", "paper")
Adjacency = Literal["given", "transposed", "symmetric"]
Depth = Annotated[int, Meta(ge=0, le=64, description="a whole number from 0 to 64")]
Expert = Literal[
    "shares",
    "propagation",
    "boosting",
    "forest",
    "features",
    "profile",
    "given",
    "transposed",
    "symmetric",
    "hops",
    "mix",
    "diffusion",
    "rows",
    "columns",
    "deep",
    "jumps",
    "joint",
]
"""In the order of training, the cheapest first."""
EXPERT_NAMES: tuple[Expert, ...] = get_args(Expert)
PLAIN_NAMES = EXPERT_NAMES[:4]
"""No networks, see :mod:`djgnn.model.table_experts`; they belong to the preset ``full``."""
NETWORK_NAMES = EXPERT_NAMES[4:]
Folds = Annotated[int, Meta(ge=2, le=20, description="a whole number from 2 to 20")]
Layers = Annotated[int, Meta(ge=1, le=64, description="a whole number from 1 to 64")]


@dataclass(frozen=True)
class ModelConfig:
    """Choices of the architecture; the defaults are the preset ``default``.

    Args:
        experts: The experts of a :class:`djgnn.model.DJExperts`, see :mod:`djgnn.model.experts`;
            without any the model is one network, :class:`djgnn.model.DJGNN`.
        folds: Members of every expert, each of which learns from the labels outside of one fold
            (:func:`djgnn.graph.cross_folds`); ``None`` for no cross-fitting.
        hidden_channels: Width of every branch.
        num_jumps: Number of jumps K; ``"auto"`` for shells that grow geometrically.
        num_centers: Number of columns p of U.
        dropout: On the embedding of every branch, and between layers of the homophilic one.
        support: Which ranks a branch keeps, see :func:`djgnn.filters.branch_ranks`.
        scale: Factor of the distances: ``"unit"`` 1, ``"volume"`` 1/vol(G), ``"learned"``.
        source: ``"adjacency"`` f(A), or ``"identity"`` f(I), the ablation of App. A.
        pump_adjacency: What the pump and the structure branch see: the graph as ``"given"``,
            ``"transposed"`` or ``"symmetric"``.
        homophilic_adjacency: What branches see that propagate on the graph.
        jumps: Whether there are jump branches, and with them a pump.
        jump_inputs: What jumps aggregate: ``"features"``, or ``"hidden"`` states of a layer over
            features and rows of A.
        homophilic: Whether there is a homophilic branch.
        hb_layers: Its layers, 2 (published code) or 1 (paper).
        structure: Whether there is a structure branch.
        hops: Hops of the branch that concatenates X, its neighbours' mean, theirs, ...; 0 for X
            alone, ``None`` for no such branch.
        diffusion: Hops of the branch that sums over them, 0 for none.
        deep: Layers of the residual branch, 0 for none.
        mix: Hops of each layer of the branch that has two of them, 0 for none.
        classifier_layers: 1 for a linear classifier, more for an MLP.
        engine: Neighbour search, see :mod:`djgnn.jumps.engines`.

    Raises:
        ValueError: For a value that is not allowed.

    Example:
        >>> ModelConfig(num_jumps=3).replace(support="paper").support
        'paper'
        >>> ModelConfig(num_jumps=0)
        Traceback (most recent call last):
        ValueError: num_jumps must be a whole number of at least 1 and below 2^31 or auto (got 0)
    """

    experts: tuple[Expert, ...] = NETWORK_NAMES
    folds: Folds | None = None
    hidden_channels: Count = 64
    num_jumps: Count | Literal["auto"] = "auto"
    num_centers: Count = 5
    dropout: Rate = 0.5
    support: Literal["shell", "paper", "author", "cumulative"] = "shell"
    scale: Literal["unit", "volume", "learned"] = "learned"
    source: Literal["adjacency", "identity"] = "adjacency"
    pump_adjacency: Adjacency = "given"
    homophilic_adjacency: Adjacency = "given"
    jumps: bool = True
    jump_inputs: Literal["features", "hidden"] = "features"
    homophilic: bool = True
    hb_layers: Layers = 2
    structure: bool = True
    hops: Depth | None = None
    diffusion: Depth = 0
    deep: Depth = 0
    mix: Depth = 0
    classifier_layers: Layers = 1
    engine: Literal["auto", "kdtree", "triton", "blockwise"] = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed.

        Raises:
            ValueError: For a field that does not exist.
        """
        check_names(type(self), changes)
        return dataclasses.replace(self, **changes)

    def treatment(self) -> dict[str, Any]:
        """The options of :func:`djgnn.model.graph_operators` that this configuration fixes."""
        return {
            "pump_adjacency": self.pump_adjacency,
            "homophilic_adjacency": self.homophilic_adjacency,
            "mean": self.deep > 0,
            "twins": self.jumps and self.source == "adjacency",
        }


def preset(name: str) -> dict[str, Any]:
    """The options of a preset, by sections ``model`` and ``training``.

    Raises:
        ValueError: If there is no such preset.

    Example:
        >>> preset("author")["model"]["support"]
        'author'
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)} (got '{name}')")
    text = resources.files("djgnn.model").joinpath("presets", f"{name}.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
