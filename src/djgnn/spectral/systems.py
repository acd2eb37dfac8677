"""Linear systems of a graph: how they are solved, and what that may cost.

The one place that decides between a factorisation and an iteration. A matrix is factorised only in
an order in which its factors are known to be small; everything else is iterated, with a limit on
the multiplications. What was not solved to its tolerance is said in a warning.
"""

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import gmres, splu

from djgnn.errors import NotConvergedWarning
from djgnn.spectral.laplacians import Floats, Nodes

FACTOR_ENTRIES, FACTOR_WORK = 2**24, 5 * 10**9
"""Entries of a triangular factor (128 MiB), and multiplications of a factorisation."""
WORK = 5 * 10**9
"""Multiplications of an iteration, some five to ten seconds of one core."""
MOST_STEPS, LEAST_STEPS, GMRES_RESTART = 5000, 50, 50
BLOCK_ENTRIES = 2**22
"""Entries of a block of right-hand sides that are solved together (32 MiB)."""


def narrow_order(matrix: sp.csr_array, symmetric: bool = True) -> Nodes | None:
    """An order of the rows in which the factors of a matrix are small; ``None`` if none is found.

    Rows are ordered as a breadth-first search leaves them, component by component, and reversed
    (Cuthill and McKee). A factor without pivoting lies inside the envelope, from the first entry of
    each row to the diagonal, so that its size is known before any work is done: O(n + nnz) time.

    Args:
        matrix: Square.
        symmetric: Whether it has an entry wherever its transpose has one.

    Example:
        >>> path = sp.diags_array([np.ones(9), np.ones(9)], offsets=[-1, 1], shape=(10, 10))
        >>> narrow_order(sp.csr_array(path)).tolist() in (list(range(10)), list(range(9, -1, -1)))
        True
        >>> narrow_order(sp.csr_array(np.ones((4000, 4000)))) is None
        True
    """
    n, least = matrix.shape[0], matrix.nnz / 2
    if least > FACTOR_ENTRIES or least**2 > FACTOR_WORK * n:  # in any order
        return None
    entries = sp.csr_array(matrix if symmetric else matrix + matrix.T)
    degree = np.diff(entries.indptr)
    label = connected_components(entries, directed=False)[1]
    order, place = np.lexsort((degree, label)), np.empty(n, dtype=np.int64)
    for _ in range(2):  # the second time from the node that was reached last: it lies at an end
        first = order[np.unique(label[order], return_index=True)[1]]
        place[_searched(entries, first)] = np.arange(n)
        order = np.lexsort((-place, label))
    place[order] = np.arange(n)
    width, some = np.zeros(n, dtype=np.int64), np.flatnonzero(degree)
    if some.size:
        ends = np.minimum.reduceat(place[entries.indices], entries.indptr[some])
        width[some] = np.maximum(place[some] - ends, 0)
    work = float((width.astype(np.float64) ** 2).sum())
    return order if n + width.sum() <= FACTOR_ENTRIES and work <= FACTOR_WORK else None


def _searched(entries: sp.csr_array, first: Nodes) -> Nodes:
    """All nodes in the order of one search that begins at a node of every component."""
    n, more = entries.shape[0], first.size
    rows = np.append(entries.indptr, entries.nnz + more)
    columns = np.append(entries.indices, first)
    joined = sp.csr_array((np.ones(columns.size, np.int8), columns, rows), shape=(n + 1, n + 1))
    found = breadth_first_order(joined, n, directed=True, return_predecessors=False)
    return np.asarray(found[1:], dtype=np.int64)


def factorised(matrix: sp.csr_array, order: Nodes) -> Callable[[Floats], Floats]:
    """A factorisation of a matrix without pivoting, in an order of :func:`narrow_order`.

    Args:
        matrix: Diagonally dominant, or symmetric positive definite.
        order: Of its rows.

    Returns:
        What solves a system, of one or more right-hand sides.
    """
    options = {"SymmetricMode": True, "Equil": False}
    ordered = sp.csc_array(matrix[order][:, order])
    factor = splu(ordered, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)

    def solve(rhs: Floats) -> Floats:
        out = np.empty(rhs.shape)
        out[order] = factor.solve(np.ascontiguousarray(rhs[order], dtype=np.float64))
        return out

    return solve


def _products(a: Floats, b: Floats) -> Floats:
    """The inner product of each column of a with that of b."""
    return np.asarray(np.einsum("ij,ij->j", a, b))


class SparseSolver:
    r"""Solves :math:`M X = B` for a sparse, diagonally dominant :math:`M`, many times.

    Where :func:`narrow_order` finds an order, by one factorisation. Otherwise by conjugate
    gradients of all columns at once (GMRES if not symmetric) with a diagonal preconditioner, memory
    O(nnz + n c), at most `WORK` multiplications for a block of columns.

    Args:
        matrix: Square, with a positive diagonal.
        symmetric: Whether ``matrix`` is symmetric positive definite.
        tol: Relative residual of the iterative methods.

    Shapes:
        matrix ``[m, m]``; called with ``[m, c]`` it returns ``[m, c]``.

    Attributes:
        work: Multiplications so far, of the iterative methods.

    Example:
        >>> solver = SparseSolver(sp.csr_array([[2.0, -1.0], [-1.0, 2.0]]), symmetric=True)
        >>> solver(np.ones((2, 1))).round(12).tolist()
        [[1.0], [1.0]]
    """

    def __init__(self, matrix: sp.csr_array, *, symmetric: bool, tol: float = 1e-12) -> None:
        self.matrix, self.symmetric, self.tol, self.work = matrix, symmetric, tol, 0
        self.inverse = 1.0 / matrix.diagonal()
        order = narrow_order(matrix, symmetric) if matrix.shape[0] else None
        self.direct = None if order is None else factorised(matrix, order)

    def __call__(self, rhs: Floats) -> Floats:
        """Solve for some right-hand sides, in blocks."""
        size, columns = rhs.shape
        if size == 0 or columns == 0:
            return np.zeros(rhs.shape)
        out, block = np.empty(rhs.shape), max(1, BLOCK_ENTRIES // size)
        solve = self.direct or (self._gradients if self.symmetric else self._residuals)
        for begin in range(0, columns, block):
            out[:, begin : begin + block] = solve(rhs[:, begin : begin + block])
        return out

    def _steps(self, columns: int) -> int:
        """How many steps are within the limit."""
        each = columns * (self.matrix.nnz + 10 * self.matrix.shape[0])
        return int(np.clip(WORK // each, LEAST_STEPS, MOST_STEPS))

    def _gradients(self, rhs: Floats) -> Floats:
        """Conjugate gradients, each column with steps of its own."""
        out, r = np.zeros(rhs.shape), rhs.astype(np.float64)
        goal = self.tol * np.linalg.norm(rhs, axis=0)
        active = np.flatnonzero(np.linalg.norm(r, axis=0) > goal)
        r, inverse = r[:, active], self.inverse[:, None]
        x, z = np.zeros(r.shape), inverse * r
        p, square = z.copy(), _products(r, z)
        for _ in range(self._steps(rhs.shape[1])):
            if not active.size:
                break
            self.work += active.size * (self.matrix.nnz + 10 * rhs.shape[0])
            q = self.matrix @ p
            step = square / _products(p, q)
            x += np.multiply(p, step, out=z)
            r -= np.multiply(q, step, out=q)
            np.multiply(r, inverse, out=z)
            before, square = square, _products(r, z)
            p *= square / before
            p += z
            going = np.sqrt(_products(r, r)) > goal[active]
            if not going.all():
                out[:, active[~going]] = x[:, ~going]
                active, square = active[going], square[going]
                x, r, p, z = (table[:, going] for table in (x, r, p, z))
        out[:, active] = x
        self._warn(active.size, rhs.shape[1])
        return out

    def _residuals(self, rhs: Floats) -> Floats:
        """GMRES, column by column."""
        restarts = max(1, self._steps(rhs.shape[1]) // GMRES_RESTART)
        options = {"rtol": self.tol, "restart": GMRES_RESTART, "maxiter": restarts}
        inverse = sp.diags_array(self.inverse)
        found = [gmres(self.matrix, column, M=inverse, **options) for column in rhs.T]
        self._warn(sum(info != 0 for _, info in found), rhs.shape[1])
        return np.stack([solution for solution, _ in found], axis=1)

    def _warn(self, stalled: int, columns: int) -> None:
        if stalled:
            warnings.warn(
                f"linear solve: {stalled} of {columns} right-hand sides did not reach a relative "
                f"residual of {self.tol:g} in {self._steps(columns)} steps",
                NotConvergedWarning,
                stacklevel=3,
            )
