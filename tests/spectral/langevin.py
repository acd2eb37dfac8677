"""Theorem 3: a stochastic differential equation, its Fokker-Planck spectrum and diffusion maps.

The oracle of `test_metastability.py`: a continuous process, not a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.integrate import cumulative_trapezoid, trapezoid
from scipy.linalg import eigh_tridiagonal
from scipy.spatial import cKDTree

from djgnn.spectral.laplacians import Floats, degrees, laplacian_matrix
from djgnn.spectral.solvers import smallest_of_symmetric

Function: TypeAlias = Callable[[Floats], Floats]


def double_well(x: ArrayLike, *, barrier: float = 4.0, tilt: float = 0.0) -> tuple[Floats, Floats]:
    r"""The double-well potential and its derivative.

    .. math:: U(x) = b\,(x^2 - 1)^2 + c\, x, \qquad U'(x) = 4 b\, x (x^2 - 1) + c

    Args:
        x: Where.
        barrier: Height b of the barrier at 0 above the wells at -1 and 1.
        tilt: Slope c that makes one well deeper.

    Shapes:
        as x.

    Returns:
        ``(U, U')``.

    Example:
        >>> [v.tolist() for v in double_well([0.0, 2.0], barrier=3.0, tilt=1.0)]
        [[3.0, 29.0], [1.0, 73.0]]
    """
    place = np.asarray(x, dtype=np.float64)
    value = barrier * (place**2 - 1) ** 2 + tilt * place
    return value, 4 * barrier * place * (place**2 - 1) + tilt


def simulate_langevin(
    gradient: Function,
    start: ArrayLike,
    *,
    time_step: float,
    num_steps: int,
    target: float | None = None,
    random_state: int = 0,
) -> tuple[Floats, Floats]:
    r"""Euler-Maruyama paths of the equation of Theorem 3, one per start.

    .. math:: \dot x = -U'(x) + \sqrt 2\, \dot w

    Args:
        gradient: The derivative U'.
        start: Where each path starts.
        time_step: Length of a step; small against the curvature of U.
        num_steps: Number of steps.
        target: If given, a path ends when it first crosses this level from its side.
        random_state: Seed.

    Shapes:
        start ``[m]``; positions ``[m]``, times ``[m]``.

    Returns:
        ``(positions, times)``: the last position of each path, and the time it crossed the
        target; NaN for those that did not.

    Example:
        >>> x, _ = simulate_langevin(lambda x: x, np.zeros(4000), time_step=0.01, num_steps=500)
        >>> abs(float(x.var()) - 1.0) < 0.1
        True
    """
    rng = np.random.default_rng(random_state)
    x = np.array(start, dtype=np.float64, ndmin=1)
    side = np.sign(x - target) if target is not None else np.zeros_like(x)
    times = np.full(x.shape, np.nan)
    moving = np.arange(x.size)
    noise = np.sqrt(2 * time_step)
    for step in range(1, num_steps + 1):
        here = x[moving]
        x[moving] = here - time_step * gradient(here) + noise * rng.standard_normal(here.size)
        if target is None:
            continue
        crossed = np.sign(x[moving] - target) != side[moving]
        times[moving[crossed]] = step * time_step
        moving = moving[~crossed]
        if moving.size == 0:
            break
    return x, times


def mean_passage_time(
    potential: Function, start: float, target: float, *, far: float, num_cells: int = 20_000
) -> float:
    r"""Mean time of the first passage from `start` to `target`, exactly, in one dimension.

    .. math:: T = \int_{start}^{target} e^{U(y)} \int_{far}^{y} e^{-U(z)}\, dz\, dy

    For a high barrier it tends to the Kramers time :math:`2\pi\, e^{\Delta U} / \sqrt{U''_{min}
    |U''_{max}|}`: exponential in the barrier, as Section 4 says.

    Args:
        potential: The potential U.
        start: Where the path starts, between `far` and `target`.
        target: Where it ends.
        far: A point behind the start where U is already so high that no path goes there.
        num_cells: Cells of the quadrature.

    Returns:
        The mean time.

    Example:
        >>> free = mean_passage_time(lambda x: 0.0 * x, 0.0, 1.0, far=0.0)
        >>> round(free, 6)
        0.5
    """
    grid = np.linspace(far, target, num_cells + 1)
    width = abs(target - far) / num_cells
    value = potential(grid)
    behind = cumulative_trapezoid(np.exp(value.min() - value), dx=width, initial=0.0)
    outer = np.exp(value - value.min()) * behind
    return float(trapezoid(outer[np.abs(grid - far) >= abs(start - far)], dx=width))


def fokker_planck_eigenpairs(
    potential: Function, low: float, high: float, *, num: int = 4, num_cells: int = 2000
) -> tuple[Floats, Floats, Floats]:
    r"""Slow modes of the process in a potential, in one dimension with reflecting ends.

    .. math:: \Psi'' - U' \Psi' = -\mu \Psi

    by finite volumes: the cells are a path graph with conductances :math:`e^{-U}` at the faces.

    Args:
        potential: The potential U.
        low: Left end; beyond it U should be high.
        high: Right end.
        num: Number of modes, the constant one included.
        num_cells: Number of cells.

    Shapes:
        mu ``[num]``, psi ``[num_cells, num]``, centres ``[num_cells]``.

    Returns:
        ``(mu, psi, centres)``, mu ascending, psi of unit mean square under :math:`e^{-U}`.

    Example:
        >>> mu, _, _ = fokker_planck_eigenpairs(lambda x: x**2 / 2, -6, 6, num=3)
        >>> mu.round(3).tolist()
        [0.0, 1.0, 2.0]
    """
    faces, width = np.linspace(low, high, num_cells + 1, retstep=True)
    centres = (faces[1:] + faces[:-1]) / 2
    floor = potential(centres).min()
    mass = np.exp(floor - potential(centres))
    flow = np.exp(floor - potential(faces[1:-1])) / width**2
    leaving = np.append(flow, 0.0) + np.append(0.0, flow)
    root = np.sqrt(mass)
    values, vectors = eigh_tridiagonal(
        leaving / mass, -flow / (root[1:] * root[:-1]), select="i", select_range=(0, num - 1)
    )
    psi = vectors / root[:, None] * np.sqrt(mass.sum())
    return np.maximum(values, 0.0), psi, centres


def diffusion_map(
    points: ArrayLike, bandwidth: float, *, alpha: float = 0.5, num: int = 4
) -> tuple[Floats, Floats]:
    r"""Leading eigenvectors of the random walk on samples, as slow modes of a diffusion.

    .. math::
        K_{ij} = e^{-\|x_i - x_j\|^2 / 4\epsilon}, \quad
        K^{(\alpha)}_{ij} = \frac{K_{ij}}{q_i^\alpha q_j^\alpha}, \; q_i = \sum_j K_{ij}, \quad
        P = D^{-1} K^{(\alpha)}, \quad \mu_r = \frac{1 - \gamma_r}{\epsilon}

    For samples of density :math:`e^{-U}` the limit is the process in the potential
    :math:`2 (1 - \alpha) U`. So the plain walk :math:`P = D^{-1} K` (alpha = 0) sees **2U**, and
    Theorem 3 as printed, with U, needs alpha = 1/2 (or samples of density :math:`e^{-U/2}`).

    Args:
        points: Samples.
        bandwidth: The squared length epsilon.
        alpha: Power of the density that is divided out.
        num: Number of pairs, the constant one included.

    Shapes:
        points ``[n]`` or ``[n, dimensions]``; mu ``[num]``, psi ``[n, num]``.

    Returns:
        ``(mu, psi)``, mu ascending, psi of unit mean square under the walk's stationary law.

    Example:
        >>> mu, psi = diffusion_map(np.linspace(0, 1, 400), 1e-4, num=2)
        >>> abs(mu[1] / np.pi**2 - 1) < 0.1
        np.True_

    Reference:
        Nadler et al., Diffusion maps, spectral clustering and reaction coordinates, 2006.
    """
    place = np.asarray(points, dtype=np.float64)
    tree = cKDTree(place[:, None] if place.ndim == 1 else place)
    reach = np.sqrt(4 * bandwidth * 18.0)
    squared = tree.sparse_distance_matrix(tree, reach, output_type="coo_matrix").power(2)
    kernel = sp.csr_array(squared)
    kernel.data = np.exp(-kernel.data / (4 * bandwidth))
    density = sp.diags_array(degrees(kernel) ** -alpha)
    kernel = sp.csr_array(density @ kernel @ density)
    weight = degrees(kernel)
    pairs = smallest_of_symmetric(laplacian_matrix(kernel, "normalized"), num)
    psi = pairs.vectors / np.sqrt(weight)[:, None] * np.sqrt(weight.sum())
    return np.maximum(pairs.values, 0.0) / bandwidth, psi
