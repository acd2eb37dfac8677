"""What is stable: public names with their arguments, and commands with their flags.

python tests/docs/surface.py    # when something was added: writes surface.json anew
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import typer

import djgnn
from djgnn.cli.app import app

FILE = Path(__file__).with_name("surface.json")


def public_packages() -> list[str]:
    found = [name for _, name, _ in pkgutil.walk_packages(djgnn.__path__, "djgnn.")]
    found = [name for name in found if not name.endswith("__main__")]
    return [n for n in ["djgnn", *found] if hasattr(importlib.import_module(n), "__all__")]


def surface() -> dict[str, list[str]]:
    """Every name and command, with its arguments or flags; of a class its methods too."""
    found: dict[str, list[str]] = {}
    for package in public_packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            found[f"{package}.{name}"] = _arguments(getattr(module, name))
    for name, method in inspect.getmembers(djgnn.DJClassifier, callable):
        if not name.startswith("_") and "djgnn" in method.__module__:
            found[f"djgnn.DJClassifier.{name}"] = _arguments(method)
    return {**found, **_flags(typer.main.get_command(app), "djgnn")}


def _arguments(value: Any) -> list[str]:
    try:
        return list(inspect.signature(value).parameters) if callable(value) else []
    except ValueError:  # of an exception
        return []


def _flags(command: Any, name: str) -> dict[str, list[str]]:
    flags = [flag for each in command.params for flag in (*each.opts, *each.secondary_opts)]
    found = {f"$ {name}": flags}
    for inner in getattr(command, "commands", {}).values():
        found |= _flags(inner, f"{name} {inner.name}")
    return found


if __name__ == "__main__":
    lines = {name: " ".join(parts) for name, parts in surface().items()}
    FILE.write_text(json.dumps(lines, indent=1, sort_keys=True) + "\n", "utf-8")
