from __future__ import annotations

import numpy as np
import pytest
from langevin import (
    diffusion_map,
    double_well,
    fokker_planck_eigenpairs,
    mean_passage_time,
    simulate_langevin,
)
from walks import simulate_escape_times

from djgnn.errors import InputError
from djgnn.spectral import escape_time, set_escape_probability, spectral_gap


@pytest.mark.parametrize(
    ("size", "inner", "bridges"),
    [(60, 0.5, 20), (60, 0.3, 25), (100, 0.2, 40), (100, 0.3, 10), (150, 0.1, 50), (200, 0.04, 30)],
)
def test_predicted_and_simulated_escape_times_agree(make_communities, size, inner, bridges):
    a = make_communities(size, size, inner, bridges)
    inside = np.arange(size)
    predicted = escape_time(a, inside)
    sides = (inside, np.arange(size, 2 * size))
    assert max(set_escape_probability(a, side) for side in sides) < 0.05  # conductance
    left, settled = (
        simulate_escape_times(a, inside, settled=settled, num_walks=4000, random_state=1)
        for settled in (False, True)
    )
    noise = 4 / np.sqrt(4000)
    assert predicted.exit == pytest.approx(left.mean(), rel=noise)
    assert predicted.settled == pytest.approx(settled.mean(), rel=noise)
    assert predicted.quasi_stationary == pytest.approx(left.mean(), rel=0.10)
    assert predicted.spectral == pytest.approx(settled.mean(), rel=0.10)
    assert predicted.quasi_stationary == pytest.approx(predicted.exit, rel=0.01)
    assert predicted.spectral == pytest.approx(predicted.settled, rel=0.09)
    assert predicted.conductance <= predicted.exit <= predicted.settled
    # The paper's 1/gap is the relaxation time: half of it for equal communities.
    assert 1 / spectral_gap(a) == pytest.approx(settled.mean() / 2, rel=0.15)


def test_unequal_communities_need_the_factor_of_the_other_side(make_communities):
    keep = np.r_[np.arange(30), np.arange(90, 180)]
    a = make_communities(3, 90, 0.3, 30)[keep][:, keep]
    small, large = np.arange(30), np.arange(30, 120)
    for inside in (small, large):
        predicted = escape_time(a, inside)
        mean = simulate_escape_times(a, inside, settled=True, num_walks=4000).mean()
        assert predicted.spectral == pytest.approx(mean, rel=0.10)
    assert escape_time(a, large).settled > 3 * escape_time(a, small).settled


def test_exit_time_is_the_stationary_mean_of_hitting_times():
    # A = {0, 1} of the path 0-1-2: from 0 to 1 surely, from 1 half out, half back.
    path = np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1)
    found = escape_time(path, [0, 1])
    assert found.exit == pytest.approx((1 * 4 + 2 * 3) / 3)
    assert found.conductance == pytest.approx(3)
    assert np.isnan(found.settled)


def test_gap_is_zero_when_disconnected_and_small_between_communities(make_communities):
    assert spectral_gap(np.eye(3)) == 0.0
    assert spectral_gap(make_communities(0, 40, 0.5, 5)) < 0.05
    with pytest.raises(InputError, match="2 components"):
        escape_time(np.kron(np.eye(2), np.ones((2, 2))), [0])
    with pytest.raises(InputError, match=r"got 2 of 2"):
        escape_time(np.ones((2, 2)), [0, 1])


BARRIER = 2.5


def potential(x):
    return double_well(x, barrier=BARRIER)[0]


def samples(n: int, barrier: float = BARRIER) -> np.ndarray:
    """Quantiles of the density exp(-U): samples without sampling noise."""
    grid = np.linspace(-2.3, 2.3, 40_001)
    cumulative = np.cumsum(np.exp(-double_well(grid, barrier=barrier)[0]))
    return np.interp((np.arange(n) + 0.5) / n, cumulative / cumulative[-1], grid)


@pytest.mark.parametrize(("alpha", "factor"), [(0.0, 2.0), (0.5, 1.0)])
def test_diffusion_map_converges_to_fokker_planck_in_the_right_potential(alpha, factor):
    x = samples(1400)
    mu, psi = diffusion_map(x, 2e-3, alpha=alpha, num=3)
    exact, modes, grid = fokker_planck_eigenpairs(lambda z: factor * potential(z), -2.3, 2.3, num=3)
    assert mu[0] == pytest.approx(0, abs=1e-8)
    assert mu[1] == pytest.approx(exact[1], rel=0.06)
    assert mu[2] == pytest.approx(exact[2], rel=0.06)
    mode = np.interp(x, grid, modes[:, 1])
    assert abs(np.corrcoef(mode, psi[:, 1])[0, 1]) > 0.999
    # The other potential is far off: Theorem 3 as printed needs alpha = 1/2.
    wrong = fokker_planck_eigenpairs(lambda z: (3 - factor) * potential(z), -2.3, 2.3, num=2)[0][1]
    assert abs(np.log(mu[1] / wrong)) > 1


def test_density_exp_minus_half_u_repairs_the_plain_walk():
    x = samples(1400, barrier=BARRIER / 2)
    mu, _ = diffusion_map(x, 2e-3, alpha=0.0, num=2)
    exact, _, _ = fokker_planck_eigenpairs(potential, -2.3, 2.3, num=2)
    assert mu[1] == pytest.approx(exact[1], rel=0.06)


def test_leading_eigenvector_separates_the_wells_and_is_steeper_for_a_higher_barrier():
    steepness = []
    for barrier in (1.0, 3.0, 6.0):
        _, modes, grid = fokker_planck_eigenpairs(
            lambda x, b=barrier: double_well(x, barrier=b)[0], -2.3, 2.3, num=2
        )
        mode = modes[:, 1] / np.abs(np.interp([-1, 1], grid, modes[:, 1])).mean()
        assert np.sign(np.interp(-1, grid, mode)) == -np.sign(np.interp(1, grid, mode))
        steepness.append(np.abs(np.gradient(mode, grid)).max())
    assert steepness == sorted(steepness)


def test_simulated_passages_match_the_integral_and_the_gap():
    start = -np.ones(1500)
    _, times = simulate_langevin(
        lambda x: double_well(x, barrier=BARRIER)[1],
        start, time_step=1e-3, num_steps=60_000, target=1.0,
    )  # fmt: skip
    exact = mean_passage_time(potential, -1.0, 1.0, far=-2.3)
    assert not np.isnan(times).any()
    assert times.mean() == pytest.approx(exact, rel=0.10)
    mu, _, _ = fokker_planck_eigenpairs(potential, -2.3, 2.3, num=2)
    # Equal wells: rate out of one is half the gap, and 1/gap is half the passage time.
    assert exact == pytest.approx(2 / mu[1], rel=0.15)


def test_kramers_law_in_the_limit_of_a_high_barrier():
    ratios = []
    for barrier in (3.0, 8.0, 16.0):
        exact = mean_passage_time(
            lambda x, b=barrier: double_well(x, barrier=b)[0], -1.0, 1.0, far=-2.0
        )
        kramers = 2 * np.pi * np.exp(barrier) / np.sqrt(8 * barrier * 4 * barrier)
        ratios.append(exact / kramers)
    assert ratios[0] > ratios[1] > ratios[2] > 1
    assert ratios[2] == pytest.approx(1, abs=0.06)


def test_stationary_law_of_the_simulation_is_boltzmann():
    x, _ = simulate_langevin(
        lambda x: double_well(x, barrier=1.0, tilt=0.5)[1],
        np.zeros(4000), time_step=2e-3, num_steps=4000,
    )  # fmt: skip
    grid = np.linspace(-3, 3, 2001)
    weight = np.exp(-double_well(grid, barrier=1.0, tilt=0.5)[0])
    assert (x > 0).mean() == pytest.approx(weight[grid > 0].sum() / weight.sum(), abs=0.03)
    assert x.mean() == pytest.approx((grid * weight).sum() / weight.sum(), abs=0.05)
