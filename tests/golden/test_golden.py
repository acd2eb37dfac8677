"""The `author` preset reproduces the published code, and the check can fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted((HERE / "files").glob("*.npz"))

spec = importlib.util.spec_from_file_location("golden_check", HERE / "check.py")
assert spec is not None
assert spec.loader is not None
check = importlib.util.module_from_spec(spec)
sys.modules["golden_check"] = check
spec.loader.exec_module(check)


def test_there_are_files() -> None:
    assert [f.stem for f in FILES] == ["directed", "sbm", "tiny", "twins"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_published_outputs_are_reproduced(path: Path) -> None:
    for quantity, error, limit in check.Golden(path).errors():
        assert error <= limit, quantity


@pytest.mark.parametrize("key", ["out/U", "out/ranks", "grad/pump.weight", "train/losses"])
def test_a_changed_file_is_noticed(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load(FILES[1]) as file:
        arrays = {name: file[name] for name in file.files}
    arrays[key] = arrays[key].copy()
    arrays[key].flat[0] += 1
    np.savez(tmp_path / "changed.npz", **arrays)
    assert check.main([str(tmp_path / "changed.npz")]) == 1
    assert "ABOVE" in capsys.readouterr().out
