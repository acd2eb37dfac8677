"""What is said of cells that tie, that lead by a node, or that have no score."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from djgnn.bench.document import render
from djgnn.bench.page import agrees, compose
from djgnn.bench.standings import leaders, warnings
from djgnn.bench.store import FinishedCell
from djgnn.bench.tables import TablePlan, paper_table
from djgnn.cli.tables import RunOptions, TableOptions, run_table
from djgnn.graph import Graph, write_npz

from .conftest import FACTS
from .conftest import finished_cell as cell


def by_name(cells: list[FinishedCell]) -> dict[tuple[str, str], FinishedCell]:
    return {(cell.spec.label, cell.spec.dataset): cell for cell in cells}


def markdown(cells: list[FinishedCell]) -> str:
    plan = TablePlan("table1", tuple(cell.spec for cell in cells), FACTS, ())
    return render(compose(plan, cells, reference="mlp"), "md")


def test_equal_means_are_bold_together_and_warned_about() -> None:
    cells = [
        cell("mlp", "texas", [0.1, 0.2]),
        cell("gcn", "texas", [0.2, 0.1]),
        cell("gat", "texas", [0.0, 0.0]),
    ]
    page = markdown(cells)
    assert page.count("**0.15 ± 0.07**") == 2
    (warning,) = warnings(by_name(cells), FACTS)
    assert warning == (
        "texas: mlp and gcn share the largest mean (0.15); do not claim it for one of them."
    )


def test_a_lead_of_one_node_on_both_of_two_splits_is_no_claim() -> None:
    node = 100 / 37
    cells = [cell("mlp", "texas", [60 + node, 70 + node]), cell("gcn", "texas", [60, 70])]
    assert FACTS["texas"].overlap((0, 1)) == pytest.approx((37 / 87, node))
    page = markdown(cells)
    assert "| gcn | texas | +2.70 | 2.60 | - |" in page
    assert "better than" not in page
    assert "cannot tell |" in page


def test_a_set_without_test_scores_is_left_out_with_a_remark() -> None:
    nan = [math.nan, math.nan]
    cells = [
        cell(model, dataset, scores)
        for model, scores in (("mlp", [60, 70]), ("gcn", [50, 65]), ("gat", [51, 61]))
        for dataset in ("texas", "cornell")
        for scores in ([scores] if dataset == "texas" else [nan])
    ]
    page = markdown(cells)
    assert "mlp on cornell: a split has no test score" in page
    assert "| MLP | 65.00 ± 7.07" in page.replace("**", "")
    assert "nan" not in page.replace("Provenance", "")
    assert "Average ranks over 1 sets" in page
    assert "| MLP | 1.00 |\n| GCN | 2.00 |\n| GAT | 3.00 |\n" in page
    assert not any("cornell" in text for text in warnings(by_name(cells), FACTS))


def test_the_rule_for_within_takes_the_printed_deviation() -> None:
    printed = paper_table("table1").right("mlp", "texas")
    assert printed is not None
    assert printed.std is not None
    near = cell("mlp", "texas", [printed.mean + printed.std] * 2)
    far = cell("mlp", "texas", [printed.mean, printed.mean + 2 * printed.std + 0.1])
    assert agrees(near, printed)
    assert not agrees(far, printed)  # though ours deviate by more
    assert "0 of 1 cells are within 2 points or one standard deviation (the printed" in markdown(
        [far]
    )


def test_a_model_without_a_score_somewhere_is_not_ranked() -> None:
    cells = [cell(m, d, [60, 70]) for m in ("mlp", "gcn") for d in FACTS]
    cells += [cell("gat", "texas", [60, 70]), cell("gat", "cornell", [60, math.nan])]
    page = markdown(cells)
    assert "Not ranked, some set unfinished or without a score: gat." in page
    assert "Average ranks over 2 sets" in page
    unscored = markdown([cell(m, "texas", [math.nan]) for m in ("mlp", "gcn")])
    assert "Average ranks" not in unscored


def test_no_one_leads_where_no_one_has_a_score() -> None:
    assert leaders([math.nan, math.nan]) == []


def test_a_table_of_a_set_without_test_nodes_is_written(tiny: Graph, tmp_path: Path) -> None:
    train, val = (np.stack([getattr(tiny.split(i), part) for i in range(2)], axis=1)
                  for part in ("train", "val"))  # fmt: skip
    write_npz(tiny.with_masks(train, val, np.zeros_like(val)), tmp_path / "own.npz")
    table = TableOptions("mlp,gcn", datasets="own", epochs=1)
    options = RunOptions(tmp_path / "t", tmp_path, "cpu", 0, quiet=True)
    run_table("table1", table, options)
    assert "no test score" in (tmp_path / "t" / "table.md").read_text()
