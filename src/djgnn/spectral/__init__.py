"""Exact theory on a graph, no learning; also the oracle of the learned parts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from djgnn.spectral.communities import EscapeTime as EscapeTime
    from djgnn.spectral.communities import StructuralHeterophily as StructuralHeterophily
    from djgnn.spectral.communities import escape_time as escape_time
    from djgnn.spectral.communities import set_escape_probability as set_escape_probability
    from djgnn.spectral.communities import spectral_gap as spectral_gap
    from djgnn.spectral.communities import structural_heterophily as structural_heterophily
    from djgnn.spectral.commute import commute_time_embedding as commute_time_embedding
    from djgnn.spectral.commute import commute_times as commute_times
    from djgnn.spectral.commute import embedding_distances as embedding_distances
    from djgnn.spectral.commute import escape_probabilities as escape_probabilities
    from djgnn.spectral.commute import nearest_nodes as nearest_nodes
    from djgnn.spectral.diffusion import diffusion_distances as diffusion_distances
    from djgnn.spectral.diffusion import diffusion_embedding as diffusion_embedding
    from djgnn.spectral.diffusion import summed_diffusion as summed_diffusion
    from djgnn.spectral.diffusion import walk_spectrum as walk_spectrum
    from djgnn.spectral.heterophily import homophily as homophily
    from djgnn.spectral.labelings import AbsorbingWalk as AbsorbingWalk
    from djgnn.spectral.labelings import PropagatedLabels as PropagatedLabels
    from djgnn.spectral.labelings import absorbing_walk as absorbing_walk
    from djgnn.spectral.labelings import harmonic_extension as harmonic_extension
    from djgnn.spectral.labelings import propagate_labels as propagate_labels
    from djgnn.spectral.labelings import random_walker as random_walker
    from djgnn.spectral.laplacians import components as components
    from djgnn.spectral.laplacians import degrees as degrees
    from djgnn.spectral.laplacians import dirichlet_energy as dirichlet_energy
    from djgnn.spectral.laplacians import is_undirected as is_undirected
    from djgnn.spectral.laplacians import laplacian_matrix as laplacian_matrix
    from djgnn.spectral.laplacians import largest_component as largest_component
    from djgnn.spectral.laplacians import normalized_adjacency as normalized_adjacency
    from djgnn.spectral.laplacians import rayleigh_quotients as rayleigh_quotients
    from djgnn.spectral.laplacians import symmetrize as symmetrize
    from djgnn.spectral.laplacians import transition_matrix as transition_matrix
    from djgnn.spectral.solvers import EigenPairs as EigenPairs
    from djgnn.spectral.solvers import fiedler_pair as fiedler_pair
    from djgnn.spectral.solvers import smallest_eigenpairs as smallest_eigenpairs
    from djgnn.spectral.trace_ratios import FiedlerEnvironment as FiedlerEnvironment
    from djgnn.spectral.trace_ratios import TraceRatioBounds as TraceRatioBounds
    from djgnn.spectral.trace_ratios import TraceRatioSolution as TraceRatioSolution
    from djgnn.spectral.trace_ratios import fiedler_environment as fiedler_environment
    from djgnn.spectral.trace_ratios import minimize_trace_ratio as minimize_trace_ratio
    from djgnn.spectral.trace_ratios import trace_ratio as trace_ratio
    from djgnn.spectral.trace_ratios import trace_ratio_bounds as trace_ratio_bounds

_NAMES = {
    "commute": (
        "commute_time_embedding commute_times embedding_distances escape_probabilities "
        "nearest_nodes"
    ),
    "diffusion": "diffusion_distances diffusion_embedding summed_diffusion walk_spectrum",
    "solvers": "EigenPairs fiedler_pair smallest_eigenpairs",
    "heterophily": "homophily",
    "labelings": (
        "AbsorbingWalk PropagatedLabels absorbing_walk harmonic_extension propagate_labels "
        "random_walker"
    ),
    "laplacians": (
        "components degrees dirichlet_energy is_undirected laplacian_matrix largest_component "
        "normalized_adjacency rayleigh_quotients symmetrize transition_matrix"
    ),
    "communities": (
        "EscapeTime StructuralHeterophily escape_time set_escape_probability spectral_gap "
        "structural_heterophily"
    ),
    "trace_ratios": (
        "FiedlerEnvironment TraceRatioBounds TraceRatioSolution fiedler_environment "
        "minimize_trace_ratio trace_ratio trace_ratio_bounds"
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that one does not import all."""
    if name in _HOME:
        return getattr(import_module(f"djgnn.spectral.{_HOME[name]}"), name)
    raise AttributeError(f"module 'djgnn.spectral' has no attribute '{name}'")
