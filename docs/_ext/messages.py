"""All messages, read from the source code."""

import ast
from pathlib import Path

import djgnn

ERRORS = {"InputError", "ValueError", "DataNotFoundError", "ProcessLostError", "FloatingPointError"}
AREAS = {
    "Commands": ("cli",),
    "Reading files and tables": ("graph",),
    "Labels, nodes and parameters in Python": (
        "estimator",
        "graph/classifier_inputs",
        "graph/labels",
    ),
    "Configurations": ("checking", "model", "filters", "jumps", "pump", "training/config"),
    "Training": ("training",),
    "Run folders and reports": (
        "report",
        "training/folder",
        "training/stored",
        "training/checkpoint",
        "training/recorder",
        "training/calibration",
        "training/conformal",
    ),
    "Several processes": ("training/distributed",),
    "Tables and searches": ("bench", "baselines"),
    "Theory": ("spectral",),
}


def messages() -> str:
    """The lists of the page, as Markdown."""
    parts: list[str] = []
    root = Path(djgnn.__file__).parent
    found: dict[str, list[str]] = {area: [] for area in AREAS}
    for file in sorted(root.rglob("*.py")):
        found[_area(file.relative_to(root).with_suffix("").as_posix())] += _messages(file)
    for area, texts in found.items():
        lines = [f"- {_code(text)}" for text in sorted(dict.fromkeys(texts), key=str.lower)]
        parts += [f"### {area}\n", *lines, ""]
    return "\n".join(parts)


def _area(module: str) -> str:
    """The area with the longest prefix of the module."""
    fits = [
        (len(prefix), area)
        for area, prefixes in AREAS.items()
        for prefix in prefixes
        if module == prefix or module.startswith(f"{prefix}/")
    ]
    return max(fits)[1] if fits else "Commands"


def _messages(file: Path) -> list[str]:
    texts = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
            if isinstance(call.func, ast.Name) and call.func.id in ERRORS and call.args:
                texts.append(_text(call.args[0]))
    return [text for text in texts if len(text.split()) > 2]


def _text(node: ast.expr) -> str:
    """A string, with the names of its values; empty if it is put together elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"<{_name(part)}>"
        for part in node.values
    )


def _name(part: ast.expr) -> str:
    """A short name for the value of a placeholder."""
    names = [n for n in ast.walk(part) if isinstance(n, ast.Name | ast.Attribute)]
    words = [n.attr if isinstance(n, ast.Attribute) else n.id for n in names]
    words = [w.strip("_").lower() for w in words if w not in {"str", "len", "list", "int", "join"}]
    return words[0].replace("_", " ") if words else "value"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
