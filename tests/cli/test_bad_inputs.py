"""Named bad inputs over the real command line: status 2, one clear message, nothing written."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

EDGES = "source,target\na,b\nb,c\nc,d\n"
NODES = "id,size,label\na,1,x\nb,2,y\nc,3,x\nd,4,y\n"
TABLES = ("--edges", "e.csv", "--nodes", "n.csv")
HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEY = '<key id="d0" for="node" attr.name="label" attr.type="string"/>'
ARRAYS: dict[str, Any] = {
    "edge_index": np.array([[0, 1], [1, 2]]),
    "y": np.array([0, 1, 0, 1]),
    "x": np.ones((4, 2)),
}


class Canary:
    """Unpickling this would leave a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("executed", "w")


@dataclass(frozen=True)
class Case:
    """Files to write, the options of `djgnn fit`, and what the message must say."""

    says: str
    files: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = TABLES


def nodes(text: str | bytes, says: str, *options: str) -> Case:
    return Case(rf"n\.csv.*{says}", {"n.csv": text}, TABLES + options)


def edges(text: str | bytes, says: str, *options: str) -> Case:
    return Case(rf"e\.csv.*{says}", {"e.csv": text}, TABLES + options)


def options(says: str, *given: str) -> Case:
    return Case(says, {}, TABLES + given)


def npz(says: str, content: Any = None, **changes: Any) -> Case:
    data = content if content is not None else archive(**changes)
    return Case(rf"g\.npz.*{says}", {"g.npz": data}, ("--graph", "g.npz"))


def graphml(says: str, text: str) -> Case:
    return Case(rf"g\.graphml.*{says}", {"g.graphml": text}, ("--edges", "g.graphml"))


def inside(graph: str) -> str:
    return f"{HEAD}{KEY}<graph>{graph}</graph></graphml>"


def config(says: str, text: str) -> Case:
    return Case(rf"c\.yaml.*{says}", {"c.yaml": text}, (*TABLES, "--config", "c.yaml"))


def archive(**changes: Any) -> bytes:
    """The bytes of an npz file; an array that is None is left out."""
    arrays = {key: value for key, value in (ARRAYS | changes).items() if value is not None}
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def bomb() -> bytes:
    """An archive whose directory declares 4 GiB for every member."""
    data = bytearray(archive())
    for match in re.finditer(b"PK\x01\x02", bytes(data)):
        data[match.start() + 24 : match.start() + 28] = b"\xf0\xff\xff\xff"
    return bytes(data)


def claiming() -> bytes:
    """An array whose own header claims far more entries than the archive holds."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as whole:
        head = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 4000000000), }".ljust(117)
        whole.writestr("edge_index.npy", b"\x93NUMPY\x01\x00\x76\x00" + head.encode() + b"\n")
    return stream.getvalue()


def parquet(**columns: Any) -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))
PARQUET = ("--edges", "e.csv", "--nodes", "n.parquet")
ALIASES = "a: &a [1]\n" + "".join(f"{c}: [*a,*a]\n" for c in "bcd")

CASES: dict[str, Case] = {
    "missing node": edges("source,target\na,b\nb,zz\n", "row 2, column 'target'.*add it"),
    "missing end": edges("source,target\na,\n", "row 1, column 'target'.*two nodes"),
    "no header": edges("p,q\nz,w\n", "no column source.*--source-column.*header"),
    "wrong node columns": nodes("key,size\nq,1\n", "no column node.*--id-column"),
    "long row": nodes("id,z\na,1\nb,2,3\n", "line 3 has 3 cells.*one cell per column"),
    "short row": edges("source,target\na,b\nb\n", "line 3 has 1 cells"),
    "two labels for one node": nodes("id,label\na,x\nb,y\na,y\n", "row 3, column 'id'.*row 1"),
    "node without id": nodes("id,label\na,x\n,y\n", "row 2, column 'id': every node needs an id"),
    "too large a number as it is": nodes(
        "id,z\na,1\nb,1e39\nc,2\nd,3\n", "row 2, column 'z'.*finite", "--column", "z=raw"
    ),
    "text among numbers": nodes("id,z\na,1\nb,low\nc,2\nd,3\n", "row 2.*'z'.*--column.*'low'"),
    "wrong kind": options("column 'size' must be one of number", "--column", "size=big"),
    "kind of no column": options(
        "--column says Siz=drop.*did you mean 'size'", "--column", "Siz=drop"
    ),
    "no kind": options("--column: must be NAME=KIND", "--column", "size"),
    "wrong header": options("header: must be one of both", "--header", "yes"),
    "wrong separator": options("separator: must be tab", "--separator", "dots"),
    "a quantity": nodes(
        "id,y\n" + "".join(f"{c},{i / 7}\n" for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")),
        "26 different numbers, a quantity and not classes; cut it.*--label",
    ),
    "too many classes": nodes(
        "id,y\n" + "".join(f"{c}{i},k{i}\n" for i in range(101) for c in "abc"),
        "holds 101 classes, more than 100; join the rare ones.*--label",
    ),
    "nan weight": edges("source,target,weight\na,b,nan\n", "row 1, column 'weight'.*zero or more"),
    "infinite weight": edges("source,target,w\na,b,1\na,c,inf\n", "row 2, column 'w'"),
    "negative weight": edges("source,target,w\na,b,-1\n", "row 1, column 'w'.*zero or more"),
    "weight in words": edges("source,target,w\na,b,much\n", "row 1, column 'w'.*'much'"),
    "huge id": edges("source,target\na,99999999999999999999999\n", "row 1, column 'target'"),
    "empty edge file": edges("", "is empty; it needs a header line"),
    "empty node file": nodes("", "is empty; it needs a header line"),
    "only a header": nodes("id,label\n", "has no rows; give one row per node"),
    "folder": Case("folder.*is a folder; give the path", {"folder/x": ""}, ("--graph", "folder")),
    "folder as edges": Case(
        "is a folder", {"folder/x": ""}, ("--edges", "folder", "--nodes", "n.csv")
    ),
    "unreadable file": Case(
        "loop.csv.*(cannot be read|no such file); check",
        {},
        ("--edges", "loop.csv", "--nodes", "n.csv"),
    ),
    "missing file": Case(
        "no.csv.*no such file; check the path", {}, ("--edges", "no.csv", "--nodes", "n.csv")
    ),
    "no encoding": nodes(b"id,label\n\x81,x\nb,y\n", "line 2 is not UTF-8.*save"),
    "binary": nodes(bytes(range(256)), "UTF-8"),
    "open quote": nodes('id,label\n"a,x\nb,y\n', "quote"),
    "broken header": nodes('id,"lab\nel",z"\na,x,1\n', "header|quote|column"),
    "column twice": nodes("id,z,z\na,1,2\n", "column 'z' occurs twice; rename"),
    "no label column": nodes("id,size\na,1\nb,2\nc,3\nd,4\n", "no node has a label.*--label"),
    "empty labels": nodes("id,label\na,\nb,\nc,\nd,\n", "no node has a label"),
    "one class": nodes("id,label\na,x\nb,x\nc,x\nd,x\n", "one class"),
    "minus one leaves one class": nodes("id,y\na,1\nb,-1\nc,1\nd,1\n", "-1 means unknown"),
    "unknown part": nodes("id,label,split\na,x,train\nb,y,maybe\n", "row 2.*train, val, test"),
    "train without label": nodes("id,label,split\na,,train\nb,y,val\n", "row 1.*has no label"),
    "split without labels": nodes("id,split\na,train\nb,val\n", "no labels.*--label"),
    "repeated edge": edges(
        "source,target\na,b\na,b\nc,d\n", "row 2.*in row 1.*--duplicates", "--duplicates", "error"
    ),
    "unknown rule": options("duplicates: must be one of first", "--duplicates", "last"),
    "no such label": options(r"n\.csv.*no column 'kind'.*--label", "--label", "kind"),
    "label misspelt": options(r"no column 'lable'.*did you mean 'label'\?", "--label", "lable"),
    "no such feature": options(r"n\.csv.*'speed' is not there", "--feature", "speed"),
    "no such exclusion": options(r"n\.csv.*'speed' is not there", "--exclude", "speed"),
    "label as feature": options("is the id, label or split; choose", "--feature", "label"),
    "no such weight": options(r"e\.csv.*no column 'kg'", "--weight-column", "kg"),
    "two graphs named": options("give either", "--graph", "g.npz"),
    "unknown metric": options("--metric: must be one of accuracy, roc_auc.*'f1'", "--metric", "f1"),
    "metric of two classes": Case(
        "--metric roc_auc: needs two classes",
        {"n.csv": "id,y\na,1\nb,2\nc,3\nd,1\n"},
        (*TABLES, "--metric", "roc_auc"),
    ),
    "metric of a data set": Case(
        "--metric: is for own tables",
        {"own.npz": archive()},
        ("--dataset", "own", "--data", ".", "--metric", "accuracy"),
    ),
    "nodes alone": Case("--edges: missing", {}, ("--nodes", "n.csv")),
    "data without dataset": options("--data: belongs to --dataset", "--data", "."),
    "unknown format": Case(
        r"g\.gexf.*\.graphml or \.npz", {"g.gexf": "<gexf/>"}, ("--graph", "g.gexf")
    ),
    "no parquet": Case(r"n\.parquet.*Parquet; write it again", {"n.parquet": "no"}, PARQUET),
    "cut parquet": Case(
        r"n\.parquet.*write it again", {"n.parquet": parquet(id=list("abcd"))[:-9]}, PARQUET
    ),
    "float ids": Case(
        r"n\.parquet.*whole numbers or text", {"n.parquet": parquet(id=[1.5, 2.0])}, PARQUET
    ),
    "lists in a column": Case(
        r"n\.parquet.*column 'z' holds lists", {"n.parquet": parquet(id=["a"], z=[[1]])}, PARQUET
    ),
    "no edge_index": npz("key 'edge_index' is missing", edge_index=None),
    "wrong keys": npz("'edge_index' is missing.*layout", edge_index=None, y=None, edges=np.ones(3)),
    "object array": npz("key 'y' holds Python objects.*never", y=np.array([Canary()] * 4)),
    "pickle": npz("not a readable .npz", pickle.dumps(Canary())),
    "cut zip": npz("copy it again if it was cut off", archive()[:-40]),
    "damaged member": npz("damaged", archive().replace(b"y.npy", b"z.npy", 1)),
    "text as npz": npz("write it with", b"source,target\n"),
    "empty npz": npz("not a readable", b""),
    "zip bomb": npz("GiB of memory, more than the limit", bomb()),
    "claims more than it has": npz("claims more entries than it has bytes", claiming()),
    "edge out of range": npz(
        r"edge_index\[1, 0\]: no such node.*got 9", edge_index=np.array([[0], [9]])
    ),
    "negative node": npz(
        "no such node, ids count from 0.*got -1", edge_index=np.array([[0], [-1]])
    ),
    "nan in x": npz(r"x\[0, 0\]: not a finite", x=np.full((4, 2), np.nan)),
    "labels of another length": npz(r"x: must have shape .* one row per node", y=np.zeros(5, int)),
    "half a node": npz("whole numbers", edge_index=np.array([[0.5], [1]])),
    "one mask of three": npz("give all three masks", train_mask=np.ones(4, bool)),
    "overlapping masks": npz(
        r"overlaps another mask",
        **{f"{part}_mask": np.ones(4, bool) for part in ("train", "val", "test")},
    ),
    "too many nodes": npz(
        "nodes would take .* more than the limit", x=None, y=None, num_nodes=np.int64(2**62)
    ),
    "broken CSR": npz(
        "not the parts of a CSR matrix",
        x=None,
        x_data=np.ones(2),
        x_indices=np.array([0, 9]),
        x_indptr=np.array([0, 1, 2, 2, 2]),
        x_shape=np.array([4, 2]),
    ),
    "card is no JSON": npz("key 'card' must be one JSON object", card=np.array("{")),
    "columns of an npz": Case(
        "--label: is for own tables", {"g.npz": archive()}, ("--graph", "g.npz", "--label", "y")
    ),
    "entity bomb": graphml(
        "entity.*never expanded", f'<!DOCTYPE g [<!ENTITY l0 "ha">{LAUGHS}]>{HEAD}&l29;</graphml>'
    ),
    "external entity": graphml(
        "entity", f'<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>{HEAD}&x;</graphml>'
    ),
    "unclosed tag": graphml("well-formed.*line 1", f"{HEAD}<graph><node id='a'>"),
    "another XML": graphml("is not GraphML", "<html><body/></html>"),
    "empty GraphML": graphml("line 1", ""),
    "no graph inside": graphml("has no <graph>", f"{HEAD}</graphml>"),
    "undeclared key": graphml(
        "<node> 1 names no declared <key>", inside("<node id='a'><data key='q'>1</data></node>")
    ),
    "edge to nowhere": graphml(
        "row 1.*no such node", inside("<node id='a'/><edge source='a' target='b'/>")
    ),
    "two graphs": graphml("one per file", f"{HEAD}<graph/><graph/></graphml>"),
    "hyperedge": graphml("hyperedge", inside("<hyperedge/>")),
    "node without XML id": graphml("<node> 1 has no 'id'", inside("<node/>")),
    "edge without target": graphml("<edge> 1 has no 'target'", inside("<edge source='a'/>")),
    "attribute twice": graphml(
        "'label' twice; keep one",
        inside("<node id='a'><data key='d0'>x</data><data key='d0'>y</data></node>"),
    ),
    "XML node twice": graphml(
        "row 2.*already given in row 1",
        inside("<node id='a'/><node id='a'><data key='d0'>1</data></node>"),
    ),
    "nodes beside GraphML": Case(
        "--nodes: g.graphml holds the nodes too",
        {"g.graphml": f"{HEAD}</graphml>"},
        ("--edges", "g.graphml", "--nodes", "n.csv"),
    ),
    "python tag": config(
        "line 1.*without tags", "!!python/object/apply:os.system ['touch executed']"
    ),
    "python tag inside": config(
        "line 1.*without tags", "model: !!python/object/new:os.system ['touch executed']"
    ),
    "YAML aliases": config("line 2: is not plain YAML.*got an alias", ALIASES),
    "deep YAML": config("is not plain YAML", "[" * 500),
    "broken YAML": config("line 2", "model: {\n]"),
    "YAML list": config("must hold named sections", "[1, 2]"),
    "unknown section": config("unknown section 'modle'", "modle: {}"),
    "unknown option": config("no option 'speed'", "model: {speed: 1}"),
    "value out of range": config("num_jumps must be", "model: {num_jumps: 0}"),
    "value of another type": config("lr|usable", "training: {lr: fast}"),
    "endless epochs": config("usable", "training: {epochs: .inf}"),
    "no such configuration": options("no.yaml.*no such file", "--config", "no.yaml"),
    "damaged data set": Case(
        r"own\.npz.*not a readable", {"own.npz": "x"}, ("--dataset", "own", "--data", ".")
    ),
    "columns of a data set": Case(
        "--symmetric: is for own tables",
        {"own.npz": archive()},
        ("--dataset", "own", "--data", ".", "--symmetric"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_status_2_one_message_and_nothing_written(
    djgnn: Callable[..., Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("loop.csv").symlink_to("loop.csv")
    for file, content in ({"e.csv": EDGES, "n.csv": NODES} | case.files).items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(tmp_path.rglob("*"))
    done = djgnn("fit", *case.options, "--out", "run", "--device", "cpu", "--set", "epochs=2")
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    lines = done.stderr.splitlines()
    listed = f"error: {len(lines) - 1} problems:" if len(lines) > 1 else done.stderr.strip()
    assert lines[0] == listed, "one message, on one line per problem"
    assert len(done.stderr) < 1200
    assert re.search(case.says, done.stderr), done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_the_good_files_of_these_cases_are_good(
    djgnn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.csv").write_text(EDGES)
    Path("n.csv").write_text(NODES)
    Path("g.npz").write_bytes(archive())
    for number, given in enumerate((TABLES, ("--graph", "g.npz"))):
        done = djgnn("inspect", *given)
        assert done.returncode == 0, (number, done.stderr)


def test_there_are_more_than_fifty_of_them() -> None:
    assert len(CASES) >= 50
