"""The command line: thin; parses, calls, prints."""

import io
import os
import sys


def main() -> None:
    """Run `djgnn`; exit status 0 done, 1 the work failed, 2 the input or command was wrong.

    Of several processes that fail alike only the first prints the error.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # Before any library starts threads: one that waits is not to burn a core that others need.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from djgnn.cli.app import app
    from djgnn.cli.error_messages import describe
    from djgnn.cli.memory import one_heap
    from djgnn.cli.source import with_flags
    from djgnn.cli.terminal import plain_warnings
    from djgnn.errors import InputError, OutputError, ProcessLostError, TableError, printable

    one_heap()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(encoding="utf-8")  # names may be of any script
    rank = os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"
    alike, status = True, 1
    try:
        with plain_warnings():
            app(prog_name="djgnn")
    except InputError as error:
        lines = str(error).splitlines() if isinstance(error, TableError) else [str(error)]
        lines = [printable(with_flags(" ".join(line.splitlines()))) for line in lines]
        text, status = "error: " + "\n".join(lines), 2
    except KeyboardInterrupt as error:
        text, status = describe(error), 130
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (FloatingPointError, MemoryError, OSError, RuntimeError) as error:
        alike = isinstance(error, FloatingPointError | OutputError | ProcessLostError)
        where = "" if rank == "0" else f"process {rank}: "
        text = where + printable(" ".join(describe(error).splitlines()))
    else:
        return
    if rank == "0" or not alike:
        print(text, file=sys.stderr)
    sys.exit(status)
