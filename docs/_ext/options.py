"""All options, from the configuration classes and their docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

from api_pages import as_markdown
from sphinx.pycode import ModuleAnalyzer

from djgnn.baselines import BASELINES, Options, options_of
from djgnn.checking import describe
from djgnn.model import PRESETS, ModelConfig
from djgnn.training import TrainConfig, resolve

BASELINES_HEAD = """## Options of the other systems

For `djgnn bench run --model NAME --set OPTION=VALUE`. All of them have the options of the first
table, and those of [training](#training).
"""
PRESETS_HEAD = """## Presets

What the presets set. Own graphs get `full` by default, benchmark sets get `default`.
"""


def options() -> str:
    """The tables of the page, as Markdown."""
    parts = [
        "## Model\n",
        _table(ModelConfig, _arguments(ModelConfig)),
        "## Training\n",
        _table(TrainConfig, _arguments(TrainConfig)),
        PRESETS_HEAD,
        _presets(),
        BASELINES_HEAD,
        _table(Options, _arguments(Options)),
    ]
    common = {field.name for field in dataclasses.fields(Options)}
    for name in BASELINES:
        kind = options_of(name)
        own = _table(kind, _comments(kind), common)
        parts += [f"### {name}\n", own or "It has no options of its own.\n"]
    return "\n".join(parts)


def _table(kind: type, texts: Mapping[str, str], without: Collection[str] = ()) -> str:
    hints = get_type_hints(kind, include_extras=True)
    rows = [
        f"| `{f.name}` | {_plain(_default(f))} | {_plain(describe(hints[f.name]))} "
        f"| {texts.get(f.name, '')} |"
        for f in dataclasses.fields(kind)
        if f.name not in without
    ]
    head = "| option | default | must be | what it does |\n| --- | --- | --- | --- |\n"
    return head + "\n".join(rows) + "\n" if rows else ""


def _presets() -> str:
    """One row for every option in which presets differ."""
    plain = {**vars(ModelConfig()), **vars(TrainConfig())}
    found = {}
    for name in PRESETS:
        config = resolve(name)
        found[name] = {**vars(config.model), **vars(config.training)}
    rows = []
    for option, value in plain.items():
        values = [found[name][option] for name in PRESETS]
        if any(other != value for other in values):
            cells = " | ".join(_plain(_shown(other)) for other in values)
            rows.append(f"| `{option}` | {cells} |")
    head = f"| option | {' | '.join(f'`{name}`' for name in PRESETS)} |"
    return "\n".join([head, "| --- " * (len(PRESETS) + 1) + "|", *rows, ""])


def _arguments(kind: type) -> dict[str, str]:
    """The texts of the section `Args` of a docstring."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w|\Z)", section, re.DOTALL | re.MULTILINE)
    return {name: _plain(as_markdown(text)) for name, text in found}


def _comments(kind: type) -> dict[str, str]:
    """The texts of the comments ``#:`` of a dataclass and of those it comes from."""
    texts: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if dataclasses.is_dataclass(parent):
            docs = ModuleAnalyzer.for_module(parent.__module__).find_attr_docs()
            found = {n: " ".join(t).strip() for (c, n), t in docs.items() if c == parent.__name__}
            texts |= {name: _plain(as_markdown(text)) for name, text in found.items()}
    return texts


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return _shown(field.default_factory())
    return _shown(field.default)


def _shown(value: Any) -> str:
    """A value as YAML writes it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _plain(text: str) -> str:
    """A text that stands in a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
