"""The jump branches: one structural filter each."""

from typing import Self

import torch
from torch import Generator, Tensor, nn

from djgnn.filters import branch_ranks
from djgnn.model.branches.base import Branch, glorot
from djgnn.model.config import ModelConfig
from djgnn.model.dropout import relu_dropout
from djgnn.model.products import block_products
from djgnn.model.views import Encoding, View


class JumpBranches(Branch):
    r"""All jump branches, :math:`H^k = \mathrm{ReLU}(\hat J^k X W^k + b^k)`, in one product.

    With `num_nodes` the filters see hidden states in place of X, a layer over features and rows of
    A, :math:`\mathrm{ReLU}(X W + A V + c)`. What is no wider than a branch, such as hidden states,
    is summed before it is multiplied, as :math:`(\hat J^k X) W^k`: one table is summed in place of
    one for each branch, and through sums of features no gradient passes.

    Args:
        in_channels: Number of features F.
        hidden_channels: Width of each branch.
        num_branches: Number of filters.
        dropout: On the embeddings, and on hidden states.
        num_nodes: Number of nodes n, for hidden states.

    Shapes:
        encode ``[sources, num_branches * hidden_channels]`` (X W), ``[sources, F]`` (X itself), or
        ``[sources, hidden_channels]`` (hidden states before their activation); output
        ``[rows, num_branches * hidden_channels]``.

    Example:
        >>> JumpBranches(3, 8, num_branches=3).labels
        ('jump0', 'jump1', 'jump2')
    """

    name = "jumps"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_branches: int,
        dropout: float = 0.0,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__()
        self.hidden_channels, self.num_branches = hidden_channels, num_branches
        self.dropout = dropout
        self.inner: nn.ParameterDict | None = None
        if num_nodes is not None:
            shapes = {
                "features": (in_channels, hidden_channels),
                "rows": (num_nodes, hidden_channels),
                "bias": (hidden_channels,),
            }
            self.inner = nn.ParameterDict({k: torch.empty(v) for k, v in shapes.items()})
            in_channels = hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, num_branches * hidden_channels))
        self.bias = nn.Parameter(torch.empty(num_branches * hidden_channels))
        self.reset_parameters()

    @classmethod
    def build(cls, config: ModelConfig, in_channels: int, num_nodes: int) -> Self | None:
        """The branches of ``jumps=True``."""
        if not config.jumps:
            return None
        count = len(branch_ranks(config.support, config.num_jumps, num_nodes))
        known = num_nodes if config.jump_inputs == "hidden" else None
        return cls(in_channels, config.hidden_channels, count, config.dropout, known)

    @property
    def narrow(self) -> bool:
        """Whether the filters see X itself, or hidden states, and the weights what they sum."""
        return 0 < self.weight.shape[0] <= self.hidden_channels

    @property
    def labels(self) -> tuple[str, ...]:
        """``jump0``, ``jump1``, ..."""
        return tuple(f"jump{k}" for k in range(self.num_branches))

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Glorot for each branch alone, rows of A as in the structure branch; biases zero."""
        if self.inner is not None:
            features, rows = self.inner["features"], self.inner["rows"]
            glorot(features, features.shape[0], features.shape[1], generator)
            bound = rows.shape[0] ** -0.5
            nn.init.uniform_(rows, -bound, bound, generator=generator)
            nn.init.zeros_(self.inner["bias"])
        glorot(self.weight, self.weight.shape[0], self.hidden_channels, generator)
        nn.init.zeros_(self.bias)

    def encode(self, view: View) -> Tensor:
        """X W of all branches, side by side; X; or the hidden states before their activation."""
        if self.inner is None:
            return view.dense_features() if self.narrow else view.features @ self.weight
        seen: Tensor = view.features @ self.inner["features"]
        seen = seen + view.source_rows @ self.inner["rows"]
        return seen.add_(self.inner["bias"])

    def forward(self, encoding: Encoding, view: View, generator: Generator | None = None) -> Tensor:
        """Aggregate through the filters; bias, ReLU and dropout in place."""
        (before, after), h = view.windows, encoding.parts[self.name]
        if self.inner is not None:
            h = relu_dropout(h.clone(), self.dropout, self.training, generator, before)
        h = view.aggregate(encoding.table, h, shared=self.narrow)
        if self.narrow:
            h = block_products(h, self.weight, self.num_branches)
        h.add_(self.bias)
        return relu_dropout(h, self.dropout, self.training, generator, after)

    def __repr__(self) -> str:
        rows = (self.weight if self.inner is None else self.inner["features"]).shape[0]
        width = self.hidden_channels
        return f"{type(self).__name__}({rows}, {self.num_branches} x {width})"
