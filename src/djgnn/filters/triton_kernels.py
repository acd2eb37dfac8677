"""Triton kernels of the aggregation: gathers forward, gathers and atomic sums backward."""
# mypy: ignore-errors

from __future__ import annotations

from djgnn.jumps.triton_kernels import kernel, tl


@kernel
def forward_kernel(
    h, index, value, starts, out, num_rows, hidden, entries, branches,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """``out[i, b] = sum of value[i, e] * h[index[i, e]]`` over the entries e of branch b."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    b = tl.program_id(1)
    column = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    live = i < num_rows
    inside = live[:, None] & (column < hidden)[None, :]
    total = tl.zeros([ROWS, WIDTH], h.dtype.element_ty)
    for e in range(tl.load(starts + b), tl.load(starts + b + 1)):
        j = tl.load(index + i * entries + e, mask=live, other=0).to(tl.int64)
        v = tl.load(value + i * entries + e, mask=live, other=0.0)
        theirs = tl.load(h + j[:, None] * hidden + column[None, :], mask=inside, other=0.0)
        total += v[:, None] * theirs
    place = (i * branches + b)[:, None] * hidden + column[None, :]
    tl.store(out + place, total, mask=inside)


@kernel
def backward_kernel(
    h, index, value, branch_of, grad, to_value, to_h, num_rows, hidden, entries, branches,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCKS: tl.constexpr,
    TO_VALUE: tl.constexpr, TO_H: tl.constexpr,
):  # fmt: skip
    """Of entry e of row i: ``grad[i, b] . h[j]`` to its value, ``value * grad[i, b]`` to h[j]."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    e = tl.program_id(1)
    b = tl.load(branch_of + e)
    live = i < num_rows
    j = tl.load(index + i * entries + e, mask=live, other=0).to(tl.int64)
    v = tl.load(value + i * entries + e, mask=live, other=0.0)
    dot = tl.zeros([ROWS], h.dtype.element_ty)
    for block in tl.static_range(BLOCKS):
        column = block * WIDTH + tl.arange(0, WIDTH)
        inside = live[:, None] & (column < hidden)[None, :]
        place = (i * branches + b)[:, None] * hidden + column[None, :]
        mine = tl.load(grad + place, mask=inside, other=0.0)
        there = j[:, None] * hidden + column[None, :]
        if TO_VALUE:
            dot += tl.sum(mine * tl.load(h + there, mask=inside, other=0.0), axis=1)
        if TO_H:
            # The entry of a node in its own list has value 0 and adds nothing.
            adds = inside & (v != 0)[:, None]
            tl.atomic_add(to_h + there, v[:, None] * mine, mask=adds, sem="relaxed")
    if TO_VALUE:
        tl.store(to_value + i * entries + e, dot, mask=live)
