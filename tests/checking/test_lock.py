"""The lock files have a hash for every package, and the versions that the tree is tested with."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"([a-z0-9][a-z0-9._-]*)==(\S+) --hash=sha256:[0-9a-f]{64}")


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (ROOT / name).read_text("utf-8").splitlines() if line[:1] != "#"]
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return {_plain(match[1]): match[2] for match in found if match}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower())


def test_every_package_is_pinned_by_its_hash_to_the_tested_version() -> None:
    locked = pins("requirements.lock")
    assert {"numpy", "scipy", "pytest", "ruff", "hatchling"} < locked.keys()
    assert "torch" not in locked, "registries offer different builds of it"
    locked |= pins("requirements-torch.lock")
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        if line[:1] != "#":
            name, _, version = line.partition("==")
            assert locked.get(_plain(name), version) == version, "run `make lock`"
