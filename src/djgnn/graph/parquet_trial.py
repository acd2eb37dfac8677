"""A damaged Parquet file can end the process that decodes it, so another process goes first.

The decoder trusts the lengths it finds; an absurd one makes it ask for more memory than there is,
and a failed allocation ends the process without an exception. A child that lives as long as this
process therefore reads every Parquet file once before it is read here.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PROGRAM = """
import json, sys
import polars
for line in sys.stdin:
    path, columns = json.loads(line)
    try:
        polars.read_parquet(path, columns=columns, glob=False)
        said = ""
    except BaseException as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
    print(json.dumps(said), flush=True)
"""
# -P: nothing is imported from the folder the user happens to stand in.
COMMAND = [sys.executable, "-P", "-c", PROGRAM]


class Trial:
    """The child process: started when first asked, again when it died, ended with this process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, file: Path, columns: Sequence[str]) -> str:
        """Read the columns of a file over there.

        Returns:
            What went wrong, empty if nothing did.
        """
        if not sys.executable:
            return ""
        with self._lock:
            child: Any = self._start()
            answer = ""
            with suppress(OSError):
                child.stdin.write(json.dumps([str(file.absolute()), list(columns)]) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            if not answer:
                self.close()
                return "the decoder ended its process"
        said: str = json.loads(answer)
        return said

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        for stream in (child.stdin, child.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        child.kill()
        child.wait()

    def _start(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        return self._child


TRIAL = Trial()
