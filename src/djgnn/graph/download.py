"""Downloads: known data sets through the classes of PyG and ogb, converted to `Graph`."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.errors import DataNotFoundError
from djgnn.graph.convert import compact, from_pyg
from djgnn.graph.graph import Graph
from djgnn.graph.registry import Card

OPTIONS: dict[str, dict[str, Any]] = {
    "Planetoid": {"split": "geom-gcn"},
    "WikipediaNetwork": {"geom_gcn_preprocess": True},
}


def download(card: Card, root: Path) -> Graph:
    """Download one known data set and convert it. Raw files already under `root` are used.

    Sets for which no splits were published get five random 50/25/25 splits of their labelled
    nodes, always the same ones.

    Args:
        card: A card with a loader.
        root: Folder for the raw files.

    Raises:
        DataNotFoundError: If the package that downloads it is missing.
        Exception: Whatever the class or the network raises.
    """
    kind, _, name = (card.loader or "").partition(":")
    if kind == "ogb":
        return _from_ogb(name, root, card.name)
    arguments = ({"name": name} if name else {}) | OPTIONS.get(kind, {})
    with warnings.catch_warnings():
        # PyG uses deprecated parts of torch and numpy.
        warnings.simplefilter("ignore")
        datasets = import_module("torch_geometric.datasets")
        data = getattr(datasets, kind)(str(root), **arguments)[0]
    graph = from_pyg(data, name=card.name)
    return graph if graph.num_splits else published_elsewhere(graph)


def published_elsewhere(graph: Graph, num_splits: int = 5) -> Graph:
    """The random 50/25/25 splits of sets without published ones: one fixed, documented draw.

    ``RandomState(1234)``, for each split one permutation of the labelled nodes: the first half
    trains, the next quarter validates, the rest tests.

    Example:
        >>> g = Graph(np.zeros((2, 0)), num_nodes=9, y=np.array([0, 1] * 4 + [-1]))
        >>> published_elsewhere(g).split(0)
        Split(index=0, train/val/test=4/2/2)
    """
    if graph.y is None:
        return graph
    labelled = np.flatnonzero(graph.y >= 0)
    half, quarter = int(0.5 * labelled.size), int(0.25 * labelled.size)
    masks = np.zeros((3, graph.num_nodes, num_splits), dtype=np.bool_)
    # The stored files were drawn with the legacy generator, so the same one is needed here.
    generator = np.random.RandomState(1234)
    for split in range(num_splits):
        parts = np.split(generator.permutation(labelled), [half, half + quarter])
        for part, nodes in enumerate(parts):
            masks[part, nodes, split] = True
    return graph.with_masks(*masks)


def year_quantiles(year: NDArray[Any], num_classes: int = 5) -> NDArray[np.int64]:
    r"""Classes of about equal size from a number: :math:`y_i = \#\{k : v_i \ge q_k\}`.

    :math:`q_k` is the quantile :math:`k / c` for :math:`k = 1 \dots c-1`, as in LINKX.

    Example:
        >>> year_quantiles(np.array([2001, 2002, 2003, 2004, 2005])).tolist()
        [0, 1, 2, 3, 4]
    """
    values = np.asarray(year, dtype=np.float64).ravel()
    cuts = np.nanquantile(values, np.arange(1, num_classes) / num_classes)
    return np.searchsorted(cuts, values, side="right").astype(np.int64)


def _from_ogb(name: str, root: Path, title: str) -> Graph:
    try:
        module = import_module("ogb.nodeproppred")
    except ImportError as error:
        raise DataNotFoundError(
            f"{title}: is downloaded by the package ogb; `pip install ogb`, or put {title}.npz in "
            f"one of the data folders (got {error})"
        ) from error
    dataset = module.NodePropPredDataset(name="ogbn-arxiv", root=str(root))
    content, labels = dataset[0]
    fields: dict[str, Any] = {"edge_index": content["edge_index"], "name": title}
    fields |= {"num_nodes": int(content["num_nodes"]), "x": compact(content["node_feat"])}
    if name == "arxiv-year":
        return published_elsewhere(Graph(y=year_quantiles(content["node_year"]), **fields))
    masks = np.zeros((3, fields["num_nodes"]), dtype=np.bool_)
    for row, part in zip(masks, ("train", "valid", "test"), strict=True):
        row[np.asarray(dataset.get_idx_split()[part])] = True
    return Graph(y=np.asarray(labels).ravel(), **fields).with_masks(*masks)
