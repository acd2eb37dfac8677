"""Run the programs of a page and write what they print below them.

    python docs/_ext/programs.py docs/howto/pyg.md ...

A program is a block of Python with a block of plain text after it: its output. The programs of a
page share their names, as in one session.
"""

import re
import sys
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAM = re.compile(r"(```python\n(.*?)```\n\n```(?:text)?\n)(.*?)(```\n)", re.DOTALL)


def programs(text: str) -> list[tuple[str, str]]:
    """The programs of a page, each with the output that the page shows."""
    return [(program, shown) for _, program, shown, _ in PROGRAM.findall(text)]


def refreshed(text: str) -> str:
    """The page with the output that its programs have now."""
    names: dict[str, object] = {}

    def run(found: re.Match[str]) -> str:
        with redirect_stdout(StringIO()) as printed:
            exec(found[2], names)
        return found[1] + printed.getvalue() + found[4]

    with TemporaryDirectory() as folder, chdir(folder):
        return PROGRAM.sub(run, text)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(refreshed(page.read_text("utf-8")), "utf-8")
