"""One self-contained page: markup, style, data and scripts in a single file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from djgnn import __version__
from djgnn.graph.files import atomic_write, check_replaceable
from djgnn.report.comparison import comparison_payload
from djgnn.report.payload import run_payload
from djgnn.report.run_data import RunData

REPORT = "report.html"
MARK = b'<meta name="generator" content="djgnn '
COMPARISON_SCRIPTS = ("core", "compare", "start")
RUN_SCRIPTS = ("core", "run", "player", "rings", "nodes", "environment", "start")
# Characters that could end a script element or a line of a script.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="djgnn $version">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
<script id="data" type="application/json">$data</script>
<script>$library</script>
<script>$script</script>
</body>
</html>
""")


def embed_json(value: Any) -> str:
    """JSON that is safe inside a script element, whatever the strings in it say.

    Raises:
        ValueError: For a number that JSON has not, such as NaN.

    Example:
        >>> embed_json({"name": "</script>"})
        '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate({ord(c): escaped for c, escaped in _ESCAPES.items()})


def plotly_script() -> str:
    """plotly.js, as the package plotly carries it."""
    file = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    return file.read_text("utf-8")


def render(title: str, body: str, payload: dict[str, Any], scripts: tuple[str, ...]) -> str:
    """Put a page together.

    Args:
        title: Of the window; escaped here.
        body: Markup, escaped by who made it.
        payload: The data.
        scripts: Names of the scripts of this page, in order.
    """
    library = plotly_script()
    script = "\n".join(asset(f"{name}.js") for name in scripts)
    return _PAGE.substitute(
        policy=_policy(library, script),
        version=__version__,
        title=html.escape(title),
        style=asset("report.css"),
        body=body,
        data=embed_json(payload),
        library=library,
        script=script,
    )


def write_run_page(data: RunData, out: str | Path | None = None) -> Path:
    """Write the page of a run and say where it is.

    Args:
        data: The run.
        out: The file; ``report.html`` in the run folder by default.

    Raises:
        InputError: If it cannot be written.
    """
    path = data.folder / REPORT if out is None else Path(out).expanduser()
    check_replaceable(path, (MARK,), "page of ours")
    payload = run_payload(data)
    name = str(payload["headline"]["data"]["name"])
    page = render(f"{name}: djgnn report", run_body(payload), payload, RUN_SCRIPTS)
    with atomic_write(path) as stream:
        stream.write(page.encode("utf-8", "replace"))
    return path


def write_comparison_page(sources: Sequence[str | Path], out: str | Path) -> Path:
    """Write the page that compares several runs or the cells of a benchmark.

    Args:
        sources: See :func:`djgnn.report.comparison.comparison_payload`.
        out: The file.

    Raises:
        InputError: If a source cannot be read, or the page not be written.
    """
    path = Path(out).expanduser()
    check_replaceable(path, (MARK,), "page of ours")
    payload = comparison_payload(sources)
    cells = payload["cells"]
    counts = [len({cell[key] for cell in cells}) for key in ("model", "dataset")]
    lead = f"{len(cells)} cells: {counts[0]} models on {counts[1]} data sets."
    body = Template(asset("compare.html")).substitute(lead=lead, version=__version__)
    page = render("Comparison: djgnn report", body, payload, COMPARISON_SCRIPTS)
    with atomic_write(path) as stream:
        stream.write(page.encode("utf-8", "replace"))
    return path


def run_body(payload: dict[str, Any]) -> str:
    """The markup of a run's page, with its headline written out."""
    head = payload["headline"]
    result, data = head["result"], head["data"]
    metric = "ROC-AUC" if head["metric"] == "roc_auc" else "accuracy"
    lead = (
        f"{data['num_nodes']:,} nodes, {data['num_edges']:,} directed edges, "
        f"{data['num_features']:,} features, {len(data['classes'])} classes; "
        f"split {result['split']}, seed {head['seed']}, preset {head['preset']}."
    )
    interval = ""
    if head["test_low"] is not None:
        interval = (
            f"95% interval {head['test_low']:.2f} to {head['test_high']:.2f} "
            f"over {head['test_nodes']:,} nodes"
        )
    ended = "interrupted after" if head["interrupted"] else "trained for"
    tiles = (
        (f"test {metric}", _percent(result["test"]), interval),
        (f"validation {metric}", _percent(result["validation"]), "selected on this"),
        ("protocol", head["protocol"], "epoch chosen on validation, test read there"),
        ("epoch kept", f"{result['epoch']}", f"{ended} {result['seconds']:.1f} s"),
    )
    return Template(asset("run.html")).substitute(
        name=html.escape(str(data["name"])),
        lead=html.escape(lead),
        tiles="".join(_tile(*tile) for tile in tiles),
        command=html.escape(head["command"]),
        version=__version__,
    )


def asset(name: str) -> str:
    """A text file of this package."""
    return resources.files("djgnn.report").joinpath("assets", *name.split("/")).read_text("utf-8")


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}%"


def _tile(name: str, value: str, more: str) -> str:
    parts = (("name", name), ("value", value), ("more", more))
    lines = "".join(f'<div class="{kind}">{html.escape(text)}</div>' for kind, text in parts)
    return f'<div class="tile">{lines}</div>'


def _policy(*scripts: str) -> str:
    """Nothing is loaded from anywhere; only the scripts of this page run."""
    digests = (hashlib.sha256(script.encode("utf-8")).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
