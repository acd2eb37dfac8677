"""GraphML as other programs write it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from djgnn.errors import InputError
from djgnn.graph import Graph, read_graphml, write_graphml

HEAD = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEYS = (
    '<key id="d0" for="node" attr.name="size" attr.type="double"><default>2.5</default></key>'
    '<key id="d1" for="node" attr.name="old" attr.type="boolean"/>'
    '<key id="d2" for="node" attr.name="color" attr.type="string"/>'
    '<key id="d3" for="node" attr.name="kind" attr.type="int"/>'
    '<key id="d4" for="edge" attr.name="weight" attr.type="double"><default>1</default></key>'
)


@pytest.fixture
def read(tmp_path: Path):
    def run(text: str, **options: object) -> Graph:
        file = tmp_path / "own.graphml"
        file.write_text(text, "utf-8")
        return read_graphml(file, **options)  # type: ignore[arg-type]

    return run


def node(name: str, **data: str) -> str:
    cells = "".join(f'<data key="{key}">{value}</data>' for key, value in data.items())
    return f'<node id="{name}">{cells}</node>'


NODES = (
    node("a", d1="true", d2="red", d3="1")
    + node("b b", d0="4", d1="false", d2="blue", d3="2")
    + node("007", d1="0", d3="1")
)


def test_attributes_are_columns_and_defaults_hold(read) -> None:
    edges = '<edge source="a" target="b b"><data key="d4">3</data></edge>'
    edges += '<edge source="b b" target="007"/>'
    g = read(
        f'{HEAD}{KEYS}<graph edgedefault="directed">{NODES}{edges}</graph></graphml>',
        label="kind",
        columns={"size": "raw"},
    )
    assert g.node_names == ("a", "b b", "007")
    assert g.card["features"] == ["size", "old", "color=blue", "color=red"]
    assert g.x.tolist() == [[2.5, 1, 0, 1], [4, 0, 1, 0], [2.5, 0, 0, 0]]
    assert (g.class_names, g.y.tolist()) == (("1", "2"), [0, 1, 0])
    assert g.edge_index.tolist() == [[0, 1], [1, 2]]
    assert g.edge_weight.tolist() == [3, 1]
    assert g.name == "own"


@pytest.mark.parametrize("how", ["default", "each"])
def test_undirected_edges_go_both_ways_and_loops_once(read, how: str) -> None:
    flag = ' directed="false"' if how == "each" else ""
    default = "undirected" if how == "default" else "directed"
    edges = "".join(f'<edge source="{s}" target="{t}"{flag}/>' for s, t in ("ab", "bc", "cc"))
    nodes = "".join(f'<node id="{name}"/>' for name in "abc")
    g = read(f'{HEAD}<graph edgedefault="{default}">{nodes}{edges}</graph></graphml>')
    assert g.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 1]]


def test_directed_and_undirected_edges_mix(read) -> None:
    edges = '<edge source="a" target="b" directed="false"/><edge source="b" target="c"/>'
    nodes = "".join(f'<node id="{name}"/>' for name in "abc")
    g = read(f'{HEAD}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>')
    assert g.edge_index.tolist() == [[0, 1, 1], [1, 2, 0]]
    g = read(
        f'{HEAD}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>', symmetric=True
    )
    assert g.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_drawings_and_descriptions_are_left_alone(read) -> None:
    text = (
        '<?xml version="1.0"?>'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://y">'
        '<key id="d9" for="node" yfiles.type="nodegraphics"/><graph edgedefault="directed">'
        '<desc>what it is</desc><node id="a"><port name="p"><data key="x">1</data></port>'
        '<data key="d9"><y:ShapeNode><y:Label>A</y:Label></y:ShapeNode></data></node>'
        '<node id="b"/><edge source="a" target="b"/></graph></graphml>'
    )
    g = read(text)
    assert (g.node_names, g.x, g.y) == (("a", "b"), None, None)


def test_what_networkx_writes(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    other = networkx.DiGraph()
    for i in range(5):
        other.add_node(i, size=float(i), kind="xy"[i % 2])
        other.add_edge(i, (i * i + 1) % 5, weight=i + 0.5)
    networkx.write_graphml(other, tmp_path / "nx.graphml")
    g = read_graphml(tmp_path / "nx.graphml", label="kind", columns={"size": "raw"})
    same = Graph.from_networkx(other, features="size", label="kind", weight="weight")
    assert g.content_hash == same.content_hash
    assert g.node_names == same.node_names


def test_what_networkx_reads(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    g = Graph(np.array([[0, 1], [1, 1]]), 2, y=np.array([0, 1]), node_names=('<a> & "b"', "ü"))
    write_graphml(g, tmp_path / "g.graphml")
    back = networkx.read_graphml(tmp_path / "g.graphml")
    assert list(back.nodes) == list(g.node_names)
    assert [d["label"] for _, d in back.nodes(data=True)] == ["0", "1"]


def test_a_wide_sparse_graph_comes_back(tmp_path: Path) -> None:
    import scipy.sparse as sp

    x = sp.random_array((30, 200), density=0.02, format="csr", dtype=np.float32, rng=0)
    g = Graph(np.zeros((2, 0)), 30, x=x)
    write_graphml(g, tmp_path / "g.graphml")
    back = read_graphml(tmp_path / "g.graphml", columns={"f*": "raw"})
    used = np.unique(x.indices)
    assert back.card["features"] == [f"f{f}" for f in range(200)]
    assert (back.x.toarray() == x.toarray()).all()
    assert used.size < 200


def test_names_that_xml_cannot_hold_are_refused(tmp_path: Path) -> None:
    g = Graph(np.zeros((2, 0)), 2, node_names=("a", "b\x01"))
    with pytest.raises(InputError, match=r"node 1: .* cannot hold; rename"):
        write_graphml(g, tmp_path / "g.graphml")
    assert list(tmp_path.iterdir()) == []


def test_ids_cannot_be_renamed(read) -> None:
    with pytest.raises(InputError, match="leave `node=` out"):
        read(f"{HEAD}<graph/></graphml>", node="size")


def test_defaults_that_would_fill_the_memory_are_refused(read) -> None:
    keys = "".join(
        f'<key id="k{i}" for="node" attr.name="k{i}"><default>x</default></key>'
        for i in range(9000)
    )
    nodes = "".join(f'<node id="{i}"/>' for i in range(9000))
    with pytest.raises(InputError, match=r"9000 attributes of 9000 elements .* are too many"):
        read(f"{HEAD}{keys}<graph>{nodes}</graph></graphml>")


def test_a_long_default_of_many_nodes_is_refused(read) -> None:
    key = f'<key id="k" for="node" attr.name="k"><default>{"x" * 200_000}</default></key>'
    nodes = "".join(f'<node id="{i}"/>' for i in range(2000))
    with pytest.raises(
        InputError, match=r"1 attributes of 2000 elements with defaults of 400000000 char"
    ):
        read(f"{HEAD}{key}<graph>{nodes}</graph></graphml>")


@pytest.mark.parametrize(
    "inside", ['[<!ATTLIST node id CDATA "x">]', "[<!ELEMENT node EMPTY>]", ""]
)
def test_a_document_type_is_refused(read, inside: str) -> None:
    text = f"<!DOCTYPE graphml {inside}>{HEAD}<graph><node/></graph></graphml>"
    with pytest.raises(InputError, match=r"has a document type or an XML entity.*delete"):
        read(text)


NODE = '<node id="a"/>'
KEY = '<key id="k" for="node"/>'
MISPLACED = {
    "in another tag": (f"<graph><part>{NODE}</part></graph>", "outside <graph>"),
    "beside the graph": (f"<part>{NODE}</part><graph/>", "outside <graph>"),
    "at the top": (f"{NODE}<graph/>", "outside <graph>"),
    "in a node": (f'<graph><node id="b">{NODE}</node></graph>', "outside <graph>"),
    "nested graph": ('<graph><node id="b"><graph/></node></graph>', "nested graph"),
    "key twice": (f"{KEY}{KEY}<graph>{NODE}</graph>", "declares a <key> twice"),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_nothing_is_left_out_in_silence(read, case: str) -> None:
    text, message = MISPLACED[case]
    with pytest.raises(InputError, match=message):
        read(f"{HEAD}{text}</graphml>")


LONG = "x" * (2**20 + 1)


def test_long_drawings_and_long_texts_are_read(read) -> None:
    text = (
        '<key id="d" for="node" yfiles.type="nodegraphics"/><key id="k" for="node"/>'
        f'<data key="pictures"><r>{LONG * 3}</r></data><graph edgedefault="directed">'
        f'<node id="a"><data key="d">{LONG * 3}</data><data key="k">{LONG[-100_000:]}</data></node>'
        f'<node id="{LONG[-100_000:]}"><data key="k">y</data></node></graph>'
    )
    g = read(f"{HEAD}{text}</graphml>", label="k", features=[])
    assert g.num_nodes == 2
    assert [len(name) for name in g.class_names] == [100_000, 1]
