"""Hop rings and jump rings of a node, from the data of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from djgnn.report.arrays import unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOPS = 3
MOST = 40


@dataclass(frozen=True, eq=False)
class Ring:
    """The nodes of one ring."""

    name: str
    nodes: NDArray[np.int64]

    def drawn(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """At most forty of them, evenly chosen, those of like label side by side."""
        order = self.nodes[np.lexsort((self.nodes, labels[self.nodes]))]
        if order.size <= MOST:
            return order
        evenly: NDArray[np.int64] = order[(np.arange(MOST) * order.size) // MOST]
        return evenly


def neighbours(nodes: dict[str, Any]) -> sp.csr_array:
    """The edges that a page keeps, in either direction, as a matrix of ones."""
    n, edges = nodes["count"], nodes["edges"]
    degree, target = unpack(edges["degree"]), unpack(edges["target"])
    indptr = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    a = sp.csr_array((np.ones(target.size), target.astype(np.int64), indptr), shape=(n, n))
    return sp.csr_array(((a + a.T) != 0).astype(np.float64))


def hop_rings(nodes: dict[str, Any], node: int) -> list[Ring]:
    """Nodes one, two and three edges away."""
    a = neighbours(nodes)
    seen = np.zeros(nodes["count"], dtype=np.bool_)
    seen[node] = True
    rings, last = [], np.array([node])
    for h in range(1, HOPS + 1):
        near = np.unique(a[last].indices)
        last = near[~seen[near]].astype(np.int64)
        if not last.size:
            break
        seen[last] = True
        rings.append(Ring("1 hop" if h == 1 else f"{h} hops", last))
    return rings


def jump_rings(nodes: dict[str, Any], node: int) -> list[Ring]:
    """Nodes that each filter links a node to; the node must be one of those shown."""
    row = node
    if nodes["shown"] is not None:
        row = int(np.searchsorted(unpack(nodes["shown"]), node))
    ranks = unpack(nodes["ranks"])[row].astype(np.int64)
    kept = enumerate(nodes["branches"])
    return [Ring(f"J{k}", ranks[[r - 1 for r in branch]]) for k, branch in kept if branch]


def example_node(nodes: dict[str, Any]) -> int:
    """A node whose jumps agree with its label more than its neighbours do."""
    labels, a = unpack(nodes["labels"]).astype(np.int64) - 1, neighbours(nodes)
    shown = np.arange(nodes["count"]) if nodes["shown"] is None else unpack(nodes["shown"])
    ranks = unpack(nodes["ranks"]).astype(np.int64)
    best, merit = int(shown[0]), -np.inf
    for row, node in enumerate(shown[:3000]):
        near = a.indices[a.indptr[node] : a.indptr[node + 1]]
        far = ranks[row][ranks[row] != node]
        if labels[node] < 0 or near.size < 3 or not far.size:
            continue
        found = np.mean(labels[far] == labels[node]) - np.mean(labels[near] == labels[node])
        if found > merit:
            best, merit = int(node), float(found)
    return best
