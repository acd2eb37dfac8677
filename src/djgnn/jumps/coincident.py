"""Points at exactly the same position, merged: masses of them would be masses of ties."""

from __future__ import annotations

import torch
from torch import Tensor

from djgnn.jumps.twins import TwinClasses


def merge_coincident(
    points: Tensor, twins: TwinClasses
) -> tuple[Tensor, TwinClasses, Tensor | None]:
    """Distinct positions, the classes of nodes there, and the new class of each old one.

    ``None`` stands for the identity: no two classes are at the same position.

    Shapes:
        points ``[m, p]``, results ``[d, p]``, d classes, and ``[m]``.
    """
    code = _hash(points)
    ordered, order = torch.sort(code)
    same = ordered[1:] == ordered[:-1]
    if not bool(same.any()):
        return points, twins, None
    equal = (points[order[1:]] == points[order[:-1]]).all(dim=1)
    if bool((same & ~equal).any()):  # a collision of hashes
        group = torch.unique(points, dim=0, return_inverse=True)[1]
    else:
        group = torch.empty_like(order)
        group[order[:1]] = 0
        group[order[1:]] = (~same).cumsum(0)
    merged = classes_of(group[twins.class_of])
    first = twins.class_of[merged.representative]
    return points[first], merged, merged.class_of[twins.representative]


def classes_of(labels: Tensor) -> TwinClasses:
    """:meth:`TwinClasses.from_labels` without leaving the device; labels are 0, 1, ..."""
    n, device = labels.numel(), labels.device
    count = torch.bincount(labels)
    first = torch.full_like(count, n).scatter_reduce_(
        0, labels, torch.arange(n, device=device), "amin"
    )
    by_first = first.argsort()
    number = torch.empty_like(by_first)
    number[by_first] = torch.arange(by_first.numel(), device=device)
    class_of = number[labels]
    members = class_of.argsort(stable=True)
    count = count[by_first]
    return TwinClasses(class_of, members, count.cumsum(0) - count, count)


def _hash(points: Tensor) -> Tensor:
    """A 64-bit number per point, the same for equal points."""
    whole = torch.int32 if points.dtype == torch.float32 else torch.int64
    bits = (points + 0.0).contiguous().view(whole).long()  # -0 becomes +0
    factor = torch.arange(1, 2 * points.shape[1], 2, device=points.device)
    mixed = (bits + factor) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 29)) * (factor * 0x3C79AC492BA7B653 | 1)
    total = (mixed ^ (mixed >> 32)).sum(dim=1)
    return total * -0x61C8864680B583EB
