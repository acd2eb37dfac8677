"""The folder of results: what it believes, what it replaces, and what it says of its origin."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from djgnn.bench import worker
from djgnn.bench.cell import run_cell
from djgnn.bench.pool import Runner, run_plan
from djgnn.bench.record import SplitRecord, read_records
from djgnn.bench.spec import CellSpec, DataFacts, make_spec
from djgnn.bench.store import FinishedCell, Store, missing_units, read_cells
from djgnn.errors import DamagedRecordWarning, InputError
from djgnn.graph import Graph, write_npz
from djgnn.report.comparison import comparison_payload

SPEC = make_spec("mlp", "own", (0, 1), epochs=2)


@pytest.fixture(scope="module")
def record(folder: Path) -> SplitRecord:
    found = Runner("cpu", folder).run(SPEC, 0)
    assert found.done, found.reason
    return found


def of_code(record: SplitRecord, code: str, **changes: object) -> SplitRecord:
    """The record as another version of the code would have made it."""
    key = SPEC.key(record.split, record.data_sha256, code)
    return structs.replace(record, code=code, key=key, **changes)


def edited(record: SplitRecord, **changes: object) -> str:
    return json.dumps({**json.loads(record.to_json()), **changes}) + "\n"


EDITS = [
    {"dataset": "texas"},
    {"split": 1},
    {"seed": 7},
    {"data_sha256": "0" * 64},
    {"code": "9.9+other"},
    {"label": "gcn"},
    {"config": {**SPEC.config, "training": {**SPEC.config["training"], "lr": 0.5}}},
    {"metric": "roc_auc"},
]


@pytest.mark.parametrize("change", EDITS, ids=lambda change: next(iter(change)))
def test_a_record_is_believed_only_with_the_key_of_what_it_says(
    record: SplitRecord, change: dict, tmp_path: Path
) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(record.to_json() + "\n" + edited(record, **change))
    store = Store(tmp_path / "t")
    with pytest.raises(InputError, match=r"line 2 is not a record.*its (key|metric)"):
        store.import_records([file])
    assert store.get(record.key) is None  # nothing of such a file
    (store.folder / "splits" / f"{record.key}.json").write_text(edited(record, **change))
    with pytest.warns(DamagedRecordWarning, match="not used: "):
        assert Store(store.folder).find(SPEC, 0, record.data_sha256) is None


WRONG_KINDS = [
    {"result": {"validation": "abc"}},
    {"result": {"validation": float("nan")}},
    {"peak_memory_mib": "x"},
    {"versions": 5},
    {"versions": {"torch": [1]}},
    {"result": {"validation": 50.0, "test": 50.0, "oracle_test": 50.0, "seconds": 1.0}},
    {"result": {"validation": 50.0, "test": 1e300, "epoch": 1, "seconds": 1.0}},
    {"result": {"validation": 50.0, "test": 50.0, "epoch": -1, "seconds": 1.0}},
    {"peak_memory_mib": -1e300},
    {"config": []},
    {"key": ["a"]},
    {"key": "../../victim"},
    {"label": 3},
    {"sizes": [1, 2]},
    {"seconds": 10**400},
    {"seed": True},
    {"finished": 5},
]


@pytest.mark.parametrize("change", WRONG_KINDS, ids=lambda change: next(iter(change)))
def test_values_of_the_wrong_kind_are_not_a_record(
    record: SplitRecord, change: dict, tmp_path: Path
) -> None:
    file, store = tmp_path / "results.jsonl", Store(tmp_path / "t")
    file.write_text(edited(record, **change))
    with pytest.raises(InputError, match=r"results.jsonl: line 1 is not a record"):
        store.import_records([file])
    assert not any((store.folder / "splits").iterdir())


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000 + b"\n", b"my only copy"])
def test_what_holds_no_records_is_refused_and_stays(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"not a record|not text"):
        list(read_records(file))
    assert worker.main(["--out", str(file), "--device", "cpu"], io.StringIO("")) == 2
    assert file.read_bytes() == content


def test_a_line_that_was_being_written_is_left_out(record: SplitRecord, tmp_path: Path) -> None:
    line = record.to_json()
    for cut in (3, 30, len(line) - 1):
        (tmp_path / "r.jsonl").write_text(f"{line}\n{line[:cut]}")
        assert list(read_records(tmp_path / "r.jsonl")) == [record]


def test_a_damaged_file_is_run_again_and_replaced(record: SplitRecord, tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = tmp_path / "splits" / f"{record.key}.json"
    for text in ("", "{}\n", record.to_json()[:50], edited(record, seed=3)):
        file.write_text(text)
        with pytest.warns(DamagedRecordWarning):
            assert store.find(SPEC, 0, record.data_sha256) is None
    with pytest.warns(DamagedRecordWarning):
        assert store.put(record)
    assert list(read_records(file)) == [record]


def test_a_file_has_the_name_of_its_key(record: SplitRecord, tmp_path: Path) -> None:
    wanted = SPEC.key(1, record.data_sha256, record.code)
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / f"{wanted}.json").write_text(record.to_json() + "\n")
    with pytest.warns(DamagedRecordWarning, match="does not hold the record of its name"):
        store = Store(tmp_path)
    with pytest.warns(DamagedRecordWarning):
        assert store.get(wanted) is None


def test_records_from_before_an_option_was_added_are_believed(record: SplitRecord) -> None:
    spec = CellSpec(record.label, record.dataset, record.config, (0,), record.seed)
    now, *_, before = spec.keys(0, record.data_sha256, record.code)
    assert (now, None in record.config["training"].values()) == (record.key, True)
    older = structs.replace(record, key=before, finished="")
    assert "finished" not in older.to_json()
    assert SplitRecord.from_json(older.to_json()) == older
    for removed in ({"trace_form": "max"}, {"structure_gate": False}):
        old = {**record.config, "training": {**record.config["training"], **removed}}
        keys = replace(spec, config=old).keys(0, record.data_sha256, record.code)
        assert keys[0] == now != keys[2]  # an option that was removed since
        older = structs.replace(record, key=keys[2], config=old)
        assert SplitRecord.from_json(older.to_json()).content_key() == record.content_key()
    failed = structs.replace(record, status="failed", reason="why", result=None)
    assert SplitRecord.from_json(failed.to_json()) == failed


def test_figures_of_another_metric_are_not_found(
    tiny: Graph, record: SplitRecord, tmp_path: Path
) -> None:
    store = Store(tmp_path / "t", any_code=True)
    store.put(record)
    assert missing_units([SPEC], {"own": DataFacts.of(tiny)}, store) == [(SPEC, 1)]
    auc = replace(tiny, card={**tiny.card, "metric": "roc_auc"})
    assert len(missing_units([SPEC], {"own": DataFacts.of(auc)}, store)) == 2
    (tmp_path / "data").mkdir()
    write_npz(replace(tiny, class_names=(*tiny.classes(), "more")), tmp_path / "data" / "own.npz")
    other = Runner("cpu", tmp_path / "data").run(SPEC, 0)
    assert other.key != record.key
    assert SplitRecord.from_json(other.to_json()) == other


def test_of_several_versions_the_latest_is_taken(record: SplitRecord, tmp_path: Path) -> None:
    early = of_code(record, "9.9+zz", finished="2001-01-01T00:00:00.000000+00:00")
    late = of_code(record, "9.9+aa", finished="2002-01-01T00:00:00.000000+00:00")
    timeless = of_code(record, "9.9+zzz", finished="")
    for number, order in enumerate([(early, late, timeless), (timeless, late, early)]):
        store = Store(tmp_path / str(number), any_code=True)
        for one in order:
            store.put(one)
        for opened in (store, Store(store.folder, any_code=True)):
            assert opened.find(SPEC, 0, record.data_sha256) == late
    store = Store(tmp_path / "timeless", any_code=True)
    for code in ("9.9+b", "9.9+c", "9.9+a"):
        store.put(of_code(record, code, finished=""))
    assert store.find(SPEC, 0, record.data_sha256).code == "9.9+c"


def test_a_cell_says_what_made_each_split(record: SplitRecord, tmp_path: Path) -> None:
    key = SPEC.key(1, record.data_sha256, "9.9+other")
    versions = {**record.versions, "torch": "0.1"}
    second = structs.replace(
        record, split=1, key=key, code="9.9+other", device="cuda", versions=versions
    )
    store = Store(tmp_path, any_code=True)
    store.put(record)
    store.put(second)
    cell = store.cell(SPEC, record.data_sha256)
    line = json.loads(store.write_results([cell]).read_text())
    assert [(s["code"], s["device"]) for s in line["splits"]] == [
        (record.code, "cpu"),
        ("9.9+other", "cuda"),
    ]
    assert [s["versions"] for s in line["splits"]] == [record.versions, versions]
    assert (line["code"], line["device"]) == (sorted([record.code, "9.9+other"]), ["cpu", "cuda"])
    assert line["versions"]["torch"] == sorted(["0.1", record.versions["torch"]])
    assert line["versions"]["numpy"] == record.versions["numpy"]
    assert read_cells(tmp_path / "results.jsonl")[0].to_dict() == line
    alone = Store(tmp_path).cell(replace(SPEC, splits=(0,)), record.data_sha256).to_dict()
    assert (alone["code"], alone["device"]) == (record.code, "cpu")
    assert alone["versions"] == record.versions


def test_a_cell_with_a_failure_comes_back_from_its_line(record: SplitRecord) -> None:
    lost = structs.replace(record, split=1, status="out of memory", reason="big", result=None)
    for records in ((record, lost), (structs.replace(lost, split=0), lost)):
        line = FinishedCell(SPEC, records).to_dict()
        back = FinishedCell.from_dict(json.loads(json.dumps(line)))
        assert back.to_dict() == line
        assert [r.outcome for r in back.failures] == ["out of memory: big"] * len(back.failures)
        assert [r.split for r in back.records] == [0, 1]


def test_a_split_without_test_nodes_is_said_in_json(tiny: Graph, tmp_path: Path) -> None:
    test = tiny.test_mask.copy()
    test[:, 0] = False
    graph = tiny.with_masks(tiny.train_mask, tiny.val_mask, test)
    write_npz(graph, tmp_path / "own.npz")
    cell = run_cell("mlp", graph, SPEC.recipe(), (0, 1))
    found = _strict(json.dumps(cell.to_dict()))
    assert (found["test_mean"], found["splits"][0]["test"]) == (None, None)
    assert found["splits"][1]["test"] == cell.splits[1].test

    store, facts = Store(tmp_path / "t"), {"own": DataFacts.of(graph)}
    run_plan([SPEC], facts, store, workers=0, device="cpu", data=tmp_path)
    finished = Store(store.folder).cell(SPEC, facts["own"].sha256)
    assert finished.complete
    found = _strict(store.write_results([finished]).read_text())
    assert (found["test_mean"], found["test_std"], found["oracle_mean"]) == (None, None, None)
    for file in store.folder.rglob("*.json*"):
        assert all(map(_strict, file.read_text().splitlines() if file.suffix == ".jsonl" else []))
        assert "NaN" not in file.read_text()
    (row,) = comparison_payload([store.folder])["cells"]
    assert row["test_mean"] == pytest.approx(found["splits"][1]["test"])


def _strict(text: str) -> dict:
    """JSON as the standard has it."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_figures_on_disk_are_never_replaced(record: SplitRecord, tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    failed = structs.replace(record, status="failed", reason="why", result=None)
    assert second.put(failed)
    assert first.put(record)
    assert not second.put(failed)
    assert second.get(record.key) == record
    assert list(read_records(tmp_path / "splits" / f"{record.key}.json")) == [record]
