"""What a bug report needs, shell completion, and what importing the package costs."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys

from djgnn import __version__
from djgnn.cli import main


def test_the_version_alone_and_with_all_that_a_bug_report_needs(djgnn) -> None:
    assert djgnn("--version").stdout == f"djgnn {__version__}\n"
    for order in (["--version", "--json"], ["--json", "--version"]):
        found = json.loads(djgnn(*order).stdout)
        assert found["djgnn"] == __version__
        assert found["python"] == platform.python_version()
        assert {"torch", "polars", "system", "cpus", "cuda", "gpus"} <= found.keys()
        assert os.path.expanduser("~") not in json.dumps(found)


def test_json_without_version_or_command_is_refused(djgnn) -> None:
    refused = djgnn("--json")
    assert refused.returncode == 2
    assert "--json: belongs to --version" in refused.stderr


def test_a_shell_completes_commands() -> None:
    asked = {"_DJGNN_COMPLETE": "complete_bash", "COMP_WORDS": "djgnn in", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "djgnn"]
    found = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True)
    assert found.stdout.split() == ["inspect"]


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, djgnn; print({'torch', 'numpy', 'polars'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "set()"


def test_threads_that_wait_do_not_burn_cores_unless_asked_to(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["djgnn", "--version"])
    for asked in ("ACTIVE", "PASSIVE"):
        monkeypatch.setenv("OMP_WAIT_POLICY", asked)
        if asked == "PASSIVE":  # what it is if nobody says otherwise
            monkeypatch.delenv("OMP_WAIT_POLICY")
        with contextlib.suppress(SystemExit):
            main()
        assert os.environ["OMP_WAIT_POLICY"] == asked
