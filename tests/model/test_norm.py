"""Layer normalisation against torch's, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from djgnn.jumps.triton_search import triton_available
from djgnn.model import norm

DEVICE = "cuda" if triton_available() else "cpu"


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 3), (130, 64), (70, 100)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_rows_are_normalised_as_torch_does(
    rows: int, width: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(norm, "uses_triton", lambda _: True)
    drawn = torch.Generator().manual_seed(0)
    h, scale, shift = (
        torch.randn(*size, generator=drawn, dtype=kind).to(DEVICE)
        for size in ((rows, width), (width,), (width,))
    )
    wanted = torch.native_layer_norm(h + 3, (width,), scale, shift, norm.EPSILON)
    for found, right in zip(norm.layer_norm(h + 3, scale, shift), wanted, strict=True):
        assert found.shape == right.shape
        torch.testing.assert_close(found, right)
