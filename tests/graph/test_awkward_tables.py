"""Tables as people have them: read as a person means them, or refused with everything at once."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from djgnn.errors import GiveawayWarning, InputError, ReadingWarning, TableError
from djgnn.graph import Graph, read_npz, read_tables, reading_of, write_npz
from djgnn.graph.table_rules import reading_words

ROWS = 40
RING = [(i, (i + 1) % ROWS) for i in range(ROWS)]
TABLES = Path(__file__).resolve().parents[3] / "shared" / "tables"


def text(*rows: Sequence[object], mark: str = ",") -> str:
    return "".join(mark.join(map(str, row)) + "\n" for row in rows)


def nodes(*columns: Callable[[int], object], head: str = "", mark: str = ",") -> str:
    """One row per node, each cell made from its number; `head` is the first line."""
    rows = [[column(i) for column in columns] for i in range(ROWS)]
    return (head + "\n" if head else "") + text(*rows, mark=mark)


def edges(name: Callable[[int], object], head: str = "source,target", mark: str = ",") -> str:
    rows = [[name(a), name(b)] for a, b in RING]
    return (head + "\n" if head else "") + text(*rows, mark=mark)


def word(i: int) -> str:
    return f"n{i}"


def same(i: int) -> int:
    return i


def label(i: int) -> str:
    return "xyz"[zlib.crc32(bytes([i])) % 3]


def size(i: int) -> float:
    return i * i % 17 + 0.5


@dataclass(frozen=True)
class Case:
    """Two files, what was said of them, and what a person sees in them."""

    nodes: str | bytes
    edges: str | bytes = field(default_factory=lambda: edges(word))
    options: dict[str, Any] = field(default_factory=dict)
    names: Callable[[int], object] = word
    features: list[str] | None = None
    says: tuple[str, ...] = ()
    check: Callable[[Graph], object] = lambda g: None
    warns: str = ""


def column(values: Callable[[int], object], *features: str, **more: Any) -> Case:
    """A node table with one column of features, `z`."""
    table = nodes(word, label, values, head="id,label,z")
    return Case(table, features=list(features), **more)


def standardised(place: int = 0) -> Callable[[Graph], None]:
    def check(g: Graph) -> None:
        x = g.x[:, place]
        assert abs(x.mean()) < 1e-5
        assert abs(x.std() - 1) < 1e-5

    return check


def equals(values: Callable[[int], float], place: int = 0) -> Callable[[Graph], None]:
    def check(g: Graph) -> None:
        assert g.x[:, place].tolist() == [values(i) for i in range(ROWS)]

    return check


def date(i: int) -> tuple[int, int, int]:
    return 2019 + i % 5, 1 + i % 12, 1 + i * 7 % 28


def first_date(g: Graph) -> None:
    """The order of the dates is that of the numbers, whatever their form."""
    days = [y * 372 + m * 31 + d for y, m, d in map(date, range(ROWS))]
    assert (np.argsort(g.x[:, 0], kind="stable") == np.argsort(days, kind="stable")).all()
    standardised()(g)


PLAIN = nodes(word, label, size, head="id,label,size")
DATES = ["z", "z (year, sin)", "z (year, cos)", "z (week, sin)", "z (week, cos)"]

GOOD: dict[str, Case] = {
    # separators
    "comma": Case(PLAIN, features=["size"], check=standardised()),
    "semicolon and decimal comma": Case(
        nodes(
            word, label, lambda i: str(size(i)).replace(".", ","), head="id;label;size", mark=";"
        ),
        edges(word, head="source;target", mark=";"),
        features=["size"],
        check=standardised(),
        says=("semicolon separated",),
    ),
    "tab": Case(PLAIN.replace(",", "\t"), says=("tab separated",), features=["size"]),
    "bar": Case(PLAIN.replace(",", "|"), says=("bar separated",), features=["size"]),
    "runs of spaces": Case(
        PLAIN.replace(",", "   "),
        edges(word, head="", mark="  \t"),
        says=("space separated, a header", "space separated, no header"),
        features=["size"],
    ),
    "spaces and quotes": Case(
        nodes(word, lambda i: f'"New {label(i)}"', head="id place", mark=" "),
        edges(word, head="", mark=" "),
        features=["place=New x", "place=New y", "place=New z"],
    ),
    "separator in quotes": Case(
        nodes(word, lambda i: f'"{label(i)}, or so"', head="id,place"),
        features=["place=x, or so", "place=y, or so", "place=z, or so"],
    ),
    "separator said to Excel": Case(
        "\ufeffsep=;\r\n" + PLAIN.replace(",", ";"),
        '"sep=,"\n# a remark\n' + edges(word),
        says=("semicolon separated, a header", "comma separated"),
        features=["size"],
        check=standardised(),
    ),
    "separator said": Case(
        PLAIN.replace(",", "~"),
        edges(word).replace(",", "~"),
        options={"separator": "~"},
        features=["size"],
    ),
    # headers
    "no header anywhere": Case(
        nodes(word, label, size),
        edges(word, head=""),
        options={"label": "column_2"},
        features=["column_3"],
        says=("no header; 40 nodes by 'column_1', 40 labelled by 'column_2' (3 classes)",),
    ),
    "no header, all text": Case(nodes(word, label), edges(word, head=""), features=None),
    "a header of years": Case(
        nodes(word, label, size, size, head="place,kind,2019,2020"),
        options={"label": "kind"},
        features=["2019", "2020"],
    ),
    "a header of numbers": Case(
        nodes(word, size, size, size, label, head="0,1,2,3,region"),
        options={"label": "region"},
        features=["1", "2", "3"],
    ),
    "a header said": Case(
        nodes(word, label, head="n99,x"),
        options={"header": "both"},
        check=lambda g: g.card["tables"]["roles"]["node"] == "n99",
    ),
    "an index without a name": Case(
        nodes(same, word, size, head=",id,size"),
        features=["size"],
        says=("column_1: left out: whole numbers, all different",),
    ),
    "row names as R writes them": Case(
        nodes(word, size, label, head="size,label"), features=["size"]
    ),
    "a separator at the end of rows": Case(
        nodes(word, size, lambda i: "", head="id,size"), features=["size"]
    ),
    "comments first": Case(
        "# made by hand\n#\n" + PLAIN,
        "# Nodes: 40\n# FromNodeId\tToNodeId\n" + edges(word, head="", mark="\t"),
        features=["size"],
        says=("from 'FromNodeId' to 'ToNodeId'",),
    ),
    # ends and ids
    "unusual names of ends": Case(PLAIN, edges(word, head="follower,followed"), features=["size"]),
    "id_1 and id_2": Case(PLAIN, edges(word, head="id_1,id_2"), features=["size"]),
    "ends further right": Case(
        nodes(same, word, label, head="id,code,label"),
        text(
            *(
                [f"air{i % 3}", i * 3 % 7, word(a), a, word(b), b, ""]
                for i, (a, b) in enumerate(RING)
            )
        ),
        names=same,
        says=("from 'column_4' to 'column_6'; not used: column_1, column_2, column_3, column_5, ",),
        features=[],
    ),
    "a third column of nodes": Case(
        PLAIN,
        text("abc", *[(word(a), word(b), word(a * 7 % ROWS)) for a, b in RING]),
        warns="column 'c' names nodes too, as 'a' and 'b' do",
    ),
    "the key is not called id": Case(
        nodes(lambda i: 70_000 + 37 * i, size, same, head="id,size,new_id"),
        edges(same, head="from,to"),
        names=same,
        features=["size"],
        says=("id: left out: whole numbers, all different",),
    ),
    "rows are counted from 0": Case(
        nodes(label, size, head="label,size"), edges(same), names=same, features=["size"]
    ),
    "rows are counted from 1": Case(
        nodes(label, size, head="label,size"),
        edges(lambda i: i + 1),
        names=lambda i: i + 1,
        features=["size"],
    ),
    "a second id of words": Case(
        nodes(word, lambda i: f"u-{zlib.crc32(bytes([i])):x}", label, head="id,handle,label"),
        features=[],
        says=("handle: left out: nearly all different, like an id",),
    ),
    "ids as floats": Case(
        nodes(same, size, head="id,size"),
        edges(lambda i: f"{i}.0"),
        names=same,
        warns="compared without spaces",
    ),
    "spaces around ids": Case(
        PLAIN, edges(lambda i: f" {word(i)} "), warns="compared without spaces"
    ),
    "zeros that a spreadsheet ate": Case(
        nodes(lambda i: f"{i:05d}", size, head="id,size"),
        edges(same),
        names=lambda i: f"{i:05d}",
        warns="without leading zeros",
    ),
    "letters before the numbers": Case(
        nodes(size, lambda i: f"C{i}", head="size,customer"),
        edges(same),
        names=lambda i: f"C{i}",
        features=["size"],
        warns="without the letters before them",
    ),
    "capital letters": Case(
        PLAIN, edges(lambda i: f"N{i}" if i % 9 else word(i)), warns="regard to capital letters"
    ),
    "an index that edges mean, beside an id": Case(
        nodes(same, lambda i: i * 7 % ROWS + 1, size, head=",id,size"),
        edges(same),
        names=same,
        features=["size"],
        warns=r"100\.0% .*'column_1', taken for the ids, and 97\.5% in 'id'; say which",
    ),
    "a rank that has all ids": Case(
        nodes(lambda i: i * 7 % ROWS, same, size, head="rank,id,size"), edges(same), names=same
    ),
    "row numbers beside a name": Case(
        nodes(lambda i: f"u-{zlib.crc32(bytes([i])):x}", size, head="handle,size"),
        edges(same),
        names=same,
        warns="taken for row numbers, though column 'handle' looks like an id",
    ),
    "zeros that count": Case(
        nodes(lambda i: f"{i:03d}" if i % 2 else i, size, head="id,size"),
        edges(lambda i: f"{i:03d}" if i % 2 else i),
        names=lambda i: f"{i:03d}" if i % 2 else i,
    ),
    "few edges to nowhere": Case(
        PLAIN,
        edges(word) + "n1,n77\nn2,\\N\n",
        warns=r"2 of 42 edges name a node that is not in the node table.*'n77', ids are like 'n0'",
        check=lambda g: g.num_edges == ROWS,
    ),
    "edges twice": Case(
        PLAIN,
        edges(word) + "n0,n1\nn1,n2\n",
        says=("40 edges from 'source' to 'target'; 2 rows repeat an edge, the first counts (",),
    ),
    "rows twice": Case(PLAIN + text((word(3), label(3), size(3))), warns="1 rows are copies"),
    "a node twice, with other features": Case(
        PLAIN + text((word(3), label(3), 99)),
        features=["size"],
        check=lambda g: g.x[:, 0].argmax() != 3,
        warns="1 rows are of the same nodes as earlier ones",
    ),
    # encodings and lines
    "a byte order mark and CRLF": Case(
        ("\ufeff" + PLAIN.replace("\n", "\r\n")).encode(), features=["size"]
    ),
    "UTF-16": Case(PLAIN.encode("utf-16"), features=["size"], says=("UTF-16",)),
    "latin-1": Case(
        nodes(word, lambda i: ["Köln", "Genève"][i % 2], head="id,city").encode("latin-1"),
        features=["city=Genève", "city=Köln"],
        says=("taken for Windows-1252",),
    ),
    "blank lines": Case("\n" + PLAIN.replace("\n", "\n\n"), features=["size"]),
    # numbers
    "gaps in many words": column(
        lambda i: (
            ["\\N", "NA", "N/A", "null", "NaN", "", "-", "inf"][i // 5] if i % 5 == 0 else i % 9
        ),
        "z",
        "z (missing)",
        check=equals(lambda i: float(i % 5 == 0), 1),
        says=("8 missing, filled with the median and flagged",),
    ),
    "scales from 1 to 10^8": column(
        lambda i: int(10 ** (i / 5)), "z", check=standardised(), says=("logarithm",)
    ),
    "outliers on both sides": column(
        lambda i: [1e30, -1e12][i % 2] if i < 4 else i % 7,
        "z",
        check=lambda g: np.abs(g.x).max() <= 10,
    ),
    "beyond single precision": column(
        lambda i: f"1e{30 + i}", "z", check=lambda g: np.isfinite(g.x).all()
    ),
    "huge whole numbers": column(
        lambda i: 2**63 + 10**16 * (i % 11), "z", check=lambda g: np.isfinite(g.x).all()
    ),
    "money and thousands": column(
        lambda i: f'"${1000 + i % 9 * 250:,}"', "z", check=standardised(), says=("number",)
    ),
    "percent": column(lambda i: f"{i % 9}.5 %", "z", check=standardised()),
    "mostly zero": column(
        lambda i: 7 if i % 10 == 0 else 3 if i % 10 == 1 else 0,
        "z",
        check=lambda g: (g.x[2:10] == 0).all(),
    ),
    "a number as it is": column(
        lambda i: 1000 + i % 9,
        "z",
        options={"columns": {"z": "raw"}},
        check=equals(lambda i: 1000 + i % 9),
    ),
    "a number that is a category": column(
        lambda i: i % 2 + 7, "z=7", "z=8", options={"columns": {"z": "category"}}
    ),
    # truth values
    "true and false": column(
        lambda i: ["True", "FALSE"][i % 2], "z", check=equals(lambda i: 1 - i % 2)
    ),
    "yes and no": column(lambda i: ["no", " Yes "][i % 2], "z", check=equals(lambda i: i % 2)),
    "t and f with gaps": column(
        lambda i: ["t", "f", "NA"][i % 3],
        "z",
        "z (missing)",
        check=equals(lambda i: float(i % 3 == 0)),
    ),
    "zeros and ones": column(lambda i: i % 2, "z", check=equals(lambda i: i % 2)),
    # categories
    "codes with leading zeros": column(lambda i: f"0{i % 3}501", "z=00501", "z=01501", "z=02501"),
    "a gap in a category": column(
        lambda i: ["red", "blue", "n/a"][i % 3],
        "z=blue",
        "z=red",
        check=lambda g: (g.x[2::3] == 0).all(),
    ),
    "spaces in a category": column(lambda i: [" red", "red ", "blue"][i % 3], "z=blue", "z=red"),
    # dates
    "dates of ISO": column(lambda i: "{}-{:02}-{:02}".format(*date(i)), *DATES, check=first_date),
    "dates with dots": column(
        lambda i: "{2:02}.{1:02}.{0}".format(*date(i)), *DATES, check=first_date
    ),
    "dates of America": column(
        lambda i: "{1:02}/{2:02}/{0}".format(*date(i)), *DATES, check=first_date
    ),
    "dates in words": column(
        lambda i: f"{date(i)[2]} {['Jan', 'May'][i % 2]} {date(i)[0]}", *DATES, check=standardised()
    ),
    "dates without marks": column(
        lambda i: "{}{:02}{:02}".format(*date(i)), *DATES, check=first_date
    ),
    "times with a zone": column(
        lambda i: "{}-{:02}-{:02}T{:02}:30:00Z".format(*date(i), i % 24),
        *DATES,
        "z (day, sin)",
        "z (day, cos)",
        check=first_date,
    ),
    "gaps in dates": column(
        lambda i: "{}-{:02}-{:02}".format(*date(i)) if i % 4 else "null", *DATES, "z (missing)"
    ),
    "seconds since 1970": Case(
        nodes(word, lambda i: 1_600_000_000 + 86_400 * 40 * i, head="id,joined"),
        features=[name.replace("z", "joined", 1) for name in DATES],
        says=("joined: date (seconds since 1970)",),
    ),
    # columns that are no features
    "an empty column": column(lambda i: ["", "NA", " "][i % 3], says=("z: left out: empty",)),
    "a constant column": column(lambda i: "same", says=("z: left out: the same in every row",)),
    "left out by hand": column(size, options={"columns": {"z": "drop"}}),
    # labels
    "labels with gaps": Case(
        nodes(word, lambda i: ["x", "y ", "NULL", "-1"][i % 4], head="id,label"),
        check=lambda g: (
            g.y.tolist() == [0, 1, -1, -1] * (ROWS // 4) and g.class_names == ("x", "y")
        ),
    ),
    "a label that is true or false": Case(
        nodes(word, lambda i: i % 2 == 0, head="id,mature"),
        options={"label": "mature"},
        check=lambda g: g.class_names == ("False", "True"),
    ),
}


def reading_lines(graph: Graph) -> list[str]:
    said = reading_words(graph)
    return said["notes"] + said["columns"]


def read(case: Case, folder: Path, **more: Any) -> Graph:
    for name, content in (("e.csv", case.edges), ("n.csv", case.nodes)):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return read_tables(folder / "e.csv", folder / "n.csv", **{**case.options, **more})


def test_there_are_forty() -> None:
    assert len(GOOD) + len(BAD) >= 40


@pytest.mark.parametrize("name", GOOD)
def test_a_table_is_read_as_a_person_means_it(name: str, tmp_path: Path) -> None:
    case = GOOD[name]
    if case.warns:
        with pytest.warns(ReadingWarning, match=case.warns):
            graph = read(case, tmp_path)
    else:
        graph = read(case, tmp_path)
    assert graph.node_names == tuple(str(case.names(i)) for i in range(ROWS))
    assert graph.edge_index.T.tolist() == [list(pair) for pair in RING]
    if case.features is not None:
        assert graph.card.get("features", []) == case.features
    said = "\n".join(reading_lines(graph))
    assert all(part in said for part in case.says), said
    assert case.check(graph) in (None, True)


@pytest.mark.parametrize("name", [name for name, case in GOOD.items() if not case.warns])
def test_what_was_learned_is_stored_and_used_again(name: str, tmp_path: Path) -> None:
    """The same rows after a round through the file of a run have the same features."""
    graph = read(GOOD[name], tmp_path)
    write_npz(graph, tmp_path / "graph.npz")
    stored = read_npz(tmp_path / "graph.npz")
    if stored.card["tables"]["roles"]["node"].startswith("row number"):
        pytest.skip("new nodes need names")
    options: Any = {**GOOD[name].options, **reading_of(stored)}
    again = read_tables(tmp_path / "e.csv", tmp_path / "n.csv", **options)
    if graph.x is None:
        assert again.x is None
    else:
        assert np.array_equal(again.x, graph.x)


BAD: dict[str, tuple[Case, tuple[str, ...]]] = {
    "everything at once": (
        Case(
            text(
                ("id", "label", "age", "when"),
                ("a", "x", 1, 7),
                ("b", "y", "old", 8),
                ("", "x", 3, 1),
                ("a", "y", 4, 2),
            ),
            text(("source", "target", "weight"), ("a", "q", 1), ("a", "b", -2)),
        ),
        (
            r"5 problems",
            r"n\.csv: row 3, column 'id': every node needs an id; fill it",
            r"n\.csv: row 4, column 'id': node already given in row 1 with other cells; keep one",
            r"n\.csv: row 2, column 'age': is not a number.*`columns=`.*'age=category'.*'old'",
            r"e\.csv: row 1, column 'target': no such node in the node table, where ids are like "
            r"'a'; add it there, drop the edge or add all .*`add_nodes=` \(1 of 2 edges match\)",
            r"e\.csv: row 2, column 'weight': a weight is a number of zero or more; correct it",
        ),
    ),
    "both files": (
        Case("id,size\na,1\nb,2,3\n", b"source,target\n\x00"),
        (r"2 problems", r"n\.csv: line 3 has 3 cells", r"e\.csv: .*"),
    ),
    "files of Excel": (
        Case(
            b"PK\x03\x04\x14\x00" + b"\x00" * 24 + b"xl/workbook.xml", b"\xd0\xcf\x11\xe0\xa1\xb1"
        ),
        (r"n\.csv: is an Excel file; save the sheet as CSV", r"e\.csv: is an Excel file"),
    ),
    "both headers": (
        Case("id,z,z\na,1,2\n", "source,source\na,b\n"),
        (
            r"n\.csv: column 'z' occurs twice; rename",
            r"e\.csv: column 'source' occurs twice; rename",
        ),
    ),
    "every column": (
        Case(nodes(word, *[lambda i: "odd" if i == 30 else i % 9] * 3, head="id,p,q,r")),
        tuple(rf"row 31, column '{name}': is not a number" for name in "pqr"),
    ),
    "ragged rows": (
        Case(PLAIN + "n40,x\nn41\n"),
        (r"line 42 has 2 cells, the first has 3 \(2 such lines\); give every row one cell",),
    ),
    "a node twice, with another label": (
        Case(PLAIN + text((word(3), "w", size(3)))),
        (r"row 41, column 'id': node already given in row 4 with other cells; keep one",),
    ),
    "many nodes twice": (
        Case(PLAIN + text(*[(word(i), label(i), -1) for i in range(5)])),
        (r"row 41, column 'id': node already given in row 1 .*\(5 such rows\)",),
    ),
    "most edges to nowhere": (
        Case(PLAIN, edges(lambda i: f"m{i}")),
        (r"e\.csv: row 1, column 'source': no such node.*ids are like 'n0'; .*none of 40 edges",),
    ),
    "letter case that counts": (
        Case(PLAIN + text(("N0", "x", 1)), edges(lambda i: f"N{i}")),
        (r"row 1, column 'target': no such node.*; letter case differs; .*none of 40.*got 'N1'",),
    ),
    "one column of edges": (
        Case(PLAIN, "source\nn1\nn2\n"),
        (r"e\.csv: has one column and needs two.*with `separator=` \(got column source\)",),
    ),
    "a date that is none": (
        column(lambda i: "soon" if i == 7 else "{}-{:02}-{:02}".format(*date(i))),
        (r"row 8, column 'z': is not a date like the others.*'soon'",),
    ),
    "a quantity as the label": (
        Case(nodes(word, lambda i: i / 7, head="id,label")),
        (r"column 'label' holds 40 different numbers, a quantity and not classes; cut it",),
    ),
    "a label that is not there": (
        Case(nodes(word, label, size), edges(word, head=""), {"label": "region"}),
        (r"no column 'region'.*it has no header line.*columns column_2, column_3",),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_table_is_refused_with_all_that_is_wrong(name: str, tmp_path: Path) -> None:
    case, messages = BAD[name]
    with pytest.raises(InputError) as error:
        read(case, tmp_path)
    for message in messages:
        assert re.search(message, str(error.value)), str(error.value)
    assert isinstance(error.value, TableError) == (len(messages) > 1)


def test_more_than_a_hundred_classes_are_refused(tmp_path: Path) -> None:
    rows = [(f"n{i}", f"k{i % 101}") for i in range(303)]
    case = Case(text(("id", "label"), *rows), "source,target\nn0,n1\n")
    with pytest.raises(InputError, match="holds 101 classes, more than 100; join the rare ones"):
        read(case, tmp_path)


def test_many_values_are_hashed_and_free_text_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    rows = [
        (f"n{i}", f"town{rng.integers(300) if i > 400 else i % 9}", " ".join(rng.choice(words, 6)))
        for i in range(800)
    ]
    case = Case(text(("id", "town", "story"), *rows), "source,target\nn0,n1\n")
    g = read(case, tmp_path)
    assert sp.issparse(g.x)
    lines = "\n".join(reading_lines(g))
    assert "commonest, others hashed to 32 columns" in lines
    assert "story: free text, words hashed to 64 columns (TF-IDF)" in lines
    town = [i for i, name in enumerate(g.card["features"]) if name.startswith("town")]
    assert (g.x[:, town].sum(axis=1) == 1).all()
    story = [i for i, name in enumerate(g.card["features"]) if name.startswith("story")]
    assert np.allclose((g.x[:, story] ** 2).sum(axis=1), 1, atol=1e-5)
    new = Case(text(("id", "town", "story"), ("m", "town9999", "word3 word4 unheard")), case.edges)
    later = read(new, tmp_path, **reading_of(g), others=g.names())
    assert later.x[[0]][:, town].sum() == 1
    assert later.card["features"] == g.card["features"]


def test_numbers_of_new_nodes_are_put_on_the_scale_of_the_known_ones(tmp_path: Path) -> None:
    g = read(column(lambda i: i % 9 if i else "NA"), tmp_path)
    values = np.array([i % 9 for i in range(1, ROWS)])
    new = Case(text(("id", "z"), ("m", 20), ("k", "")), "source,target\nm,n1\n")
    later = read(new, tmp_path, **reading_of(g), others=g.names())
    assert later.x[0].tolist() == pytest.approx([(20 - values.mean()) / values.std(), 0])
    assert later.x[1, 1] == 1
    wrong = Case(text(("id", "z"), ("m", "many")), new.edges)
    with pytest.raises(InputError, match="row 1, column 'z': is not a finite number, as the model"):
        read(wrong, tmp_path, **reading_of(g), others=g.names())


FEW = ROWS // 4
"""Nodes of a table that lists the labelled ones alone."""


def few(*columns: Callable[[int], object], head: str) -> str:
    return "".join(line + "\n" for line in nodes(*columns, head=head).splitlines()[: FEW + 1])


def test_a_list_of_labels_is_enough_beside_the_edges(tmp_path: Path) -> None:
    for head in ("id,label", "account,label"):
        g = read(Case(few(word, label, head=head)), tmp_path)
        assert g.num_nodes == g.num_edges == ROWS
        assert g.node_names[:FEW] == tuple(map(word, range(FEW)))
        assert (g.y[:FEW] >= 0).all()
        assert (g.y[FEW:] == -1).all()
        ends = np.array(g.names())[g.edge_index].T.tolist()
        assert ends == [[word(a), word(b)] for a, b in RING]
        note = f"40 nodes by {head.split(',')[0]!r}, 30 of them named by edges alone"
        assert note in reading_lines(g)[0]
    with pytest.raises(InputError, match="drop the edge or add all such nodes with `add_nodes=`"):
        read(Case(few(word, label, head="id,label")), tmp_path, add_nodes=False)
    with pytest.raises(InputError, match="none of 40 edges"):  # ids of another kind
        read(Case(few(lambda i: f"m{i}", label, head="id,label")), tmp_path)


def test_nodes_that_only_edges_name_have_missing_features(tmp_path: Path) -> None:
    case = Case(few(word, label, size, head="id,label,size"), edges(word) + "n1,\nn2,NA\n")
    with pytest.raises(InputError, match="`add_nodes=`"):
        read(case, tmp_path)
    with pytest.warns(ReadingWarning, match="2 of 42 edges"):  # an empty end is no node
        g = read(case, tmp_path, add_nodes=True)
    assert g.num_nodes == ROWS
    assert g.card["features"] == ["size", "size (missing)"]
    assert g.x[:, 1].tolist() == [0] * FEW + [1] * (ROWS - FEW)
    middle = np.median([size(i) for i in range(FEW)])
    scaled = {(size(i) - middle) / (g.x[i, 0] - g.x[-1, 0]) for i in range(FEW)}
    assert max(scaled) - min(scaled) < 1e-3  # the median is their size
    new = Case(text(("id", "size"), ("m", 20)), "source,target\nm,n39\nk,m\n")
    later = read(new, tmp_path, **reading_of(g), others=g.names(), add_nodes=True)
    assert later.node_names == ("m", "k", *g.names())
    ends = np.array(later.names())[later.edge_index].T.tolist()
    assert ends == [["m", "n39"], ["k", "m"]]
    assert later.x[1].tolist() == g.x[-1].tolist()


def test_labels_are_never_learned_from(tmp_path: Path) -> None:
    """Features are the same whatever the labels are."""
    tables = [
        nodes(word, kind, size, head="id,label,z") for kind in (label, lambda i: "xyz"[i % 2])
    ]
    first, second = (read(Case(table), tmp_path) for table in tables)
    assert np.array_equal(first.x, second.x)
    assert first.card["tables"]["columns"] == second.card["tables"]["columns"]


def test_a_column_that_gives_the_label_away_is_named(tmp_path: Path) -> None:
    table = nodes(word, label, lambda i: f"{label(i)}/{i % 2}", size, head="id,label,zone,size")
    with pytest.warns(GiveawayWarning, match=r"'zone' alone gives the label of 100% .* zone=drop"):
        read(Case(table), tmp_path)
    read(Case(table), tmp_path, columns={"zone": "drop"})
    hidden = nodes(
        word,
        lambda i: "" if i % 2 else label(i // 2),
        lambda i: "qr"[i // 4 % 2] if i % 2 else label(i // 2),
        head="id,label,zone",
    )
    with pytest.warns(GiveawayWarning, match="100%"):  # only labelled nodes are looked at
        read(Case(hidden), tmp_path)


def test_numbers_that_give_the_label_away_are_named(tmp_path: Path) -> None:
    """Codes of the classes as floats, as pandas makes them, and a score with a range for each."""
    codes = ["xyz".index(label(i)) for i in range(ROWS)]
    frame = pl.DataFrame({"id": map(word, range(ROWS)), "label": ["", *map(label, range(1, ROWS))]})
    links = pl.DataFrame({"source": ["n0"], "target": ["n1"]})
    for values in ([math.nan, *codes[1:]], [code + i / 50 for i, code in enumerate(codes)]):
        with pytest.warns(GiveawayWarning, match="'z' alone gives the label of"):
            Graph.from_frames(links, frame.with_columns(z=pl.Series(values, strict=False)))
    overlapping = nodes(word, label, lambda i: codes[i] + i / 39, head="id,label,z")
    assert read(Case(overlapping), tmp_path).card["features"] == ["z"]
    lone = nodes(word, lambda i: "xy"[i == 7], lambda i: i + 0.5 + 99 * (i == 7), head="id,label,z")
    assert read(Case(lone), tmp_path).card["features"] == ["z"]


LABELLED_ONLY: dict[str, tuple[Callable[[int], object], str]] = {
    "a number": (lambda i: "NA" if i % 2 else i % 7 + 0.5, "number"),
    "a category": (lambda i: "" if i % 2 or i % 5 == 0 else label(i), "category"),
    "one value where no label is": (lambda i: 0 if i % 2 else i % 7, "number"),
    "whether there is a label": (lambda i: "no" if i % 2 else "yes", "truth"),
}


@pytest.mark.parametrize("name", LABELLED_ONLY)
def test_a_column_for_labelled_nodes_only_is_left_out(name: str, tmp_path: Path) -> None:
    values, kind = LABELLED_ONLY[name]
    table = nodes(word, lambda i: "" if i % 2 else label(i), size, values, head="id,label,size,z")
    with pytest.warns(GiveawayWarning, match=rf"'z' is left out.*`columns=` z={kind}"):
        graph = read(Case(table), tmp_path)
    assert graph.card["features"] == ["size"]
    assert "z: left out: nodes without a label have no value" in "\n".join(reading_lines(graph))
    again = read(Case(table), tmp_path, **reading_of(graph))
    assert np.array_equal(again.x, graph.x)
    kept = read(Case(table), tmp_path, columns={"z": kind})
    assert any(feature.startswith("z") for feature in kept.card["features"])


def test_a_column_with_gaps_or_few_values_is_kept(tmp_path: Path) -> None:
    """Some nodes without a label have a value, or most labelled ones have the same, or few none."""
    half = nodes(
        word,
        lambda i: "" if i % 2 else label(i),
        lambda i: "" if i % 2 and i > 4 else i % 7,
        lambda i: int(i % 8 == 0),
        head="id,label,gaps,rare",
    )
    assert read(Case(half), tmp_path).card["features"] == ["gaps", "gaps (missing)", "rare"]
    few = nodes(word, lambda i: "" if i < 19 else label(i), lambda i: max(i, 18), head="id,label,z")
    assert read(Case(few), tmp_path).card["features"] == ["z"]


def test_readings_of_version_0_1_are_still_used(tmp_path: Path) -> None:
    g = read(Case(nodes(word, size, label, head="id,size,kind")), tmp_path, columns={"*": "raw"})
    tables = {k: v for k, v in g.card["tables"].items() if k not in ("columns", "notes")}
    tables["features"] = [["size", None], ["kind", ["x", "y"]]]
    old = dataclasses.replace(g, card={"tables": json.loads(json.dumps(tables))})
    new = Case(text(("id", "size", "kind"), ("m", 30, "y")), "source,target\nm,n1\n")
    later = read(new, tmp_path, **reading_of(old), others=g.names())
    assert later.x[0].tolist() == [30, 0, 1]
    assert reading_lines(old) == ["size: number, as it is", "kind: category, 2 values"]


needs_tables = pytest.mark.skipif(
    not TABLES.is_dir(), reason="real tables are not part of the repo"
)


def hide(column: Callable[[list[str]], str], rows: list[list[str]]) -> list[list[str]]:
    """The label at the end of every row, empty for every second node."""
    return [[*row, "" if zlib.crc32(row[0].encode()) % 2 else column(row)] for row in rows]


@needs_tables
def test_streamers_of_twitch() -> None:
    place = TABLES / "twitch-engb"
    g = read_tables(place / "ENGB_edges.csv", place / "ENGB_target.csv", label="mature")
    assert (g.num_nodes, g.num_edges, g.class_names) == (7126, 35324, ("False", "True"))
    assert g.card["features"] == ["days", "views", "partner"]
    assert g.card["tables"]["roles"]["node"] == "new_id"


@needs_tables
def test_airports_of_the_usa() -> None:
    place = TABLES / "usa-airports"
    g = read_tables(place / "usa-airports.edgelist", place / "labels-usa-airports.txt")
    assert (g.num_nodes, g.num_edges, g.num_classes, g.x) == (1190, 13599, 4, None)


@needs_tables
@pytest.mark.parametrize("head", [None, [f"c{i}" for i in range(14)], list(range(14))])
def test_airports_of_openflights(head: list[object] | None, tmp_path: Path) -> None:
    with (TABLES / "openflights" / "airports.dat").open(encoding="utf-8") as stream:
        rows = hide(
            lambda r: "" if r[11] == "\\N" else r[11].split("/")[0], list(csv.reader(stream))
        )
    with (tmp_path / "n.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([[*head, "region"], *rows] if head else rows)
    zone = str(head[11]) if head else "column_12"
    region = "region" if head else "column_15"
    with pytest.warns(GiveawayWarning, match=zone), pytest.warns(ReadingWarning, match="892 of 67"):
        g = read_tables(TABLES / "openflights" / "routes.dat", tmp_path / "n.csv", label=region)
    assert g.num_nodes == 7698
    assert g.card["tables"]["roles"]["source"] == "column_4"
    assert g.card["tables"]["roles"]["target"] == "column_6"
    kinds = [c["kind"] for c in g.card["tables"]["columns"]]
    numbers = ["number"] * 4
    assert kinds == [
        "text",
        "category",
        "category",
        "drop",
        "drop",
        *numbers,
        "category",
        "category",
        "drop",
        "drop",
    ]
    assert math.isfinite(abs(g.x).max())
