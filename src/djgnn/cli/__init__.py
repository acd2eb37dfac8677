"""The command line: thin; parses, calls, prints."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run `djgnn`; exit status 0 done, 1 the work failed, 2 the input or command was wrong.

    Of several processes that fail alike only the first prints the error.
    """
    # Before torch is imported: large tensors in huge pages, which fault seldom.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    from djgnn.cli.app import app
    from djgnn.cli.options import with_flags
    from djgnn.cli.terminal import printable
    from djgnn.errors import InputError, ProcessLostError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(encoding="utf-8")  # names may be of any script
    rank = os.environ.get("RANK", "0")
    first = rank == "0"
    try:
        app(prog_name="djgnn")
    except InputError as error:
        if first:
            text = with_flags(" ".join(str(error).splitlines()))
            print("error:", printable(text), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        if first:
            print("stopped", file=sys.stderr)
        sys.exit(130)
    except (FloatingPointError, ProcessLostError) as error:
        if first:
            print(f"failed: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (MemoryError, OSError, RuntimeError) as error:
        where = "" if first else f"process {rank}: "
        print(f"failed: {where}{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
