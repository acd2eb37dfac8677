from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from djgnn.errors import InputError
from djgnn.graph import Graph, npz, read_npz, write_npz
from djgnn.graph.files import atomic_write

EDGES = np.array([[0, 1], [1, 2]], dtype=np.int32)
BASE = {"edge_index": EDGES, "y": np.array([0, 1, -1])}


def save(path: Path, **arrays: object) -> Path:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_round_trip_keeps_everything(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    n = data.draw(st.integers(1, 6))
    ends = st.lists(st.integers(0, n - 1), min_size=3, max_size=3)
    edges = np.array([data.draw(ends), data.draw(ends)])
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
    names = data.draw(st.none() | st.lists(text, min_size=n, max_size=n, unique=True))
    values = data.draw(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=n, max_size=n)
    )
    x = np.array(values, dtype=np.float32)[:, None]
    storage = data.draw(st.sampled_from(["none", "dense", "sparse"]))
    g = Graph(
        edges,
        n,
        x={"none": None, "dense": x, "sparse": sp.csr_array(x)}[storage],
        y=np.array(data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))),
        edge_weight=data.draw(st.sampled_from([None, [0.5, 0, 3]])),
        node_names=names,  # type: ignore[arg-type]
        class_names=["a", "b b", "ü", ","],  # type: ignore[arg-type]
        card={"metric": "roc_auc"},
    )
    file = tmp_path_factory.mktemp("npz") / "g.npz"
    write_npz(g, file)
    back = read_npz(file)
    assert back.content_hash == g.content_hash
    assert (back.node_names, back.class_names) == (g.node_names, g.class_names)
    assert back.metric == "roc_auc"
    assert back.name == "g"
    assert isinstance(back.x, sp.csr_array) == (storage == "sparse")


def test_structure_alone_keeps_its_isolated_nodes(tmp_path: Path) -> None:
    g = Graph(EDGES, 7)
    write_npz(g, tmp_path / "g.npz")
    assert read_npz(tmp_path / "g.npz").num_nodes == 7


def test_masks_of_one_dimension(tmp_path: Path) -> None:
    masks = dict(zip(("train_mask", "val_mask", "test_mask"), np.eye(3, dtype=bool), strict=True))
    file = save(tmp_path / "g.npz", edge_index=EDGES, y=np.array([0, 1, 1]), **masks)
    assert read_npz(file).train_mask.shape == (3, 1)


CSR = {
    "x_data": np.ones(1, np.float32),
    "x_indices": np.array([0]),
    "x_indptr": np.array([0, 1, 1, 1]),
    "x_shape": np.array([3, 2]),
}
BAD = {
    "no edges": ({"y": np.array([0])}, "'edge_index' is missing"),
    "no size": ({"edge_index": EDGES}, "number of nodes is unknown"),
    "objects": (BASE | {"y": np.array([0, None, 1], dtype=object)}, "'y' holds Python objects"),
    "object edges": ({"edge_index": np.array([{}])}, "'edge_index' holds Python objects"),
    "shape": (
        BASE | {"edge_index": np.zeros((3, 2), int)},
        r"edge_index: must have shape \[2, \*\]",
    ),
    "scalar y": (BASE | {"y": np.int64(3)}, "number of nodes is unknown"),
    "part of a CSR": (BASE | {"x_data": np.ones(2)}, "all of x_data"),
    "both": (BASE | CSR | {"x": np.ones((3, 1))}, "'x' alone"),
    "column out of range": (BASE | CSR | {"x_indices": np.array([9])}, "CSR matrix"),
    "bad indptr": (BASE | CSR | {"x_indptr": np.array([0, 5, 1, 1])}, "CSR matrix"),
    "fractional indptr": (BASE | CSR | {"x_indptr": np.array([0, 0.5, 1, 1])}, "CSR matrix"),
    "negative shape": (BASE | CSR | {"x_shape": np.array([-3, 2])}, "CSR matrix"),
    "shape of three": (BASE | CSR | {"x_shape": np.array([3, 2, 1])}, "CSR matrix"),
    "names as numbers": (BASE | {"node_names": np.arange(3)}, "'node_names' must be a list"),
    "card": (BASE | {"card": np.array("not json")}, "'card' must be one JSON object"),
    "num_nodes": ({"edge_index": EDGES, "num_nodes": np.array([3])}, "'num_nodes' must be one"),
    "nan": (BASE | {"x": np.full((3, 1), np.nan)}, "not a finite number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_content_names_file_key_and_remedy(case: str, tmp_path: Path) -> None:
    arrays, message = BAD[case]
    file = save(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=message) as error:
        read_npz(file)
    assert str(file) in str(error.value)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_npz(tmp_path / "none.npz")
    with pytest.raises(InputError, match="is a folder"):
        read_npz(tmp_path)
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "array.npy", np.arange(3))
    for name in ("text.npz", "empty.npz", "array.npy"):
        with pytest.raises(InputError, match=r"not a readable \.npz"):
            read_npz(tmp_path / name)


def test_every_cut_is_an_input_error(tmp_path: Path) -> None:
    whole = save(tmp_path / "g.npz", **BASE, x=np.ones((3, 50))).read_bytes()
    for length in range(0, len(whole), 37):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(InputError):
            read_npz(tmp_path / "cut.npz")


def test_every_flipped_byte_is_an_input_error_or_harmless(tmp_path: Path) -> None:
    whole = bytearray(save(tmp_path / "g.npz", **BASE, x=np.ones((3, 9))).read_bytes())
    for place in range(0, len(whole), 11):
        broken = bytes(whole[:place]) + bytes([whole[place] ^ 0x55]) + bytes(whole[place + 1 :])
        (tmp_path / "broken.npz").write_bytes(broken)
        with suppress(InputError):  # anything else would be a bug
            read_npz(tmp_path / "broken.npz")


def test_bomb_is_refused_from_the_headers(tmp_path: Path) -> None:
    file = save(tmp_path / "bomb.npz", **BASE, x=np.zeros((3, 100_000), np.float32))
    assert file.stat().st_size < 10_000
    with pytest.raises(InputError, match="more than the limit"):
        read_npz(file, max_bytes=1_000_000)
    assert read_npz(file).num_features == 100_000


def test_header_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "liar.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header = header.ljust(117) + b"\n"
    lie = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("edge_index.npy", lie)
    with pytest.raises(InputError, match="'edge_index' claims"):
        read_npz(file)


def write_half(file: Path) -> None:
    with atomic_write(file) as stream:
        stream.write(b"half")
        raise RuntimeError


def test_write_is_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    write_npz(Graph(EDGES, 3), file)
    before = file.read_bytes()
    with pytest.raises(RuntimeError):
        write_half(file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["g.npz"]
    umask = os.umask(0)
    os.umask(umask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask


def test_write_says_where_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_npz(Graph(EDGES, 3), tmp_path / "no" / "g.npz")
    with pytest.raises(InputError, match="is a folder"):
        write_npz(Graph(EDGES, 3), tmp_path)
    with pytest.raises(InputError, match="NUL"):
        write_npz(Graph(EDGES, 3, node_names=("a\0", "b", "c")), tmp_path / "g.npz")


def test_members_are_opened_before_any_thread_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # zipfile seeks relative to a position that readers move, so that both at once read garbage.
    rng = np.random.default_rng(0)
    graph = Graph(rng.integers(0, 99, (2, 50)), 99, x=rng.random((99, 3)), y=np.zeros(99, int))
    write_npz(graph, tmp_path / "g.npz")
    events: list[str] = []
    opened, read = zipfile.ZipFile.open, npz._array

    def open_(*args: Any, **kwargs: Any) -> Any:
        events.append("open")
        return opened(*args, **kwargs)

    def array(stream: Any) -> Any:
        events.append("read")
        return read(stream)

    monkeypatch.setattr(zipfile.ZipFile, "open", open_)
    monkeypatch.setattr(npz, "_array", array)
    assert read_npz(tmp_path / "g.npz").content_hash == graph.content_hash
    assert "open" not in events[events.index("read") :]
    assert events.count("read") == 3
