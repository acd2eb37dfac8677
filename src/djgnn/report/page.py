"""One self-contained page: markup, style, data and scripts in a single file."""

import base64
import gzip
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from djgnn import __version__
from djgnn.graph import Graph
from djgnn.graph.files import atomic_write, check_replaceable
from djgnn.report.graph_card import measure_graph
from djgnn.report.payload import run_payload, theory_payload
from djgnn.report.run_data import RunData
from djgnn.report.views import MOST_NODES
from djgnn.training.card import REPORT, amend_card

Measured = Callable[[], dict[str, Any]]

MARK = b'<meta name="generator" content="djgnn '
COMPARISON_SCRIPTS = ("core", "compare", "start")
RUN_SCRIPTS = ("core", "run", "advice", "nodes", "player", "rings", "environment", "start")


@contextmanager
def measured_beside(graph: Graph) -> Iterator[Measured | None]:
    """Measure a large graph in a thread of its own; a small one is measured when it is its turn.

    What is measured of a large graph takes no more than seconds, so that a stop need not wait.
    """
    if graph.num_nodes <= MOST_NODES:
        yield None
        return
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(measure_graph, graph, structural=False).result


def write_run_page(
    data: RunData, out: str | Path | None = None, measured: Measured | None = None
) -> Path:
    """Write the page of a run and return its path.

    The page is written twice: without the theory, which can take long, and then with it. So a stop
    in between leaves a page. In the run folder, the card has the hash of the second one.

    Args:
        data: The run.
        out: The file; ``report.html`` in the run folder by default.
        measured: Gives the measures of the graph, where they are made elsewhere.

    Raises:
        InputError: If it cannot be written.
    """
    path = data.folder / REPORT if out is None else Path(out).expanduser()
    check_replaceable(path, (MARK,), "page of ours")
    payload = run_payload(data)
    _write(path, "run.html", payload, RUN_SCRIPTS)
    theory = theory_payload(data, None if measured is None else measured())
    _write(path, "run.html", payload | theory, RUN_SCRIPTS)
    if "files" in data.card and path.resolve() == (data.folder / REPORT).resolve():
        amend_card(data.folder, data.card, REPORT)
    return path


def write_comparison_page(sources: Sequence[str | Path], out: str | Path) -> Path:
    """Write the page that compares several runs or cells, see :func:`~.comparison_payload`.

    Raises:
        InputError: If a source cannot be read or the page cannot be written.
    """
    from djgnn.bench.document import draw_diagram
    from djgnn.report.comparison import comparison_payload

    path = Path(out).expanduser()
    check_replaceable(path, (MARK,), "page of ours")
    payload = comparison_payload(sources)
    return _write(path, "compare.html", payload, COMPARISON_SCRIPTS, draw_diagram=draw_diagram)


def _write(
    path: Path, template: str, payload: dict[str, Any], scripts: tuple[str, ...], **values: Any
) -> Path:
    """Render a template of this package and write it.

    Every value is escaped, in the data also ``<``, ``>`` and ``&``; only our own files and the
    drawn diagram go in as they are. The policy allows the two scripts by their hashes and nothing
    else: no connection, no frame, no form.
    """
    assets = resources.files("djgnn.report").joinpath("assets")
    library, packed = _library()
    script = "\n".join(assets.joinpath(f"{name}.js").read_text("utf-8") for name in scripts)
    digests = (hashlib.sha256(text).digest() for text in (library, script.encode("utf-8")))
    allowed = " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)
    templates = Environment(
        loader=PackageLoader("djgnn.report", "assets"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    page = templates.get_template(template).render(
        payload=payload,
        version=__version__,
        **values,
        style=Markup(assets.joinpath("report.css").read_text("utf-8")),
        library=packed,
        script=Markup(script),
        policy=Markup(
            f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
            "img-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'"
        ),
    )
    with atomic_write(path) as stream:
        stream.write(page.encode("utf-8", "replace"))
    return path


@cache
def _library() -> tuple[bytes, str]:
    """plotly.js as the package plotly carries it, and packed: gzip in base64, 2 MB instead of 5."""
    file = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    text = file.read_text("utf-8").encode("utf-8")
    return text, base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
