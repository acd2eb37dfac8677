"""What is written by streaming reads as the library reads it."""

from __future__ import annotations

import io

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

from djgnn.training.tensors import write_tensors

TYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_shape_comes_back(dtype: torch.dtype) -> None:
    values = {
        "matrix": torch.arange(12).reshape(3, 4).to(dtype),
        "turned": torch.arange(12).reshape(3, 4).to(dtype).t(),
        "scalar": torch.tensor(1).to(dtype),
        "none": torch.empty(0, 5).to(dtype),
        "byte": torch.tensor([7], dtype=torch.uint8),
        "ñ \"'": torch.ones(3, requires_grad=True),
    }
    file = io.BytesIO()
    write_tensors(file, values, {})
    found = load(file.getvalue())
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert torch.equal(found[name], value.detach())


def test_metadata_is_kept(tmp_path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        write_tensors(file, {"a": torch.zeros(2)}, {"format": "x", "about": '{"k": 1}'})
    with safe_open(path, framework="pt") as stored:
        assert stored.metadata() == {"format": "x", "about": '{"k": 1}'}
