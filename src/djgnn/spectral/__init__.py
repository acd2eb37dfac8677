"""Exact theory on a graph, no learning; also the oracle of the learned parts."""

from djgnn.spectral.commute import (
    commute_time_embedding,
    commute_times,
    embedding_distances,
    escape_probabilities,
    nearest_nodes,
)
from djgnn.spectral.diffusion import (
    diffusion_distances,
    diffusion_embedding,
    summed_diffusion,
    walk_spectrum,
)
from djgnn.spectral.eigen import EigenPairs, fiedler_pair, smallest_eigenpairs
from djgnn.spectral.heterophily import homophily
from djgnn.spectral.labelings import (
    AbsorbingWalk,
    HarmonicExtension,
    PropagatedLabels,
    RandomWalker,
    absorbing_walk,
    harmonic_extension,
    propagate_labels,
    random_walker,
)
from djgnn.spectral.laplacians import (
    column_energies,
    components,
    degrees,
    dirichlet_energy,
    is_undirected,
    laplacian_matrix,
    largest_component,
    normalized_adjacency,
    rayleigh_quotients,
    symmetrize,
    transition_matrix,
)
from djgnn.spectral.metastability import (
    EscapeTime,
    escape_time,
    set_escape_probability,
    spectral_gap,
)
from djgnn.spectral.structural import StructuralHeterophily, structural_heterophily
from djgnn.spectral.trace_ratio import (
    FiedlerEnvironment,
    TraceRatioBounds,
    TraceRatioSolution,
    fiedler_environment,
    minimize_trace_ratio,
    trace_ratio,
    trace_ratio_bounds,
)

__all__ = [
    "AbsorbingWalk",
    "EigenPairs",
    "EscapeTime",
    "FiedlerEnvironment",
    "HarmonicExtension",
    "PropagatedLabels",
    "RandomWalker",
    "StructuralHeterophily",
    "TraceRatioBounds",
    "TraceRatioSolution",
    "absorbing_walk",
    "column_energies",
    "commute_time_embedding",
    "commute_times",
    "components",
    "degrees",
    "diffusion_distances",
    "diffusion_embedding",
    "dirichlet_energy",
    "embedding_distances",
    "escape_probabilities",
    "escape_time",
    "fiedler_environment",
    "fiedler_pair",
    "harmonic_extension",
    "homophily",
    "is_undirected",
    "laplacian_matrix",
    "largest_component",
    "minimize_trace_ratio",
    "nearest_nodes",
    "normalized_adjacency",
    "propagate_labels",
    "random_walker",
    "rayleigh_quotients",
    "set_escape_probability",
    "smallest_eigenpairs",
    "spectral_gap",
    "structural_heterophily",
    "summed_diffusion",
    "symmetrize",
    "trace_ratio",
    "trace_ratio_bounds",
    "transition_matrix",
    "walk_spectrum",
]
