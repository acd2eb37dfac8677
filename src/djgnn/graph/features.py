"""Remarks on feature columns, before anything is trained on them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from djgnn.graph.graph import Graph

LARGE = 1000.0


def scale_remark(graph: Graph) -> str | None:
    """What to say of features so large that they drown the others; ``None`` if there is nothing.

    Features are used as they are given.

    Example:
        >>> g = Graph(np.array([[0], [1]]), num_nodes=2, x=np.array([[0.5, 1.6e9], [1.0, 1.7e9]]))
        >>> scale_remark(g).split(":")[0]
        'feature 1 reaches 1.7e+09'
    """
    x = graph.x
    if x is None or not graph.num_features or not graph.num_nodes:
        return None
    if sp.issparse(x):  # no array of all columns: most may be empty
        entries = sp.coo_array(x)
        sizes, columns = np.abs(entries.data), entries.col
    else:
        sizes, columns = np.abs(x).max(axis=0), np.arange(x.shape[1])
    if not sizes.size or sizes.max() <= LARGE:
        return None
    column = int(columns[sizes == sizes.max()].min())
    names = graph.card.get("features")
    name = str(column)
    if isinstance(names, list) and len(names) == graph.num_features:
        name = repr(str(names[column]))
    return (
        f"feature {name} reaches {sizes.max():.3g}: features are used as they are, and such "
        "numbers drown the others; subtract the mean of the column and divide by its standard "
        "deviation"
    )
