"""Pairs and nearest neighbours in an embedding, never an n x n matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from djgnn.errors import InputError
from djgnn.spectral.laplacians import check_nodes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

TREE_UP_TO = 8


def check_pairs(pairs: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    """Pairs of nodes as int64 ``[m, 2]``.

    Raises:
        InputError: If the shape is wrong or an id is not a node.

    Example:
        >>> check_pairs([[0, 1]], 2).tolist()
        [[0, 1]]
    """
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"pairs: must have shape [m, 2], one pair per row (got {array.shape})")
    return check_nodes(array, num_nodes, where="pairs")


def embedding_distances(embedding: NDArray[np.float64], pairs: ArrayLike) -> NDArray[np.float64]:
    r"""Euclidean distances :math:`\|Z_i - Z_j\|` of given pairs.

    Args:
        embedding: One row per node; a row of NaN marks a node without a place.
        pairs: Pairs of nodes.

    Shapes:
        embedding ``[n, q]``, pairs ``[m, 2]``, out ``[m]``.

    Returns:
        The distances, NaN where an end has no place.

    Raises:
        InputError: If the pairs are not pairs of nodes.

    Example:
        >>> embedding_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), [[0, 1]]).tolist()
        [5.0]
    """
    index = check_pairs(pairs, embedding.shape[0])
    out = np.empty(index.shape[0])
    block = max(1, 2**22 // max(1, embedding.shape[1]))
    for begin in range(0, index.shape[0], block):
        i, j = index[begin : begin + block].T
        out[begin : begin + block] = np.linalg.norm(embedding[i] - embedding[j], axis=1)
    return out


def nearest_nodes(
    embedding: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    r"""The k nearest other nodes of every node in an embedding.

    A k-d tree up to 8 columns, else brute force in blocks: memory O(n k) either way.

    Args:
        embedding: One row per node; a row of NaN marks a node without a place.
        k: How many.

    Shapes:
        embedding ``[n, q]``; indices ``[n, k]``, distances ``[n, k]``.

    Returns:
        ``(indices, distances)``, nearest first; -1 and NaN for nodes without a place.

    Raises:
        InputError: If there are not k others.

    Example:
        >>> indices, distances = nearest_nodes(np.array([[0.0], [1.0], [3.0]]), 1)
        >>> indices.ravel().tolist(), distances.ravel().tolist()
        ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    from scipy.spatial import cKDTree
    from sklearn.neighbors import NearestNeighbors

    n = embedding.shape[0]
    placed = np.flatnonzero(~np.isnan(embedding).any(axis=1))
    if not 1 <= k < placed.size:
        raise InputError(
            f"k: there are {placed.size - 1} other nodes with a place, ask for 1 to that (got {k})"
        )
    points = embedding[placed]
    if points.shape[1] <= TREE_UP_TO:
        found = _others(cKDTree(points).query(points, k + 1, workers=-1)[1])
    else:
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points)
        found = search.kneighbors(return_distance=False)
    indices = np.full((n, k), -1, dtype=np.int64)
    distances = np.full((n, k), np.nan)
    indices[placed] = placed[found]
    pairs = np.stack([np.repeat(placed, k), indices[placed].ravel()], axis=1)
    distances[placed] = embedding_distances(embedding, pairs).reshape(-1, k)
    return indices, distances


def _others(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take each node off its own list; among duplicates it can be missing, then the last goes."""
    own = found == np.arange(found.shape[0])[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(found.shape[0], -1), dtype=np.int64)
