"""Draws for averages over hyperparameters: weighed right for laws whose moments are known."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.core import averaging
from coupledgp.core.averaging import importance_draws
from coupledgp.core.problem import VectorObjective


class Normal(VectorObjective):
    """Minus the log density of a normal law, or of one that is flat along an axis."""

    def __init__(self, mean, precision):
        self.mean, self.precision = np.asarray(mean, float), np.asarray(precision, float)

    def value_and_gradient(self, point):
        pull = self.precision @ (point - self.mean)
        return 0.5 * float((point - self.mean) @ pull), pull

    def box(self, start):
        return [(-np.inf, np.inf)] * len(start)


MEAN = np.array([0.5, -1.0, 2.0])
PRECISION = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])


def test_weighted_draws_have_the_moments_of_the_law(seed):
    """In three dimensions, from the mode: the mean to five errors, the spread to a tenth."""
    draws, weights = importance_draws(
        Normal(MEAN, PRECISION), MEAN, 8000, np.random.default_rng(seed)
    )
    covariance = np.linalg.inv(PRECISION)
    n_effective = 1 / np.sum(weights**2)
    assert n_effective > 3000
    error = np.sqrt(covariance.diagonal() / n_effective)
    assert (np.abs(weights @ draws - MEAN) < 5 * error).all()
    gaps = draws - MEAN
    found = (weights[:, None] * gaps).T @ gaps
    np.testing.assert_allclose(found, covariance, atol=0.1 * covariance.max())
    np.testing.assert_array_equal(draws[0], MEAN)
    assert weights.sum() == pytest.approx(1.0)
    # Their squared distances from the mode, over three, have the law F(3, 5).
    squares = np.einsum("ij,jk,ik->i", gaps[1:], PRECISION, gaps[1:]) / 3
    assert stats.kstest(squares, stats.f(3, averaging.FREEDOM).cdf).pvalue > 1e-6


def test_weights_are_the_law_over_the_density_of_student():
    """By scipy's density of the multivariate law of five degrees of freedom."""
    law, rng = Normal(MEAN, PRECISION), np.random.default_rng(3)
    draws, weights = importance_draws(law, MEAN, 50, rng)
    student = stats.multivariate_t(MEAN, np.linalg.inv(PRECISION), df=averaging.FREEDOM)
    logs = -np.array([law.value(t) for t in draws]) - student.logpdf(draws)
    expected = np.exp(logs - logs.max())
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-6)


def test_a_flat_direction_is_no_wider_than_twice_the_prior():
    flat = Normal(np.zeros(2), np.diag([1.0, 0.0]))
    scale = averaging.inverse_hessian_root(flat, np.zeros(2))
    widths = np.sort(np.linalg.svd(scale, compute_uv=False))
    np.testing.assert_allclose(widths, [1.0, 1 / np.sqrt(averaging.LEAST_CURVATURE)])


@pytest.mark.parametrize(("away", "moves"), [(0.0, False), (4.0, True)])
def test_the_proposal_is_moved_where_few_draws_are_effective(away, moves, monkeypatch):
    """A mode that is none leaves few draws with weight, and a second proposal finds the law."""
    calls = []
    plain = averaging._weighted

    def watched(posterior, mode, center, scale, n_draws, rng):
        calls.append(np.asarray(center))
        return plain(posterior, mode, center, scale, n_draws, rng)

    monkeypatch.setattr(averaging, "_weighted", watched)
    law, mode = Normal(np.zeros(2), np.diag([4.0, 4.0])), np.array([away, 0.0])
    draws, weights = importance_draws(law, mode, 400, np.random.default_rng(1))
    assert len(calls) == 1 + moves
    if moves:
        assert np.linalg.norm(calls[1]) < 0.9 * away
        # The weights are those of these draws, whose mean is then that of the law.
        assert np.linalg.norm(weights @ draws) < 0.2
