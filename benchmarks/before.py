"""What a whole `djgnn fit` takes, beside that of an earlier commit, in turn.

    git worktree add ../before aa9d60b
    python benchmarks/before.py ../before [--datasets texas,cora,chameleon,pubmed] [--rounds 2]
                                          [--device cpu]

Each command runs in a process of its own, from its start to the page, split 0, with the defaults of
its commit. Prints seconds and the peak of the process in MiB, of both, then the ratios of means.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from endtoend import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path, help="folder of the earlier commit")
    parser.add_argument("--datasets", default="texas,cora,chameleon,pubmed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=1800.0)
    options = parser.parse_args()
    trees = [options.before.resolve() / "src", Path(__file__).resolve().parents[1] / "src"]
    for name in options.datasets.split(","):
        taken: list[list[tuple[float, float]]] = [[], []]
        for _ in range(options.rounds):
            for tree, rows in zip(trees, taken, strict=True):
                with tempfile.TemporaryDirectory() as place:
                    words = ["fit", "--dataset", name, "--split", "0", "--quiet"]
                    words += ["--device", options.device, "--out", str(Path(place, "run"))]
                    seconds, _, mib, _ = run(words, options.limit, tree)
                rows.append((seconds, mib))
        (before, then), (now, held) = (np.mean(rows, axis=0) for rows in taken)
        each = " ".join(f"{a:.1f}/{b:.1f}" for (b, _), (a, _) in zip(*taken, strict=True))
        print(f"{name:20s} {each} s, ratio {now / before:.2f}; MiB {held / then:.2f}", flush=True)


if __name__ == "__main__":
    main()
