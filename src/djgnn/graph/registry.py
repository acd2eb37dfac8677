"""Data sets by name and their cards: look for a file, else download, convert and keep it."""

import difflib
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from djgnn.errors import DataNotFoundError, InputError, printable
from djgnn.graph.convert import compact, from_pyg
from djgnn.graph.graph import Graph
from djgnn.graph.npz import read_npz, write_npz

LONGEST_NAME = 128
DRAWN_SPLITS = 5
YEAR_CLASSES = 5
OPTIONS: dict[str, dict[str, Any]] = {
    "Planetoid": {"split": "geom-gcn"},
    "WikipediaNetwork": {"geom_gcn_preprocess": True},
}


@dataclass(frozen=True)
class Card:
    """Facts about one data set.

    Args:
        name: Its name here; the file is ``<name>.npz``.
        title: What nodes, edges and classes are.
        paper_name: Its name in the paper's tables, ``None`` if it is in none.
        metric: ``accuracy`` or ``roc_auc``.
        direction: ``directed``, or ``symmetric`` if every edge is there both ways.
        num_nodes: Number of nodes.
        num_edges: Number of directed edges as stored.
        num_features: Number of feature columns.
        num_classes: Number of classes.
        num_splits: Number of stored splits.
        source: Repository and path it comes from.
        loader: ``"CLASS:NAME"`` of the class that downloads it, ``None`` if there is none.
        counterpart: The data set whose results belong beside this one's.
        oddities: What a reader of a result must know.

    Example:
        >>> known()["texas"].oddities[0]
        'Class 1 has a single node.'
    """

    name: str
    title: str
    paper_name: str | None
    metric: str
    direction: str
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    num_splits: int
    source: str
    loader: str | None
    counterpart: str | None
    oddities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The card as plain values, as `Graph.card` carries it."""
        return asdict(self) | {"oddities": list(self.oddities)}


@cache
def known() -> Mapping[str, Card]:
    """Every data set the registry knows, by name.

    Example:
        >>> known()["minesweeper"].metric
        'roc_auc'
    """
    import yaml

    text = resources.files("djgnn.graph").joinpath("cards.yaml").read_text(encoding="utf-8")
    keys = ("num_nodes", "num_edges", "num_features", "num_classes", "num_splits")
    cards = {}
    for name, entry in yaml.safe_load(text).items():
        facts = {"name": name, "counterpart": None} | entry
        facts |= dict(zip(keys, facts.pop("counts"), strict=True))
        cards[name] = Card(**facts | {"oddities": tuple(facts["oddities"])})
    return MappingProxyType(cards)


def load(name: str, data: str | Path | None = None) -> Graph:
    """Load a data set by name.

    ``<name>.npz`` is looked for in `data`, ``$DJGNN_DATA`` and the user's cache, in this order. If
    it is in none of them it is downloaded through PyG's classes and kept in the cache. Any file of
    the layout of :mod:`djgnn.graph.npz` is a data set, known to the registry or not.

    Args:
        name: The name; for known sets case, ``-`` and ``_`` do not matter.
        data: A folder to look in first.

    Returns:
        The graph, with its name and, for a known set, its card.

    Raises:
        InputError: If the name is not one, or the file found cannot be used.
        DataNotFoundError: If there is no such set, with close matches; or no file and no download.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> write_npz(Graph(np.array([[0], [1]]), num_nodes=2, y=[0, 1]), Path(folder, "own.npz"))
        >>> load("own", data=folder)
        Graph(num_nodes=2, num_edges=1, num_features=0, num_classes=2, num_splits=0)
    """
    file = find(name, data)
    if file is not None:
        graph, key = read_npz(file), canonical(file.stem)
    else:
        key = canonical(name)
        graph = _download(key, data)
    card = known().get(key)
    # The registry's facts win over those in the file, which may be older.
    facts = dict(graph.card) | (card.as_dict() if card else {})
    return replace(graph, name=key, card=facts)


def find(name: str, data: str | Path | None = None) -> Path | None:
    """The file of a data set, ``None`` if it is in no folder.

    Args:
        name: As for :func:`load`.
        data: A folder to look in first.

    Raises:
        InputError: If the name could be a path, or `data` is not a folder.

    Example:
        >>> find("../../etc/passwd")
        Traceback (most recent call last):
        djgnn.errors.InputError: data set: a name has no '/', ... (got '../../etc/passwd')
    """
    bad = not isinstance(name, str) or any(c in '/\\:\0"*?<>|' for c in name)
    bad = bad or printable(name) != name
    if bad or not name.strip() or name.startswith(".") or len(name) > LONGEST_NAME:
        raise InputError(
            "data set: a name has no '/', '\\', ':' or control character, does not start with a "
            f"dot and has 1 to {LONGEST_NAME} characters; give the folder as `data` (got {name!r})"
        )
    for folder in folders(data):
        for candidate in dict.fromkeys((name, canonical(name))):
            file = folder / f"{candidate}.npz"
            if file.is_file():
                return file
    return None


def available(data: str | Path | None = None) -> dict[str, Path]:
    """Every data set that is on this machine, known or not: its name and its file.

    Args:
        data: A folder to look in first; of two files of one name the first is used.

    Example:
        >>> from djgnn.graph import heterophilic_sbm, write_npz
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_npz(heterophilic_sbm(160), f"{folder}/mine.npz")
        ...     "mine" in available(folder)
        True
    """
    found: dict[str, Path] = {}
    for folder in folders(data):
        if folder.is_dir():
            for file in sorted(folder.glob("*.npz")):
                if file.is_file() and not file.name.startswith("."):
                    found.setdefault(file.stem, file)
    return dict(sorted(found.items()))


def folders(data: str | Path | None = None) -> list[Path]:
    """Where data sets are looked for, in this order: `data`, ``$DJGNN_DATA``, the user's cache.

    Raises:
        InputError: If `data` is given and is not a folder.
    """
    places = []
    if data is not None:
        folder = Path(data).expanduser()
        if not folder.is_dir():
            raise InputError(
                f"data: is not a folder; give the folder with the .npz files (got {str(data)!r})"
            )
        places.append(folder)
    if os.environ.get("DJGNN_DATA"):
        places.append(Path(os.environ["DJGNN_DATA"]).expanduser())
    return list(dict.fromkeys([*places, cache_folder()]))


def cache_folder() -> Path:
    """The user's cache: ``$XDG_CACHE_HOME/djgnn`` or ``~/.cache/djgnn``. It need not exist.

    Raises:
        InputError: If the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "djgnn"
    except RuntimeError as error:
        raise InputError(f"cache: {error}; set XDG_CACHE_HOME to a folder") from error


def canonical(name: str) -> str:
    """The known name that differs from `name` in case, ``-`` and ``_`` only, else `name`.

    Example:
        >>> canonical("Roman_Empire"), canonical("mine")
        ('roman-empire', 'mine')
    """
    folded = {other.casefold().replace("_", "-"): other for other in known()}
    return name if name in known() else folded.get(name.casefold().replace("_", "-"), name)


def _download(name: str, data: str | Path | None) -> Graph:
    """Download a known data set through PyG or ogb, convert it and keep it in the cache.

    Raw files that are there already are used. Sets for which no splits were published get five
    random 50/25/25 splits of their labelled nodes, always the same ones.
    """
    card, places = known().get(name), ", ".join(map(str, folders(data)))
    if card is None:
        names = {other.casefold(): other for other in sorted({*known(), *available(data)})}
        query = name.casefold().removesuffix(".npz")
        close = [names[m] for m in difflib.get_close_matches(query, names, n=4, cutoff=0.5)]
        known_ones = f"known are {', '.join(names.values())};"
        advice = f"did you mean {', '.join(close)}?" if close else known_ones
        raise DataNotFoundError(
            f"{name}: no such data set; {advice} Or put {name}.npz in one of {places} "
            f"(got {name!r})"
        )
    if card.loader is None:
        raise DataNotFoundError(
            f"{name}: is not on this machine and no package downloads it; put {name}.npz in one of "
            f"{places} (source: {card.source}) (got {name!r})"
        )
    raw = cache_folder() / "raw" / name
    kind, _, title = card.loader.partition(":")
    try:
        raw.mkdir(parents=True, exist_ok=True)
        if kind == "ogb":
            graph = _from_ogb(title, raw, name)
        else:
            arguments = ({"name": title} if title else {}) | OPTIONS.get(kind, {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyG uses deprecated parts of torch and numpy
                datasets = import_module("torch_geometric.datasets")
                graph = from_pyg(getattr(datasets, kind)(str(raw), **arguments)[0], name=name)
            graph = graph if graph.num_splits else published_elsewhere(graph)
    except DataNotFoundError:
        raise
    except Exception as error:  # PyG and the network raise anything
        raise DataNotFoundError(
            f"{name}: is not in {places} and could not be downloaded; put {name}.npz in one of "
            f"them, or delete {raw} and try again with a connection "
            f"(got {type(error).__name__}: {error})"
        ) from error
    write_npz(graph, cache_folder() / f"{name}.npz")
    return graph


def published_elsewhere(graph: Graph) -> Graph:
    """Five random 50/25/25 splits of sets without published ones: one fixed, documented draw.

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
    masks = np.zeros((3, graph.num_nodes, DRAWN_SPLITS), dtype=np.bool_)
    # The stored files were drawn with the legacy generator, so the same one is needed here.
    generator = np.random.RandomState(1234)
    for split in range(DRAWN_SPLITS):
        parts = np.split(generator.permutation(labelled), [half, half + quarter])
        for part, nodes in enumerate(parts):
            masks[part, nodes, split] = True
    return graph.with_masks(*masks)


def year_quantiles(year: NDArray[Any]) -> NDArray[np.int64]:
    r"""Five classes of about equal size from a number: :math:`y_i = \#\{k : v_i \ge q_k\}`.

    :math:`q_k` is the quantile :math:`k / c` for :math:`k = 1 \dots c-1`, c = 5, as in LINKX.

    Example:
        >>> year_quantiles(np.array([2001, 2002, 2003, 2004, 2005])).tolist()
        [0, 1, 2, 3, 4]
    """
    values = np.asarray(year, dtype=np.float64).ravel()
    cuts = np.nanquantile(values, np.arange(1, YEAR_CLASSES) / YEAR_CLASSES)
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
