from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from djgnn.errors import InputError
from djgnn.graph.files import atomic_write, read_limited, readable_file
from djgnn.graph.graphml import read_graphml
from djgnn.graph.npz import read_npz
from djgnn.graph.plain_yaml import read_mapping
from djgnn.graph.table_files import read_table

READERS = [readable_file, read_mapping, read_npz, read_graphml, read_table]


def finishes(call) -> BaseException | None:
    """What a call raised; it must end by itself."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("read", [*READERS, lambda path: read_limited(path, 10)])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link to a device"])
def test_pipes_and_devices_are_refused_at_once(read, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "f"
    if kind == "link to a device":
        file.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / ("f" if kind == "pipe" else "p"))
        if kind != "pipe":
            file.symlink_to("p")
    error = finishes(lambda: read(file))
    assert isinstance(error, InputError)
    assert "is not an ordinary file but a device or a pipe; copy" in str(error)


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a: 1")
    (tmp_path / "link").symlink_to("real")
    assert readable_file(tmp_path / "link").name == "link"
    assert read_mapping(tmp_path / "link") == {"a": 1}


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_limited(file, 5) == b"12345"
    with pytest.raises(InputError, match=r"f: is too large, at most 4 bytes .* \(got 5 bytes\)"):
        read_limited(file, 4)
    with file.open("wb") as stream:
        stream.truncate(2**40)  # takes no room on disk
    with pytest.raises(InputError, match="got 1099511627776 bytes"):
        read_limited(file, 1000)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_file_that_does_not_tell_its_size_is_read(tmp_path: Path) -> None:
    assert read_limited("/proc/self/status", 2**20).startswith(b"Name:")
    with pytest.raises(InputError, match="too large"):
        read_limited("/proc/self/status", 10)


def test_folders_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; give the path of a file"):
        read_limited(tmp_path, 10)
    with pytest.raises(InputError, match="no such file; check the path"):
        read_limited(tmp_path / "none", 10)


@pytest.mark.parametrize("value", ["1" + ":1" * 100_000, "0x1" + "0" * 100_000, "a" * 1001])
def test_a_long_value_in_a_configuration_is_refused(value: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"training:\n  epochs: {value}\n")
    with pytest.raises(InputError, match=r"c\.yaml: line 2: a value has more than 1000 .*shorten"):
        read_mapping(file)
    file.write_text(f"training:\n  epochs: '{'a' * 1000}'\n")
    assert len(read_mapping(file)["training"]["epochs"]) == 1000


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "private.csv"
    target.write_text("old")
    target.chmod(0o600)
    with atomic_write(target) as stream:
        stream.write(b"new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
