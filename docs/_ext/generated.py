"""Write the generated parts of the reference before Sphinx reads its sources."""

from pathlib import Path

from api_pages import api_pages
from commands import commands
from messages import messages
from options import options
from sphinx.application import Sphinx


def write_pages(app: Sphinx) -> None:
    """Bring `reference/generated` up to date; pages that did not change keep their time."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    pages = {
        **api_pages(),
        "options.inc": options(),
        "messages.inc": messages(),
        "commands.inc": commands(),
    }
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
