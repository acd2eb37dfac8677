"""The command line: thin; parses, calls, prints."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `djgnn`; exit status 0 done, 1 the work failed, 2 the input or command was wrong."""
    from djgnn.cli.app import app
    from djgnn.errors import InputError

    try:
        app(prog_name="djgnn")
    except InputError as error:
        print("error:", " ".join(str(error).splitlines()), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (FloatingPointError, MemoryError, OSError, RuntimeError) as error:
        print(f"failed: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
