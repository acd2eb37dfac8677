"""Sparse linear systems, shared by labelings and commute times."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import cg, gmres, splu

from djgnn.errors import NotConvergedWarning
from djgnn.spectral.laplacians import Floats

DIRECT_BELOW = 20_000
GMRES_RESTART = 50


def solve_sparse(
    matrix: sp.csr_array, rhs: Floats, *, symmetric: bool, tol: float = 1e-12
) -> Floats:
    r"""Solve :math:`M X = B` for a sparse, diagonally dominant :math:`M`.

    Below 20,000 unknowns by one sparse factorisation for all columns; above by conjugate gradients
    (GMRES if not symmetric) with a diagonal preconditioner, memory O(nnz).

    Args:
        matrix: Square, with a positive diagonal.
        rhs: One or more right-hand sides.
        symmetric: Whether ``matrix`` is symmetric positive definite.
        tol: Relative residual of the iterative methods.

    Shapes:
        matrix ``[m, m]``, rhs ``[m, c]``, out ``[m, c]``.

    Example:
        >>> solve_sparse(sp.csr_array([[2.0, -1.0], [-1.0, 2.0]]), np.ones((2, 1)),
        ...              symmetric=True).round(12).tolist()
        [[1.0], [1.0]]
    """
    size = matrix.shape[0]
    if size == 0 or rhs.shape[1] == 0:
        return np.zeros(rhs.shape)
    if size < DIRECT_BELOW:
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
            f"residual of {tol:g} in {limit} steps",
            NotConvergedWarning,
            stacklevel=2,
        )
    return np.stack([solution for solution, _ in found], axis=1)
