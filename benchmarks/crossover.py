"""Where one exact engine overtakes another on this machine: what `engine="auto"` rests on.

    python benchmarks/crossover.py [--points 200,1000,4000,16000] [--dimensions 2,5,8,9,16]

Positions tanh(N(0, 1)), nine nearest of each. Prints milliseconds of each engine and the fastest.
"""

from __future__ import annotations

import argparse
import time

import torch

from djgnn.jumps.engines import choose_engine

NAMES = ("kdtree", "blockwise")


def milliseconds(name: str, points: torch.Tensor) -> float:
    engine, taken = choose_engine(name, points), []
    for _ in range(4):
        begun = time.perf_counter()
        engine(points, 9, None)
        taken.append(time.perf_counter() - begun)
    return 1e3 * min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", default="200,1000,4000,16000")
    parser.add_argument("--dimensions", default="2,5,8,9,16")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads\n p  points  " + "".join(f"{n:>11s}" for n in NAMES))
    for p in (int(part) for part in options.dimensions.split(",")):
        for m in (int(part) for part in options.points.split(",")):
            points = torch.tanh(torch.randn(m, p, generator=torch.Generator().manual_seed(0)))
            taken = {name: milliseconds(name, points.double()) for name in NAMES}
            cells = "".join(f"{taken[name]:11.1f}" for name in NAMES)
            print(f"{p:2d} {m:7d}  {cells}  {min(taken, key=taken.get)}", flush=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
