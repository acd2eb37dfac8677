"""Dropout: its limits, its mean, its way back."""

from __future__ import annotations

import pytest
import torch

from djgnn.model.dropout import dropout, keep_share


@pytest.mark.parametrize("p", [0.0, 0.2, 0.35, 0.5, 0.9])
def test_share_and_mean_are_right(p: float) -> None:
    x = torch.ones(400, 500, dtype=torch.float64)
    out = dropout(x, p, True, torch.Generator().manual_seed(0))
    kept = float((out != 0).double().mean())
    assert kept == pytest.approx(1 - p, abs=0.005)
    assert set(out.unique().tolist()) <= {0.0, 1 / keep_share(p)}
    assert float(out.mean()) == pytest.approx(1, abs=0.02)


def test_entries_are_dropped_independently() -> None:
    out = dropout(torch.ones(1000, 8), 0.5, True, torch.Generator().manual_seed(1))
    correlation = torch.corrcoef(out.t()) - torch.eye(8)
    assert float(correlation.abs().max()) < 0.15


def test_gradient_goes_where_the_value_went() -> None:
    x = torch.randn(30, 7, dtype=torch.float64, requires_grad=True)
    out = dropout(x, 0.5, True, torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)


def test_off_in_evaluation_and_bad_rates_are_refused() -> None:
    x = torch.randn(3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    with pytest.raises(ValueError, match=r"below 1 \(got 1.5\)"):
        dropout(x, 1.5)
