"""A damaged Parquet file can end the process that decodes it, so another process goes first.

The decoder trusts the lengths it finds; an absurd one makes it ask for more memory than there is,
and a failed allocation ends the process without an exception. A child that lives as long as this
process therefore reads every Parquet file once before it is read here, with less memory than this
process may take and with a limit of time, and says how large the table is: a few bytes can stand
for a text, or a row, that is repeated without end.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_BYTES = 8 * 2**30
LEAST_BYTES = 2**28
RATIO = 2**12
SLACK = 2**29
SECONDS = 300.0
PROGRAM = """
import io, json, sys
import polars

def allow(room):
    import resource
    with open("/proc/self/statm") as stream:
        most = int(stream.read().split()[0]) * resource.getpagesize() + room
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))

def held(frame):  # a text also has a place of 16 bytes
    texts = sum(kind in (polars.String, polars.Binary) for kind in frame.dtypes)
    return frame.estimated_size() + 16 * texts * frame.height

small = io.BytesIO()
polars.DataFrame({"a": [1]}).write_parquet(small)
small.seek(0)
polars.read_parquet(small)  # now its threads have their memory
for line in sys.stdin:
    path, columns, room = json.loads(line)
    try:
        allow(room)
    except (ImportError, OSError, ValueError):
        pass
    size = 0
    try:
        size = held(polars.read_parquet(path, columns=columns, glob=False))
        said = ""
    except BaseException as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
    print(json.dumps([said, size]), flush=True)
"""
# -P: nothing is imported from the folder the user happens to stand in.
COMMAND = [sys.executable, "-P", "-c", PROGRAM]


def most_bytes(file: Path) -> int:
    """How large the table in a file may be: 4096 times the file, between 256 MiB and 8 GiB."""
    return min(MOST_BYTES, max(LEAST_BYTES, RATIO * file.stat().st_size))


def free_bytes() -> int | None:
    """What this process may still take, ``None`` where nothing limits it or nobody tells."""
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(soft - pages * resource.getpagesize(), 0)
    except (ImportError, OSError, ValueError):
        return None


class Trial:
    """The child process: started when first asked, again when it died, ended with this process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, file: Path, columns: Sequence[str]) -> str:
        """Read the columns of a file over there.

        Returns:
            What went wrong or that the table is too large, empty if all is well.
        """
        if not sys.executable:
            return ""
        most, free = most_bytes(file), free_bytes()
        room = 2 * most + file.stat().st_size + SLACK
        room = room if free is None else min(room, free)
        with self._lock:
            child: Any = self._start()
            answer = ""
            timer = threading.Timer(SECONDS, child.kill)
            timer.start()
            with suppress(OSError):
                child.stdin.write(json.dumps([str(file.absolute()), list(columns), room]) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            late = not timer.is_alive()
            timer.cancel()
            if not answer:
                self.close()
                why = f"took more than {SECONDS:g} s" if late else "ended its process"
                return f"the decoder {why}; it was given {room} bytes of memory"
        said, size = json.loads(answer)
        if not said and size > most:
            return f"a table of {size} bytes, more than {most}, the most for a file of this size"
        return str(said)

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
                env={"POLARS_MAX_THREADS": str(min(os.cpu_count() or 1, 4)), **os.environ},
            )
        return self._child


TRIAL = Trial()
