"""Damaged files against every reader: a graph or a clear error, in bounded time and memory.

    python benchmarks/fuzz.py [--per-reader 20000] [--readers edges.csv,npz] [--seed 0]

Every file is one seeded mutation of a valid one. The only outcomes allowed are a result and an
`InputError` that names the file. A worker that dies, hangs longer than 10 s, or asks for more than
4 GiB is counted and replaced. An audit hook watches for anything that runs code from a file:
unpickling, exec, a shell, a child process, a connection. Status 1 if
anything of that kind happened.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 10
LIMIT_BYTES = 4 * 2**30
FORBIDDEN = ("pickle.find_class", "exec", "os.system", "os.exec", "os.fork", "os.posix_spawn",
             "subprocess.Popen", "socket.connect", "ctypes.dlopen")  # fmt: skip
READERS = (
    "edges.csv",
    "nodes.csv",
    "nodes.tsv",
    "edges.parquet",
    "nodes.parquet",
    "graphml",
    "npz",
    "yaml",
    "card",
)


def reader_of(name: str, folder: Path) -> tuple[str, Callable[[Path], Any]]:
    """The valid file to damage, and what reads the damaged one."""
    from djgnn.graph import read_graphml, read_npz, read_tables
    from djgnn.training.config import RunConfig
    from djgnn.training.folder import read_card

    whole: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "graphml": ("g.graphml", read_graphml),
        "npz": ("g.npz", read_npz),
        "yaml": ("c.yaml", RunConfig.read_yaml),
        "card": ("result.json", lambda file: read_card(file.parent)),
    }
    if name in whole:
        return whole[name]
    kind, suffix = name.split(".")
    if kind == "edges":
        return f"e.{suffix}", lambda file: read_tables(file, folder / f"n.{suffix}")
    return f"n.{suffix}", lambda file: read_tables(folder / f"e.{suffix}", file)


def damaged(name: str, data: bytes, rng: Any) -> bytes:
    """Half of the structured files are damaged as structures, the rest as bytes."""
    import io

    import numpy as np
    import polars as pl

    from fuzz_mutations import damage_arrays, damage_bytes, damage_frame

    if name == "npz" and rng.random() < 0.5:
        with np.load(io.BytesIO(data)) as stored:
            return damage_arrays(rng, dict(stored))
    if name.endswith(".parquet") and rng.random() < 0.5:
        return damage_frame(rng, pl.read_parquet(data))
    return damage_bytes(data, rng)


def work(name: str, start: int, stop: int, seed: int, log: Path) -> None:
    """Read the damaged files of this range, one line of JSON each in the log."""
    import numpy as np

    from djgnn.errors import InputError
    from fuzz_mutations import seeds

    folder = Path(tempfile.mkdtemp(dir=log.parent))
    os.chdir(folder)
    source, read = reader_of(name, folder)
    data = seeds(folder)[source]
    place = folder / "damaged"
    place.mkdir()
    file = place / source
    file.write_bytes(data)
    read(file)  # warm: everything is imported before the watch begins
    seen: list[str] = []
    watching = False

    def watch(event: str, _: Any) -> None:
        if watching and event in FORBIDDEN:
            seen.append(event)

    def too_long(*_: object) -> None:
        raise TimeoutError("too long")

    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, too_long)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT_BYTES, used + LIMIT_BYTES))
    with log.open("a", buffering=1) as lines:
        for index in range(start, stop):
            rng = np.random.default_rng([seed, READERS.index(name), index])
            lines.write(f'{{"begin": {index}}}\n')
            file.write_bytes(damaged(name, data, rng))
            begun, detail = time.perf_counter(), ""
            signal.alarm(LIMIT_SECONDS)
            watching = True
            try:
                read(file)
                outcome = "read"
            except InputError as error:
                text = str(error)
                named = str(folder) in text and len(text) < 2000
                outcome, detail = ("refused", "") if named else ("unclear", text[:300])
            except TimeoutError:
                outcome = "hung"
            except BaseException as error:
                outcome, detail = "other", f"{type(error).__name__}: {str(error)[:300]}"
            watching = False
            signal.alarm(0)
            if seen or (folder / "executed").exists():
                outcome, detail = "executed", ", ".join(seen) or "a file was left"
                seen.clear()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - base
            took = time.perf_counter() - begun
            lines.write(
                json.dumps({"i": index, "o": outcome, "d": detail, "s": took, "m": peak}) + "\n"
            )


def run(name: str, count: int, seed: int) -> dict[str, Any]:
    """All files of one reader, in as many worker processes as it takes."""
    found: Counter[str] = Counter()
    longest, peak, examples, start = 0.0, 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        while start < count:
            log.write_text("")
            command = [sys.executable, __file__, "--worker", name, "--from", str(start)]
            command += ["--per-reader", str(count), "--seed", str(seed), "--log", str(log)]
            environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            for line in lines:
                if "o" in line:
                    found[line["o"]] += 1
                    longest, peak = max(longest, line["s"]), max(peak, line["m"])
                    if line["o"] not in ("read", "refused"):
                        examples.append((line["i"], line["o"], line["d"]))
            if done.returncode == 0:
                break
            if not lines:
                raise RuntimeError(done.stderr)
            last = lines[-1].get("begin", lines[-1].get("i"))
            found["died"] += 1
            examples.append((last, "died", f"status {done.returncode}: {done.stderr[-300:]}"))
            start = last + 1
    return {"found": found, "longest": longest, "peak": peak, "examples": examples}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-reader", type=int, default=20000)
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.start, options.per_reader, options.seed, options.log)
        return 0
    bad = ("unclear", "other", "hung", "executed", "died")
    print("| reader | files | read | refused | " + " | ".join(bad) + " | longest ms | more MiB |")
    print("| --- |" + " ---: |" * 10)
    failed = False
    for name in options.readers.split(","):
        result = run(name, options.per_reader, options.seed)
        found = result["found"]
        counts = [sum(found.values()), found["read"], found["refused"], *(found[b] for b in bad)]
        cells = [*counts, f"{1000 * result['longest']:.0f}", f"{result['peak'] / 2**20:.0f}"]
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |", flush=True)
        for index, outcome, detail in result["examples"][:8]:
            print(f"  {name} {index}: {outcome}: {detail}", file=sys.stderr)
        failed |= any(found[b] for b in bad)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
