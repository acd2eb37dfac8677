"""`djgnn predict`: stored predictions, or those of new nodes, without retraining."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from djgnn.cli.options import Source, load
from djgnn.cli.terminal import warn, warnings_once
from djgnn.errors import InputError
from djgnn.graph.files import check_replaceable
from djgnn.training.folder import prediction_csv, reached, read_predictions

if TYPE_CHECKING:
    from djgnn.graph import Graph


def check_target(out: Path, run: Path) -> None:
    """Refuse a file that predictions may not replace, before any work is done.

    Raises:
        InputError: If there is something else, or what the run keeps.
    """
    file = out.expanduser()
    if file.exists() and file.resolve().parent == run.expanduser().resolve():
        raise InputError(f"{out}: belongs to the run; name another file")
    begins = (b"node,prediction,probability,margin", b'[{"node": ')
    check_replaceable(out, begins, "table of predictions")


def predictions(run: Path, source: Source, device: str, as_json: bool) -> str:
    """What `djgnn predict` prints: CSV, or a JSON list of the same rows.

    Raises:
        InputError: If the run or the new nodes cannot be read, or do not fit together.
    """
    if all(v is None for v in (source.dataset, source.edges, source.nodes, source.graph)):
        text = read_predictions(run)
    else:
        text = _of_new_nodes(run, source, device)
    if not as_json:
        return text
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise InputError(
            f"{run}: its predictions are damaged ({error}); restore the file or fit again"
        ) from error
    return json.dumps(rows, ensure_ascii=False) + "\n"


def _of_new_nodes(run: Path, source: Source, device: str) -> str:
    from djgnn.graph import reading_of
    from djgnn.training.inputs import choose_device
    from djgnn.training.stored import load_model

    stored = load_model(run, choose_device(device))
    reading = reading_of(stored.graph)
    with warnings_once():
        graph = load(source, others=stored.graph.names(), reading=reading)
        # The classes are those of the model; labels of the later graph are ignored.
        none: Any = {"y": None, "train_mask": None, "val_mask": None, "test_mask": None}
        later = dataclasses.replace(graph, class_names=tuple(stored.graph.classes()), **none)
        for remark in _remarks(source, reading, later, stored.graph):
            warn(remark)
        place = stored.places(later)
        new, known = np.flatnonzero(place < 0), place >= 0
        if new.size == 0:
            raise InputError(
                f"{later.name}: all of its nodes were there when the model was trained; give the "
                "nodes that are new, or leave the files out for the stored predictions "
                f"(got {later!r})"
            )
        shares = stored.predict(later)
        anchors = np.zeros(later.num_nodes, dtype=np.bool_)
        trained = stored.graph.split(stored.split).train
        anchors[known] = reached(stored.graph, trained)[place[known]]
        return prediction_csv(later, shares, anchors=anchors, only=new)


def _remarks(source: Source, reading: Mapping[str, Any], later: Graph, known: Graph) -> list[str]:
    """How new edges are read otherwise than those that the model learned from.

    Args:
        source: The options.
        reading: How the model's tables were read, see `reading_of`.
        later: The new graph.
        known: The model's graph.
    """
    said, found, trained = source.columns(), [], "the model was trained with"
    if "symmetric" in reading:
        weight = reading["known"]["roles"].get("weight")
        if bool(said.get("weight", weight)) != bool(weight):
            how = f"the weights in {weight!r}" if weight else "edges without weights"
            found.append(f"--weight-column {said['weight']!r}: {trained} {how}")
        duplicates = reading["duplicates"]
        if said.get("duplicates", duplicates) != duplicates:
            found.append(f"--duplicates {said['duplicates']}: {trained} {duplicates}")
        if said.get("symmetric", reading["symmetric"]) != reading["symmetric"]:
            if reading["symmetric"]:
                return [*found, f"--directed: {trained} every edge both ways (--symmetric)"]
            return [*found, f"--symmetric: {trained} edges as they are listed"]
    elif _weighted(known) and later.num_edges and not _weighted(later):
        found.append(
            f"{later.name}: the new edges have no weights and count as 1, {trained} weights; name "
            "their column with --weight-column"
        )
    if not _both_ways(later) and known.num_edges and _both_ways(known):
        found.append(
            f"{later.name}: the new edges go one way, {trained} every edge both ways; list them "
            "both ways, or pass --symmetric with tables"
        )
    return found


def _weighted(graph: Graph) -> bool:
    return graph.edge_weight is not None and bool((graph.edge_weight != 1).any())


def _both_ways(graph: Graph) -> bool:
    """Whether the reverse of every edge is there."""
    source, target = graph.edge_index
    n = graph.num_nodes
    return bool(np.isin(source * n + target, target * n + source).all())
