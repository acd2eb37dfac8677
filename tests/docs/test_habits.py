"""Files around the package: licence, citation, forms and workflows agree with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from djgnn import __version__

ROOT = Path(__file__).parents[2]
FORMS = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")]


def test_licence_and_citation_name_the_same_authors_and_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == __version__
    assert cited["license"] == project["license"] == "MIT"
    assert project["authors"][0]["name"] in (ROOT / "LICENSE").read_text("utf-8")
    assert cited["authors"][0]["name"].lower() == project["authors"][0]["name"]


def test_constraints_pin_what_the_documentation_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {re.split(r"[<>=\[]", line)[0] for line in project["optional-dependencies"]["docs"]}
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert wanted - {"djgnn"} <= {name.lower() for name in pinned}


@pytest.mark.parametrize("file", FORMS, ids=lambda path: path.stem)
def test_forms_are_yaml_and_workflows_call_targets_of_make(file: Path) -> None:
    values = yaml.safe_load(file.read_text("utf-8"))
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for job in values.get("jobs", {}).values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        assert commands
        assert all(command.removeprefix("make ") in targets for command in commands)
