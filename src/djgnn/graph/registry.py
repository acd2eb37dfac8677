"""Data sets by name: look for a file, else download, convert and keep it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from djgnn.errors import DataNotFoundError, InputError
from djgnn.graph.cards import Card, canonical, known
from djgnn.graph.graph import Graph
from djgnn.graph.npz import read_npz, write_npz

__all__ = ["Card", "available", "cache_folder", "find", "folders", "known", "load"]

LONGEST_NAME = 128


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
    key = canonical(name)
    if file is not None:
        return _with_card(read_npz(file), file.stem)
    card = known().get(key)
    if card is None:
        raise DataNotFoundError(_unknown(name, data))
    if card.loader is None:
        raise DataNotFoundError(
            f"{key}: is not on this machine and no package downloads it; put {key}.npz in one of "
            f"{_listed(folders(data))} (source: {card.source}) (got {name!r})"
        )
    return _with_card(_download(card, data), key)


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
    check_name(name)
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
    """The user's cache: ``$XDG_CACHE_HOME/djgnn`` or ``~/.cache/djgnn``. It need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "djgnn"


def check_name(name: str) -> str:
    """A data set's name is the name of a file in a folder, never a path.

    Raises:
        InputError: If it is empty, too long, hidden, or contains a separator.
    """
    if not isinstance(name, str):
        raise InputError(f"data set: the name must be text (got {name!r})")
    bad = any(c in '/\\:\0"*?<>|' or ord(c) < 32 for c in name)
    if bad or not name.strip() or name.startswith(".") or len(name) > LONGEST_NAME:
        raise InputError(
            "data set: a name has no '/', '\\', ':' or control character, does not start with a "
            f"dot and has 1 to {LONGEST_NAME} characters; give the folder as `data` (got {name!r})"
        )
    return name


def _download(card: Card, data: str | Path | None) -> Graph:
    from djgnn.graph.download import download

    cache = cache_folder()
    raw = cache / "raw" / card.name
    try:
        raw.mkdir(parents=True, exist_ok=True)
        graph = download(card, raw)
    except DataNotFoundError:
        raise
    except Exception as error:  # PyG and the network raise anything
        raise DataNotFoundError(
            f"{card.name}: is not in {_listed(folders(data))} and could not be downloaded; put "
            f"{card.name}.npz in one of them, or delete {raw} and try again with a connection "
            f"(got {type(error).__name__}: {error})"
        ) from error
    write_npz(graph, cache / f"{card.name}.npz")
    return graph


def _with_card(graph: Graph, name: str) -> Graph:
    """The registry's facts win over those in the file, which may be older."""
    card = known().get(canonical(name))
    facts = dict(graph.card) | (card.as_dict() if card else {})
    return replace(graph, name=card.name if card else name, card=facts)


def _unknown(name: str, data: str | Path | None) -> str:
    names = sorted({*known(), *available(data)})
    folded: Mapping[str, str] = {other.casefold(): other for other in names}
    query = name.casefold().removesuffix(".npz")
    close = [folded[m] for m in difflib.get_close_matches(query, folded, n=4, cutoff=0.5)]
    advice = f"did you mean {', '.join(close)}?" if close else f"known are {', '.join(names)};"
    return (
        f"{name}: no such data set; {advice} Or put {name}.npz in one of "
        f"{_listed(folders(data))} (got {name!r})"
    )


def _listed(places: list[Path]) -> str:
    return ", ".join(str(place) for place in places)
