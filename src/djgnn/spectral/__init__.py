"""Exact theory on a graph, no learning; also the oracle of the learned parts."""

from djgnn.spectral.absorbing import (
    AbsorbingWalk,
    RandomWalker,
    absorbing_walk,
    random_walker,
)
from djgnn.spectral.commute import (
    commute_time_embedding,
    commute_times,
)
from djgnn.spectral.diffusion import (
    diffusion_distances,
    diffusion_embedding,
    summed_diffusion,
    walk_spectrum,
)
from djgnn.spectral.dirichlet import (
    HarmonicExtension,
    harmonic_extension,
)
from djgnn.spectral.eigen import (
    fiedler_pair,
    smallest_eigenpairs,
)
from djgnn.spectral.eigensolvers import (
    EigenPairs,
)
from djgnn.spectral.energy import (
    column_energies,
    dirichlet_energy,
    rayleigh_quotients,
)
from djgnn.spectral.escape import (
    escape_probabilities,
    set_escape_probability,
)
from djgnn.spectral.fiedler_environment import (
    FiedlerEnvironment,
    fiedler_environment,
)
from djgnn.spectral.heterophily import (
    homophily,
)
from djgnn.spectral.label_propagation import (
    PropagatedLabels,
    propagate_labels,
)
from djgnn.spectral.langevin import (
    diffusion_map,
    double_well,
    fokker_planck_eigenpairs,
    mean_passage_time,
    simulate_langevin,
)
from djgnn.spectral.laplacians import (
    components,
    degrees,
    is_undirected,
    laplacian_matrix,
    largest_component,
    normalized_adjacency,
    symmetrize,
    transition_matrix,
)
from djgnn.spectral.metastability import (
    EscapeTime,
    escape_time,
    simulate_escape_times,
    spectral_gap,
)
from djgnn.spectral.neighbours import (
    embedding_distances,
    nearest_nodes,
)
from djgnn.spectral.structural import (
    StructuralHeterophily,
    structural_heterophily,
)
from djgnn.spectral.trace_ratio import (
    TraceRatioBounds,
    TraceRatioSolution,
    minimize_trace_ratio,
    trace_ratio,
    trace_ratio_bounds,
)
from djgnn.spectral.walks import (
    walk_until,
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
    "diffusion_map",
    "dirichlet_energy",
    "double_well",
    "embedding_distances",
    "escape_probabilities",
    "escape_time",
    "fiedler_environment",
    "fiedler_pair",
    "fokker_planck_eigenpairs",
    "harmonic_extension",
    "homophily",
    "is_undirected",
    "laplacian_matrix",
    "largest_component",
    "mean_passage_time",
    "minimize_trace_ratio",
    "nearest_nodes",
    "normalized_adjacency",
    "propagate_labels",
    "random_walker",
    "rayleigh_quotients",
    "set_escape_probability",
    "simulate_escape_times",
    "simulate_langevin",
    "smallest_eigenpairs",
    "spectral_gap",
    "structural_heterophily",
    "summed_diffusion",
    "symmetrize",
    "trace_ratio",
    "trace_ratio_bounds",
    "transition_matrix",
    "walk_spectrum",
    "walk_until",
]
