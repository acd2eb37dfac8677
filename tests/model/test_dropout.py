"""Dropout: its limits, its mean, its way back."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from djgnn.model.dropout import Chosen, Window, add_relu_dropout, keep_share, relu_dropout


@pytest.mark.parametrize("p", [0.0, 0.2, 0.35, 0.5, 0.9])
def test_share_and_mean_are_right(p: float) -> None:
    out = relu_dropout(torch.ones(400, 500).double(), p, True, torch.Generator().manual_seed(0))
    kept = float((out != 0).double().mean())
    assert kept == pytest.approx(1 - p, abs=0.005)
    assert set(out.unique().tolist()) <= {0.0, 1 / keep_share(p)}
    assert float(out.mean()) == pytest.approx(1, abs=0.02)


def test_entries_are_dropped_independently() -> None:
    out = relu_dropout(torch.ones(1000, 8), 0.5, True, torch.Generator().manual_seed(1))
    correlation = torch.corrcoef(out.t()) - torch.eye(8)
    assert float(correlation.abs().max()) < 0.15


def test_gradient_goes_where_the_value_went() -> None:
    x = torch.randn(30, 7, dtype=torch.float64, requires_grad=True)
    out = relu_dropout(x.clone(), 0.5, True, torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)
    assert float((gradient > 0).double().mean()) == pytest.approx(0.25, abs=0.1)


def test_only_a_relu_in_evaluation_and_bad_rates_are_refused() -> None:
    x = torch.randn(30)
    assert torch.equal(relu_dropout(x.clone(), 0.5, training=False), x.relu())
    assert torch.equal(relu_dropout(x.clone(), 0.0), x.relu())
    with pytest.raises(ValueError, match=r"below 1 \(got 1.5\)"):
        relu_dropout(x, 1.5)


@pytest.mark.parametrize("width", [1, 7, 16])
@pytest.mark.parametrize("bounds", [(0, 5, 5, 40), (0, 1, 39, 40), (0, 40), (0, 0, 40)])
def test_windows_are_parts_of_the_whole(
    width: int, bounds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("djgnn.model.dropout._SKIP", 3)
    x = torch.rand(40, width) + 1
    generator = torch.Generator().manual_seed(3)
    whole = relu_dropout(x.clone(), 0.5, True, generator)
    after = torch.rand(1, generator=generator)
    for first, last in pairwise(bounds):
        again = torch.Generator().manual_seed(3)
        part = relu_dropout(x[first:last].clone(), 0.5, True, again, Window(first, 40))
        assert torch.equal(part, whole[first:last])
        assert torch.equal(torch.rand(1, generator=again), after)
    for index in (torch.tensor([3, 4, 17, 39]), torch.arange(0), torch.arange(40)):
        again = torch.Generator().manual_seed(3)
        part = relu_dropout(x[index], 0.5, True, again, Chosen(index, 40))
        assert torch.equal(part, whole[index])
        assert torch.equal(torch.rand(1, generator=again), after)


@pytest.mark.parametrize("window", [None, Window(10, 60)])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_a_sum_has_the_bits_and_gradients_of_its_parts(p: float, window: Window | None) -> None:
    h, x, grad = (torch.randn(50, 7, requires_grad=k < 2) for k in range(3))
    found = []
    for add in (add_relu_dropout, lambda h, x, *how: h + relu_dropout(x, *how)):
        out = add(h, x.clone(), p, True, torch.Generator().manual_seed(4), window)
        found.append((out, *torch.autograd.grad(out, (h, x), grad)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
