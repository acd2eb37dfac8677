"""The Fiedler environment's data: columns of U beside the true eigenvectors, and their energies."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    unit = weighted_unit(columns, degree)
    rng = np.random.default_rng(0)
    shown = np.sort(rng.choice(inside.size, min(SAMPLE_SIZE, inside.size), replace=False))
    return {
        "component_share": found.component_share,
        "symmetrised": bool((matrix != data.graph.adjacency).nnz),
        "eigenvalues": [float(v) for v in pairs.values[1:]],
        "energies": _finite(found.energies),
        "centred_energies": _finite(found.centred_energies),
        "fiedler_share": _number(found.fiedler_share),
        "orthogonality": _number(found.orthogonality),
        "trace_ratio": _number(found.trace_ratio),
        "commute_rank_correlation": _number(found.commute_rank_correlation),
        "cosine": [_finite(row) for row in np.abs((degree[:, None] * psi).T @ unit).T],
        "shown": inside[shown].tolist(),
        "labels": data.labels[inside][shown].tolist(),
        "columns": pack(unit[shown].T * math.sqrt(degree.sum()), "f4"),
        "eigenvectors": pack(psi[shown].T * math.sqrt(degree.sum()), "f4"),
        "num_nodes": int(inside.size),
    }


def weighted_unit(columns: NDArray[np.float64], degree: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns without their degree-weighted mean, of unit length in the degree-weighted norm.

    A constant column becomes zero.
    """
    centred = columns - (degree @ columns) / degree.sum()
    length = np.sqrt(degree @ centred**2)
    unit: NDArray[np.float64] = centred / np.where(length > 1e-12, length, 1.0)
    return unit


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    return [_number(v) for v in values]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
