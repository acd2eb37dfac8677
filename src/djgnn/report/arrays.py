"""Arrays inside a page: little-endian bytes in base64, which a browser reads directly."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_KINDS = {"f4": "<f4", "i2": "<i2", "u1": "<u1", "u2": "<u2", "u4": "<u4"}


def pack(values: ArrayLike, kind: str) -> dict[str, Any]:
    """An array as JSON: its kind, shape and bytes.

    Args:
        values: Any array that fits into the kind.
        kind: ``f4``, ``i2``, ``u1``, ``u2`` or ``u4``.

    Example:
        >>> pack([[1.0, 2.0]], "f4")
        {'kind': 'f4', 'shape': [1, 2], 'base64': 'AACAPwAAAEA='}
    """
    array = np.ascontiguousarray(values, dtype=_KINDS[kind])
    text = base64.b64encode(array.tobytes()).decode("ascii")
    return {"kind": kind, "shape": list(array.shape), "base64": text}


def unpack(packed: dict[str, Any]) -> NDArray[Any]:
    """The inverse of :func:`pack`, for tests and for readers of a page in Python.

    Example:
        >>> unpack(pack([3, 4], "u2")).tolist()
        [3, 4]
    """
    raw = base64.b64decode(packed["base64"])
    return np.frombuffer(raw, dtype=_KINDS[packed["kind"]]).reshape(packed["shape"])


def pack_index(values: ArrayLike, below: int) -> dict[str, Any]:
    """Whole numbers from 0 up to, not including, `below`, in the smallest kind that holds them."""
    kind = "u1" if below <= 1 << 8 else "u2" if below <= 1 << 16 else "u4"
    return pack(values, kind)


def pack_fraction(values: ArrayLike) -> dict[str, Any]:
    """Numbers in [-1, 1] in two bytes, rounded to 1/32767: to draw, not to quote."""
    return pack(np.rint(np.clip(values, -1, 1) * 32767), "i2")
