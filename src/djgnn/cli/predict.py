"""`djgnn predict`: stored predictions, or those of new nodes, without retraining."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from djgnn.cli.memory import keep_freed
from djgnn.cli.options import Device, File, Json, Run, option, with_options
from djgnn.cli.source import Source, load, read_ahead, run_ahead
from djgnn.cli.terminal import warn, warnings_once
from djgnn.errors import InputError, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from djgnn.graph import Graph

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How cells begin that spreadsheets may execute; the last four are full-width signs."""


@with_options
def predict(
    run: Run,
    source: Source,
    out: Annotated[File, option("Write to this file instead.")] = None,
    device: Device = "auto",
    as_json: Json = False,
    spreadsheet_safe: Annotated[
        bool,
        option(
            "Put ' before cells that a spreadsheet would take for a formula.", "--spreadsheet-safe"
        ),
    ] = False,
) -> None:
    """The stored predictions of a run; or those of new nodes, without retraining."""
    given = (source.dataset, source.edges, source.nodes, source.graph)
    later = any(file is not None for file in given)
    # While libraries are imported.
    ahead, known = read_ahead(source), run_ahead(run) if later else None
    from djgnn.graph.files import atomic_write, check_replaceable, hash_ahead

    hashes = hash_ahead(run)
    from djgnn.training.folder import read_predictions

    if out is not None:
        file = out.expanduser()
        if file.exists() and file.resolve().parent == run.expanduser().resolve():
            raise InputError(f"{out}: belongs to the run; name another file")
        begins = (b"node,prediction,probability,margin", b'[{"node": ')
        check_replaceable(out, begins, "table of predictions")
    text, rows = None, iter(list[list[str]]())
    if later:
        text = _of_new_nodes(run, source, device, (known, ahead), hashes)
        rows = csv.reader(io.StringIO(text, newline=""))
    else:
        rows = iter(read_predictions(run, hashes))
    shown = out is None and sys.stdout.isatty()
    if text is None or shown or spreadsheet_safe or as_json:
        text = _text(_treated(rows, shown, spreadsheet_safe), as_json)
    if out is None:
        sys.stdout.write(text)
        return
    with atomic_write(out) as stream:
        stream.write(text.encode("utf-8"))


def _treated(rows: Iterator[list[str]], shown: bool, safe: bool) -> list[list[str]]:
    """Cells for a terminal, if they are shown there, and for a spreadsheet."""

    def cell(text: str) -> str:
        text = printable(text) if shown else text
        return f"'{text}" if safe and text.startswith(FORMULA) else text

    return [[cell(text) for text in row] for row in rows] if shown or safe else list(rows)


def _text(rows: list[list[str]], as_json: bool) -> str:
    """A table with its header as CSV, or as a JSON list of objects."""
    if as_json:
        found = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        return json.dumps(found, ensure_ascii=False) + "\n"
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _of_new_nodes(
    run: Path,
    source: Source,
    device: str,
    ahead: Sequence[Callable[[], Graph] | None],
    hashes: Callable[[], Mapping[str, str]],
) -> str:
    """The table of new nodes; `ahead` gives the known and the later graph, where they are read."""
    import numpy as np

    from djgnn.graph import reading_of
    from djgnn.training.inputs import choose_device, start_gpu
    from djgnn.training.predictions import flag_codes, prediction_table, reached, table_csv
    from djgnn.training.stored import load_model

    start_gpu(device)
    where = choose_device(device)
    if where.type == "cuda":
        keep_freed()
    with ThreadPoolExecutor(2) as beside, warnings_once():
        stored = load_model(run, where, hashes=hashes, ahead=ahead[0])
        beside.submit(stored.prepare)  # while the later graph is read
        # The features of a graph that does not come from tables were used as they are.
        reading = reading_of(stored.graph) or {"columns": {"*": "raw"}}
        graph = load(source, others=stored.graph.names(), reading=reading, ahead=ahead[1])
        # The classes are those of the model; labels of the later graph are ignored.
        later = graph.without_labels(tuple(stored.graph.classes()))
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

        def flags() -> NDArray[np.int64]:
            anchors = np.zeros(later.num_nodes, dtype=np.bool_)
            anchors[known] = reached(stored.graph, stored.anchors)[place[known]]
            return flag_codes(later, anchors)

        found = beside.submit(flags)
        shares, sets = stored.predict(later, only_new=True), stored.card.get("sets")
        table = prediction_table(later, shares, sets, flags=found.result(), only=new)
        return table_csv(table)


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
        weight, both = reading["known"]["roles"].get("weight"), reading["symmetric"]
        if bool(said.get("weight", weight)) != bool(weight):
            how = f"the weights in {weight!r}" if weight else "edges without weights"
            found.append(f"--weight-column {said['weight']!r}: {trained} {how}")
        if said.get("duplicates", reading["duplicates"]) != reading["duplicates"]:
            found.append(f"--duplicates {said['duplicates']}: {trained} {reading['duplicates']}")
        if said.get("symmetric", both) != both:
            flag, how = ("--symmetric", "edges as they are listed")
            if both:
                flag, how = ("--directed", "every edge both ways (--symmetric)")
            return [*found, f"{flag}: {trained} {how}"]
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
    import numpy as np
    import scipy.sparse as sp

    out, back = (np.bincount(ends, minlength=graph.num_nodes) for ends in graph.edge_index)
    if not np.array_equal(out, back):
        return False
    rows, back = graph.adjacency, sp.csr_array(graph.adjacency.T)
    return bool((rows.indptr == back.indptr).all()) and np.array_equal(rows.indices, back.indices)
