"""Matrices of a graph: self loops set or removed, scaled by degrees, on a device."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from djgnn.graph.operator import SparseOperator


def operator(matrix: sp.sparray, like: Tensor | SparseOperator) -> SparseOperator:
    """A constant matrix in the precision and on the device of `like`."""
    return SparseOperator.from_scipy(matrix, like.dtype, like.device)


def with_loops(matrix: sp.sparray) -> sp.csr_array:
    """The matrix with its diagonal set to 1."""
    bare = sp.csr_array(matrix)
    return sp.csr_array(bare - sp.diags_array(bare.diagonal()) + sp.eye_array(bare.shape[0]))


def without_loops(matrix: sp.sparray) -> sp.csr_array:
    """The matrix with an empty diagonal."""
    bare = sp.csr_array(matrix)
    bare = sp.csr_array(bare - sp.diags_array(bare.diagonal()))
    bare.eliminate_zeros()
    return bare


def symmetric_scale(matrix: sp.sparray) -> sp.csr_array:
    r""":math:`D^{-1/2} S D^{-1/2}` with the row sums D; empty rows stay empty."""
    root = sp.diags_array(np.sqrt(_inverse_degree(matrix)))
    return sp.csr_array(root @ sp.csr_array(matrix) @ root)


def row_scale(matrix: sp.sparray) -> sp.csr_array:
    r""":math:`D^{-1} S` with the row sums D: the mean over neighbours; empty rows stay empty."""
    return sp.csr_array(sp.diags_array(_inverse_degree(matrix)) @ sp.csr_array(matrix))


def _inverse_degree(matrix: sp.sparray) -> np.ndarray[Any, np.dtype[np.float64]]:
    degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)
    return np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
