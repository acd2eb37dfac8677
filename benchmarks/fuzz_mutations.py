"""Valid files of every format, and seeded ways to damage them."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from djgnn.graph import Graph, random_splits, write_graphml, write_npz, write_tables
from djgnn.training.config import RunConfig

Generator = np.random.Generator


class Bomb:
    """An object whose unpickling would leave a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("executed", "w")


TOKENS = [
    *(b"\0", b'"', b'"a""', b",", b";", b"\t", b"\n", b"\r\n", b"\xff", b"\xef\xbb\xbf", b" ", b""),
    *(b"nan", b"inf", b"-1", b"1e999", b"-0", b"9" * 23, b"9" * 400, b"007", b"true", b"null"),
    *(b"source", b"node", b"label", b"^.*$", b"train", b"\xc3\x28", b"\xf0\x9f\x98\x80", b"(" * 50),
    *(b"[" * 3000, b"{" * 200, b"&a;", b"&#0;", b"<![CDATA[", b"<!--", b"<graph>", b"</node>"),
    *(b'<!DOCTYPE g [<!ENTITY a "b">]>', b'<!DOCTYPE g SYSTEM "file:///etc/passwd">'),
    *(b"<node id='x'/>", b"&a [1]\n", b"*a", b"? ", b"- ", b"%", pickle.dumps(Bomb())),
    b"!!python/object/apply:os.system ['touch executed']",
]


def damage_bytes(data: bytes, rng: Generator) -> bytes:
    """A few random edits: bits, bytes, slices, tokens, a cut."""
    content = bytearray(data)
    for _ in range(int(min(rng.geometric(0.5), 8))):
        size = len(content)
        at = int(rng.integers(0, size + 1))
        length = int(min(rng.geometric(0.1), 200))
        kind = int(rng.integers(0, 8))
        if kind == 0 and size:
            content[at % size] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1 and size:
            content[at % size] = int(rng.integers(0, 256))
        elif kind == 2:
            content[at : at + length] = rng.bytes(length)
        elif kind == 3:
            del content[at : at + length]
        elif kind == 4:
            piece = bytes(content[at : at + length])
            content[at:at] = piece * int(rng.integers(1, 20))
        elif kind == 5:
            content[at:at] = TOKENS[int(rng.integers(0, len(TOKENS)))]
        elif kind == 6:
            other = int(rng.integers(0, size + 1))
            content[at : at + length] = content[other : other + length]
        elif rng.random() < 0.3:
            del content[at:]
    return bytes(content)


def damage_arrays(rng: Generator, arrays: dict[str, Any]) -> bytes:
    """An archive whose arrays have other keys, types, shapes, values, or hold objects."""
    arrays = dict(arrays)
    odd: list[Callable[[Any], Any]] = [
        lambda a: a.astype(rng.choice(["f2", "f8", "c8", "U3", "M8[s]", "?", "u1", ">i4"])),
        lambda a: a[..., :-1],
        lambda a: a.reshape(-1),
        lambda a: a[None],
        lambda a: a * np.asarray(rng.choice([-1, 0, 2**40])),
        lambda a: np.full_like(a, np.nan, dtype=float),
        lambda a: np.array([Bomb()], dtype=object),
        lambda a: np.zeros(a.shape, dtype=[("x", "i4"), ("y", object)]),
        lambda a: np.array(json.dumps({"metric": "x", "deep": [[[]]]})),
        lambda a: np.int64(2**62),
        lambda a: np.asfortranarray(a),
    ]
    for _ in range(int(rng.integers(1, 4))):
        key = str(rng.choice(list(arrays)))
        if rng.random() < 0.2:
            arrays[str(rng.choice(["x", "y", "num_nodes", "card", "junk"]))] = arrays.pop(key)
            continue
        try:
            arrays[key] = odd[int(rng.integers(0, len(odd)))](arrays[key])
        except (ValueError, TypeError, IndexError, OverflowError):
            arrays[key] = np.zeros(0)
    stream = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.5 else np.savez)(stream, **arrays)
    data = stream.getvalue()
    return damage_bytes(data, rng) if rng.random() < 0.5 else data


def damage_frame(rng: Generator, frame: pl.DataFrame) -> bytes:
    """A Parquet file with columns of other types, lists, structs, gaps or doubled rows."""
    name = str(rng.choice(frame.columns))
    odd = [
        pl.col(name).cast(pl.String).cast(pl.Categorical),
        pl.col(name).cast(pl.String).str.to_uppercase(),
        pl.concat_list(name).alias(name),
        pl.struct(name).alias(name),
        pl.lit(None).alias(name),
        pl.lit(float("nan")).alias(name),
        pl.lit(2**62).alias(name),
        pl.col(name).cast(pl.String).cast(pl.Binary),
        pl.lit("2020-01-01").str.to_date().alias(name),
        pl.col(name).shift(1),
        pl.col(name).cast(pl.String) + pl.lit("\0"),
    ]
    changed = frame.with_columns(odd[int(rng.integers(0, len(odd)))])
    if rng.random() < 0.3:
        changed = pl.concat([changed] * int(rng.integers(0, 3) + 1))[: int(rng.integers(0, 90))]
    if rng.random() < 0.2:
        changed = changed.rename({name: "^.*$"})
    stream = io.BytesIO()
    changed.write_parquet(stream, compression=str(rng.choice(["zstd", "snappy", "gzip"])))
    data = stream.getvalue()
    return damage_bytes(data, rng) if rng.random() < 0.7 else data


def seeds(folder: Path) -> dict[str, bytes]:
    """A valid file of every kind, by file name; also written to the folder."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 30, (2, 80))
    graph = random_splits(
        Graph(
            np.unique(ends, axis=1),
            30,
            x=rng.normal(size=(30, 3)).astype(np.float32),
            y=np.arange(30) % 3,
            node_names=tuple(f"n {i}" if i % 2 else f"00{i}" for i in range(30)),
            class_names=("ä", "b", "c"),
        )
    )
    for suffix in ("csv", "tsv"):
        write_tables(graph, folder / f"e.{suffix}", folder / f"n.{suffix}")
    for name in "en":
        pl.read_csv(folder / f"{name}.csv").write_parquet(folder / f"{name}.parquet")
    write_graphml(graph, folder / "g.graphml")
    write_npz(graph, folder / "g.npz")
    (folder / "c.yaml").write_text(RunConfig().to_yaml())
    card = {
        "format": "djgnn-run-1",
        "data": {"name": "g", "sha256": "0" * 64, "classes": ["a", "b"]}
        | {"num_nodes": 30, "num_edges": 80, "num_features": 3},
        "metric": "accuracy",
        "protocol": "validation",
        "seed": 0,
        "interrupted": False,
        "result": {"split": 0, "validation": 2.5, "test": 1.5, "oracle_test": None}
        | {"epoch": 1, "seconds": 0.5},
        "calibration": {"temperature": 1.0},
        "alpha": {"given": 1.0},
        "experts": [
            {"name": "given", "weight": 1.0, "epoch": 1, "epochs": 2, "validation": 2.5}
            | {"validation_loss": 0.5, "seconds": 0.5, "dropped": []}
        ],
        "jumps": None,
        "versions": {"djgnn": "0.1.0"},
    }
    (folder / "result.json").write_text(json.dumps(card))
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
