"""Triton kernels of a residual layer: few passes over large tables, both ways."""
# mypy: ignore-errors

from __future__ import annotations

from djgnn.jumps.triton_kernels import jit, kernel, tl


@jit
def _normalised(h, i, c, live, epsilon, WIDTH: tl.constexpr):
    """Rows with mean 0 and variance 1, and their inverse deviations."""
    x = tl.load(h + i[:, None] * WIDTH + c[None, :], mask=live[:, None], other=0.0)
    gap = x - (tl.sum(x, axis=1) / WIDTH)[:, None]
    inverse = 1 / tl.sqrt(tl.sum(gap * gap, axis=1) / WIDTH + epsilon)
    return gap * inverse[:, None], inverse


@jit
def _weights(layer, c, first, WIDTH: tl.constexpr):
    """Half of the columns of ``[WIDTH, 2 WIDTH]``, from the first one on."""
    return tl.load(layer + c[:, None] * (2 * WIDTH) + first + c[None, :])


@kernel
def products_kernel(
    h, scale, shift, bias, layer, own, near, num_rows, epsilon,
    WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Z V + b and Z W of the normalised rows Z of h."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    live = i < num_rows
    x, _ = _normalised(h, i, c, live, epsilon, WIDTH)
    z = x * tl.load(scale + c)[None, :] + tl.load(shift + c)[None, :]
    to_own = tl.dot(z, _weights(layer, c, 0, WIDTH), input_precision="tf32x3")
    to_near = tl.dot(z, _weights(layer, c, WIDTH, WIDTH), input_precision="tf32x3")
    place = i[:, None] * WIDTH + c[None, :]
    tl.store(own + place, to_own + tl.load(bias + c)[None, :], mask=live[:, None])
    tl.store(near + place, to_near, mask=live[:, None])


@kernel
def activation_kernel(
    h, own, seen, chances, bits, num_rows, threshold, factor,
    WIDTH: tl.constexpr, BYTES: tl.constexpr, DROP: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """``own = h + dropout(relu(own + seen))``; KEEP a bit for each entry that passed."""
    byte = tl.program_id(0).to(tl.int64) * BYTES + tl.arange(0, BYTES)
    bit = tl.arange(0, 8)
    place = byte[:, None] * 8 + bit[None, :]
    live = byte < num_rows * (WIDTH // 8)
    inside = live[:, None]
    x = tl.load(own + place, mask=inside, other=0.0) + tl.load(seen + place, mask=inside, other=0.0)
    passed = x > 0
    if DROP:
        passed = passed & (tl.load(chances + place, mask=inside, other=0) >= threshold)
    out = tl.load(h + place, mask=inside, other=0.0) + tl.where(passed, x * factor, 0.0)
    tl.store(own + place, out, mask=inside)
    if KEEP:
        packed = tl.sum(passed.to(tl.int32) << bit[None, :], axis=1)
        tl.store(bits + byte, packed.to(tl.uint8), mask=live)


@kernel
def passed_kernel(
    grad, bits, out, num_rows, factor, WIDTH: tl.constexpr, BYTES: tl.constexpr
):  # fmt: skip
    """The gradient of what was dropped, by the bits that were kept."""
    byte = tl.program_id(0).to(tl.int64) * BYTES + tl.arange(0, BYTES)
    bit = tl.arange(0, 8)
    place = byte[:, None] * 8 + bit[None, :]
    live = byte < num_rows * (WIDTH // 8)
    packed = tl.load(bits + byte, mask=live, other=0).to(tl.int32)
    passed = ((packed[:, None] >> bit[None, :]) & 1) != 0
    given = tl.load(grad + place, mask=live[:, None], other=0.0)
    tl.store(out + place, tl.where(passed, given * factor, 0.0), mask=live[:, None])


@kernel
def gradient_kernel(
    h, scale, layer, own, near, grad, to_vectors, num_rows, epsilon,
    WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """From the gradients of Z V and Z W, and that of the residual, to that of h, in place of `own`.

    Every program sums the gradients of scale, shift and bias of its rows, ``[programs, 3, WIDTH]``.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    live = i < num_rows
    place = i[:, None] * WIDTH + c[None, :]
    a = tl.load(own + place, mask=live[:, None], other=0.0)
    b = tl.load(near + place, mask=live[:, None], other=0.0)
    v = tl.trans(_weights(layer, c, 0, WIDTH))
    w = tl.trans(_weights(layer, c, WIDTH, WIDTH))
    to_z = tl.dot(a, v, input_precision="tf32x3") + tl.dot(b, w, input_precision="tf32x3")
    x, inverse = _normalised(h, i, c, live, epsilon, WIDTH)
    vectors = to_vectors + tl.program_id(0).to(tl.int64) * (3 * WIDTH) + c
    tl.store(vectors, tl.sum(to_z * x, axis=0))
    tl.store(vectors + WIDTH, tl.sum(to_z, axis=0))
    tl.store(vectors + 2 * WIDTH, tl.sum(a, axis=0))
    to_x = to_z * tl.load(scale + c)[None, :]
    along = tl.sum(to_x * x, axis=1) / WIDTH
    middle = tl.sum(to_x, axis=1) / WIDTH
    to_h = inverse[:, None] * (to_x - middle[:, None] - x * along[:, None])
    to_h += tl.load(grad + place, mask=live[:, None], other=0.0)
    tl.store(own + place, to_h, mask=live[:, None])
