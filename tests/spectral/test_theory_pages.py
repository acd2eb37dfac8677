from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "theory"


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_examples_of_the_page_run(page):
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0
    assert result.attempted > 0 or page.stem in ("README", "differences")


def test_the_index_names_every_page():
    index = (PAGES / "README.md").read_text()
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index
