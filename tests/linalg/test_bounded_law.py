"""The law by solves that stop early, for solutions whose error is known."""

import numpy as np
import pytest

from coupledgp.core.dense_system import StationarySystem
from coupledgp.core.problem import Hyperparameters
from coupledgp.linalg.system import LinearSystem, Solution, SystemOptions, predictive_law
from coupledgp.spectra import parse_spectrum

N, P, K = 12, 4, 3
RNG = np.random.default_rng(5)
ROOT = RNG.normal(size=(N + P, N + P))
JOINT = ROOT @ ROOT.T + 0.5 * np.eye(N + P)
NOISE = 0.3
TARGETS = RNG.normal(size=(N, K)) * [0.1, 1.0, 10.0]


class Rough(LinearSystem):
    """A system whose solutions are off by a known error."""

    targets, noise = TARGETS, NOISE
    A = JOINT[:N, :N] + NOISE * np.eye(N)

    def __init__(self, size):
        self.error = size * RNG.normal(size=(N, P + K)) * [*[1.0] * P, 0.1, 1.0, 10.0]

    def cross(self, points):
        return JOINT[:N, N:]

    def prior(self, points):
        return JOINT[N:, N:]

    def solve(self, B, tolerance):
        X = np.linalg.solve(self.A, B) + self.error
        return Solution(X, B - self.A @ X, 1)

    def inverse_bound(self, R):
        return R.T @ np.linalg.solve(self.A, R)

    def bytes_needed(self, n_columns):
        return 0.0


def exact():
    solved = np.linalg.solve(Rough.A, np.hstack([JOINT[:N, N:], TARGETS]))
    reduction = JOINT[:N, N:].T @ solved
    return reduction[:, P:], JOINT[N:, N:] - reduction[:, :P] + NOISE * np.eye(P)


@pytest.mark.parametrize("size", [0.05, 1e-3])
def test_the_error_of_the_covariance_is_the_form_of_the_residuals(size):
    """`cov - true = R' A^-1 R` in full, which the tightest bound is."""
    system = Rough(size)
    law = predictive_law(system, np.zeros((P, 1)), 0.1)
    mean, cov = exact()
    R = -system.A @ system.error[:, :P]
    np.testing.assert_allclose(law.cov - cov, R.T @ np.linalg.solve(system.A, R), atol=1e-11)
    np.testing.assert_allclose(law.cov_error, law.cov - cov, atol=1e-11)
    rest = -system.A @ system.error[:, P:]
    forms = np.einsum("ik,ik->k", rest, np.linalg.solve(system.A, rest))
    np.testing.assert_allclose(law.mean_error, np.sqrt(forms), rtol=1e-9)
    # Of second order: the product of both errors.
    np.testing.assert_allclose(law.mean - mean, -R.T @ np.linalg.solve(system.A, rest), atol=1e-11)
    gaps = np.abs(law.mean - mean)
    bound = law.mean_error * np.sqrt(law.cov_error.diagonal())[:, None]
    assert (gaps <= bound + 1e-12).all()
    assert (gaps > 1e-3 * bound).any()


def test_residuals_of_rows_of_unequal_noise_are_those_of_the_equations():
    X = RNG.normal(size=(N, 2))
    relative = np.geomspace(0.1, 10, N)
    spectrum, hyper = parse_spectrum("matern-3/2"), Hyperparameters(np.ones(2), 1.4, NOISE)
    options = SystemOptions(dtype="float64", rank=4)
    system = StationarySystem(spectrum, hyper, X, TARGETS, relative, options)
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    A = 1.4 * spectrum.kernel(distance) + NOISE * np.diag(relative)
    solved = system.solve(TARGETS, 0.1)
    np.testing.assert_allclose(solved.residuals, TARGETS - A @ solved.values, atol=1e-12)
    assert np.abs(solved.residuals).max() > 1e-6
    bound = system.inverse_bound(solved.residuals)
    form = solved.residuals.T @ np.linalg.solve(A, solved.residuals)
    assert np.linalg.eigvalsh(bound - form)[0] > -1e-10
