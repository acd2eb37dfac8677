"""What identifies a result: everything that can change it, and nothing else."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from djgnn.bench import spec as specs
from djgnn.bench.pool import Runner, describe
from djgnn.bench.record import SplitRecord, read_records
from djgnn.bench.spec import CellSpec, DataFacts, data_key, make_spec
from djgnn.bench.worker import main
from djgnn.errors import InputError
from djgnn.graph import Graph

SPEC = make_spec("gcn", "own", (0, 1), epochs=2)


def test_a_key_changes_with_all_that_changes_a_number() -> None:
    key = SPEC.key(0, "data", "code")
    others = [
        SPEC.key(1, "data", "code"),
        SPEC.key(0, "other", "code"),
        SPEC.key(0, "data", "other"),
        replace(SPEC, seed=1).key(0, "data", "code"),
        replace(SPEC, evaluate=False).key(0, "data", "code"),
        replace(SPEC, dataset="other").key(0, "data", "code"),
        make_spec("gcn", "own", (0,), epochs=3).key(0, "data", "code"),
        make_spec("mlp", "own", (0,), epochs=2).key(0, "data", "code"),
    ]
    assert len({key, *others}) == len(others) + 1


def test_a_key_does_not_change_with_what_is_only_said() -> None:
    config = {**SPEC.config, "source": "somewhere else"}
    assert replace(SPEC, config=config).key(0, "d", "c") == SPEC.key(0, "d", "c")
    assert replace(SPEC, splits=(0,)).key(0, "d", "c") == SPEC.key(0, "d", "c")
    older = {k: v for k, v in SPEC.config["training"].items() if v is not None}
    config = {**SPEC.config, "training": older}  # before an option was added that is not set
    assert replace(SPEC, config=config).key(0, "d", "c") == SPEC.key(0, "d", "c")
    named = make_spec("djgnn:author", "texas", (0,))
    chosen = make_spec("djgnn", "texas", (0,), preset="author")
    assert named.key(0, "d", "c") == chosen.key(0, "d", "c")


def test_the_data_of_a_result_is_its_hash_and_how_it_is_scored(tiny: Graph) -> None:
    assert data_key(tiny) == tiny.content_hash  # results from before the metric counted stay valid
    auc = replace(tiny, card={**tiny.card, "metric": "roc_auc"})
    more = replace(tiny, class_names=(*tiny.classes(), "never seen"))
    assert auc.content_hash == more.content_hash == tiny.content_hash
    keys = [SPEC.key(0, data_key(graph), "code") for graph in (tiny, auc, more)]
    assert len(set(keys)) == 3
    assert [data_key(g).partition("+")[2] for g in (auc, more)] == [
        "roc_auc",
        f"classes={more.num_classes}",
    ]
    assert DataFacts.of(auc).sha256 == data_key(auc)


def test_a_spec_travels_as_json() -> None:
    assert CellSpec.from_json(SPEC.to_json()) == SPEC
    with pytest.raises(InputError, match="must have label, dataset, config and splits"):
        CellSpec.from_json('{"label": "gcn"}')
    with pytest.raises(InputError, match="not a configuration of this model"):
        CellSpec.from_json(replace(SPEC, label="mlp").to_json())


@pytest.mark.parametrize("name", ["gcn:\x1b[31m", "gcn:\x9b2J", "gcn:\ud800"])
def test_names_of_cells_have_no_control_characters(name: str) -> None:
    for field in ("label", "dataset"):
        with pytest.raises(InputError, match="text without control characters; rename"):
            replace(SPEC, **{field: name})
        with pytest.raises(InputError, match="cell: "):
            CellSpec.from_json(json.dumps({**json.loads(SPEC.to_json()), field: name}))


def test_a_worker_prints_no_control_characters(capsys) -> None:
    cell = {**json.loads(SPEC.to_json()), "config": {"\x1b[31m": 1}}
    assert main(["--device", "cpu"], [json.dumps(cell)]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert main(["--device", "cpu"], io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8")) == 2
    assert "error: standard input: is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("label", "message"),
    [("nothing", "must be one of djgnn"), ("gcn:author", "only the DJ-GNN has presets")],
)
def test_unknown_rows_are_refused(label: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_spec(label, "own", (0,))


def test_a_change_of_any_file_is_another_version(tmp_path: Path, monkeypatch) -> None:
    version = specs.code_version.__wrapped__
    assert version() == version()
    monkeypatch.setattr(specs.djgnn, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("x = 1")
    (tmp_path / "two.yaml").write_text("y: 1")
    found = [version()]
    (tmp_path / "notes.txt").write_text("does not count")
    assert version() == found[0]
    (tmp_path / "two.yaml").write_text("y: 2")
    found.append(version())
    (tmp_path / "a" / "one.py").rename(tmp_path / "a" / "other.py")
    found.append(version())
    assert len(set(found)) == 3


def test_records_travel_and_half_a_line_is_forgiven(folder: Path, tmp_path: Path) -> None:
    runner = Runner("cpu", folder)
    records = [runner.run(SPEC, split) for split in (0, 1)]
    assert [r.status for r in records] == ["done", "done"], records[0].reason
    lines = [r.to_json() for r in records]
    assert [SplitRecord.from_json(line) for line in lines] == records
    file = tmp_path / "r.jsonl"
    file.write_text(f"{lines[0]}\n{lines[1][:100]}")
    assert list(read_records(file)) == records[:1]
    file.write_text(f"{lines[0][:100]}\n{lines[1]}\n")
    with pytest.raises(InputError, match="line 1 is not a record"):
        list(read_records(file))


def test_failures_are_told_apart() -> None:
    assert describe(MemoryError())[0] == "out of memory"
    assert describe(RuntimeError("DefaultCPUAllocator: can't allocate memory"))[0] == (
        "out of memory"
    )
    assert describe(ValueError("a\n b")) == ("failed", "ValueError: a b")
