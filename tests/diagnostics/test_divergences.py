"""Divergence of Gaussian laws: closed forms, and the properties of any divergence."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal, kl_divergence

from coupledgp.diagnostics import gaussian_kl
from coupledgp.errors import InvalidInputError, NumericalError

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def random_law(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    root = rng.normal(size=(n, n))
    return rng.normal(size=n), root @ root.T + 0.1 * np.eye(n)


@given(seed=seeds, n=sizes)
def test_closed_form_of_another_library(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = random_law(n, rng), random_law(n, rng)
    laws = [MultivariateNormal(*map(torch.as_tensor, law)) for law in (p, q)]
    assert gaussian_kl(*p, *q) == pytest.approx(float(kl_divergence(*laws)), rel=1e-8)


@given(shift=st.floats(-10, 10), variance=st.floats(1e-3, 1e3), other=st.floats(1e-3, 1e3))
def test_one_dimension(shift: float, variance: float, other: float) -> None:
    expected = 0.5 * (variance / other - 1 - math.log(variance / other) + shift**2 / other)
    value = gaussian_kl([shift], [[variance]], [0.0], [[other]])
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(seed=seeds, n=sizes)
def test_positive_and_zero_for_equal_laws(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = random_law(n, rng), random_law(n, rng)
    assert gaussian_kl(*p, *q) > 0
    assert 0 <= gaussian_kl(*p, *p) < 1e-13


@given(seed=seeds, n=sizes)
def test_invariant_under_affine_maps(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = random_law(n, rng), random_law(n, rng)
    a = np.linalg.qr(rng.normal(size=(n, n)))[0] * np.exp(rng.normal(size=n))
    b = rng.normal(size=n)

    def moved(law: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return a @ law[0] + b, a @ law[1] @ a.T

    assert gaussian_kl(*moved(p), *moved(q)) == pytest.approx(gaussian_kl(*p, *q), rel=1e-7)


@given(seed=seeds, n=sizes, m=sizes)
def test_adds_up_over_independent_blocks(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [(random_law(size, rng), random_law(size, rng)) for size in (n, m)]
    whole = []
    for side in (0, 1):
        (mu_a, cov_a), (mu_b, cov_b) = parts[0][side], parts[1][side]
        cov = np.zeros((n + m, n + m))
        cov[:n, :n], cov[n:, n:] = cov_a, cov_b
        whole.append((np.concatenate([mu_a, mu_b]), cov))
    total = sum(gaussian_kl(*p, *q) for p, q in parts)
    assert gaussian_kl(*whole[0], *whole[1]) == pytest.approx(total, rel=1e-9)


@given(seed=seeds, n=st.integers(2, 6))
def test_marginals_are_closer(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = random_law(n, rng), random_law(n, rng)
    part = [(mean[:-1], cov[:-1, :-1]) for mean, cov in (p, q)]
    assert gaussian_kl(*part[0], *part[1]) <= gaussian_kl(*p, *q) * (1 + 1e-9)


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-9])
def test_nearly_equal_laws_keep_their_digits(eps: float, rng: np.random.Generator) -> None:
    """The trace and the log determinants alone cancel to nothing; `x - log(1 + x)` does not."""
    n = 20
    mean, cov = random_law(n, rng)
    value = gaussian_kl(mean, (1 + eps) * cov, mean, cov)
    with mpmath.workdps(40):
        e = mpmath.mpf(1 + eps) - 1
        expected = float(n * (e - mpmath.log1p(e)) / 2)
    # Rounding of the matrix products moves each eigenvalue by about 1e-14.
    assert value == pytest.approx(expected, rel=1e-13 / eps + 1e-9, abs=1e-25)


def test_direction_matters() -> None:
    wide, narrow = ([0.0], [[4.0]]), ([0.0], [[1.0]])
    assert gaussian_kl(*narrow, *wide) == pytest.approx(0.5 * (0.25 - 1 + math.log(4)))
    assert gaussian_kl(*wide, *narrow) == pytest.approx(0.5 * (4 - 1 - math.log(4)))


class TestErrors:
    def test_shapes(self) -> None:
        with pytest.raises(InvalidInputError, match=r"cov_p: expected shape \(2, 2\)"):
            gaussian_kl([0, 0], np.eye(3), [0, 0], np.eye(2))
        with pytest.raises(
            InvalidInputError, match=r"cov_q: expected shape \(2, 2\) to match mean_p"
        ):
            gaussian_kl([0, 0], np.eye(2), [0, 0, 0], np.eye(3))
        with pytest.raises(InvalidInputError, match="mean_q: expected a non-empty 1-D array"):
            gaussian_kl([0], np.eye(1), [[0]], np.eye(1))
        with pytest.raises(InvalidInputError, match="mean_p: expected a non-empty 1-D array"):
            gaussian_kl([], np.empty((0, 0)), [], np.empty((0, 0)))

    def test_values(self) -> None:
        with pytest.raises(InvalidInputError, match="mean_p: expected finite values"):
            gaussian_kl([np.nan], np.eye(1), [0], np.eye(1))
        with pytest.raises(InvalidInputError, match="cov_q: expected finite values"):
            gaussian_kl([0], np.eye(1), [0], [[np.inf]])
        with pytest.raises(InvalidInputError, match="cov_p: expected a symmetric matrix"):
            gaussian_kl([0, 0], [[1, 0.1], [0, 1]], [0, 0], np.eye(2))

    @pytest.mark.parametrize("name", ["cov_p", "cov_q"])
    def test_singular_covariances(self, name: str) -> None:
        covs = {"cov_p": np.eye(2), "cov_q": np.eye(2), name: np.ones((2, 2)) - 1e-9 * np.eye(2)}
        with pytest.raises(NumericalError, match=f"{name} is not positive definite.*condition"):
            gaussian_kl([0, 0], covs["cov_p"], [0, 0], covs["cov_q"])
