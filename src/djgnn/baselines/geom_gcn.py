"""Geom-GCN (Pei et al., 2020), with latent spaces computed here: Isomap, spectral, Poincare."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from djgnn.baselines.base import Baseline, Linear, Matrix, Options
from djgnn.baselines.matrices import operator, symmetric_scale, without_loops
from djgnn.checking import Count, Rate

RELATIONS = 9
LANDMARKS = 1000
STEPS, NEGATIVES, RATE = 200, 10, 0.3
Embedding = Literal["isomap", "spectral", "poincare"]
Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True)
class GeomGCNOptions(Options):
    """Options of a Geom-GCN."""

    hidden_channels: Count = 32  #: Width of each relation in the hidden layer.
    embedding: Embedding = "isomap"  #: The latent space.
    dropout: Rate = 0.5  #: Before both layers.


class GeomGCN(Baseline):
    r"""Neighbours in the graph and in a latent space, sorted by where they lie,

    .. math::
        H' = \mathrm{ReLU}\bigl(\Vert_{r} D^{-1/2} A_r D^{-1/2} H W_r\bigr), \quad
        Y = \tfrac19 \sum_r D^{-1/2} A_r D^{-1/2} H' W'_r,

    over nine relations r: the four quadrants of the plane in which a neighbour of the graph lies,
    the same four for neighbours of the latent space, and the node itself. D counts all of them.

    Hongbin Pei, Bingzhe Wei, Kevin Chen-Chuan Chang, Yu Lei, Bo Yang: Geom-GCN: Geometric Graph
    Convolutional Networks. ICLR 2020.
    """

    options: GeomGCNOptions

    def _make_layers(self, in_channels: int, out_channels: int) -> None:
        wide = RELATIONS * self.options.hidden_channels
        self.first = Linear(in_channels, wide, bias=False, blocks=RELATIONS)
        self.second = Linear(wide, RELATIONS * out_channels, bias=False, blocks=RELATIONS)

    def prepare(self, adjacency: sp.csr_array, like: Matrix) -> tuple[Matrix, ...]:
        """The nine normalised relations."""
        points = embed(adjacency, self.options.embedding)
        return tuple(operator(r, like) for r in relations(adjacency, points))

    def forward(self, x: Matrix, edge_index: Tensor, generator: Generator | None = None) -> Tensor:
        """Logits."""
        p, parts = self.options.dropout, self.constants(x, edge_index)
        h = self.first(x, p, generator).chunk(RELATIONS, dim=1)
        hidden = torch.cat([r @ block for r, block in zip(parts, h, strict=True)], dim=1).relu()
        h = self.second(hidden, p, generator).chunk(RELATIONS, dim=1)
        return torch.stack([r @ block for r, block in zip(parts, h, strict=True)]).mean(dim=0)


def relations(adjacency: sp.csr_array, points: Points) -> list[sp.csr_array]:
    """The nine relations, normalised by the degrees of all together.

    Args:
        adjacency: Row i marks the neighbours that node i receives from.
        points: Where the nodes lie.

    Shapes:
        adjacency ``[n, n]``, points ``[n, 2]``.
    """
    n = adjacency.shape[0]
    made = []
    for near in (without_loops(adjacency), latent_neighbours(points, adjacency.nnz / max(n, 1))):
        row, column = sp.coo_array(near).coords
        right, up = (points[column] > points[row]).T
        for quadrant in range(4):
            chosen = right + 2 * up == quadrant
            ends = (row[chosen], column[chosen])
            made.append(sp.csr_array((np.ones(ends[0].size), ends), shape=(n, n)))
    made.append(sp.csr_array(sp.eye_array(n)))
    degree = sum(np.asarray(r.sum(axis=1)).reshape(-1) for r in made)
    root = sp.diags_array(1 / np.sqrt(degree))
    return [sp.csr_array(root @ r @ root) for r in made]


def latent_neighbours(points: Points, mean_degree: float) -> sp.csr_array:
    """Nodes within one radius of each other, as many on average as the graph's neighbours.

    A node gets at most four times the mean and one, so that many nodes at one place stay cheap.

    Shapes:
        points ``[n, 2]``, result ``[n, n]``.
    """
    from scipy.spatial import cKDTree

    n = len(points)
    most = min(n - 1, max(1, math.ceil(4 * mean_degree)))
    if most < 1:
        return sp.csr_array((n, n))
    distance, index = cKDTree(points).query(points, k=most + 1)
    row = np.repeat(np.arange(n), most + 1)
    other, far = index.reshape(-1), distance.reshape(-1)
    apart = row != other
    row, other, far = row[apart], other[apart], far[apart]
    wanted = min(max(round(n * mean_degree), 1), far.size)
    kept = far <= np.partition(far, wanted - 1)[wanted - 1]
    return sp.csr_array((np.ones(kept.sum()), (row[kept], other[kept])), shape=(n, n))


def embed(adjacency: sp.csr_array, method: Embedding) -> Points:
    """A point of the plane for each node, from the undirected graph alone.

    Args:
        adjacency: Any adjacency; directions and loops are ignored.
        method: How the plane is computed.

    Shapes:
        adjacency ``[n, n]``, result ``[n, 2]``.
    """
    whole = without_loops(sp.csr_array(adjacency.maximum(adjacency.T)))
    return {"isomap": isomap, "spectral": spectral, "poincare": poincare}[method](whole)


def isomap(adjacency: sp.csr_array, landmarks: int = LANDMARKS) -> Points:
    """Classical scaling of the shortest paths; beyond `landmarks` nodes, from some of them.

    Pairs without a path get one step more than the longest path.

    Joshua B. Tenenbaum, Vin de Silva, John C. Langford: A Global Geometric Framework for Nonlinear
    Dimensionality Reduction. Science 290, 2000. Landmarks: Vin de Silva, Joshua B. Tenenbaum:
    Sparse multidimensional scaling using landmark points. 2004.

    Example:
        >>> path = sp.csr_array(np.eye(3, k=1) + np.eye(3, k=-1))
        >>> np.abs(isomap(path)[:, 0]).round(6).tolist()
        [1.0, 0.0, 1.0]
    """
    from scipy.sparse.csgraph import shortest_path

    n = adjacency.shape[0]
    chosen = np.unique(np.linspace(0, n - 1, min(n, landmarks)).astype(int))
    distance = shortest_path(adjacency, unweighted=True, indices=chosen)
    finite = np.isfinite(distance)
    distance[~finite] = distance[finite].max() + 1
    squared = distance**2
    own = squared[:, chosen]
    mean = own.mean(axis=1)
    centred = -0.5 * (own - mean[:, None] - mean[None, :] + own.mean())
    values, vectors = np.linalg.eigh(centred)
    count = min(2, chosen.size)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    scale = 1 / np.sqrt(np.maximum(values, 1e-12))
    return _plane(-0.5 * (squared - mean[:, None]).T @ (vectors * scale))


def spectral(adjacency: sp.csr_array) -> Points:
    """The two slowest non-constant modes of the normalised Laplacian."""
    from scipy.sparse.linalg import eigsh

    n = adjacency.shape[0]
    p = symmetric_scale(adjacency) + 1e-9 * sp.eye_array(n)
    if n <= 500:
        vectors = np.linalg.eigh(p.toarray())[1][:, ::-1]
    else:
        start = np.random.default_rng(0).standard_normal(n)
        vectors = eigsh(p, k=3, which="LA", v0=start, tol=1e-6)[1][:, ::-1]
    return _plane(vectors[:, 1:3])


def poincare(adjacency: sp.csr_array) -> Points:
    r"""Points of the hyperbolic disc, linked nodes nearer than random ones.

    Riemannian gradient descent on the softmax of :math:`-d(u, v)` of each link against random
    pairs. Maximilian Nickel, Douwe Kiela: Poincare Embeddings for Learning Hierarchical
    Representations. NeurIPS 2017.
    """
    source = Generator().manual_seed(0)
    row, column = (torch.from_numpy(np.array(part)).long() for part in adjacency.nonzero())
    n = adjacency.shape[0]
    points = torch.empty(n, 2, dtype=torch.float64).uniform_(-1e-3, 1e-3, generator=source)
    share = 1 / torch.bincount(row, minlength=n).clamp_min(1)[row].double()
    for _ in range(STEPS if row.numel() else 0):
        points.requires_grad_(True)
        other = torch.randint(n, (row.numel(), NEGATIVES), generator=source)
        near = _hyperbolic(points[row], points[column])
        far = _hyperbolic(points[row][:, None], points[other])
        logits = -torch.cat([near[:, None], far], dim=1)
        loss = (share * (logits.logsumexp(dim=1) - logits[:, 0])).sum()
        (grad,) = torch.autograd.grad(loss, points)
        points = points.detach()
        curvature = (1 - points.square().sum(dim=1, keepdim=True)).square() / 4
        points = points - RATE * curvature * grad
        norm = points.norm(dim=1, keepdim=True)
        points = torch.where(norm > 1 - 1e-5, points / norm * (1 - 1e-5), points)
    return np.asarray(points)


def _hyperbolic(u: Tensor, v: Tensor) -> Tensor:
    apart = (u - v).square().sum(dim=-1)
    rim = (1 - u.square().sum(dim=-1)) * (1 - v.square().sum(dim=-1))
    return torch.acosh(1 + 2 * apart / rim + 1e-9)


def _plane(columns: Any) -> Points:
    """Two columns, each with its entry of largest size positive."""
    full = np.zeros((columns.shape[0], 2))
    full[:, : columns.shape[1]] = columns
    largest = full[np.abs(full).argmax(axis=0), [0, 1]]
    return full * np.where(largest < 0, -1.0, 1.0)
