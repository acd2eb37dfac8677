"""A few damaged files for every reader; `benchmarks/fuzz.py` reads many, watched and limited."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from djgnn.errors import InputError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FILES = 60
TABLES = ["edges.csv", "nodes.csv", "nodes.tsv", "edges.parquet", "nodes.parquet"]
READERS = [*TABLES, "graphml", "npz", "yaml"]


@pytest.fixture(scope="module")
def fuzz() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield pytest.importorskip("fuzz")
        for name in ("fuzz", "fuzz_mutations"):
            sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore::djgnn.errors.ReadingWarning")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused(
    fuzz: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuzz_mutations import seeds

    monkeypatch.chdir(tmp_path)
    source, read = fuzz.reader_of(name, tmp_path)
    data = seeds(tmp_path)[source]
    file = tmp_path / "damaged" / source
    file.parent.mkdir()
    messages: list[str] = []
    for index in range(FILES):
        file.write_bytes(fuzz.damaged(name, data, np.random.default_rng([7, index])))
        try:
            read(file)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > FILES / 3
    assert all(str(tmp_path) in message for message in messages)
    assert not (tmp_path / "executed").exists()
