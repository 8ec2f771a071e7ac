"""Divergences: closed forms, bounds by laws between them, probes, and those of likelihoods."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from torch.distributions import MultivariateNormal, kl_divergence

import coupledgp as cgp
from coupledgp.diagnostics import SCORES, Normal, StochasticOptions, gaussian_kl
from coupledgp.diagnostics.distance.divergences import kl_bounds, kl_bounds_per_point, kl_per_point
from coupledgp.diagnostics.distance.latent import exact_functions, latent_distance, mean_curvature
from coupledgp.diagnostics.distance.probes import (
    ProbeTerms,
    RelativeCovariance,
    divergences,
    quadratic_forms,
)
from coupledgp.diagnostics.scores import bounds_of, value_of
from coupledgp.diagnostics.sources.own import Functions
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson, Probit, StudentT
from coupledgp.linalg.lanczos import Lanczos

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


def one(mean, variance, floor, radius):
    return np.array([mean]), np.array([[variance]]), np.array([[floor]]), radius


@pytest.mark.parametrize("gap", [0.0, 0.4, 3.0])
def test_every_term_at_its_worst(gap):
    """One point: `p = N(gap, 2)` with a floor of 1.7, `q = N(0, 3)` with a floor of 2.4."""
    S_p, B_p, r_p, S_q, B_q, r_q = 2.0, 1.7, 0.5, 3.0, 2.4, 0.8
    h = r_p * np.sqrt((S_p - B_p) / B_q) + r_q * np.sqrt((S_q - B_q) / B_q)
    below, above = kl_bounds(one(gap, S_p, B_p, r_p), one(0.0, S_q, B_q, r_q))
    far, near = gap / np.sqrt(B_q), gap / np.sqrt(S_q)
    most = (1 / B_q - 1 / S_q) * S_p + np.log(S_p / B_p) + (far + h) ** 2 - near**2
    least = (S_p - B_p) / S_q + np.log(S_q / B_q) + near**2 - max(near - h, 0.0) ** 2
    assert above == pytest.approx(most / 2, rel=1e-12)
    assert below == pytest.approx(least / 2, rel=1e-12)


def test_laws_that_are_known_have_no_error():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(2, 4, 4))
    covs = root @ root.transpose(0, 2, 1) + np.eye(4)
    p, q = ((rng.normal(size=4), cov, cov, 0.7) for cov in covs)
    assert kl_bounds(p, q) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_independent_points_add_up():
    rng = np.random.default_rng(4)
    means = rng.normal(size=(2, 5))
    variances = rng.uniform(1, 2, size=(2, 5))
    floors = variances * rng.uniform(0.8, 1.0, size=(2, 5))
    laws = [
        (mean, np.diag(v), np.diag(f), 0.0)
        for mean, v, f in zip(means, variances, floors, strict=True)
    ]
    total = sum(
        np.array(kl_bounds(*(one(means[k, i], variances[k, i], floors[k, i], 0.0) for k in (0, 1))))
        for i in range(5)
    )
    assert kl_bounds(laws[0], laws[1]) == pytest.approx(tuple(total), rel=1e-12)
    # With means that are known, the greatest is reached at p's floor beside q's.
    assert gaussian_kl(means[0], np.diag(floors[0]), means[1], np.diag(floors[1])) <= (
        gaussian_kl(means[0], np.diag(variances[0]), means[1], np.diag(variances[1])) + total[1]
    )


@pytest.mark.parametrize("gap", [0.05, 0.4, 3.0])
def test_the_joint_density_of_one_point(gap):
    S, B, radius = 2.0, 1.7, 0.5
    h = radius * np.sqrt((S - B) / B)
    law = Normal.joint(
        np.zeros((1, 1)), np.full((1, 1, 1), S), slack=np.full((1, 1, 1), S - B),
        radius=np.array([radius]),
    )  # fmt: skip
    below, above = bounds_of(SCORES["nlpd_joint"], law, np.full((1, 1), gap))
    near, far = gap / np.sqrt(S), gap / np.sqrt(B)
    least = np.log(S / B) + near**2 - max(near - h, 0.0) ** 2
    assert below == pytest.approx(least / 2, rel=1e-12)
    assert above == pytest.approx(((far + h) ** 2 - near**2) / 2, rel=1e-12)


P, RNG = 7, np.random.default_rng(12)


def law(n_outputs: int, rng: np.random.Generator) -> Normal:
    """A law known up to bounds, which are of another size for every output."""
    root = rng.normal(size=(n_outputs, P, P))
    cov = np.einsum("kij,klj->ilk", root, root) + 2.0 * np.eye(P)[..., None]
    gap = rng.normal(size=(n_outputs, P, 2)) * np.geomspace(0.02, 0.3, n_outputs)[:, None, None]
    error = np.einsum("kij,klj->ilk", gap, gap)
    sizes = np.linspace(0.5, 2.0, n_outputs)
    return Normal.joint(rng.normal(size=(P, n_outputs)), cov, slack=error, radius=sizes)


def output(of: Normal, k: int) -> Normal:
    """The law of one output."""
    assert of.cov is not None
    assert of.slack is not None
    assert of.radius is not None
    one = slice(k, k + 1)
    return Normal.joint(
        of.mean[:, one], of.cov[..., one], slack=of.slack[..., one], radius=of.radius[one]
    )


P_LAW, Q_LAW, Y = law(3, RNG), law(3, RNG), RNG.normal(size=(P, 3))


def test_divergences_add_up() -> None:
    each = [kl_bounds_per_point(output(P_LAW, k), output(Q_LAW, k)) for k in range(3)]
    total = np.mean(each, axis=0)
    assert kl_bounds_per_point(P_LAW, Q_LAW) == pytest.approx(total, rel=1e-12)
    each = [kl_per_point(output(P_LAW, k), output(Q_LAW, k)) for k in range(3)]
    assert kl_per_point(P_LAW, Q_LAW) == pytest.approx(np.mean(each), rel=1e-12)


def test_laws_of_single_points_have_the_mean_of_their_bounds() -> None:
    """As diagonal covariances, whose points are compared one by one."""
    p, q = (Normal(one.mean, one.std, slack=one.slack, radius=one.radius)
            for one in (P_LAW, Q_LAW))  # fmt: skip
    each = [
        kl_bounds_per_point(P_LAW.take(np.array([i])), Q_LAW.take(np.array([i]))) for i in range(P)
    ]
    assert kl_bounds_per_point(p, q) == pytest.approx(np.mean(each, axis=0), rel=1e-9)
    assert kl_per_point(p, q) == pytest.approx(
        np.mean([kl_per_point(P_LAW.take(np.array([i])), Q_LAW.take(np.array([i])))
                 for i in range(P)])
    )  # fmt: skip


@pytest.mark.parametrize("name", ["mae", "nlpd", "nlpd_joint", "crps"])
def test_bounds_of_scores_are_means_of_outputs(name: str) -> None:
    alone = [bounds_of(SCORES[name], output(P_LAW, k), Y[:, k : k + 1]) for k in range(3)]
    found = bounds_of(SCORES[name], P_LAW, Y)
    assert found == pytest.approx(np.mean(alone, axis=0), rel=1e-9)
    assert np.ptp(alone, axis=0).max() > 0


@pytest.mark.parametrize("name", ["rmse", "mae", "nlpd", "crps", "sharpness"])
def test_bounds_hold_for_every_law_between_and_are_reached(name: str) -> None:
    """Of one point, over means within the error and deviations within their range."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        mean, y, std = 0.8 * rng.normal(), rng.normal(), rng.uniform(0.1, 2.0)
        least, error = std * rng.uniform(0.3, 1.0), 0.3 * rng.uniform()
        slack = std**2 - least**2
        own = Normal.joint(
            np.full((1, 1), mean), np.full((1, 1, 1), std**2), slack=np.full((1, 1, 1), slack),
            radius=np.array([error / np.sqrt(slack)]),
        )  # fmt: skip
        score, target = SCORES[name], np.full((1, 1), y)
        value = value_of(score, score.losses(own, target))
        below, above = bounds_of(score, own, target)
        means = np.linspace(mean - error, mean + error, 41)
        values = [
            value_of(score, score.losses(Normal(np.full((1, 1), m), np.full((1, 1), s)), target))
            for m in means for s in np.linspace(least, std, 41)
        ]  # fmt: skip
        assert value - below - 1e-9 <= min(values)
        assert max(values) <= value + above + 1e-9
        if name != "nlpd":  # each of whose terms is at its extreme
            assert max(values) - min(values) >= 0.9 * (below + above)


VALUES = np.array([0.5, 0.8, 1.3, 4.0])
ERROR = 1e-3


class Known:
    """Products with a diagonal matrix B, of which it is said that they are off by `ERROR`."""

    floor, tolerance = 0.25, 1e-3

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def product(self, V: np.ndarray) -> np.ndarray:
        return self.values[:, None] * V

    def product_error(self, V: np.ndarray) -> float:
        return ERROR

    def report(self, message: str) -> None:
        pass


def found(values: np.ndarray, n_probes: int = 6) -> tuple[Any, ...]:
    p = len(values)
    others = np.eye(p)[:, :2]
    rng = np.random.default_rng(1)
    return divergences(Known(values), np.zeros(p), others, n_probes, rng)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [VALUES, np.array([0.9, 1.0, 1.1, 1.2])])
def test_what_the_solver_leaves_is_the_slope_times_the_error(values: np.ndarray) -> None:
    """All four steps are made, so that the quadrature is exact and its gap is rounding.

    Half of `x - 1 - log x` has the slope `(1 - 1/x) / 2`, half of `1/x - 1 + log x` that of
    `(1/x - 1/x^2) / 2`, which is at most half of `max(1 / x^2, 1 / x)` in size.
    """
    forward, backward, logdet, _ = found(values)
    scale = 0.5 * ERROR * np.sqrt(4)
    least, largest = values[0], values[-1]
    steep = max(abs(1 - 1 / least), abs(1 - 1 / largest)) * scale
    assert forward[2:] == pytest.approx((steep, steep), rel=1e-6)
    steep = max(1 / least**2, 1 / largest) * scale
    assert backward[2:] == pytest.approx((steep, steep), rel=1e-6)
    assert logdet[2:] == pytest.approx((2 * scale / least,) * 2, rel=1e-6)


def test_an_inverse_form_is_off_by_its_own_size_over_the_least_eigenvalue() -> None:
    *_, forms = found(VALUES)
    for form, value in zip(forms, VALUES, strict=False):
        assert form.value == pytest.approx(1 / value / 4)
        share = ERROR * np.sqrt(4) / VALUES[0]
        assert form.below == pytest.approx(share * form.value, rel=1e-6)
        assert form.above == pytest.approx(share * form.value, rel=1e-6)


def test_each_gap_is_on_its_own_side() -> None:
    """The Gauss rule takes the logarithm too large and the inverse too small."""
    values = np.geomspace(0.3, 40, 400)
    p, n_probes = 400, 5
    forward, backward, logdet, _ = found(values, n_probes)
    probes = np.random.default_rng(1).choice([-1.0, 1.0], (p, n_probes))
    full = Lanczos(Known(values).product, np.column_stack([probes, np.zeros(p), np.eye(p)[:, :2]]))
    steps = 0
    while True:  # the steps that `divergences` makes, to know its gaps
        full.step()
        steps += 1
        forms = quadratic_forms(full, 0.5 * Known.floor)
        terms = ProbeTerms.of(forms, p, n_probes)
        if terms.excess() <= 1 or steps >= 100:
            break
    assert terms.forward_gap > 1e-9
    assert forward.above - forward.below == pytest.approx(terms.forward_gap, rel=1e-6)
    assert logdet.below - logdet.above == pytest.approx(2 * terms.forward_gap, rel=1e-6)
    assert backward.below - backward.above == pytest.approx(
        terms.forward_gap - terms.backward_gap, rel=1e-6
    )


@pytest.mark.parametrize("worst", [0, 1])
def test_the_error_of_products_is_that_of_the_worst_column(worst: int) -> None:
    relative = object.__new__(RelativeCovariance)
    relative.tolerance = 1e-2
    sizes = np.where(np.arange(2) == worst, 3.0, 1.0)

    def product(V: np.ndarray, tolerance: float) -> np.ndarray:
        return V + (tolerance == 1e-2) * sizes * V

    relative._product = product  # type: ignore[method-assign]
    assert relative.product_error(np.random.default_rng(0).normal(size=(5, 2))) == pytest.approx(3)


def laws(seed, p=6):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p, 1))
    cov = np.einsum("ijk,ljk->ilk", root, root)
    return Functions(rng.normal(size=(p, 1)), cov, Gaussian(0.7))


def test_normal_observations_have_the_divergence_of_their_joint_laws():
    p, q = laws(0), laws(1)
    found = latent_distance(p, q)
    noise = 0.7 * np.eye(6)
    expected = gaussian_kl(p.mean[:, 0], p.cov[..., 0] + noise, q.mean[:, 0], q.cov[..., 0] + noise)
    assert found["kl"] == pytest.approx(expected / 6)
    single = [
        gaussian_kl(p.mean[i], p.cov[i, i : i + 1], q.mean[i], q.cov[i, i : i + 1])
        for i in range(6)
    ]
    assert found["marginal_kl"] == pytest.approx(np.mean(single))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Probit(), Poisson(), NegativeBinomial(1.0)])
def test_the_curvature_is_the_mean_fisher_information(likelihood):
    """`E (d log p / d f)^2`, which is the mean of the curvature, by draws of another seed."""
    mean, variance = np.full((40, 1), 0.4), np.full((40, 1), 0.3)
    rng = np.random.default_rng(1)
    f = 0.4 + np.sqrt(0.3) * rng.standard_normal(200_000)
    squares = np.square(likelihood.slope(likelihood.draw(f, rng), f))
    error = squares.std() / np.sqrt(len(f))
    found = mean_curvature(likelihood, mean, variance).mean()
    assert abs(found - squares.mean()) < 5 * error


def test_the_curvature_of_a_logit_is_its_integral():
    def integrand(f):
        chance = 1 / (1 + np.exp(-f))
        return chance * (1 - chance) * stats.norm.pdf(f, 0.4, np.sqrt(0.3))

    expected, _ = integrate.quad(integrand, -8, 8)
    found = mean_curvature(Bernoulli(), np.array([[0.4]]), np.array([[0.3]]))
    assert found[0, 0] == pytest.approx(expected, rel=1e-9)


def test_the_curvature_of_a_heavy_tail_is_by_draws():
    """The information `(nu + 1) / ((nu + 3) s^2)` of the place of Student's law, nu = 4, s = .5."""
    found = mean_curvature(StudentT(0.5, 4.0), np.zeros((9, 1)), np.ones((9, 1))).mean()
    assert found == pytest.approx(5 / (7 * 0.25), rel=0.05)


def test_counts_of_a_negative_binomial_have_less_curvature_than_poisson():
    mean, variance = np.full((1, 1), 1.0), np.full((1, 1), 0.01)
    poisson, wider = (
        mean_curvature(one, mean, variance)[0, 0] for one in (Poisson(), NegativeBinomial(1.0))
    )
    # mu and mu / (1 + mu) at mu = e.
    assert poisson == pytest.approx(np.exp(1.005), rel=1e-9)
    assert wider == pytest.approx(np.e / (1 + np.e), rel=2e-2)


def latent_models() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 2))
    f = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1]
    labels = np.where(f + rng.logistic(size=120) > 0, "up", "down")
    return {
        "labels": (cgp.GPClassifier("gaussian + constant", random_state=0), X, labels),
        "counts": (
            cgp.GPRegressor(kernel="gaussian", likelihood="poisson", random_state=0), X,
            rng.poisson(np.exp(0.5 * f)).astype(float),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["labels", "counts"])
def test_a_model_of_its_own_kernel_is_no_distance_from_the_exact_posterior(name: str) -> None:
    model, X, y = latent_models()[name]
    model.fit(X[:80], y[:80])
    functions = Functions.of(model.process_, X[80:])
    own, how = exact_functions(model.process_, X[80:])
    assert how == "sites of its own"
    assert latent_distance(own, functions)["kl"] == pytest.approx(0, abs=1e-9)
    options = StochasticOptions(tolerance=1e-6, dtype="float64", rank=40)
    solved, how = exact_functions(model.process_, X[80:], options)
    assert how.endswith("by iterative solves")
    np.testing.assert_allclose(solved.mean, functions.mean, atol=1e-3)
    np.testing.assert_allclose(solved.cov, functions.cov, atol=1e-3)
