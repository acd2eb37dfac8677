"""The documentation: what can be checked without building it."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest
from tests.docs.surface import FILE, public_packages, surface

from djgnn import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that write the generated pages."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])


@pytest.mark.usefixtures("extensions")
def test_every_public_name_has_a_page() -> None:
    from api_pages import PACKAGES, api_pages

    assert set(PACKAGES) == set(public_packages())
    pages = api_pages()
    for package in PACKAGES:
        for name in importlib.import_module(package).__all__:
            assert f"`{name}`" in pages[f"{package}.md"]
            documented = re.compile(rf"^\.\. (auto\w+|data):: {name}$", re.MULTILINE)
            assert name == "__version__" or any(documented.search(t) for t in pages.values())
    assert len({name.lower() for name in pages}) == len(pages)  # for file systems that ignore case


@pytest.mark.parametrize("package", public_packages())
def test_every_public_function_and_class_has_an_example(package: str) -> None:
    module = importlib.import_module(package)
    values = {name: getattr(module, name) for name in module.__all__}
    lacking = [n for n, v in values.items() if callable(v) and ">>>" not in (v.__doc__ or "")]
    assert not lacking


def test_what_is_stable_is_still_there() -> None:
    """Names, arguments, commands and flags are only added (docs/reference/stability.md)."""
    found, promised = surface(), json.loads(FILE.read_text("utf-8"))
    gone = {name: set(parts.split()) - set(found.get(name, [])) for name, parts in promised.items()}
    assert not {name for name in promised if name not in found}
    assert not {name: parts for name, parts in gone.items() if parts}


@pytest.mark.usefixtures("extensions")
def test_commands_and_messages_are_listed() -> None:
    from commands import commands
    from messages import messages

    assert "## djgnn bench run" in commands()
    assert "`--coverage-by`" in commands()
    assert "`--column: must be NAME=KIND (got <pair>)`" in messages()


def test_every_warning_is_explained() -> None:
    text = (DOCS / "reference" / "messages.md").read_text("utf-8")
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        assert not issubclass(kind, errors.DJGNNWarning) or f"`{name}`" in text


def test_every_page_has_a_place() -> None:
    """Each page stands in one of the lists that make the navigation."""
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / line).resolve() for line in lines}
    made = [page for page in DOCS.rglob("*.md") if not {"_build", "generated"} & set(page.parts)]
    for page in made:
        assert page.with_suffix("") in listed or page == DOCS / "index.md", page
