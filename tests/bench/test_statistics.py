"""The statistics: against scipy, against values computed by hand, and by simulation."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from djgnn.bench.document import cliques, draw_diagram
from djgnn.bench.statistics import (
    average_ranks,
    cliff_delta,
    cohen_d,
    compare,
    corrected_t,
    critical_difference,
    friedman,
    holm,
    sentence,
    verdicts,
    wilcoxon,
)


def test_without_overlap_the_corrected_test_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(80, 2, 10), rng.normal(79, 2, 10)
    found = compare(a, b, test_to_train=0.0)
    plain = stats.ttest_rel(a, b)
    assert found.t == pytest.approx(plain.statistic)
    assert found.p_t == pytest.approx(plain.pvalue)


def test_the_correction_by_hand() -> None:
    # d = 1, 3, 2, 4: mean 2.5, variance 5/3; (1/4 + 1/2) 5/3 = 1.25.
    t, p, error = corrected_t([1, 3, 2, 4], 0.5)
    assert error == pytest.approx(math.sqrt(1.25))
    assert t == pytest.approx(2.5 / math.sqrt(1.25))
    assert p == pytest.approx(2 * stats.t.sf(t, 3))


def test_type_one_error_is_the_level_where_the_plain_test_fails() -> None:
    """Splits that share nodes: differences with correlation test/(test + train)."""
    rng = np.random.default_rng(1)
    ratio, splits, draws = 20 / 48, 10, 4000
    rho = ratio / (1 + ratio)
    common = rng.normal(size=(draws, 1)) * math.sqrt(rho)
    d = common + rng.normal(size=(draws, splits)) * math.sqrt(1 - rho)
    corrected = np.mean([corrected_t(row, ratio)[1] < 0.05 for row in d])
    plain = np.mean([corrected_t(row, 0.0)[1] < 0.05 for row in d])
    three_sigma = 3 * math.sqrt(0.05 * 0.95 / draws)
    assert abs(corrected - 0.05) < three_sigma
    assert plain > 0.3


def test_degenerate_differences() -> None:
    assert corrected_t([0, 0, 0], 0.4) == (0.0, 1.0, 0.0)
    assert corrected_t([2, 2, 2], 0.4) == (0.0, 1.0, math.inf)
    assert corrected_t([0.1 + 0.2, 0.3], 0.4) == (0.0, 1.0, math.inf)
    assert corrected_t([5], 0.4)[1] == 1.0
    one = compare([90.0], [80.0], 0.4)
    assert one.within_one_error
    assert one.p_wilcoxon == 1.0
    assert cohen_d([2, 2]) == math.inf
    with pytest.raises(ValueError, match=r"in pairs.*got \(2,\) and \(1,\)"):
        compare([1, 2], [1], 0.4)


def test_a_few_equal_differences_prove_nothing() -> None:
    node, ratio = 100 / 37, 37 / 87
    two = compare([60 + node, 70 + node], [60, 70], ratio, resolution=node)
    assert two.standard_error == pytest.approx(node * math.sqrt(1 / 2 + ratio))
    assert two.p_t > 0.4
    assert verdicts({"texas": two})["texas"][0] == 0
    far = compare(np.full(10, 60 + 10 * node), np.full(10, 60.0), ratio, resolution=node)
    assert verdicts({"texas": far})["texas"][0] == 1
    unknown = compare([61, 71], [60, 70], ratio)
    assert verdicts({"texas": unknown})["texas"][0] == 0
    wide = [1.0, 30.0, 2.0]
    assert corrected_t(wide, ratio, node) == corrected_t(wide, ratio)


def test_the_same_scores_are_within_one_error() -> None:
    same = compare([60, 70], [60, 70], 0.4, resolution=2.7)
    assert (same.t, same.p_t, same.standard_error) == (0.0, 1.0, 0.0)
    assert same.within_one_error


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        compare([1.0, math.nan], [1.0, 2.0], 0.4)


def test_wilcoxon_is_exact_with_ties_too() -> None:
    d = np.array([1.0, -2.0, 3.0, 4.0, 5.5, 6.0])
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)
    tied = np.array([1.0, 1.0, 1.0, -1.0, 2.0])
    ranks = stats.rankdata(np.abs(tied))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1)
    null = ranks @ signs
    by_hand = np.mean(np.abs(null) >= abs(ranks @ np.sign(tied)))
    assert wilcoxon(tied) == pytest.approx(by_hand)
    assert wilcoxon(np.r_[tied, 0.0]) == wilcoxon(tied)
    many = np.random.default_rng(2).normal(0.3, 1, 40)
    assert wilcoxon(many) == pytest.approx(stats.wilcoxon(many, method="asymptotic").pvalue)


def test_effect_sizes_by_hand() -> None:
    assert cohen_d([1, 2, 3]) == pytest.approx(2.0)
    assert cliff_delta([2, 3], [0, 1]) == 1.0
    assert cliff_delta([0, 1], [2, 3]) == -1.0
    assert cliff_delta([1, 2], [1, 2]) == 0.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.001]) == pytest.approx([0.9, 0.002])
    assert holm([]) == []


def test_critical_difference_agrees_with_the_printed_table() -> None:
    # Demsar 2006, Table 5(a): q at 0.05 for k = 2, 5, 10.
    for models, q in ((2, 1.960), (5, 2.728), (10, 3.164)):
        expected = q * math.sqrt(models * (models + 1) / (6 * 12))
        assert critical_difference(models, 12) == pytest.approx(expected, abs=2e-3)


def test_ranks_and_friedman_against_scipy() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(8, 4))
    order = np.argsort(np.argsort(-scores, axis=1), axis=1) + 1
    assert average_ranks(scores) == pytest.approx(order.mean(axis=0))
    assert friedman(scores) == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue)
    assert friedman(np.ones((5, 4))) == 1.0


def test_noise_of_floating_point_breaks_no_tie() -> None:
    noisy = np.array([[0.1 + 0.2, 0.3, 0.1], [0.5, 0.5, 0.7], [0.3, 0.1 + 0.2, 0.2]])
    clean = np.round(noisy, 3)
    assert average_ranks(noisy[:1]).tolist() == [1.5, 1.5, 3.0]
    assert average_ranks(noisy).tolist() == average_ranks(clean).tolist()
    assert friedman(noisy) == friedman(clean)
    assert friedman(np.array([[0.1 + 0.2, 0.3, 0.3]] * 2)) == 1.0
    assert friedman(clean[:1]) == 1.0
    assert cliff_delta([0.1 + 0.2], [0.3]) == 0.0


def test_words_say_who_won_where() -> None:
    base = np.linspace(70, 75, 10)
    noise = np.tile([-0.2, 0.2], 5)
    sets = {
        "up": compare(base + 8 + noise, base, 0.4),
        "down": compare(base - 8 + noise, base, 0.4),
        "even": compare(base + 5 * noise, base, 0.4),
    }
    assert [v[0] for v in verdicts(sets).values()] == [1, -1, 0]
    assert sentence("A", "B", sets) == (
        "A is better than B on 1 of 3 sets (up); B is better than A on 1 (down); "
        "on the other one the splits cannot tell."
    )
    assert sets["even"].within_one_error
    assert not sets["up"].within_one_error
    only = {"even": sets["even"]}
    assert sentence("A", "B", only) == (
        "A against B: on none of 1 set can the splits tell them apart."
    )


def test_bars_join_what_cannot_be_told_apart() -> None:
    assert cliques([1, 2, 3], 0.5) == []
    assert cliques([1, 1.2, 1.4], 1.0) == [(0, 2)]
    assert cliques([1, 1.9, 2.5, 3.6], 1.0) == [(0, 1), (1, 2)]


def test_diagram_is_reproducible_and_names_every_model() -> None:
    ranks = {f"model{i}": 1.0 + i for i in range(7)} | {"<b>": 8.0}
    drawn = draw_diagram(ranks, sets=9)
    ElementTree.fromstring(drawn)
    assert drawn == draw_diagram(dict(reversed(ranks.items())), sets=9)
    assert ">model3  4.00</text>" in drawn
    assert ">8.00  &lt;b&gt;</text>" in drawn
