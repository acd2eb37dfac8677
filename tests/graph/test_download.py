"""Downloads without a network: raw files in the layouts of PyG's own classes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from djgnn.errors import DataNotFoundError
from djgnn.graph import Graph, known, load, random_splits, read_npz
from djgnn.graph.registry import published_elsewhere, year_quantiles

pytestmark = pytest.mark.usefixtures("no_network")


def tiny(n: int = 12, features: int = 40) -> Graph:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(n, size=(30, 2)), axis=0).T
    x = (rng.random((n, features)) < 0.1).astype(np.float32)
    x[:, 0], x[0, -1] = 1, 1
    return random_splits(Graph(pairs, n, x=x, y=np.arange(n) % 3), num_splits=10)


def write_geom_gcn(g: Graph, raw: Path, prefix: str, sparse: bool = False) -> None:
    """The text files of Geom-GCN: a header, then node, features, label; and ten split files."""
    raw.mkdir(parents=True)
    rows = ["node_id\tfeature\tlabel"]
    x = g.x if isinstance(g.x, np.ndarray) else g.x.toarray()
    for i, row in enumerate(x.astype(int)):
        cells = np.flatnonzero(row) if sparse else row
        rows.append(f"{i}\t{','.join(map(str, cells))}\t{g.y[i]}")
    (raw / "out1_node_feature_label.txt").write_text("\n".join(rows) + "\n")
    edges = ["node_id\tnode_id"] + [f"{u}\t{v}" for u, v in g.edge_index.T]
    (raw / "out1_graph_edges.txt").write_text("\n".join(edges) + "\n")
    write_splits(g, raw, prefix)


def write_splits(g: Graph, raw: Path, prefix: str) -> None:
    for s in range(10):
        parts = g.split(s)
        masks = {"train_mask": parts.train, "val_mask": parts.val, "test_mask": parts.test}
        np.savez(raw / f"{prefix}_split_0.6_0.2_{s}.npz", **masks)


@pytest.mark.parametrize(
    ("name", "place", "prefix", "sparse"),
    [
        ("texas", "texas/raw", "texas", False),
        ("cornell", "cornell/raw", "cornell", False),
        ("actor", "raw", "film", True),
        ("chameleon", "chameleon/geom_gcn/raw", "chameleon", False),
    ],
)
def test_geom_gcn_sets_are_converted_and_kept(
    name: str, place: str, prefix: str, sparse: bool, empty_cache: Path
) -> None:
    g = tiny()
    write_geom_gcn(g, empty_cache / "raw" / name / place, prefix, sparse)
    loaded = load(name)
    assert np.array_equal(loaded.edge_index, g.edge_index)
    assert (loaded.x.toarray() == g.x).all()
    assert (loaded.y == g.y).all()
    assert (loaded.val_mask == g.val_mask).all()
    assert (loaded.name, loaded.card["title"]) == (name, known()[name].title)
    kept = read_npz(empty_cache / f"{name}.npz")
    assert kept.content_hash == loaded.content_hash == load(name).content_hash


def test_planetoid(empty_cache: Path) -> None:
    import pickle

    import scipy.sparse as sp

    raw = empty_cache / "raw" / "cora" / "Cora" / "geom-gcn" / "raw"
    raw.mkdir(parents=True)
    g = tiny(520)  # PyG marks 500 validation nodes before it reads the splits
    onehot = np.eye(3, dtype=np.int32)[g.y]
    x = sp.csr_matrix(g.x)
    parts = {"x": x[:4], "allx": x[:510], "tx": x[510:], "y": onehot[:4]}
    parts |= {"ally": onehot[:510], "ty": onehot[510:]}
    parts |= {"graph": {i: [(i + 1) % 520, i] for i in range(520)}}
    for key, value in parts.items():
        (raw / f"ind.cora.{key}").write_bytes(pickle.dumps(value))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, range(510, 520))) + "\n")
    write_splits(g, raw, "cora")
    loaded = load("Cora")
    assert (loaded.x.toarray() == g.x).all()
    assert (loaded.y == g.y).all()
    assert (loaded.train_mask == g.train_mask).all()
    assert loaded.num_edges == 520  # as listed, without self loops


def test_heterophilous_set_is_made_symmetric(empty_cache: Path) -> None:
    g = tiny(features=3)
    raw = empty_cache / "raw" / "minesweeper" / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    keys = ("train_mask", "val_mask", "test_mask")
    masks = {f"{key}s": getattr(g, key).T for key in keys}
    edges = np.array([[0, 1], [1, 2]])
    np.savez(raw / "minesweeper.npz", node_features=g.x, node_labels=g.y, edges=edges, **masks)
    loaded = load("minesweeper")
    assert loaded.metric == "roc_auc"
    assert loaded.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert isinstance(loaded.x, np.ndarray)


def test_facebook_set_has_unlabelled_nodes_and_the_documented_splits(empty_cache: Path) -> None:
    import scipy.sparse as sp
    from scipy.io import savemat

    raw = empty_cache / "raw" / "fb100_reed98" / "reed98" / "raw"
    raw.mkdir(parents=True)
    a = sp.csc_matrix(np.ones((16, 16)) - np.eye(16))
    info = np.random.default_rng(0).integers(3, size=(16, 7))
    savemat(raw / "data.mat", {"A": a, "local_info": info})
    g = load("fb100_reed98")
    assert (g.y == info[:, 1] - 1).all()
    assert (g.y == -1).any()
    assert g.num_splits == 5
    assert not (g.train_mask | g.val_mask | g.test_mask)[g.y < 0].any()
    assert (g.x.sum(axis=1) == 6).all()


def test_documented_splits_are_those_of_the_files(data_dir: Path) -> None:
    for name in ("fb100_reed98", "twitch_engb"):
        g = load(name, data=data_dir)
        assert published_elsewhere(g).content_hash == g.content_hash


def test_real_texas_survives_the_raw_layout(data_dir: Path, empty_cache: Path) -> None:
    g = read_npz(data_dir / "texas.npz")
    write_geom_gcn(g, empty_cache / "raw" / "texas" / "texas" / "raw", "texas")
    assert load("texas").content_hash == g.content_hash


def test_no_network_says_name_folders_and_remedy(empty_cache: Path) -> None:
    with pytest.raises(DataNotFoundError, match="could not be downloaded") as error:
        load("wisconsin")
    for part in ("wisconsin.npz", str(empty_cache), "forbidden in tests"):
        assert part in str(error.value)
    assert not (empty_cache / "wisconsin.npz").exists()


def test_ogb_is_named_when_missing(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb", None)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(DataNotFoundError, match="pip install ogb"):
        load("ogbn-arxiv")


def test_ogb_sets_are_converted(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    year = np.arange(2000, 2020)[:, None]

    class Fake:
        def __init__(self, name: str, root: str) -> None:
            assert name == "ogbn-arxiv"

        def __getitem__(self, _: int) -> tuple[dict[str, object], np.ndarray]:
            content = {"edge_index": np.array([[0], [1]]), "num_nodes": 20, "node_year": year}
            return content | {"node_feat": np.ones((20, 4))}, np.arange(20)[:, None] % 4

        def get_idx_split(self) -> dict[str, np.ndarray]:
            return {"train": np.arange(10), "valid": np.array([10]), "test": np.array([11, 12])}

    module = ModuleType("ogb.nodeproppred")
    module.NodePropPredDataset = Fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
    arxiv, years = load("ogbn-arxiv"), load("arxiv-year")
    assert arxiv.split(0).test.nonzero()[0].tolist() == [11, 12]
    assert arxiv.y.tolist() == [i % 4 for i in range(20)]
    assert years.y.tolist() == [i // 4 for i in range(20)]
    assert years.num_splits == 5


def test_quantiles_are_those_of_linkx() -> None:
    year = np.random.default_rng(0).integers(1990, 2020, size=300)
    expected, lower = np.full(300, -1), -np.inf
    for k in range(4):
        upper = np.quantile(year, (k + 1) / 5)
        expected[(year >= lower) & (year < upper)] = k
        lower = upper
    expected[year >= lower] = 4
    assert (year_quantiles(year) == expected).all()
