"""`djgnn predict`: stored predictions, or those of new nodes, without retraining."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from djgnn.cli.source import Source, load
from djgnn.errors import InputError
from djgnn.training.folder import read_card, read_predictions

if TYPE_CHECKING:
    from djgnn.graph import Graph
    from djgnn.training.stored import StoredModel


def predictions(run: Path, source: Source, device: str, as_json: bool) -> str:
    """What `djgnn predict` prints: CSV, or a JSON list of the same rows.

    Raises:
        InputError: If the run or the new nodes cannot be read, or do not fit together.
    """
    given = (source.dataset, source.edges, source.nodes, source.graph)
    read_card(run)
    if all(value is None for value in given):
        text = read_predictions(run)
    else:
        text = _of_new_nodes(run, source, device)
    if as_json:
        text = json.dumps(list(csv.DictReader(io.StringIO(text))), ensure_ascii=False) + "\n"
    return text


def _of_new_nodes(run: Path, source: Source, device: str) -> str:
    from djgnn.training.inputs import choose_device
    from djgnn.training.predictions import prediction_csv, reached
    from djgnn.training.stored import load_model

    stored = load_model(run, choose_device(device))
    later = _later(load(source, others=stored.graph.names()), stored)
    place = stored.places(later)
    new = np.flatnonzero(place < 0)
    if new.size == 0:
        raise InputError(
            f"{later.name}: all of its nodes were there when the model was trained; give the nodes "
            f"that are new, or leave the files out for the stored predictions (got {later!r})"
        )
    shares = stored.predict(later)
    anchors = np.zeros(later.num_nodes, dtype=np.bool_)
    known = place >= 0
    anchors[known] = reached(stored.graph, stored.train_mask)[place[known]]
    return prediction_csv(later, shares, anchors=anchors, only=new)


def _later(graph: Graph, stored: StoredModel) -> Graph:
    """The later graph with the classes of the model; labels it may have are put aside."""
    names = tuple(stored.graph.classes())
    return dataclasses.replace(
        graph, y=None, class_names=names, train_mask=None, val_mask=None, test_mask=None
    )
