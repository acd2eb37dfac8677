"""Label propagation of Theorem 2: in closed form, and as the iteration that converges to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from djgnn.errors import InputError
from djgnn.spectral.heterophily import known_labels
from djgnn.spectral.laplacians import (
    as_adjacency,
    degrees,
    is_undirected,
    normalized_adjacency,
    transition_matrix,
)
from djgnn.spectral.linear import SolveMethod, can_reach, solve_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from djgnn.spectral.laplacians import Adjacency

Operator = Literal["random_walk", "symmetric"]


@dataclass(frozen=True, eq=False)
class PropagatedLabels:
    """The result of label propagation.

    Attributes:
        scores: ``[n, c]``: the matrix F; a row of zeros where no label arrives.
        prediction: ``[n]``: the class with the largest score; -1 where no label arrives.
        reached: ``[n]``, bool: some label arrives.
    """

    scores: NDArray[np.float64]
    prediction: NDArray[np.int64]
    reached: NDArray[np.bool_]


def propagate_labels(
    graph: Adjacency,
    y: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    mu: float | None = None,
    operator: Operator = "random_walk",
    num_iterations: int | None = None,
    method: SolveMethod = "auto",
) -> PropagatedLabels:
    r"""Spread the known labels over the edges (Theorem 2).

    .. math::
        F = (1 - \alpha) (I - \alpha M)^{-1} Y, \qquad
        F(t+1) = \alpha M F(t) + (1 - \alpha) Y, \quad F(0) = Y

    With :math:`\alpha = 1 / (1 + \mu)` the closed form is the minimum of, for an undirected graph,

    - ``symmetric``, :math:`M = D^{-1/2} A D^{-1/2}` (Zhou et al.):
      :math:`\mathrm{Tr}(F^T \tilde\Delta F) + \mu \|F - Y\|^2`;
    - ``random_walk``, :math:`M = P` (the paper):
      :math:`\mathrm{Tr}(F^T \Delta F) + \mu \|D^{1/2} (F - Y)\|^2`.

    The paper pairs :math:`M = P` with the unweighted :math:`\mu \|F - Y\|^2`; that holds for equal
    degrees only. After t steps :math:`F(t) = (\alpha M)^t Y + (1-\alpha) \sum_{i<t} (\alpha M)^i Y`
    (the paper has the power t-1 in the first term).

    Args:
        graph: The graph; weights count.
        y: Class of each node, negative = unknown; the labels of the graph if left out.
        alpha: How much comes from the neighbours, in (0, 1). Give `alpha` or `mu`; 0.9 if neither.
        mu: How much a deviation from the known labels costs, positive.
        operator: The matrix M.
        num_iterations: Run this many steps instead of the closed form.
        method: Solver of the closed form, as in :func:`~djgnn.spectral.linear.solve_sparse`.

    Shapes:
        y ``[n]``; scores ``[n, c]``, c one more than the largest class.

    Returns:
        Scores and predictions; rows of unlabelled nodes sum to less than 1, they are not
        probabilities.

    Raises:
        InputError: If alpha or mu is out of range, both are given, or no node is labelled.

    Example:
        >>> path = np.diag([1.0, 1.0, 1.0], 1)
        >>> propagate_labels(path + path.T, [0, -1, -1, 1], mu=0.25).prediction.tolist()
        [0, 0, 1, 1]

    Reference:
        Zhou et al., Learning with local and global consistency, NeurIPS 2003.
    """
    share = _check_alpha(alpha, mu)
    matrix = as_adjacency(graph)
    label = known_labels(graph, y)
    labelled = np.flatnonzero(label >= 0).astype(np.int64)
    if labelled.size == 0:
        raise InputError("y: at least one node must have a known class (got none)")
    one_hot = np.zeros((label.size, int(label.max()) + 1))
    one_hot[labelled, label[labelled]] = 1.0
    step = propagation_matrix(matrix, operator)
    if num_iterations is None:
        scale = np.ones(label.size)
        if operator == "random_walk":
            # Rows times their degree make I - alpha P symmetric on an undirected graph.
            degree = degrees(matrix)
            scale = np.where(degree > 0, degree, 1.0)
        system = sp.csr_array(sp.diags_array(scale) @ (sp.eye_array(label.size) - share * step))
        right = (1 - share) * scale[:, None] * one_hot
        scores = solve_sparse(system, right, method=method, symmetric=is_undirected(matrix))
    else:
        scores = _iterate(step, one_hot, share, num_iterations)
    reached = can_reach(step, labelled)
    scores[~reached] = 0.0
    prediction = np.where(reached, scores.argmax(axis=1), -1).astype(np.int64)
    return PropagatedLabels(scores, prediction, reached)


def propagation_matrix(graph: Adjacency, operator: Operator) -> sp.csr_array:
    """The matrix M of :func:`propagate_labels`.

    Raises:
        InputError: If `operator` is unknown.

    Example:
        >>> propagation_matrix([[0, 4], [4, 0]], "symmetric").toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    if operator == "random_walk":
        return transition_matrix(graph)
    if operator == "symmetric":
        return normalized_adjacency(graph)
    raise InputError(f"operator: choose 'random_walk' or 'symmetric' (got {operator!r})")


def _iterate(
    step: sp.csr_array, one_hot: NDArray[np.float64], alpha: float, num_iterations: int
) -> NDArray[np.float64]:
    if num_iterations < 0:
        raise InputError(f"num_iterations: cannot be negative (got {num_iterations})")
    scores, source = one_hot.copy(), (1 - alpha) * one_hot
    for _ in range(num_iterations):
        scores = alpha * (step @ scores) + source
    return np.asarray(scores)


def _check_alpha(alpha: float | None, mu: float | None) -> float:
    if alpha is not None and mu is not None:
        raise InputError(
            f"alpha, mu: give one of them, alpha = 1/(1+mu) (got alpha={alpha}, mu={mu})"
        )
    if mu is not None:
        if not mu > 0:
            raise InputError(f"mu: must be positive (got {mu})")
        return 1.0 / (1.0 + mu)
    share = 0.9 if alpha is None else alpha
    if not 0 < share < 1:
        raise InputError(f"alpha: must lie strictly between 0 and 1 (got {share})")
    return float(share)
