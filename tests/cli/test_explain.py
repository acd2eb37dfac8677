"""What `djgnn explain` prints: readable at 80 columns, whole in a pipe, and never obeyed."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.table import Table

from djgnn.cli import explain, inspect
from djgnn.errors import printable
from djgnn.model.explain import BranchPart, ExpertPart, Explanation, Neighbour

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


def _table(found: Explanation) -> Table:
    parts = [(f"joint {part.branch}", part) for part in found.branches]
    return explain._neighbours(parts, found.node)


def lines(width: int, found: Explanation) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(_table(found))
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
    assert any("and 7 more" in line for line in shown)


def test_experts_are_shown_by_their_shares_and_neighbours_of_those_that_matter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = explanation("n")
    own = {"private": 0.8, "other": 0.2}
    weights = {"few": 0.04, "most": 0.6, "some": 0.36}
    experts = tuple(
        ExpertPart(
            name,
            weight,
            1.0,
            own,
            {c: weight * p for c, p in own.items()},
            one.logits,
            one.bias,
            one.branches[: 1 if name == "some" else 2],
            {c: weight * p for c, p in own.items()},
        )
        for name, weight in weights.items()
    )
    many = replace(
        experts[1].branches[0],
        neighbours=tuple(Neighbour(k, f"m{k}", None, "", 0.5) for k in range(9)),
        neighbours_left_out=30,
    )
    idle = replace(experts[1].branches[1], alpha=0.0)
    experts = (experts[0], replace(experts[1], branches=(many, idle)), experts[2])
    explain._print(replace(one, bias={}, branches=(), experts=experts), own)
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.startswith("│")]
    shares = [row for row in rows if row[1] in (*weights, "sum")]
    assert [row[1] for row in shares] == ["most", "some", "few", "sum"]
    assert shares[-1][-4:-1] == ["0.800", "│", "0.200"]
    assert shares[0][3:8:2] == ["0.600", "0.800", "0.480"]
    assert "before calibration" in out
    assert "of the expert most" in out
    assert "of the expert some" not in out  # it has one branch
    listed = out[out.index("Which neighbours") :]
    assert [
        word for word in ("most jump1", "most homophilic", "some", "few") if word in listed
    ] == [
        "most jump1",
        "some",
    ]
    assert "m5" in listed
    assert "m6" not in listed
    assert "and 33 more" in listed


def test_members_of_a_kind_are_one_row_with_the_branches_of_the_heaviest() -> None:
    one, own = explanation("n"), {"private": 0.8, "other": 0.2}
    tenth = {"private": 0.08, "other": 0.02}
    light = ExpertPart("jumps-1", 0.1, 1.0, own, tenth, one.logits, one.bias, (), tenth)
    other = {"private": 0.12, "other": 0.18}
    heavy = replace(
        light,
        expert="jumps-2",
        weight=0.3,
        probabilities={"private": 0.4, "other": 0.6},
        shares=other,  # with a part of the product, so not its weight times its own
        branches=one.branches,
    )
    rows = replace(light, expert="rows", weight=0.6, shares={c: 0.6 * p for c, p in own.items()})
    jumps, alone = explain.by_kind((light, rows, heavy))
    assert (jumps.expert, jumps.weight, jumps.branches) == (
        "jumps",
        pytest.approx(0.4),
        one.branches,
    )
    assert jumps.shares == pytest.approx({"private": 0.2, "other": 0.2})
    assert jumps.probabilities == pytest.approx({"private": 0.5, "other": 0.5})
    assert alone.expert == "rows"
    assert alone.probabilities == pytest.approx(own)
    assert jumps.alone == pytest.approx({"private": 0.16, "other": 0.04})


def test_an_expert_is_shown_with_its_own_probability_beside_its_part_of_the_product(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, own = explanation("n"), {"private": 0.1, "other": 0.9}
    alone = {c: 0.2 * p for c, p in own.items()}
    shares = {"private": alone["private"] + 0.78, "other": alone["other"] + 0.02}
    expert = ExpertPart("rows", 1.0, 1.0, own, shares, one.logits, one.bias, (), alone)
    explain._print(replace(one, bias={}, branches=(), experts=(expert,)), shares)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "│" in line]
    (row,) = (row for row in rows if row[1] == "rows")
    assert row[3::2] == ["1.000", "0.100", "0.020", "0.780", "0.800", "0.200"]


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
