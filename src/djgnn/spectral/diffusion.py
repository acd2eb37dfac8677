"""Diffusion distances: how far apart two random walks are after t steps."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import eigsh

from djgnn.errors import InputError
from djgnn.spectral.commute import check_pairs, pair_differences
from djgnn.spectral.laplacians import (
    Adjacency,
    Floats,
    degrees,
    normalized_adjacency,
    require_undirected,
    transition_matrix,
)

FULL_SPECTRUM_UP_TO = 5000


def walk_spectrum(graph: Adjacency, *, num: int | None = None) -> tuple[Floats, Floats]:
    r"""Eigenvalues of :math:`P` and its right eigenvectors, orthonormal in :math:`\pi`.

    .. math::
        P \psi_r = \gamma_r \psi_r, \qquad \sum_i \pi_i \psi_r(i) \psi_s(i) = \delta_{rs}, \qquad
        P^t_{ik} = \pi_k \sum_r \gamma_r^t \psi_r(i) \psi_r(k)

    with :math:`\pi = d / vol` and :math:`\psi_r = \sqrt{vol}\, D^{-1/2} \phi_r`.

    Args:
        graph: An undirected graph.
        num: Keep the pairs of largest :math:`|\gamma|`; all of them if left out.

    Shapes:
        values ``[q]``, vectors ``[n, q]``.

    Returns:
        Values in decreasing order of magnitude, and vectors; isolated nodes have rows of NaN.

    Raises:
        InputError: If the graph is directed or empty of edges, or all pairs are asked of a large
            graph.

    Example:
        >>> values, vectors = walk_spectrum([[0, 1], [1, 0]])
        >>> sorted(values.round(12).tolist())
        [-1.0, 1.0]
    """
    matrix = require_undirected(graph, where="diffusion distance")
    degree = degrees(matrix)
    n = degree.size
    if not degree.any():
        raise InputError("diffusion distance: the graph has no edge, so no walk (got 0 edges)")
    if num is None and n > FULL_SPECTRUM_UP_TO:
        raise InputError(
            f"num: the whole spectrum of more than {FULL_SPECTRUM_UP_TO} nodes is too large; set "
            f"how many eigenpairs to keep (got None for {n} nodes)"
        )
    operator = normalized_adjacency(matrix)
    if num is None or num >= n - 1 or n <= 500:
        values, vectors = np.linalg.eigh(operator.toarray())
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = eigsh(operator, k=num, which="LM", v0=start)
    order = np.argsort(-np.abs(values), kind="stable")[:num]
    scale = np.sqrt(degree.sum()) / np.sqrt(np.where(degree > 0, degree, np.nan))
    return values[order], vectors[:, order] * scale[:, None]


def diffusion_embedding(graph: Adjacency, time: float, *, num: int | None = None) -> Floats:
    r"""The diffusion map: rows whose Euclidean distances are diffusion distances.

    .. math:: Z_{ir} = |\gamma_r|^t\, \psi_r(i), \qquad \|Z_i - Z_j\| = D_t(i, j)

    Args:
        graph: An undirected graph.
        time: Number of steps t, 0 or more.
        num: Keep this many leading pairs; with all of them the distances are exact.

    Shapes:
        out ``[n, q]``.

    Returns:
        The embedding; rows of NaN for isolated nodes.

    Raises:
        InputError: As :func:`walk_spectrum`, or for a negative time.

    Example:
        >>> z = diffusion_embedding([[0, 1, 1], [1, 0, 1], [1, 1, 0]], 1)
        >>> round(float(np.linalg.norm(z[0] - z[1])), 6)
        1.224745

    Reference:
        Coifman and Lafon, Diffusion maps, 2006.
    """
    if not time >= 0:
        raise InputError(f"time: cannot be negative (got {time})")
    values, vectors = walk_spectrum(graph, num=num)
    return vectors * np.abs(values) ** time


def diffusion_distances(graph: Adjacency, pairs: ArrayLike, time: int) -> Floats:
    r"""The diffusion distance of given pairs after t steps (Appendix A).

    .. math::
        D_t^2(i, j) = \sum_k \frac{(P^t_{ik} - P^t_{jk})^2}{\pi_k}
                    = \sum_r \gamma_r^{2t} (\psi_r(i) - \psi_r(j))^2

    by walking t steps from `pairs`. For many take the distances in :func:`diffusion_embedding`.

    Args:
        graph: An undirected graph, connected or not.
        pairs: Pairs of nodes.
        time: Number of steps t.

    Shapes:
        pairs ``[m, 2]``, out ``[m]``.

    Returns:
        The distances (not squared); NaN where an end is isolated and no walk starts.

    Raises:
        InputError: If the graph is directed, or `time` or `pairs` are not usable.

    Example:
        >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> diffusion_distances(triangle, [[0, 1], [1, 1]], 1).round(6).tolist()
        [1.224745, 0.0]
    """
    if time < 0 or int(time) != time:
        raise InputError(f"time: a walk takes a whole number of steps (got {time})")
    matrix = require_undirected(graph, where="diffusion distance")
    index = check_pairs(pairs, matrix.shape[0])
    degree = degrees(matrix)
    weight = degree.sum() / np.where(degree > 0, degree, np.inf)
    backwards = transition_matrix(matrix).T.tocsr()
    out = np.empty(index.shape[0])
    block = max(1, 2**23 // max(1, degree.size))
    for begin in range(0, index.shape[0], block):
        chunk = index[begin : begin + block]
        # The walk is linear: one start vector e_i - e_j per pair serves both ends.
        state = pair_differences(chunk, degree.size)
        for _ in range(int(time)):
            state = backwards @ state
        out[begin : begin + block] = np.sqrt(weight @ state**2)
    out[(degree[index] == 0).any(axis=1)] = np.nan
    return out


def summed_diffusion(
    graph: Adjacency, pairs: ArrayLike, *, over: Literal["steps", "half_steps"] = "steps"
) -> Floats:
    r"""Squared diffusion distances summed over all times, in closed form.

    .. math::
        \sum_{t=0}^\infty D_t^2 = \sum_{r \ge 2} \frac{(\psi_r(i) - \psi_r(j))^2}{1 - \gamma_r^2},
        \qquad
        \sum_{t=0}^\infty D_{t/2}^2 = \sum_{r \ge 2} \frac{(\psi_r(i) - \psi_r(j))^2}{1 - \gamma_r}
        = CT(i, j)

    ``steps`` and ``half_steps`` in this order. On a bipartite graph the first diverges for nodes of
    different sides, and the partial sums of the second oscillate about the commute time.

    Args:
        graph: A connected undirected graph.
        pairs: Pairs of nodes.
        over: Which sum.

    Shapes:
        pairs ``[m, 2]``, out ``[m]``.

    Returns:
        The sums; infinite where they diverge.

    Raises:
        InputError: If the graph is directed or disconnected, or `over` is unknown.

    Example:
        >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        >>> [summed_diffusion(triangle, [[0, 1]], over=o).round(6).tolist()
        ...  for o in ("steps", "half_steps")]
        [[8.0], [4.0]]

    Reference:
        Qiu and Hancock, Clustering and embedding using commute times, PAMI 2007.
    """
    if over not in ("steps", "half_steps"):
        raise InputError(f"over: choose steps or half_steps (got {over!r})")
    values, vectors = walk_spectrum(graph)
    index = check_pairs(pairs, vectors.shape[0])
    count = int((values > 1 - 1e-10).sum())
    if count != 1 or np.isnan(vectors).any():
        raise InputError(
            "summed diffusion: the sum diverges on a disconnected graph; take "
            f"`largest_component` first (got {count} components)"
        )
    moving = values <= 1 - 1e-10
    gamma = values[moving]
    rate = 1 - gamma**2 if over == "steps" else 1 - gamma
    terms = (vectors[index[:, 0]] - vectors[index[:, 1]])[:, moving] ** 2
    finite = (terms / np.where(rate > 1e-10, rate, np.inf)).sum(axis=1)
    diverges = (terms[:, rate <= 1e-10] > 1e-12).any(axis=1)
    return np.where(diverges, np.inf, finite)
