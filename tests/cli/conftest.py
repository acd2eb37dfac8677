"""Commands run in this process, as `djgnn` would run them in its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from djgnn.cli import main


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Done:
    """Run a command with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["djgnn", *map(str, arguments)])
        patch.setenv("COLUMNS", "200")
        try:
            main()
        except SystemExit as end:
            status = end.code
    return Done(int(status or 0), out.getvalue(), err.getvalue())  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def djgnn() -> Callable[..., Done]:
    """The command line as a function: status, standard output, standard error."""
    return run
