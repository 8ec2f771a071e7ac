"""Kernels of time: the process of states has the covariance, at every step; texts and files."""

from __future__ import annotations

import json
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.kernels import time
from coupledgp.kernels.time import (
    Constant,
    Matern12,
    Matern32,
    Periodic,
    White,
    parse_time_kernel,
    register_time_kernel,
    time_kernel_from,
    time_kernel_state,
)

KERNELS = [
    Matern12(2.5),
    Matern32(0.7),
    Constant(),
    White(),
    Periodic(24.0, n_harmonics=3, decay=50.0, smoothness=0.4),
]
STEPS = np.array([1e-7, 0.01, 0.3, 1.0, 7.7, 400.0, 1e6])
named = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


def exact(kernel, lag):
    """`k(lag)` as the text books have it."""
    lag = abs(lag)
    if isinstance(kernel, Matern12):
        return np.exp(-lag / kernel.lengthscale)
    if isinstance(kernel, Matern32):
        x = np.sqrt(3) * lag / kernel.lengthscale
        return (1 + x) * np.exp(-x)
    if isinstance(kernel, Periodic):
        shares = np.exp(-kernel.smoothness * np.arange(1, kernel.n_harmonics + 1))
        angles = 2 * np.pi * np.arange(1, kernel.n_harmonics + 1) * lag / kernel.period
        return np.exp(-lag / kernel.decay) * (shares * np.cos(angles)).sum() / shares.sum()
    return 1.0 if isinstance(kernel, Constant) else float(lag == 0)


@named
def test_covariances_are_those_of_the_formulas(kernel):
    lags = np.array([[0.0, 1.3, -1.3], [40.0, -0.01, 400.0]])
    found = kernel.covariance(lags)
    assert found.shape == lags.shape
    np.testing.assert_allclose(found, np.vectorize(lambda d: exact(kernel, d))(lags), atol=1e-14)
    assert kernel.covariance(0.0) == pytest.approx(1.0)


@named
def test_the_states_have_the_covariance(kernel):
    h, stationary = kernel.output, kernel.stationary
    assert h @ stationary @ h == pytest.approx(1.0)
    for step in STEPS.tolist():
        moved = h @ kernel.transition(step) @ stationary @ h
        assert moved == pytest.approx(float(kernel.covariance(step)), abs=1e-13)


@named
def test_matrices_of_many_steps_are_those_of_each(kernel):
    many = STEPS[:6].reshape(2, 3)
    for matrices in (kernel.transition, kernel.innovation):
        found = matrices(many)
        assert found.shape == (2, 3, kernel.output.size, kernel.output.size)
        np.testing.assert_array_equal(found[1, 2], matrices(float(many[1, 2])))


@named
def test_two_steps_after_each_other_are_one(kernel):
    first, second, both = (kernel.transition(d) for d in (0.4, 1.1, 1.5))
    np.testing.assert_allclose(second @ first, both, atol=1e-14)
    later = second @ kernel.innovation(0.4) @ second.T + kernel.innovation(1.1)
    np.testing.assert_allclose(later, kernel.innovation(1.5), atol=1e-14)


@named
def test_the_innovation_keeps_the_covariance_stationary(kernel):
    transition, stationary = kernel.transition(STEPS), kernel.stationary
    after = transition @ stationary @ np.swapaxes(transition, 1, 2) + kernel.innovation(STEPS)
    np.testing.assert_allclose(after, np.broadcast_to(stationary, after.shape), atol=1e-14)
    assert np.linalg.eigvalsh(kernel.innovation(STEPS)).min() >= -1e-16


@pytest.mark.parametrize("lengthscale", [1e-2, 1.0, 1e3, 1e6])
def test_innovations_of_short_steps_keep_their_digits(lengthscale):
    with mpmath.workdps(60):
        x = mpmath.sqrt(3) / mpmath.mpf(lengthscale)
        decay = mpmath.exp(-2 * x)
        cross = 2 * x**2 * decay
        exact_q = [
            [1 - decay * (1 + 2 * x + 2 * x**2), cross],
            [cross, 1 - decay * (1 - 2 * x + 2 * x**2)],
        ]
        exponential = float(-mpmath.expm1(-2 / mpmath.mpf(lengthscale)))
    expected = np.array([[float(entry) for entry in row] for row in exact_q])
    np.testing.assert_allclose(Matern32(lengthscale).innovation(1.0), expected, rtol=1e-12)
    assert Matern12(lengthscale).innovation(1.0)[0, 0] == pytest.approx(exponential, rel=1e-14)


def test_a_cycle_returns_after_any_number_of_periods():
    kernel = Periodic(86400.0, n_harmonics=4, decay=1e12)
    assert kernel.covariance(86400.0 * 10**4) == pytest.approx(np.exp(-8.64e8 / 1e12), rel=1e-12)
    assert Periodic(24.0).decay == 7 * 24.0


@named
def test_parameters_and_their_logarithms(kernel):
    np.testing.assert_allclose(kernel.with_theta(kernel.theta).theta, kernel.theta, rtol=1e-14)
    bounds = kernel.bounds(0.5, 1000.0)
    assert len(bounds) == kernel.theta.size
    for k, (low, high) in enumerate(bounds):
        assert low < high
        theta = kernel.theta.copy()
        theta[k] = high
        moved = kernel.with_theta(theta)
        assert type(moved) is type(kernel)
        np.testing.assert_allclose(moved.theta, theta)


@pytest.mark.parametrize("kernel", [Matern12(2.5), Matern32(0.7)], ids=["1/2", "3/2"])
def test_bounds_are_in_the_unit_of_the_axis(kernel):
    ((low, high),) = kernel.bounds(0.5, 1000.0)
    np.testing.assert_allclose(kernel.bounds(30.0, 60000.0), [np.log(60) + np.array([low, high])])
    assert np.exp(low) < 0.5
    assert np.exp(high) > 1000.0


def test_fits_keep_what_is_not_fitted():
    kernel = Periodic(24.0, n_harmonics=3).with_theta(np.log([100.0, 0.5]))
    assert (kernel.period, kernel.n_harmonics) == (24.0, 3)
    assert (kernel.decay, kernel.smoothness) == pytest.approx((100.0, 0.5))


@named
def test_files_hold_kernels_to_the_bit(kernel):
    assert time_kernel_from(json.loads(json.dumps(time_kernel_state(kernel)))) == kernel


def test_texts_name_kernels():
    for name, kind in [
        ("matern-1/2", Matern12), ("matern-3/2", Matern32), ("constant", Constant),
        ("white", White), ("periodic", Periodic),
    ]:  # fmt: skip
        assert type(parse_time_kernel(name)) is kind
        assert name in time.available_time_kernels()
    kernel = Matern12(3.0)
    assert parse_time_kernel(kernel) is kernel


def test_kernels_of_equal_parameters_are_equal():
    assert Matern12(2) == Matern12(2.0)
    assert len({Matern12(2.0), Matern32(2.0), Constant(), White()}) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Matern12(0.0), "lengthscale: expected"),
        (lambda: Matern32(-1.0), "lengthscale: expected"),
        (lambda: Matern32(np.nan), "lengthscale: expected"),
        (lambda: Periodic(0.0), "period: expected"),
        (lambda: Periodic(1.0, n_harmonics=0), "n_harmonics: expected"),
        (lambda: Periodic(1.0, decay=-2.0), "decay: expected"),
        (lambda: Periodic(1.0, smoothness=np.inf), "smoothness: expected"),
        (lambda: parse_time_kernel("matern"), "time_kernel: expected one of .*did you mean"),
        (lambda: parse_time_kernel(3.0), "time_kernel: expected a name"),
        (lambda: time_kernel_from({"class": "Brownian"}), "time_kernel: expected one of"),
        (lambda: time_kernel_from({}), "time_kernel: expected one of"),
        (lambda: time_kernel_from({"class": "White", "lengthscale": 1.0}), "no parameters of a"),
    ],
)
def test_what_is_no_kernel_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@dataclass(frozen=True)
class Slow(Matern12):
    """A kernel of somebody else's."""


def test_kernels_of_others_can_be_registered():
    with pytest.raises(InvalidInputError, match="register_time_kernel"):
        time_kernel_state(Slow(2.0))
    register_time_kernel("slow", Slow(9.0))
    try:
        assert parse_time_kernel("slow") == Slow(9.0)
        assert time_kernel_from(time_kernel_state(Slow(2.0))) == Slow(2.0)
    finally:
        time.TIME_KERNELS.unregister("slow")
