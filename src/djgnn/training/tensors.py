"""Tensors to a file in the safetensors format, one after the other, without a copy of them all.

The library's own writer turns every tensor into bytes first, which doubles the memory of a run at
each checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

import torch
from torch import Tensor

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(
    file: BinaryIO, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write named tensors: eight bytes of length, a JSON header, then the values.

    Args:
        file: Open for writing.
        tensors: On any device.
        metadata: Text to keep with them.

    Example:
        >>> import io
        >>> from safetensors.torch import load
        >>> file = io.BytesIO()
        >>> write_tensors(file, {"a": torch.arange(3)}, {"why": "example"})
        >>> load(file.getvalue())["a"].tolist()
        [0, 1, 2]
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    begin = 0
    # Wide types first keeps every tensor aligned.
    names = sorted(tensors, key=lambda name: -tensors[name].element_size())
    for name in names:
        tensor = tensors[name]
        end = begin + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in names:
        values = tensors[name].detach().cpu().contiguous().reshape(-1)
        if values.numel():
            file.write(values.view(torch.uint8).numpy().data)
