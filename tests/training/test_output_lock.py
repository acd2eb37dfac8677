"""One process at a time writes a run, and what a killed one left is tidied."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from djgnn.errors import InputError, OutputError
from djgnn.training import output_lock
from djgnn.training.output_lock import check_space, claimed

HOLD = "import sys, time; from djgnn.training.output_lock import claimed\n"
HOLD += "with claimed(sys.argv[1]): print('held', flush=True); time.sleep(600)"


def test_a_second_claim_is_refused_at_once_and_the_first_goes_on(tmp_path: Path) -> None:
    with claimed(tmp_path / "run"):
        (tmp_path / "run").mkdir()
        with pytest.raises(InputError, match="another `djgnn fit` is writing there"):
            claimed(tmp_path / "run").__enter__()
        assert (tmp_path / ".run.lock").exists()
        with claimed(tmp_path / "other"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with claimed(tmp_path / "run"):
        pass


def test_the_lock_of_a_killed_process_is_open(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "run"], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another"):
            claimed(tmp_path / "run").__enter__()
        other.send_signal(signal.SIGKILL)
    with claimed(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_an_older_run_comes_back(tmp_path: Path) -> None:
    for name in (".run.0123abcd.old", ".run.0123abcd.part", ".run.mine", ".run2.0123abcd.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with claimed(tmp_path / "run"):
        assert (tmp_path / "run" / "file").read_text() == ".run.0123abcd.old"
        (tmp_path / ".run.4567cdef.old").mkdir()
        (tmp_path / "run" / ".report.html.0123456789ab.tmp").touch()
        (tmp_path / "run" / ".mine.tmp").touch()
    with claimed(tmp_path / "run"):
        pass
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == [".run.mine", ".run2.0123abcd.part", "run"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".mine.tmp", "file"]


def test_folders_that_were_made_in_vain_are_removed(tmp_path: Path) -> None:
    with claimed(tmp_path / "a" / "b" / "run"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="above it is a file"):
        claimed(tmp_path / "file" / "run").__enter__()
    with pytest.raises(InputError, match="mount point of a disk"):
        claimed("/").__enter__()

    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(output_lock.os, "pwrite", refuse)
    with pytest.raises(OutputError, match=r"run: cannot be written.*got Permission denied"):
        claimed(tmp_path / "run").__enter__()


def test_a_disk_that_is_too_small_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_space(tmp_path / "run", 1)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(free=2**20))
    with pytest.raises(OutputError, match=r"about 4 MiB does not fit.*got 1 MiB"):
        check_space(tmp_path / "run", 2**22)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_link_and_its_folder_are_one_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with claimed(tmp_path / "link"), pytest.raises(InputError, match="another"):
        claimed(tmp_path / "real").__enter__()
