"""The command line, from the commands themselves."""

import re
from typing import Any

import typer

from djgnn.cli.app import app

HEAD = "| option | default | what it does |\n| --- | --- | --- |"


def commands() -> str:
    """The tables of the page, as Markdown."""
    return "\n".join(_command(typer.main.get_command(app), "djgnn"))


def _command(command: Any, name: str) -> list[str]:
    lines = [f"## {name}\n", _help(command.help or "")] if name != "djgnn" else []
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    if shown:
        lines += [HEAD, *map(_parameter, shown), ""]
    for inner in getattr(command, "commands", {}).values():
        lines += _command(inner, f"{name} {inner.name}")
    return lines


def _help(text: str) -> str:
    """The help of a command, in which a paragraph may be a command line."""
    paragraphs = [
        f"```sh\n{each.strip()}\n```" if each.strip().startswith("djgnn ") else each
        for each in text.split("\n\n")
    ]
    return "\n\n".join([*paragraphs, ""])


def _parameter(parameter: Any) -> str:
    flags = [*parameter.opts, *parameter.secondary_opts]
    argument = parameter.param_type_name == "argument"
    shown = parameter.name.upper() if argument else ", ".join(flags)
    default = parameter.default
    plain = default is None or default is False or callable(default) or argument
    said = "" if plain or default == [] else f"`{default}`"
    text = (parameter.help or "").replace("|", "\\|").replace("<", "&lt;")
    text = re.sub(r"(?<![`\w])--[\w-]+", r"`\g<0>`", text)  # two hyphens would become a dash
    return f"| `{shown}` | {said} | {text} |"
