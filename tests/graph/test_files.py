from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from djgnn.errors import InputError
from djgnn.graph import files
from djgnn.graph.files import (
    atomic_write,
    check_replaceable,
    read_configuration,
    read_limited,
    readable_file,
)
from djgnn.graph.graphml import read_graphml
from djgnn.graph.npz import read_npz
from djgnn.graph.table_files import read_table


def read_yaml(path: Path) -> dict:
    return read_configuration(path, dict)


READERS = [readable_file, read_yaml, read_npz, read_graphml, read_table]


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("target", ["pipe", "/dev/null"])
def test_pipes_and_devices_are_never_replaced(target: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InputError, match="so it is not replaced; name another file"):
        check_replaceable(tmp_path / "link", [b"mark"], "file")
    with pytest.raises(InputError, match="a device or a pipe"), atomic_write(tmp_path / "link"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]
    assert (tmp_path / "link").is_symlink()


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a: 1")
    (tmp_path / "link").symlink_to("real")
    assert readable_file(tmp_path / "link").name == "link"
    assert read_yaml(tmp_path / "link") == {"a": 1}


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


def test_folders_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; give the path of a file"):
        read_limited(tmp_path, 10)
    with pytest.raises(InputError, match="no such file; check the path"):
        read_limited(tmp_path / "none", 10)


BAD_YAML = {
    "tag": ("a: !!python/object/apply:os.getcwd []", "line 1: is not plain YAML.*tag"),
    "alias": ("a: &x [1]\nb: *x", r"line 2: is not plain YAML; .*aliases \(got an alias\)"),
    "list": ("- 1", "named sections .*got list"),
    "latin-1": ("a: \xe9", "UTF-8"),
    "nested": ("a: " + "[" * 20_000, "is not plain YAML"),
    "large": ("a: " + "1" * 2**16, "too large"),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_a_bad_configuration_names_file_and_problem(case: str, tmp_path: Path) -> None:
    text, message = BAD_YAML[case]
    file = tmp_path / "c.yaml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=rf"c\.yaml: .*{message}"):
        read_yaml(file)


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "private.csv"
    target.write_text("old")
    target.chmod(0o600)
    with atomic_write(target) as stream:
        stream.write(b"new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_large_files_are_hashed_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WORTH_AHEAD", 3)
    monkeypatch.setattr(files, "HASHED_AT_ONCE", 2)
    (tmp_path / "large").write_bytes(b"a large file")
    (tmp_path / "small").write_bytes(b"no")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large")
    os.mkfifo(tmp_path / "pipe")
    assert files.hash_ahead(tmp_path)() == {"large": hashlib.sha256(b"a large file").hexdigest()}
    assert files.hash_ahead(tmp_path / "nowhere")() == {}
    (tmp_path / "empty").touch()
    assert files.file_hash(tmp_path / "empty") == hashlib.sha256().hexdigest()
