"""A machine for batches has the core packages, without those of the command line; it must do."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys
for name in ("polars", "typer", "rich", "optuna", "matplotlib", "psycopg2"):
    sys.modules[name] = None
import djgnn.bench.worker, djgnn.bench.tables, djgnn.bench.page
sys.exit(djgnn.bench.worker.main(["--workers", "0"], stdin=iter([])))
"""


def test_the_room_needs_no_command_line_and_no_search_package() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"0 splits to run" in done.stderr
