"""A residual layer in one piece against the same layer step by step, on a GPU or interpreted."""

from __future__ import annotations

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from djgnn.jumps.triton_search import triton_available
from djgnn.model import views
from djgnn.model.operators import graph_operators

DEVICE = "cuda" if triton_available() else "cpu"


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("n", [64, 150])
def test_one_piece_is_the_same_layer(
    n: int, rate: float, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    drawn = torch.Generator().manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=drawn).to(DEVICE)

    a = sp.random_array((n, n), density=0.05, rng=0, format="csr")
    view = graph_operators(sp.csr_array(a), mean=True, device=DEVICE).view(random(n, 3))
    given = [
        random(n, width) + 2,
        random(2, width),
        random(width, 2 * width) / width**0.5,
        random(width),
    ]
    wanted = random(n, width)
    found = []
    for piece in (False, True):
        monkeypatch.setattr(views, "in_one_piece", lambda _, piece=piece: piece)
        own = [part.clone().requires_grad_() for part in given]
        how = (rate, True, torch.Generator(DEVICE).manual_seed(1), None)
        out = view.residual(*own, how)
        (out * wanted).sum().backward()
        with torch.no_grad():
            answer = view.residual(*own, (rate, False, None, None))
        found.append([out.detach(), answer, *(part.grad for part in own)])
    dropped = (found[0][0] == given[0]).float().mean()
    assert 0.3 < float(dropped) < (0.7 if not rate else 0.8)
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))
