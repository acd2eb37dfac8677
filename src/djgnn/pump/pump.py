"""The diffusion pump: U = tanh(A W + b), the trace ratio and the orthogonality it is trained on."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from djgnn.graph.operator import SparseOperator

SOURCES = ("adjacency", "identity")


@dataclass(frozen=True, eq=False)
class PumpOutput:
    """What the pump hands on: positions of the nodes and the two losses on them.

    Example:
        >>> output = PumpOutput(torch.zeros(3, 2), torch.tensor(-0.5), torch.tensor(0.2))
        >>> round(output.loss.item(), 4)
        -0.3
    """

    u: Tensor
    trace_ratio: Tensor
    orthogonality: Tensor

    @property
    def loss(self) -> Tensor:
        """Trace ratio plus orthogonality."""
        return self.trace_ratio + self.orthogonality


def pump(adjacency: SparseOperator | None, weight: Tensor, bias: Tensor) -> Tensor:
    r"""Positions of the nodes, :math:`U = \tanh(A W^\top + b)` (paper, Eq. 2).

    Args:
        adjacency: A as given; ``None`` stands for the identity, the f(I) ablation of App. A.
        weight: One row per column of U.
        bias: One entry per column of U.

    Shapes:
        adjacency ``[n, n]``, weight ``[p, n]``, bias ``[p]``, result ``[n, p]``.

    Example:
        >>> pump(None, torch.eye(2), torch.zeros(2))  # f(I) with W = I
        tensor([[0.7616, 0.0000],
                [0.0000, 0.7616]])
    """
    projected = weight.t() if adjacency is None else adjacency @ weight.t().contiguous()
    return torch.tanh(projected + bias)


def trace_ratio_loss(u: Tensor, adjacency: SparseOperator, degree: Tensor) -> Tensor:
    r"""Trace ratio of the Dirichlet problem (paper, Eq. 3), in O(\|E\| p).

    .. math::
        -\frac{\mathrm{Tr}(U^\top A U)}{\mathrm{Tr}(U^\top D U)}

    The form to be minimised, with :math:`\Delta = D - A` in place of :math:`-A`, differs by the
    constant 1. A graph without edges has no energy: the loss is 0.

    Args:
        u: Positions U.
        adjacency: A as given.
        degree: Row sums of A, the diagonal of D.

    Shapes:
        u ``[n, p]``, adjacency ``[n, n]``, degree ``[n]``, result scalar.

    Example:
        >>> import scipy.sparse as sp
        >>> edge = SparseOperator.from_scipy(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
        >>> trace_ratio_loss(torch.ones(2, 1), edge, torch.ones(2)).item()  # equal at both ends
        -1.0
    """
    energy = (degree * u.square().sum(dim=1)).sum()
    affinity = (u * (adjacency @ u)).sum()
    return ratio_of(energy, affinity)


def ratio_of(energy: Tensor, affinity: Tensor) -> Tensor:
    """The trace ratio from its two traces, Tr(U' D U) and Tr(U' A U)."""
    return -affinity / torch.where(energy > 0, energy, torch.ones_like(energy))


def orthogonality_loss(u: Tensor) -> Tensor:
    r"""How far the columns of U are from orthogonal,
    :math:`\| U^\top U / \|U^\top U\|_F - I \|_F`, in O(n p^2).

    Shapes:
        u ``[n, p]``, result scalar.

    Example:
        >>> orthogonality_loss(torch.eye(4)[:, :1]).item()
        0.0
    """
    return gram_orthogonality(u.t() @ u)


def gram_orthogonality(gram: Tensor) -> Tensor:
    r"""The same from the Gram matrix :math:`U^\top U`.

    Shapes:
        gram ``[p, p]``, result scalar.
    """
    size = torch.linalg.matrix_norm(gram).clamp_min(torch.finfo(gram.dtype).tiny)
    identity = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    off: Tensor = torch.linalg.matrix_norm(gram / size - identity)
    return off


class DiffusionPump(nn.Module):
    r"""The learnable pump, :func:`pump` with its weights and losses.

    Args:
        num_nodes: Number of nodes n, the width of a row of A.
        num_centers: Number of columns p of U.
        source: ``"adjacency"`` for f(A), ``"identity"`` for the f(I) ablation.

    Shapes:
        Input: the adjacency ``[n, n]`` and its row sums ``[n]``. Output: :class:`PumpOutput`.

    Example:
        >>> import scipy.sparse as sp
        >>> ring = SparseOperator.from_scipy(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
        >>> output = DiffusionPump(2, num_centers=1)(ring, torch.ones(2))
        >>> output.u.shape
        torch.Size([2, 1])
    """

    def __init__(self, num_nodes: int, num_centers: int, source: str = "adjacency") -> None:
        super().__init__()
        if source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)} (got '{source}')")
        self.source = source
        self.weight = nn.Parameter(torch.empty(num_centers, num_nodes))
        self.bias = nn.Parameter(torch.empty(num_centers))
        self.reset_parameters()

    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Uniform in +-1/sqrt(n), as a linear layer over rows of A."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, adjacency: SparseOperator, degree: Tensor) -> PumpOutput:
        """Positions and losses."""
        u = pump(adjacency if self.source == "adjacency" else None, self.weight, self.bias)
        return self.losses(u, adjacency, degree)

    def losses(self, u: Tensor, adjacency: SparseOperator, degree: Tensor) -> PumpOutput:
        """Both losses of some positions of all nodes."""
        return PumpOutput(
            u=u,
            trace_ratio=trace_ratio_loss(u, adjacency, degree),
            orthogonality=orthogonality_loss(u),
        )

    def __repr__(self) -> str:
        centers, nodes = self.weight.shape
        return f"{type(self).__name__}({nodes}, {centers}, source={self.source!r})"
