from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from djgnn.errors import DataNotFoundError, InputError
from djgnn.graph import Graph, available, find, known, load, write_npz
from djgnn.graph.checks import METRICS
from djgnn.graph.registry import cache_folder, folders

TINY = Graph(np.array([[0], [1]]), 2, y=np.array([0, 1]))


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/b",
        "a\\b",
        ".hidden",
        "..",
        ".",
        "",
        " ",
        "C:x",
        "a\0b",
        "x" * 200,
        "/etc/passwd",
        3,
    ],
)
def test_a_name_is_never_a_path(name: str, empty_cache: Path) -> None:
    with pytest.raises(InputError, match="data set"):
        load(name)


def test_first_folder_wins(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "data", tmp_path / "env", empty_cache]
    for size, folder in enumerate(places, start=2):
        folder.mkdir(parents=True)
        write_npz(Graph(TINY.edge_index, size, y=np.arange(size)), folder / "own.npz")
    assert load("own").num_nodes == 4
    monkeypatch.setenv("DJGNN_DATA", str(places[1]))
    assert load("own").num_nodes == 3
    assert load("own", data=places[0]).num_nodes == 2
    assert folders(places[0]) == places
    assert available(places[0]) == {"own": places[0] / "own.npz"}
    assert find("absent", places[0]) is None


@pytest.mark.parametrize("name", ["a\x07", "a\x7f", "a\x9b2J"])
def test_a_name_has_no_control_characters(name: str) -> None:
    with pytest.raises(InputError, match="control character"):
        find(name)


def test_unknown_files_are_data_sets_and_keep_their_card(empty_cache: Path, tmp_path: Path) -> None:
    own = Graph(TINY.edge_index, 2, y=TINY.y, card={"metric": "roc_auc", "note": "ours"})
    write_npz(own, tmp_path / "my graph.npz")
    g = load("my graph", data=tmp_path)
    assert (g.name, g.metric, g.card["note"]) == ("my graph", "roc_auc", "ours")


def test_known_names_ignore_case_and_dashes(empty_cache: Path, tmp_path: Path) -> None:
    write_npz(TINY, tmp_path / "roman-empire.npz")
    g = load("Roman_Empire", data=tmp_path)
    assert g.name == "roman-empire"
    assert g.card["num_classes"] == 18


def test_graph_carries_the_registry_card(empty_cache: Path, tmp_path: Path) -> None:
    write_npz(TINY, tmp_path / "tolokers.npz")
    g = Graph.load("tolokers", data=tmp_path)
    assert g.metric == "roc_auc"
    assert g.card["source"].startswith("yandex")
    json.dumps(dict(g.card))


def test_unknown_name_lists_close_ones_and_folders(empty_cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="did you mean chameleon") as error:
        load("chamelion", data=tmp_path)
    assert str(tmp_path) in str(error.value)
    assert str(empty_cache) in str(error.value)
    assert str(error.value).endswith("(got 'chamelion')")


@pytest.mark.parametrize("name", ["cornell_old", "squirrel_filtered", "twitch_de"])
def test_sets_without_a_class_say_where_to_put_the_file(name: str, empty_cache: Path) -> None:
    with pytest.raises(DataNotFoundError, match=rf"put {name}\.npz in one of .*djgnn"):
        load(name)


def test_data_must_be_a_folder(tmp_path: Path, empty_cache: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        load("cora", data=tmp_path / "typo")


def test_broken_file_is_not_hidden_by_a_download(empty_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "cora.npz").write_text("broken")
    with pytest.raises(InputError, match=r"cora\.npz: is not a readable"):
        load("cora", data=tmp_path)


def test_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "djgnn"


def test_cards_are_complete() -> None:
    cards = known()
    assert len(cards) == 24
    for name, card in cards.items():
        assert card.name == name
        assert card.metric in METRICS
        assert card.direction in ("directed", "symmetric")
        assert min(card.num_nodes, card.num_edges, card.num_features, card.num_splits) >= 1
        assert card.counterpart is None or cards[card.counterpart].counterpart == name
    binary = [name for name in cards if name.startswith(("fb100_", "twitch_"))]
    assert all(cards[name].metric == "roc_auc" for name in [*binary, "minesweeper", "tolokers"])
    assert sum("leak" in " ".join(card.oddities) for card in cards.values()) == 2
    assert cards["cornell_old"].paper_name == "Cornell"


def test_cards_match_the_files(dataset: str, data_dir: Path) -> None:
    g = load(dataset, data=data_dir)
    card = known()[dataset]
    counts = (g.num_nodes, g.num_edges, g.num_features, g.num_classes, g.num_splits)
    stated = (card.num_nodes, card.num_edges, card.num_features, card.num_classes, card.num_splits)
    assert counts == stated
    a = g.adjacency
    assert ((a != a.T).nnz == 0) == (card.direction == "symmetric")
    assert a.max() == 1
    for s in range(g.num_splits):
        parts = g.split(s)
        assert parts.train.any()
        assert parts.val.any()
        assert parts.test.any()


def test_oddities_of_the_files(data_dir: Path) -> None:
    sets = {
        n: load(n, data_dir) for n in ("texas", "cornell", "cornell_old", "cora", "fb100_reed98")
    }
    assert (sets["texas"].y == 1).sum() == 1
    assert sets["texas"].adjacency.trace() == 16
    assert sets["cornell"].content_hash != sets["cornell_old"].content_hash
    assert (sets["cornell_old"].x != sets["texas"].x).nnz == 0
    assert (sets["cora"].train_mask | sets["cora"].val_mask | sets["cora"].test_mask)[
        :, 0
    ].sum() == 2485
    assert (sets["fb100_reed98"].y == -1).sum() == 97


def test_without_a_home_the_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InputError, match="set XDG_CACHE_HOME to a folder"):
        folders()
