"""Make the tables of the how-to: accounts that pay each other, some of them labelled.

    python docs/howto/payments.py FOLDER
    python docs/howto/payments.py --score FOLDER/truth.csv FOLDER/new.csv

Accounts of a kind pay the same few counterparties, which are of any kind: neighbours disagree, rows
of the adjacency do not. Everything is generated; no account is real.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from djgnn.graph import heterophilic_sbm

KINDS = ("business", "merchant", "mule", "private")
COUNTRIES = ("AT", "DE", "ES", "FR", "PL")


def main(folder: Path) -> None:
    """Write the tables."""
    graph = heterophilic_sbm(900, random_state=7)
    rng = np.random.default_rng(7)
    n = graph.num_nodes
    order = rng.permutation(n)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    source, target = place[graph.edge_index]
    kind = graph.y[order]
    names = [f"AC-{code:05d}" for code in rng.choice(90_000, n, replace=False)]
    known = n - 60  # the rest opens an account next week
    days = np.round(200 + 90 * np.asarray(graph.x)[order, 0], 1)
    turnover = np.round(np.exp(6 + 0.6 * np.asarray(graph.x)[order, 1]), 2)
    country = rng.integers(0, len(COUNTRIES), n)
    labelled = rng.random(n) < 0.4

    def accounts(file: str, rows: range, with_kind: bool) -> None:
        with (folder / file).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["account", "days_open", "turnover", "country"] + ["kind"] * with_kind)
            for i in rows:
                row = [names[i], days[i], turnover[i], COUNTRIES[country[i]]]
                writer.writerow(row + [KINDS[kind[i]] if labelled[i] else ""] * with_kind)

    def payments(file: str, chosen: np.ndarray) -> None:
        with (folder / file).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["payer", "payee"])
            writer.writerows((names[a], names[b]) for a, b in zip(*chosen, strict=True))

    folder.mkdir(parents=True, exist_ok=True)
    inside = (source < known) & (target < known)
    edges = np.stack([source, target])
    accounts("accounts.csv", range(known), True)
    payments("payments.csv", edges[:, inside])
    accounts("new_accounts.csv", range(known, n), False)
    payments("new_payments.csv", edges[:, ~inside])
    with (folder / "truth.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["account", "kind"])
        writer.writerows((names[i], KINDS[kind[i]]) for i in range(n))


def score(truth: Path, predictions: Path) -> None:
    """Say how many accounts without a known kind are predicted rightly."""
    with truth.open(newline="") as stream:
        kinds = {row["account"]: row["kind"] for row in csv.DictReader(stream)}
    with predictions.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if not row["label"]]
    right = sum(kinds[row["node"]] == row["prediction"] for row in rows)
    print(f"{right} of {len(rows)} right ({right / len(rows):.1%})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--score"]:
        score(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "payments"))
