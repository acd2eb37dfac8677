"""Tables that are small on disk and large in memory: compressed text, repeated cells and rows."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import polars as pl
import pytest

from djgnn.errors import InputError
from djgnn.graph import parquet_trial, table_files
from djgnn.graph.table_files import header, read_table

TABLE = b"id,size\na,1\nb,2\n"
ZSTD = b"\x28\xb5\x2f\xfd\x04\x00" + TABLE


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch):
    trial = parquet_trial.Trial()
    monkeypatch.setattr(table_files, "TRIAL", trial)
    yield trial
    trial.close()


PACKED = [gzip.compress(TABLE), ZSTD, *(zlib.compress(TABLE, level) for level in (0, 4, 6, 9))]


@pytest.mark.parametrize("content", PACKED, ids=lambda content: content[:2].hex())
@pytest.mark.parametrize("read", [header, read_table])
def test_compressed_text_is_not_unpacked(read, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "n.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"n\.csv: is compressed; unpack it first \(got bytes"):
        read(file)


@pytest.mark.parametrize("first", ["x^2", "xک", "xڀ", "x"])
def test_text_that_begins_like_a_compressed_file_is_read(first: str, tmp_path: Path) -> None:
    file = tmp_path / "n.csv"
    file.write_text(f"{first},id\n1,a\n2,ü\n", encoding="utf-8")
    assert read_table(file).to_dict(as_series=False) == {first: ["1", "2"], "id": ["a", "ü"]}
    file.write_text(f"{first}{'ک' * 5000},id\n1,a\n", encoding="utf-8")
    assert read_table(file, rows=1).width == 2


def test_a_long_text_repeated_is_refused(tmp_path: Path, trial: parquet_trial.Trial) -> None:
    file = tmp_path / "n.parquet"
    pl.DataFrame({"id": ["x" * 30_000_000] * 12}).write_parquet(file, compression_level=9)
    assert file.stat().st_size < 60_000
    with pytest.raises(InputError, match=r"n\.parquet: .*use CSV \(got a table of \d+ bytes, more"):
        read_table(file)


def test_rows_repeated_are_refused(tmp_path: Path, trial: parquet_trial.Trial) -> None:
    file = tmp_path / "n.parquet"
    pl.select(pl.repeat("a", 2**25).alias("id")).write_parquet(file)
    assert file.stat().st_size < 2**17
    with pytest.raises(InputError, match=r"got a table of 5\d{8} bytes, more than"):
        read_table(file)
    pl.select(pl.repeat("a", 2**20).alias("id")).write_parquet(file)
    assert read_table(file).height == 2**20


def test_a_decoder_that_takes_too_long_is_ended(
    tmp_path: Path, trial: parquet_trial.Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "n.parquet"
    pl.DataFrame({"id": ["a"]}).write_parquet(file)
    slow = [sys.executable, "-c", "import time; input(); time.sleep(60)"]
    with monkeypatch.context() as patch:
        patch.setattr(parquet_trial, "COMMAND", slow)
        patch.setattr(parquet_trial, "SECONDS", 0.3)
        with pytest.raises(InputError, match=r"decoder took more than 0\.3 s"):
            read_table(file)
    assert read_table(file).height == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_decoder_has_no_more_memory_than_this_process(tmp_path: Path) -> None:
    file = tmp_path / "n.parquet"
    pl.DataFrame({"id": ["x" * 180_000_000, "y"]}).write_parquet(file, compression_level=9)
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom djgnn.graph import table_files\n"
        "from djgnn.graph.parquet_trial import free_bytes\n"
        "table_files.header(sys.argv[1])\n"
        "soft = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "assert free_bytes() is None\n"
        "hard = resource.getrlimit(resource.RLIMIT_AS)[1]\n"
        "resource.setrlimit(resource.RLIMIT_AS, (soft + 2**27, hard))\n"
        "print(free_bytes() <= 2**27, table_files.TRIAL.ask(Path(sys.argv[1]), ['id']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ")
    assert len(done.stdout) > 8  # it was not read
