"""One page for every public name, and one for every package that lists them."""

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

PACKAGES = {
    "djgnn": "What most programs need",
    "djgnn.graph": "Graphs, readers, data sets, splits, generators",
    "djgnn.spectral": "Exact theory on a graph",
    "djgnn.pump": "The diffusion pump",
    "djgnn.jumps": "Twins, nearest neighbours, rank lists",
    "djgnn.filters": "Structural filters",
    "djgnn.model": "Networks, experts, presets",
    "djgnn.model.branches": "Branches",
    "djgnn.training": "Training, configurations, selection",
    "djgnn.training.distributed": "Several processes",
    "djgnn.baselines": "Other systems",
    "djgnn.bench": "Cells of tables",
}
VERTICAL = r"\vert "
FOREIGN = "set_fit_request, set_score_request"  # of scikit-learn, about metadata routing


def api_pages() -> dict[str, str]:
    """File names and their text."""
    pages, homes = {}, {}
    for package in reversed(PACKAGES):  # a name is documented where it is at home
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            home = homes.setdefault(id(value) if callable(value) else (package, name), package)
            if home == package and name != "__version__":
                pages[f"{_file(module, name)}.rst"] = _page(module, name, value)
    for package, title in PACKAGES.items():
        pages[f"{package}.md"] = _index(package, title, homes)
    return pages


def summary(value: Any) -> str:
    """The first sentence of a docstring, as Markdown."""
    return as_markdown((inspect.getdoc(value) or "").split("\n\n")[0])


def as_markdown(text: str) -> str:
    """A sentence of a docstring: its roles and literals as Markdown writes them."""
    text = re.sub(r":math:`([^`]*)`", r"$\1$", " ".join(text.split()))
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def _file(module: ModuleType, name: str) -> str:
    """The name of a page; some file systems do not tell `Arrivals` from `arrivals`."""
    alike = [other for other in module.__all__ if other.lower() == name.lower()]
    return f"{module.__name__}.{name}" + ("-class" if len(alike) > 1 and name[0].isupper() else "")


def _page(module: ModuleType, name: str, value: Any) -> str:
    lines = [name, "=" * len(name), "", ".. code-block:: python", ""]
    lines += [f"   from {module.__name__} import {name}", ""]
    lines += [f".. currentmodule:: {module.__name__}", ""]
    if inspect.isclass(value):
        lines += [f".. autoclass:: {name}", "   :members:", f"   :exclude-members: {FOREIGN}"]
    elif callable(value):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. data:: {name}", "", *_value(module, name, value)]
    return "\n".join([*lines, ""])


def _value(module: ModuleType, name: str, value: Any) -> list[str]:
    """What a constant holds, as a session of Python shows it."""
    names = list(value)
    shown = ", ".join(getattr(item, "__name__", repr(item)) for item in names)
    words = "The keys are" if isinstance(value, dict) else "Its values are"
    session = [f">>> len({name})", str(len(names))]
    indented = [f"   {line}" for line in [f"{words} {shown}.", "", ".. code-block:: pycon", ""]]
    return [*indented, *(f"      {line}" for line in session)]


def _index(package: str, title: str, homes: dict[Any, str]) -> str:
    module = importlib.import_module(package)
    rows, pages = [], []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if name == "__version__":
            rows.append(f"| `{name}` | The version, `{value}`. |")
            continue
        home = homes[id(value) if callable(value) else (package, name)]
        page = _file(importlib.import_module(home), name)
        said = summary(value) if callable(value) else f"A constant of {len(value)} names."
        rows.append(f"| [`{name}`]({page}.rst) | {said.replace('|', VERTICAL)} |")
        pages += [page] if home == package else []
    text = f"# {package}\n\n{title}.\n\n| name | |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    return text + "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"
