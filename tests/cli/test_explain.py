"""What `djgnn explain` prints: readable at 80 columns, whole in a pipe, and never obeyed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from djgnn.cli import explain, inspect
from djgnn.cli.terminal import printable
from djgnn.model.explain import BranchPart, Explanation, Neighbour

LONG = "account-2024-000000000000017"


def explanation(name: str = LONG, label: str = "private") -> Explanation:
    rows = [
        Neighbour(k, f"{name}{k}", label, "validation", 0.1234, k, 0.00123, 0.9, k == 1, 5)
        for k in range(1, 4)
    ]
    logits = {label: 1.0, "other": 0.5}
    parts = tuple(BranchPart(b, 0.5, logits, tuple(rows), 7) for b in ("jump1", "homophilic"))
    bias = {label: 0.0, "other": 0.0}
    return Explanation(0, name, label, label, logits, bias, parts)


def lines(width: int, found: Explanation) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(explain._neighbours(found))
    return stream.getvalue().splitlines()


def test_eighty_columns_show_names_numbers_and_notes() -> None:
    shown = lines(80, explanation())
    assert max(map(len, shown)) <= 80
    rows = [line for line in shown if "0.1234" in line]
    assert len(rows) == 6
    for row in rows:
        assert "validation" in row
        assert "0.00123" in row
        assert "…" not in row
    assert any(LONG[:14] in line for line in rows)
    assert any("tie of 6" in " ".join(line.split()) for line in shown)


def test_a_pipe_takes_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    explain._print(explanation(LONG * 5), {"private": 0.7, "other": 0.3})
    out = capsys.readouterr().out
    assert all(f"{LONG * 5}{k} " in out for k in (1, 2, 3))
    assert "twin, tie of 6" in out


def test_control_characters_are_shown_by_their_pictures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = "\x1b]0;pwn\x07\x1b[31mred\x9b2J\x7f\n\r"
    label = f"[bold]{hostile}"
    explain._print(explanation(hostile, label), {label: 0.7, "other": 0.3})
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\x7f", "\r"}
    assert "␛]0;pwn␇␛[31mred\ufffd2J␡␊␍" in out
    assert "[bold]␛" in out


def test_a_graph_card_shows_class_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("  class [bold]\x1b[31m", "3")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("djgnn.report.graph_card.card_rows", lambda found: rows)
        inspect._print({"name": "\x1bg", "cost": None, "leak": None, "heterophily": {}})
    out = capsys.readouterr().out
    assert "class [bold]␛[31m" in out
    assert "\x1b" not in out


def test_a_name_that_is_no_text_can_be_printed() -> None:
    assert printable("a\udcffb").encode("utf-8") == "a\ufffdb".encode()
