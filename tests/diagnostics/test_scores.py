"""Scores against plain sums and scipy's densities."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics import coverage, kernel_error, nlpd, nlpd_joint, rmse
from coupledgp.errors import InvalidInputError, NumericalError
from tests.theory import assert_mean


def test_rmse() -> None:
    assert rmse(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 3.0])) == pytest.approx(
        np.sqrt(5 / 3)
    )


def test_nlpd_is_the_mean_of_marginal_densities(rng: np.random.Generator) -> None:
    y, mean, std = rng.normal(size=9), rng.normal(size=9), rng.uniform(0.1, 3, size=9)
    expected = -np.mean([stats.norm(m, s).logpdf(x) for x, m, s in zip(y, mean, std, strict=True)])
    assert nlpd(y, mean, std) == pytest.approx(expected, rel=1e-12)


def test_joint_nlpd_is_a_multivariate_density_per_point(rng: np.random.Generator) -> None:
    y, mean, root = rng.normal(size=6), rng.normal(size=6), rng.normal(size=(6, 6))
    cov = root @ root.T + np.eye(6)
    expected = -stats.multivariate_normal(mean, cov).logpdf(y) / 6
    assert nlpd_joint(y, mean, cov) == pytest.approx(expected, rel=1e-10)


def test_joint_and_marginal_agree_without_correlation(rng: np.random.Generator) -> None:
    y, mean, std = rng.normal(size=6), rng.normal(size=6), rng.uniform(0.1, 3, size=6)
    assert nlpd_joint(y, mean, np.diag(std**2)) == pytest.approx(nlpd(y, mean, std), rel=1e-12)


def test_joint_nlpd_of_a_singular_law_names_it() -> None:
    with pytest.raises(NumericalError, match="predictive covariance is not positive definite"):
        nlpd_joint(np.zeros(2), np.zeros(2), np.ones((2, 2)) - 1e-9 * np.eye(2))


def test_coverage_by_hand() -> None:
    y = np.array([0.0, 0.6, 1.2, 1.9, 2.1]) * np.array([1, -1, 1, -1, 1])
    shares = coverage(3 * y + 7, np.full(5, 7.0), np.full(5, 3.0))
    # Half widths 0.674, 1.282 and 1.960 standard deviations.
    assert shares == {0.5: 0.4, 0.8: 0.6, 0.95: 0.8}


def test_coverage_of_a_true_law_is_nominal(rng: np.random.Generator) -> None:
    n, levels = 40_000, (0.1, 0.5, 0.8, 0.95, 0.999)
    mean, std = rng.normal(size=n), rng.uniform(0.1, 3, size=n)
    y = mean + std * rng.normal(size=n)
    for level, share in coverage(y, mean, std, levels).items():
        hits = np.repeat([1.0, 0.0], [round(share * n), n - round(share * n)])
        assert_mean(hits, level)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_levels(level: float) -> None:
    with pytest.raises(InvalidInputError, match="levels: expected numbers between 0 and 1"):
        coverage(np.zeros(2), np.zeros(2), np.ones(2), [0.5, level])


def test_kernel_error() -> None:
    exact, approximate = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    error = kernel_error(approximate, exact)
    assert error == pytest.approx((np.sqrt(6 / 4), np.sqrt(6 / 5)))
