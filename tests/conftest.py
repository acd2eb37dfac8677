"""Shared fixtures: where the benchmark data sets are, if they are anywhere."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

import pytest
import torch

# Without a GPU, Triton's kernels run in its interpreter, which must be chosen before its import.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@atexit.register
def _silence_exit() -> None:
    """Triton's bindings report leaked references when the interpreter ends: not ours to mend."""
    if "triton" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


ROOT = Path(__file__).resolve().parent.parent


def _data_dir() -> Path | None:
    given = os.environ.get("DJGNN_DATA")
    for folder in (Path(given) if given else None, ROOT.parent / "shared" / "data"):
        if folder is not None and any(folder.glob("*.npz")):
            return folder
    return None


def data_sets() -> list[str]:
    """Names of the data sets found, for parametrising."""
    folder = _data_dir()
    return sorted(file.stem for file in folder.glob("*.npz")) if folder else []


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the benchmark ``.npz`` files; skips where there is none."""
    folder = _data_dir()
    if folder is None:
        pytest.skip("no data sets here: set DJGNN_DATA to a folder with the .npz files")
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `dataset` runs once per data set found."""
    if "dataset" in metafunc.fixturenames:
        missing = pytest.param("", marks=pytest.mark.skip(reason="no data sets: set DJGNN_DATA"))
        metafunc.parametrize("dataset", data_sets() or [missing])


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any attempt to open a connection fail."""
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise OSError("network access is forbidden in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without data: no $DJGNN_DATA and an empty cache, whose folder is returned."""
    monkeypatch.delenv("DJGNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "djgnn"
