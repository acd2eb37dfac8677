"""Small .npz files that ask for much: refused by their headers, with a message."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from djgnn.errors import InputError
from djgnn.graph import Graph, read_npz, write_npz

EDGES = np.array([[0, 1], [1, 2]])
BASE = {"edge_index": EDGES, "y": np.array([0, 1, -1])}


def save(path: Path, **arrays: object) -> Path:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


def save_header(path: Path, key: str, descr: str, shape: tuple[int, ...], zeros: int = 0) -> Path:
    """A file whose array `key` has this header, whatever bytes follow."""
    save(path, **{k: v for k, v in BASE.items() if k != key})
    header = io.BytesIO()
    facts = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{key}.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(header.getvalue())
        for _ in range(zeros // 2**20):
            stream.write(bytes(2**20))
    return path


@pytest.mark.parametrize("key", ["node_names", "class_names", "card"])
def test_entries_without_bytes_are_refused(key: str, tmp_path: Path) -> None:
    file = save_header(tmp_path / "g.npz", key, "<U0", (2_000_000_000,))
    with pytest.raises(
        InputError, match=rf"g\.npz: key '{key}' claims more entries than it has bytes"
    ):
        read_npz(file)


def test_negative_shapes_are_refused(tmp_path: Path) -> None:
    file = save_header(tmp_path / "g.npz", "y", "<i8", (-3,))
    with pytest.raises(
        InputError, match=r"'y' claims more entries than it has bytes.*write it again"
    ):
        read_npz(file)


def test_a_number_of_nodes_alone_asks_for_no_memory(tmp_path: Path) -> None:
    file = save(tmp_path / "g.npz", edge_index=EDGES, num_nodes=2**31 - 1)
    with pytest.raises(InputError, match=r"2147483647 nodes would take .*number the nodes without"):
        read_npz(file)
    save(file, edge_index=EDGES, num_nodes=1000)
    assert read_npz(file).num_nodes == 1000
    with pytest.raises(InputError, match="1000 nodes"):
        read_npz(file, max_bytes=50_000)
    save(file, edge_index=EDGES, num_nodes=1000, y=np.zeros(1000, np.int8))
    assert read_npz(file, max_bytes=50_000).num_nodes == 1000


def test_a_number_of_columns_alone_asks_for_no_memory(tmp_path: Path) -> None:
    parts = {"x_data": np.ones(1, np.float32), "x_indices": np.array([5]), "num_nodes": 2}
    parts |= {"x_indptr": np.array([0, 1, 1]), "edge_index": EDGES[:, :1] * 0}
    file = save(tmp_path / "g.npz", **parts, x_shape=np.array([2, 2**28]))
    with pytest.raises(InputError, match="268435456 feature columns would take"):
        read_npz(file)
    save(file, **parts, x_shape=np.array([2, 5000]))
    assert read_npz(file).num_features == 5000


def test_features_without_columns_tell_nothing_of_nodes(tmp_path: Path) -> None:
    file = save(tmp_path / "g.npz", edge_index=EDGES, x=np.empty((2**31 - 1, 0), np.float32))
    with pytest.raises(InputError, match="2147483647 nodes would take"):
        read_npz(file)


def test_sizes_are_counted_in_the_type_they_are_held_in(tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    save(file, **BASE, x=np.zeros((3, 1000), np.int8))
    with pytest.raises(InputError, match=r"more than the limit of .*raise `max_bytes`"):
        read_npz(file, max_bytes=10_000)
    assert read_npz(file, max_bytes=13_000).num_features == 1000
    save(file, **BASE, class_names=[str(i) for i in range(1000)])
    with pytest.raises(InputError, match=r"more than the limit"):
        read_npz(file, max_bytes=50_000)
    save_header(file, "x", "|i1", (3, 2**20 * 1000), zeros=3 * 2**20)
    with pytest.raises(InputError, match="key 'x' claims"):
        read_npz(file)


@pytest.mark.skipif(sys.platform != "linux", reason="measures the peak of a Linux process")
def test_features_are_copied_once(tmp_path: Path) -> None:
    x = np.zeros((2, 2**24), np.int8)
    file = save(tmp_path / "g.npz", edge_index=EDGES[:, :1], y=np.array([0, 1]), x=x)
    program = (
        "import resource, sys\nfrom djgnn.graph import read_npz\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); read_npz(sys.argv[1]); print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True
    )
    held = x.size * 4 / 1024
    assert int(done.stdout) < 1.8 * held


LABELS = {
    "2^27": np.array([0, 1, 2**27]),
    "2^62": np.array([0, 1, 2**62]),
    "2^63-1": np.array([0, 1, 2**63 - 1]),
}


@pytest.mark.parametrize("case", LABELS)
def test_classes_are_no_more_than_nodes(case: str, tmp_path: Path) -> None:
    y = LABELS[case]
    file = save(tmp_path / "g.npz", edge_index=EDGES, y=y)
    with pytest.raises(InputError, match=rf"g\.npz: y\[2\]: a graph of 3 .*\(got {y[2]}\)"):
        read_npz(file)
    save(file, edge_index=EDGES, y=y, class_names=["a", "b", "c"])
    with pytest.raises(InputError, match=rf"this class has no name.*got {y[2]}"):
        read_npz(file)


def test_a_class_beyond_int64_is_refused() -> None:
    with pytest.raises(InputError, match=r"y\[2\]: classes count from 0"):
        Graph(EDGES, 3, y=np.array([0, 1, 2**63 + 5], dtype=np.uint64))


def test_a_part_of_a_graph_keeps_its_classes() -> None:
    assert Graph(EDGES, 3, y=np.array([0, 999, -1])).num_classes == 1000
    assert Graph(np.zeros((2, 0)), 2000, y=np.full(2000, 1999)).num_classes == 2000


def test_names_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    file = save(tmp_path / "g.npz", **BASE, node_names=["a", "b\ud800", "c"])
    with pytest.raises(InputError, match=r"g\.npz: node_names\[1\]: .* UTF-8; rename it"):
        read_npz(file)
    codes = np.array([97, 0x110000, 98], np.uint32).view("<U1")
    save(file, **BASE, node_names=codes)
    with pytest.raises(InputError, match=r"g\.npz: key 'node_names' must be a list of unicode"):
        read_npz(file)
    save(file, **BASE, card=codes[1:2])
    with pytest.raises(InputError, match=r"g\.npz: key 'card' must be one JSON object"):
        read_npz(file)


CARDS = {
    "oddities": (
        {"oddities": 5},
        r"card: damaged, oddities must be a list, each text; .* \(got 5\)",
    ),
    "oddity": ({"oddities": ["a", 5]}, "card: damaged, oddities must be a list, each text"),
    "one text": ({"oddities": "abc"}, "card: damaged, oddities must be a list, each text"),
    "features": ({"features": {"a": 1}}, "card: damaged, features must be a list, each text"),
    "counterpart": ({"counterpart": [1]}, "card: damaged, counterpart must be text, or null"),
    "metric": ({"metric": ["accuracy"]}, "card: damaged, metric must be one of accuracy"),
    "surrogate": ({"title": "\ud800"}, "key 'card' must be one JSON object"),
}


@pytest.mark.parametrize("case", CARDS)
def test_facts_of_a_card_have_their_types(case: str, tmp_path: Path) -> None:
    card, message = CARDS[case]
    file = save(tmp_path / "g.npz", **BASE, card=np.array(json.dumps(card)))
    with pytest.raises(InputError, match=rf"g\.npz: {message}"):
        read_npz(file)


def test_facts_may_be_missing_or_unknown(tmp_path: Path) -> None:
    card = {"oddities": [], "counterpart": None, "own": {"any": [1]}, "title": "ü"}
    file = tmp_path / "g.npz"
    write_npz(Graph(EDGES, 3, card=card), file)
    assert dict(read_npz(file).card) == card
    with pytest.raises(InputError, match="oddities must be a list, each text"):
        Graph(EDGES, 3, card={"oddities": ["\udfff"]})
