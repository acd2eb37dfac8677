"""Sparse linear systems and reachability, shared by labelings, commute times and walks."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import cg, gmres, splu

from djgnn.errors import InputError, NotConvergedWarning
from djgnn.spectral.laplacians import Floats, Mask, Nodes

SolveMethod = Literal["auto", "direct", "cg"]
DIRECT_BELOW = 20_000
GMRES_RESTART = 50


def solve_sparse(
    matrix: sp.csr_array,
    rhs: Floats,
    *,
    method: SolveMethod = "auto",
    symmetric: bool,
    tol: float = 1e-12,
) -> Floats:
    r"""Solve :math:`M X = B` for a sparse, diagonally dominant :math:`M`.

    Args:
        matrix: Square, with a positive diagonal.
        rhs: One or more right-hand sides.
        method: ``direct`` factorises once (SuperLU) and serves all columns; ``cg`` runs conjugate
            gradients with a diagonal preconditioner, memory O(nnz), GMRES if not `symmetric`;
            ``auto`` is direct below 20,000 unknowns.
        symmetric: Whether ``matrix`` is symmetric positive definite.
        tol: Relative residual of the iterative methods.

    Shapes:
        matrix ``[m, m]``, rhs ``[m, c]``, out ``[m, c]``.

    Raises:
        InputError: If `method` is unknown.

    Example:
        >>> solve_sparse(sp.csr_array([[2.0, -1.0], [-1.0, 2.0]]), np.ones((2, 1)),
        ...              symmetric=True).round(12).tolist()
        [[1.0], [1.0]]
    """
    if method not in ("auto", "direct", "cg"):
        raise InputError(f"method: choose auto, direct or cg (got {method!r})")
    size = matrix.shape[0]
    if size == 0 or rhs.shape[1] == 0:
        return np.zeros(rhs.shape)
    if method == "direct" or (method == "auto" and size < DIRECT_BELOW):
        ordering = "MMD_AT_PLUS_A" if symmetric else "COLAMD"
        factor = splu(sp.csc_array(matrix), permc_spec=ordering)
        return np.asarray(factor.solve(np.ascontiguousarray(rhs)))
    limit = max(1000, 10 * int(np.sqrt(size)))
    options = {"rtol": tol, "maxiter": limit, "M": sp.diags_array(1.0 / matrix.diagonal())}
    if not symmetric:
        options |= {"restart": GMRES_RESTART, "maxiter": limit // GMRES_RESTART}
    found = [(cg if symmetric else gmres)(matrix, column, **options) for column in rhs.T]
    stalled = sum(info != 0 for _, info in found)
    if stalled:
        warnings.warn(
            f"linear solve: {stalled} of {rhs.shape[1]} right-hand sides did not reach a relative "
            f"residual of {tol:g} in {limit} steps; use method='direct' if memory allows",
            NotConvergedWarning,
            stacklevel=2,
        )
    return np.stack([solution for solution, _ in found], axis=1)


def can_reach(adjacency: sp.csr_array, targets: Nodes, *, stop: Mask | None = None) -> Mask:
    """The nodes from which a walk along the edges can reach one of `targets`; these included.

    Args:
        adjacency: Directed edges i -> j.
        targets: Where to.
        stop: Nodes that a walk does not leave.

    Example:
        >>> a = sp.csr_array([[0, 1, 0], [0, 0, 0], [0, 1, 0]])
        >>> can_reach(a, np.array([1])).tolist(), can_reach(a, np.array([0])).tolist()
        ([True, True, True], [True, False, False])
    """
    n = adjacency.shape[0]
    edges = adjacency.tocoo()
    keep = slice(None) if stop is None else ~stop[edges.row]
    source = np.concatenate([edges.col[keep], np.full(targets.size, n)])
    target = np.concatenate([edges.row[keep], targets])
    backwards = sp.csr_array((np.ones(source.size), (source, target)), shape=(n + 1, n + 1))
    order = breadth_first_order(backwards, n, directed=True, return_predecessors=False)
    return np.isin(np.arange(n), order)
