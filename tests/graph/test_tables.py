from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from djgnn.errors import InputError, ReadingWarning
from djgnn.graph import Graph, read_tables, table_files
from djgnn.graph.table_files import read_table
from djgnn.graph.table_text import Table, guess_header

NODES = "id,size,label\na,1,x\nb,2,y\nc,3,x\n"
EDGES = "source,target\na,b\nb,c\n"


@pytest.fixture
def read(tmp_path: Path):
    def run(edges: str | bytes = EDGES, nodes: str | bytes = NODES, **options: object) -> Graph:
        for name, content in (("e.csv", edges), ("n.csv", nodes)):
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
        return read_tables(tmp_path / "e.csv", tmp_path / "n.csv", **options)  # type: ignore[arg-type]

    return run


def test_reads_the_obvious(read) -> None:
    g = read(columns={"size": "raw"})
    assert g.edge_index.tolist() == [[0, 1], [1, 2]]
    assert g.node_names == ("a", "b", "c")
    assert g.class_names == ("x", "y")
    assert g.y.tolist() == [0, 1, 0]
    assert g.x.tolist() == [[1], [2], [3]]
    assert g.card["features"] == ["size"]
    assert (g.name, g.edge_weight, g.num_splits) == ("n", None, 0)


@pytest.mark.parametrize("sep", [";", "\t", ","])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_dialects(read, sep: str, start: str, end: str) -> None:
    edges, nodes = (start + t.replace(",", sep).replace("\n", end) for t in (EDGES, NODES))
    assert read(edges, nodes).content_hash == read().content_hash


def test_columns_are_guessed_and_named(read) -> None:
    g = read("From,TO,w\na,b,2\n", "Class,Node\nx,a\ny,b\n")
    assert (g.edge_weight.tolist(), g.y.tolist(), g.x) == ([2.0], [0, 1], None)
    nodes = "k,kind,n1,n2\na,x,1,2\nb,y,3,4\n"
    g = read(
        "p,q,r\na,b,5\n",
        nodes,
        source="q",
        target="p",
        weight="r",
        node="k",
        label="kind",
        features=["n2"],
        columns={"n?": "raw"},
        name="mine",
    )
    assert (g.edge_index.tolist(), g.edge_weight.tolist()) == ([[1], [0]], [5.0])
    assert (g.x.tolist(), g.name) == ([[2], [4]], "mine")
    bare = read(nodes=NODES, label="", features=[])
    assert (bare.x, bare.y) == (None, None)


def test_leading_zeros_and_signs_are_names(read) -> None:
    names = ["7", "07", "007", "00", "0", "12345678901234567", "012345678901234567"]
    nodes = "id\n" + "\n".join(names) + "\n"
    edges = "source,target\n" + "\n".join(f"{a},{b}" for a in names for b in names) + "\n"
    g = read(edges, nodes)
    assert g.node_names == tuple(names)
    assert g.adjacency.nnz == len(names) ** 2
    for stranger in ("+7", "-0", "0007", "000000000000000007", "99999999999999999999"):
        with pytest.raises(InputError, match="no such node"):
            read(f"source,target\n7,{stranger}\n", nodes)
    for same in (" 7", "7.0"):
        with pytest.warns(ReadingWarning, match="compared without spaces"):
            assert read(f"source,target\n007,{same}\n", nodes).edge_index.tolist() == [[2], [0]]


def test_classes_are_sorted_by_number_and_unknown_is_minus_one(read) -> None:
    g = read(nodes="id,y\na,10\nb,9\nc,\n")
    assert (g.class_names, g.y.tolist()) == (("9", "10"), [1, 0, -1])
    g = read(nodes="id,y\na,1\nb,0\nc,-1\n")
    assert g.y.tolist() == [1, 0, -1]
    g = read(nodes="id,y\na,1\nb,1\nc,-1\n", unknown=("",))
    assert (g.class_names, g.y.tolist()) == (("-1", "1"), [1, 1, 0])
    with pytest.raises(InputError, match="if -1 is a class"):
        read(nodes="id,y\na,1\nb,1\nc,-1\n")


def test_unknown_is_known_by_its_number_too(read) -> None:
    g = read(nodes="id,y\na,1.0\nb,0.0\nc,-1.0\n")
    assert (g.class_names, g.y.tolist()) == (("0.0", "1.0"), [1, 0, -1])
    with pytest.raises(InputError, match="if -1 is a class"):
        read(nodes="id,y\na,1.0\nb,1.0\nc,-1.0\n")
    g = read(nodes="id,y\na,1.0\nb,1.0\nc,-1.0\n", unknown=("",))
    assert g.class_names == ("-1.0", "1.0")
    assert read(nodes="id,y\na,9\nb,9.5\nc,8\n", unknown=("9.0",)).class_names == ("8", "9.5")


def test_splits_in_any_spelling(read) -> None:
    g = read(nodes="id,label,split\na,x,Training\nb,y, dev\nc,,test\n")
    assert g.train_mask[:, 0].tolist() == [True, False, False]
    assert g.val_mask[:, 0].tolist() == [False, True, False]
    assert not g.test_mask.any()  # c has no label to score
    assert read(nodes="id,label,split\na,x,\nb,y,\nc,x,\n").num_splits == 0


def test_categories_become_one_hot(read) -> None:
    g = read(
        nodes="id,color,size,shape\na,red,1,o\nb,blue,2,\nc,red,3,o\n", columns={"size": "raw"}
    )
    assert g.card["features"] == ["color=blue", "color=red", "size", "shape=o"]
    assert g.x.tolist() == [[0, 1, 1, 1], [1, 0, 2, 0], [0, 1, 3, 1]]


def test_wide_and_mostly_zero_is_sparse(read) -> None:
    header = ",".join(f"f{i}" for i in range(40))
    rows = [",".join("1" if i == j else "0" for i in range(40)) for j in range(3)]
    nodes = f"id,{header}\n" + "".join(f"{n},{r}\n" for n, r in zip("abc", rows, strict=True))
    assert sp.issparse(read(nodes=nodes, columns={"f*": "raw"}).x)


@pytest.mark.parametrize(
    ("rule", "weights"), [("first", [2, 1]), ("sum", [5, 1]), ("mean", [2.5, 1]), ("max", [3, 1])]
)
def test_rules_for_duplicates(read, rule: str, weights: list[float]) -> None:
    edges = "source,target,weight\na,b,2\nb,c,1\na,b,3\n"
    g = read(edges, duplicates=rule)
    assert g.edge_index.tolist() == [[0, 1], [1, 2]]
    assert g.edge_weight.tolist() == weights
    plain = read("source,target\na,b\nb,c\na,b\n", duplicates=rule)
    assert plain.edge_weight is None or plain.edge_weight.tolist() == [2, 1]
    assert (plain.edge_weight is None) == (rule != "sum")


def test_duplicates_can_be_errors(read) -> None:
    with pytest.raises(InputError, match=r"row 3 .* in row 1.*got a -> b"):
        read("source,target\na,b\nb,c\na,b\n", duplicates="error")
    read("source,target\na,b\nb,a\n", duplicates="error")
    with pytest.raises(InputError, match="row 2"):
        read("source,target\na,b\nb,a\n", duplicates="error", symmetric=True)
    with pytest.raises(InputError, match="first, sum, mean, max, error"):
        read(duplicates="last")


def test_symmetric_adds_the_way_back_once(read) -> None:
    g = read("source,target,weight\na,b,2\nb,a,5\nc,c,4\nb,c,1\n", symmetric=True)
    assert g.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 4]]
    g = read("source,target,weight\na,b,2\nb,a,5\n", symmetric=True, duplicates="sum")
    assert g.adjacency.toarray()[:2, :2].tolist() == [[0, 7], [7, 0]]


def test_no_edges_and_blank_lines(read) -> None:
    assert read(edges="source,target\n").num_edges == 0
    assert read(EDGES + "\n\n", NODES.replace("\nb", "\n\nb")).content_hash == read().content_hash


BAD: dict[str, tuple[dict[str, object], str]] = {
    "missing node": ({"edges": "source,target\na,b\nb,zz\n"}, r"row 2, column 'target'.*got 'zz'"),
    "missing end": ({"edges": "source,target\na,\n"}, r"row 1, column 'target'.*two nodes"),
    "node twice": ({"nodes": "id,z\na,1\nb,1\na,2\n"}, r"row 3, column 'id'.*row 1.*got 'a'"),
    "node without id": ({"nodes": "id,z\na,1\n,2\n"}, r"row 2, column 'id': every node needs"),
    "empty nodes": ({"nodes": ""}, r"n\.csv: is empty"),
    "empty edges": ({"edges": ""}, r"e\.csv: is empty"),
    "only a header": ({"nodes": "id\n"}, "has no rows"),
    "no header": ({"edges": "p,q\nz,w\n"}, r"first line is a header \(got columns p, q\)"),
    "long row": ({"nodes": "id,z\na,1\nb,2,3\n"}, r"line 3 has 3 cells, the first has 2"),
    "short row": ({"nodes": "id,z,w\na,1,2\nb,2\n"}, r"line 3 has 2 cells, the first has 3"),
    "short row, quoted": ({"nodes": 'id,z,w\n"a",1,2\nb,2\n'}, r"line 3 has 2 cells"),
    "short edge": ({"edges": "source,target\na,b\nb\n"}, r"line 3 has 1 cells"),
    "open quote": ({"nodes": 'id,z\n"a,1\nb,2\n'}, "quot"),
    "no encoding": ({"nodes": b"id\na\nb\n\x81\n"}, r"line 4 is not UTF-8"),
    "half of utf-16": ({"nodes": "id\na\nb\n".encode("utf-16")[:-1]}, "not UTF-8"),
    "binary": ({"nodes": bytes(range(256))}, "UTF-8"),
    "text in numbers": ({"nodes": "id,z\na,1\nb,low\nc,2\n"}, r"row 2, column 'z'.*got 'low'"),
    "no weight": ({"edges": "source,target,weight\na,b,\n"}, r"row 1, column 'weight'.*zero or"),
    "column twice": ({"nodes": "id,z,z\na,1,2\n"}, "column 'z' occurs twice"),
    "no such column": ({"label": "kind"}, r"no column 'kind' for the label.*columns size, label"),
    "no such feature": ({"features": ["speed"]}, "feature column 'speed' is not there"),
    "label as feature": ({"features": ["label"]}, "is the id, label or split"),
    "one column twice": ({"node": "label", "label": "label"}, "no column 'label' for the label"),
    "no such kind": ({"columns": {"size": "huge"}}, "must be one of number, category"),
    "weight": ({"edges": "source,target,weight\na,b,x\n"}, r"row 1, column 'weight'.*got 'x'"),
    "negative weight": ({"edges": "source,target,weight\na,b,-1\n"}, "zero or more"),
    "split word": ({"nodes": "id,label,split\na,x,train\nb,y,maybe\n"}, r"row 2.*'maybe'"),
    "train without label": ({"nodes": "id,label,split\na,,train\nb,y,val\n"}, "has no label"),
    "split without labels": ({"nodes": "id,split\na,train\n"}, "there are no labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_name_file_place_and_remedy(read, case: str) -> None:
    options, message = BAD[case]
    with pytest.raises(InputError, match=message) as error:
        read(**options)
    assert ".csv" in str(error.value)


def test_late_text_in_a_numeric_column_is_found(read) -> None:
    rows = [f"n{i},{i}" for i in range(1500)]
    rows[1400] = "n1400,oops"
    with pytest.raises(InputError, match=r"row 1401, column 'z'.*'oops'"):
        read("source,target\n", "id,z\n" + "\n".join(rows) + "\n")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(NODES)
    with pytest.raises(InputError, match="is a folder"):
        read_tables(tmp_path, tmp_path / "n.csv")
    with pytest.raises(InputError, match="no such file"):
        read_tables(tmp_path / "e.csv", tmp_path / "n.csv")


def test_parquet(tmp_path: Path) -> None:
    import polars as pl

    e, n = tmp_path / "e.parquet", tmp_path / "n.parquet"
    pl.DataFrame({"source": [1, 2], "target": [2, 30]}).write_parquet(e)
    nodes = {
        "id": [30, 2, 1],
        "y": [0.0, 1.0, None],
        "z": [0.5, 1.5, 2.5],
        "b": [True, False, True],
    }
    pl.DataFrame(nodes).write_parquet(n)
    g = read_tables(e, n)
    assert g.edge_index.tolist() == [[2, 1], [1, 0]]
    assert g.y.tolist() == [0, 1, -1]
    third = 1.5**0.5
    assert g.x.tolist() == pytest.approx(np.array([[-third, 1], [0, 0], [third, 1]]))
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(InputError, match="Parquet"):
        read_tables(e, tmp_path / "bad.parquet")


def test_parquet_columns_that_are_not_used_may_be_nested(tmp_path: Path) -> None:
    import polars as pl

    e, n = tmp_path / "e.parquet", tmp_path / "n.parquet"
    pl.DataFrame({"source": [1], "target": [2], "more": [[1, 2]]}).write_parquet(e)
    pl.DataFrame({"id": [1, 2], "z": [0.5, 1], "more": [[1], [2]]}).write_parquet(n)
    assert read_tables(e, n, exclude=["more"]).x.tolist() == [[-1], [1]]
    with pytest.raises(InputError, match="column 'more' holds lists"):
        read_tables(e, n)


def test_parquet_that_would_fill_the_memory_is_refused_by_its_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars as pl

    from djgnn.graph import table_files

    file = tmp_path / "n.parquet"
    pl.DataFrame({"id": range(50), "z": range(50)}).write_parquet(file)
    monkeypatch.setattr(table_files, "MOST_CELLS", 99)
    monkeypatch.setattr(pl, "read_parquet", lambda *_, **__: pytest.fail("was read"))
    with pytest.raises(InputError, match="50 rows and 2 columns, more than 99 cells"):
        table_files.read_table(file)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_parquet_whose_text_repeats_is_refused_before_it_takes_memory(
    kind: pl.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "n.parquet"
    text = pl.Series(["x" * 1000] * 500, dtype=kind)
    pl.DataFrame({"id": range(500), "text": text}).write_parquet(file)
    assert read_table(file).frame.shape == (500, 2)
    monkeypatch.setattr(table_files, "MOST_TEXT", 499_999)
    with pytest.raises(InputError, match=r"more text than its size .* \(got 500000 bytes\)"):
        read_table(file)
    monkeypatch.setattr(table_files, "TEXT_PER_BYTE", 500_000)
    read_table(file)


def test_lists_and_bytes_in_parquet_are_not_read(tmp_path: Path) -> None:
    odd = {"list": [[1], [2]], "fields": [{"a": 1}, {"a": 2}], "bytes": [b"1", b"2"]}
    pl.DataFrame({"id": [1, 2], **odd, "z": [3, 4]}).write_parquet(tmp_path / "n.parquet")
    frame = read_table(tmp_path / "n.parquet").frame
    assert frame.columns == ["id", *odd, "z"]
    assert frame["z"].to_list() == [3, 4]
    assert all(frame[name].dtype.is_nested() and not frame[name].count() for name in odd)


TABLE = b"id,size\na,1\nb,2\n"
ZSTD = b"\x28\xb5\x2f\xfd\x04\x00" + TABLE
PACKED = [gzip.compress(TABLE), ZSTD, *(zlib.compress(TABLE, level) for level in (0, 4, 6, 9))]


@pytest.mark.parametrize("content", PACKED, ids=lambda content: content[:2].hex())
def test_compressed_text_is_not_unpacked(read, content: bytes) -> None:
    with pytest.raises(InputError, match=r"n\.csv: .*(is compressed; unpack it|is not UTF-8 text)"):
        read(nodes=content)


def test_a_first_column_that_begins_like_a_compressed_file_is_refused(read) -> None:
    with pytest.raises(InputError, match="or put another column first"):
        read("source,target\n", "x^2,id\n1,a\n2,b\n")
    assert read("source,target\n", "id,x^2\na,1\nb,2\n").card["features"] == ["x^2"]


def test_an_unknown_option_is_refused_with_those_that_there_are(read) -> None:
    with pytest.raises(InputError, match=r"lable: no such option.*label"):
        read(lable="kind")


def test_a_number_of_any_length_in_a_first_row_is_no_header() -> None:
    rows = pl.DataFrame([["1" * 5000, "2", "3", "x"], ["2", "3", "4", "y"]], orient="row")
    assert guess_header(Table("t", rows, ""), ()) is False
