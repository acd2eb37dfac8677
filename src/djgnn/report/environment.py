"""The Fiedler environment's data: columns of U beside the true eigenvectors, and their energies."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from djgnn.errors import DisconnectedWarning, InputError
from djgnn.report.arrays import pack
from djgnn.report.run_data import RunData
from djgnn.spectral import (
    degrees,
    fiedler_environment,
    largest_component,
    smallest_eigenpairs,
    symmetrize,
)

MOST_NODES = 50_000
SAMPLE_SIZE = 1_000


def environment_payload(data: RunData) -> dict[str, Any]:
    """Energies and alignment of U on the largest component of the symmetrised graph.

    Returns:
        The view's data, or ``{"reason": ...}`` where it cannot be drawn.
    """
    if data.graph.num_nodes > MOST_NODES:
        return {"reason": f"left out: the graph has more than {MOST_NODES:,} nodes"}
    matrix = symmetrize(data.graph.adjacency)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedWarning)
            found = fiedler_environment(matrix, data.u)
    except InputError as error:
        return {"reason": f"left out: {error}"}
    inside = largest_component(matrix)
    part, columns = matrix[inside][:, inside], data.u[inside].astype(np.float64)
    count = min(columns.shape[1] + 1, inside.size - 1)
    pairs = smallest_eigenpairs(part, count)
    degree = degrees(part)
    psi = pairs.vectors[:, 1:] / np.sqrt(degree)[:, None]
    # the columns without their degree-weighted mean, of unit length in the degree-weighted norm;
    # a constant column becomes zero
    centred = columns - (degree @ columns) / degree.sum()
    length = np.sqrt(degree @ centred**2)
    unit = centred / np.where(length > 1e-12, length, 1.0)
    rng = np.random.default_rng(0)
    shown = np.sort(rng.choice(inside.size, min(SAMPLE_SIZE, inside.size), replace=False))
    return {
        "component_share": found.component_share,
        "symmetrised": bool((matrix != data.graph.adjacency).nnz),
        "eigenvalues": pairs.values[1:],
        "energies": found.energies,
        "centred_energies": found.centred_energies,
        "fiedler_share": found.fiedler_share,
        "orthogonality": found.orthogonality,
        "trace_ratio": found.trace_ratio,
        "commute_rank_correlation": found.commute_rank_correlation,
        "cosine": np.abs((degree[:, None] * psi).T @ unit).T,
        "shown": inside[shown],
        "labels": data.labels[inside][shown],
        "columns": pack(unit[shown].T * math.sqrt(degree.sum()), "f4"),
        "eigenvectors": pack(psi[shown].T * math.sqrt(degree.sum()), "f4"),
        "num_nodes": int(inside.size),
    }
