"""Exact theory on a graph, no learning; also the oracle of the learned parts."""

from djgnn.spectral.eigen import EigenPairs, fiedler_pair, smallest_eigenpairs
from djgnn.spectral.heterophily import homophily
from djgnn.spectral.laplacians import (
    degrees,
    laplacian_matrix,
    largest_component,
    normalized_adjacency,
    symmetrize,
    transition_matrix,
)
from djgnn.spectral.structural import StructuralHeterophily, structural_heterophily

__all__ = [
    "EigenPairs",
    "StructuralHeterophily",
    "degrees",
    "fiedler_pair",
    "homophily",
    "laplacian_matrix",
    "largest_component",
    "normalized_adjacency",
    "smallest_eigenpairs",
    "structural_heterophily",
    "symmetrize",
    "transition_matrix",
]
