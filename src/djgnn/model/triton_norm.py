"""Triton kernel of the layer normalisation: some rows in one program."""
# mypy: ignore-errors

from __future__ import annotations

from djgnn.jumps.triton_kernels import kernel, tl


@kernel
def norm_kernel(
    h, scale, shift, out, mean, inverse, num_rows, epsilon,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Of ROWS rows, with their means and inverse deviations."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    live, wide = i < num_rows, c < WIDTH
    inside = live[:, None] & wide[None, :]
    place = i[:, None] * WIDTH + c[None, :]
    x = tl.load(h + place, mask=inside, other=0.0)
    middle = tl.sum(x, axis=1) / WIDTH
    gap = tl.where(wide[None, :], x - middle[:, None], 0.0)
    factor = 1 / tl.sqrt(tl.sum(gap * gap, axis=1) / WIDTH + epsilon)
    by = tl.load(scale + c, mask=wide, other=0.0)
    plus = tl.load(shift + c, mask=wide, other=0.0)
    tl.store(out + place, gap * factor[:, None] * by[None, :] + plus[None, :], mask=inside)
    tl.store(mean + i, middle, mask=live)
    tl.store(inverse + i, factor, mask=live)
