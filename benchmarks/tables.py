"""`djgnn fit` on tables as their publishers ship them, beside ten-line methods.

    python benchmarks/tables.py FOLDER [--only usa-airports,twitch-engb,openflights]

FOLDER has a folder for every table: `openflights` with airports.dat and routes.dat of that project,
others with NAME.edgelist and labels-NAME.txt of struc2vec, or NAME_edges.csv and NAME_target.csv of
MUSAE. The label of every node for which crc32 of its id is odd is hidden; everything else of the
tables stays as it is. Prints the accuracy on the hidden nodes, of the command `djgnn fit` with the
name of the label alone, with its seconds from start to end, and of the largest class, label
propagation, boosting and a GCN. Their boosting is scikit-learn's with its defaults but for
`l2_regularization=1` (without it rare classes break it), on the columns of the node table (numbers,
and codes of everything else but ids), degree, label shares of neighbours and 32 columns of an SVD
of A; the GCN sees standardised numbers, without any the degree.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.ensemble import HistGradientBoostingClassifier

from djgnn.baselines.config import baseline_config
from djgnn.bench.cell import build, train_split
from djgnn.graph import Graph, random_splits

AIRPORT = ["id", "name", "city", "country", "iata", "icao", "lat", "lon", "altitude", "utc"]
AIRPORT += ["dst", "region", "type", "source"]


@dataclass(frozen=True)
class Case:
    """A table: its edges, which columns of them are ends, nodes, their key and the label."""

    edges: Path
    ends: tuple[int, int]
    header: bool
    separator: str
    nodes: list[dict[str, str]]
    key: str
    label: str
    ids: tuple[str, ...] = ()


def case_of(folder: Path) -> Case:
    """The table in a folder, by the names of its files."""
    if (folder / "airports.dat").exists():
        with (folder / "airports.dat").open(encoding="utf-8") as file:
            places = [dict(zip(AIRPORT, row, strict=True)) for row in csv.reader(file)]
        for place in places:
            place["region"] = "" if place["region"] == "\\N" else place["region"].split("/")[0]
        return Case(folder / "routes.dat", (3, 5), False, ",", places, "id", "region")
    if edges := [*folder.glob("*.edgelist")]:
        lines = next(folder.glob("labels-*.txt")).read_text("utf-8").split("\n")[1:]
        levels = [dict(zip(("node", "label"), line.split(), strict=True)) for line in lines if line]
        return Case(edges[0], (0, 1), False, " ", levels, "node", "label")
    with next(folder.glob("*_target.csv")).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    key = "new_id" if "new_id" in rows[0] else "id"
    label = next(name for name in ("mature", "page_type", "ml_target") if name in rows[0])
    ids = tuple({"id", "facebook_id", "page_name", "name"} & set(rows[0]) - {key})
    return Case(next(folder.glob("*_edges.csv")), (0, 1), True, ",", rows, key, label, ids)


def hidden(case: Case) -> NDArray[np.bool_]:
    """Which nodes have a label that is hidden."""
    return np.array(
        [
            row[case.label] != "" and zlib.crc32(row[case.key].encode()) % 2 == 1
            for row in case.nodes
        ]
    )


def fitted(case: Case, lost: NDArray[np.bool_], folder: Path) -> tuple[float, float]:
    """Accuracy of `djgnn fit` on the hidden nodes, and its seconds."""
    table, run = folder / "nodes.csv", folder / "run"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(case.nodes[0]))
        writer.writeheader()
        for row, gone in zip(case.nodes, lost, strict=True):
            writer.writerow({**row, case.label: ""} if gone else row)
    command = [sys.executable, "-m", "djgnn", "fit", "--edges", str(case.edges), "--nodes"]
    command += [str(table), "--label", case.label, "--out", str(run), "--quiet"]
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    spent = time.perf_counter() - begun
    said = pl.read_csv(run / "predictions.csv", infer_schema=False)
    answers = dict(zip(said["node"], said["prediction"], strict=True))
    truth = [row for row, gone in zip(case.nodes, lost, strict=True) if gone]
    same = [str(answers[row[case.key]]).lower() == row[case.label].lower() for row in truth]
    return 100 * float(np.mean(same)), spent


def adjacency(case: Case) -> sp.csr_array:
    """Both directions of all edges between nodes of the table."""
    place = {row[case.key]: i for i, row in enumerate(case.nodes)}
    lines: Iterable[str] = case.edges.read_text("utf-8").split("\n")[case.header :]
    rows = [line.split(case.separator) for line in lines if line]
    found = [[place.get(row[end]) for end in case.ends] for row in rows]
    pairs = np.array([pair for pair in found if None not in pair and pair[0] != pair[1]]).T
    n = len(case.nodes)
    one_way = sp.coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(n, n))
    both = sp.csr_array(one_way + one_way.T)
    both.data[:] = 1
    return both


def columns(case: Case) -> NDArray[np.float64]:
    """The node table as numbers: codes of what is none; ids and the label are left out."""
    found = []
    for name in case.nodes[0]:
        if name in (case.key, case.label, *case.ids):
            continue
        values = pl.Series([row[name] for row in case.nodes])
        numbers = values.cast(pl.Float64, strict=False)
        if numbers.null_count() > len(values) // 2:
            numbers = values.cast(pl.Categorical).to_physical().cast(pl.Float64)
        found.append(numbers.to_numpy())
    return np.column_stack(found) if found else np.zeros((len(case.nodes), 0))


def simple_methods(case: Case, lost: NDArray[np.bool_]) -> dict[str, float]:
    """Accuracies of the ten-line methods."""
    labels = np.array([row[case.label] for row in case.nodes])
    classes, y = np.unique(labels, return_inverse=True)
    known = ~lost & (labels != "")
    a, x, one = adjacency(case), columns(case), np.eye(len(classes))
    degree = np.asarray(a.sum(axis=1)).ravel()
    walk = sp.diags_array(1 / np.maximum(degree, 1)) @ a
    given = one[y] * known[:, None]
    spread = np.where(known[:, None], given, given.mean(axis=0))  # far from labels: class shares
    for _ in range(50):
        around = np.where(degree[:, None] > 0, walk @ spread, spread)
        spread = np.where(known[:, None], given, around)
    left, size, _ = svds(a, k=32, random_state=0)
    near = np.column_stack([x, degree, walk @ given, left * size])
    trees = HistGradientBoostingClassifier(l2_regularization=1.0, random_state=0)
    trees.fit(near[known], y[known])
    numbers = x if x.shape[1] else np.log1p(degree)[:, None]
    numbers = np.nan_to_num((numbers - np.nanmean(numbers, 0)) / (np.nanstd(numbers, 0) + 1e-9))
    edges = np.stack(sp.coo_array(a).coords).astype(np.int64)
    own = np.where(known, y, -1)
    graph = Graph(edges, len(y), numbers.astype(np.float32), own, class_names=tuple(classes))
    split = random_splits(graph, train=0.75, val=0.25)
    network = train_split(build(baseline_config("gcn"), split, "cpu"), split, 0, 0)
    answers = {
        "largest class": np.full(len(y), np.bincount(y[known]).argmax()),
        "label propagation": spread.argmax(axis=1),
        "boosting": trees.predict(near),
        "gcn": network.logits.argmax(dim=1).numpy(),
    }
    return {name: 100 * float(np.mean(said[lost] == y[lost])) for name, said in answers.items()}


def main() -> None:
    """Print a row for every table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="usa-airports,twitch-engb,openflights")
    options = parser.parse_args()
    print("| table | hidden | djgnn fit | error | seconds | simple methods |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in options.only.split(","):
        case = case_of(options.folder / name)
        lost = hidden(case)
        with tempfile.TemporaryDirectory() as folder:
            accuracy, spent = fitted(case, lost, Path(folder))
        others = ", ".join(f"{k} {v:.2f}" for k, v in simple_methods(case, lost).items())
        error = np.sqrt(accuracy * (100 - accuracy) / lost.sum())
        figures = f"{lost.sum()} | {accuracy:.2f} | {error:.2f} | {spent:.1f}"
        print(f"| {name} | {figures} | {others} |", flush=True)


if __name__ == "__main__":
    main()
