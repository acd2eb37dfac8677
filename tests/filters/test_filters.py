"""Filters: supports, coefficients, aggregation, against the dense oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import dense_aggregate, dense_filters

from djgnn.filters import SUPPORTS, aggregate, branch_ranks, filter_table
from djgnn.filters.aggregate import sum_entries
from djgnn.filters.table import safe_norm
from djgnn.jumps import TwinClasses, rank_lists, single_classes


def table_of(u: torch.Tensor, support: str, jumps: int | str, twins: TwinClasses | None = None):
    branches = branch_ranks(support, jumps, len(u))
    ranks = max(max(b, default=0) for b in branches)
    hierarchy = rank_lists(u, twins or single_classes(len(u)), ranks)
    return filter_table(u, hierarchy, branches, 0.7)


def test_supports_are_those_of_the_table_in_the_docs() -> None:
    assert branch_ranks("shell", 3) == ((), (1,), (2,), (3,))
    assert branch_ranks("author", 5) == ((), (1,), (2,), (1, 3), (2, 4))
    assert branch_ranks("paper", 4) == ((), (1,), (2,), (1, 3), (2, 4))
    assert branch_ranks("cumulative", 3) == ((), (1,), (1, 2), (1, 2, 3))
    with pytest.raises(ValueError, match=r"support must be one of .* \(got 'hop'\)"):
        branch_ranks("hop", 3)
    with pytest.raises(ValueError, match=r"at least 1 \(got 0\)"):
        branch_ranks("shell", 0)


@pytest.mark.parametrize("support", SUPPORTS)
def test_jumps_that_no_graph_can_have_take_no_memory(support: str) -> None:
    most = 9 + (support == "author")
    assert max(map(max, branch_ranks(support, most, 9)[1:])) == 9
    for jumps in (most + 1, 2**31 - 1):
        with pytest.raises(ValueError, match="ranks but the graph has only 9 nodes"):
            branch_ranks(support, jumps, 9)


def test_automatic_shells_double_and_end_where_the_nodes_end() -> None:
    whole = branch_ranks("shell", "auto")
    assert [len(shell) for shell in whole] == [0, 1, 1, 2, 4, 8, 16]
    assert [rank for shell in whole for rank in shell] == list(range(1, 33))
    for n in range(1, 70):
        found = branch_ranks("shell", "auto", n)
        assert found == whole[: len(found)]
        assert found[-1][-1] <= n
        assert len(found) == len(whole) or whole[len(found)][-1] > n
    with pytest.raises(ValueError, match=r"needs support='shell' \(got 'author'\)"):
        branch_ranks("author", "auto")


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 20), st.sampled_from([1, 2, 3, 4, "auto"]), st.integers(0, 10_000))
@pytest.mark.parametrize("support", SUPPORTS)
def test_aggregation_and_gradients_equal_the_dense_oracle(
    support: str, n: int, jumps: int | str, seed: int
) -> None:
    support = "shell" if jumps == "auto" else support
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n, size=n)  # some twins
    points = rng.normal(size=(n, 3))[labels]
    u = torch.from_numpy(points).requires_grad_()
    twins = TwinClasses.from_labels(labels)
    branches = len(branch_ranks(support, jumps, n))
    h = torch.from_numpy(rng.normal(size=(n, 2 * branches))).requires_grad_()
    weight = torch.from_numpy(rng.normal(size=(n, 2 * branches)))

    sparse = aggregate(table_of(u, support, jumps, twins), h)
    # Twins share a row of U: gradients are compared after summing over each class.
    grads = torch.autograd.grad((sparse * weight).sum(), (u, h))
    filters = torch.stack(dense_filters(u, support, jumps, 0.7))
    dense = dense_aggregate(filters, h)
    expected = torch.autograd.grad((dense * weight).sum(), (u, h))
    torch.testing.assert_close(sparse, dense)
    torch.testing.assert_close(grads[1], expected[1])
    total = torch.zeros_like(u)
    for ours, sign in ((grads[0], 1), (expected[0], -1)):
        total = total.index_add(0, twins.class_of, sign * ours)
    assert float(total.abs().max()) < 1e-9


def test_coefficients_decay_with_distance_and_twins_weigh_one() -> None:
    u = torch.tensor([[0.0], [0.0], [1.0]])
    table = table_of(u, "cumulative", 3, TwinClasses.from_labels(np.array([0, 0, 1])))
    assert table.index[0].tolist() == [0, 1, 2]
    torch.testing.assert_close(table.weight[0], torch.tensor([1.0, 1.0, float(np.exp(-0.7))]))


def test_branch_zero_is_the_node_itself() -> None:
    u = torch.randn(6, 2)
    h = torch.randn(6, 3 * 4)
    out = aggregate(table_of(u, "shell", 2), h)
    torch.testing.assert_close(out[:, :4], h[:, :4])


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("rows", [None, torch.tensor([5, 0, 3])])
def test_one_block_for_all_filters_is_that_block_repeated(
    support: str, rows: torch.Tensor | None
) -> None:
    u, h = (torch.randn(9, width, dtype=torch.float64, requires_grad=True) for width in (2, 4))
    table = table_of(u, support, 3)
    found = aggregate(table, h, rows, shared=True)
    wanted = aggregate(table, h.repeat(1, table.num_branches), rows)
    torch.testing.assert_close(found, wanted)
    slope = torch.randn_like(found)
    gradients = (
        torch.autograd.grad(each, (u, h), slope, retain_graph=True) for each in (found, wanted)
    )
    torch.testing.assert_close(*gradients)


def test_distance_zero_has_gradient_zero() -> None:
    v = torch.zeros(2, 3, requires_grad=True)
    safe_norm(v).sum().backward()
    assert torch.equal(v.grad, torch.zeros(2, 3))


def test_unsorted_and_repeated_columns_pass_gradcheck() -> None:
    branches, index = ((1, 2), ()), torch.tensor([[4, 0, 4, 3], [2, 0, 2, 5], [0, 0, 0, 1]])
    value = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    h = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, x: sum_entries(branches, index, v, x), (value, h))
    messages = value[:, :, None] * h.view(6, 2)[index]
    expected = torch.cat([messages[:, :3].sum(dim=1), messages[:, 3]], dim=1)
    torch.testing.assert_close(sum_entries(branches, index, value, h), expected)
