"""Which code made a number: a hash of exactly the source files that a model's run executes."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import djgnn
from djgnn.baselines.config import model_class

ROOT = Path(djgnn.__file__).parent
OF_GRAPH = (
    "djgnn.graph.graph",
    "djgnn.graph.operator",
    "djgnn.graph.operator_rows",
    "djgnn.graph.splits",
)
"""What counts of the first room; for readers and checks the hash of the data stands."""
COMMON = ("djgnn.bench.cell", *OF_GRAPH)
"""Where every model starts. The first room is imported as a whole, which does not count."""


@cache
def code_version(model: str) -> str:
    """The version of this package and of the source behind one model, such as ``0.1.0+1f2e3d4c``.

    The source is what a run of the model can import, found by following the imports of
    :mod:`djgnn.bench.cell`, of the graph and of the model's own file; other baselines do not count,
    nor do readers of files, for which the hash of the data stands. Comments,
    docstrings and layout do not count either, so that a better explanation repeats no run; nor does
    the version of Python, so that two machines can share their results.

    Args:
        model: ``"djgnn"`` or a baseline.

    Example:
        >>> code_version("gcn") == code_version("gcn") != code_version("mlp")
        True
    """
    digest = hashlib.sha256()
    for name in sorted(_modules(model)):
        digest.update(f"{name}\n{_meaning(_file(name))}\n".encode())
    return f"{djgnn.__version__}+{digest.hexdigest()[:8]}"


def _modules(model: str) -> set[str]:
    """The modules behind one model."""
    own = [] if model == "djgnn" else [model_class(model).__module__]
    return _closure([*COMMON, *own])


def _closure(names: list[str]) -> set[str]:
    """The modules of this package that the given ones import, directly or not."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        reader = name.startswith("djgnn.graph") and name not in OF_GRAPH
        if name in found or reader or _file(name) is None:
            continue
        found.add(name)
        waiting += _imports(name)
    return found


@cache
def _imports(name: str) -> tuple[str, ...]:
    """What a module imports from this package, inside functions too."""
    file = _file(name)
    assert file is not None
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package if node.level else ""
            module = f"{base}.{node.module}" if base and node.module else node.module or base
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in found if name.startswith("djgnn."))


def _file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def _meaning(file: Path | None) -> str:
    """A file's syntax tree without docstrings and positions."""
    assert file is not None
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return _written(tree)


def _written(node: Any) -> str:
    """A syntax tree as text that does not depend on the version of Python, as `ast.dump` does."""
    if isinstance(node, list):
        return f"[{','.join(_written(item) for item in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    inner = ",".join(f"{name}={_written(value)}" for name, value in fields if name != "kind")
    return f"{type(node).__name__}({inner})"
