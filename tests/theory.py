"""Closed forms of MATH section 3, by routes of their own, and the z-tests that use them.

An estimator is `(c / m) sum_i g(w_i)`, `g(w) = exp(w . v)`, `v = x + y` for Laplace features
(`c = exp(-|x|^2 - |y|^2)`) and `g(w) = cos(w . z)`, `z = x - y` for Fourier features. Its mean
squared error needs `E[g(w_i) g(w_j)]` of every pair. Given the two norms, the mean over an
isotropic pair of directions is a Bessel function `0F1(; d/2; +- t^2 W^2 / 4)`, `t` being `|v|` or
`|z|`; what remains is an integral over one or two norms.

Integrals over norms run over the norm itself, not over `u`, where the integrands are smooth: by
composite Gauss-Legendre rules, on `chi_d` only.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from scipy import special, stats

SIGN = {"laplace": 1.0, "fourier": -1.0}


@dataclass(frozen=True)
class Ensemble:
    """A frequency coupling as the theory sees it.

    `directions` in iid, orthogonal, simplex; `norms` in independent, pnc, monotone, stratified.
    """

    directions: str = "iid"
    norms: str = "independent"
    antithetic: bool = False

    @classmethod
    def parse(cls, text: str) -> "Ensemble":
        head, *rest = text.split("+")
        norms = [part for part in rest if part != "antithetic"]
        return cls(head, norms[0] if norms else "independent", "antithetic" in rest)


def kernel_scale(features: str, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """`(c, t)` of the estimator at two inputs."""
    if features == "fourier":
        return 1.0, float(np.linalg.norm(x - y))
    return float(np.exp(-x @ x - y @ y)), float(np.linalg.norm(x + y))


def mse(features: str, ensemble: Ensemble, m: int, dim: int, x: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error of the estimate of the Gaussian kernel `k(x, y)` by m frequencies."""
    c, t = kernel_scale(features, x, y)
    return c**2 * unit_mse(features, ensemble, m, dim, t)


@cache
def unit_mse(features: str, ensemble: Ensemble, m: int, dim: int, t: float) -> float:
    """The same without the factor `c^2`, which depends on `t` only."""
    sign = SIGN[features]
    n_drawn = -(-m // 2) if ensemble.antithetic else m
    # Frequency i of the estimator is +- the one drawn as number base[i].
    base = np.concatenate([np.arange(n_drawn), np.arange(m - n_drawn)])
    negated = np.arange(m) >= n_drawn
    total = 0.0
    for i in range(m):
        for j in range(m):
            if base[i] != base[j]:
                opposite = bool(negated[i] != negated[j])
                total += _pair(sign, ensemble, n_drawn, dim, t, base[i], base[j], opposite)
            elif features == "fourier":
                total += (1 + np.exp(-2 * t**2)) / 2
            else:
                total += 1.0 if negated[i] != negated[j] else np.exp(2 * t**2)
    return total / m**2 - np.exp(sign * t**2)


def _pair(
    sign: float, e: Ensemble, n: int, dim: int, t: float, i: int, j: int, opposite: bool
) -> float:
    """`E[g(w_i) g(w_j)]` of two of the n frequencies drawn, the second one negated if opposite."""
    same_block = i // dim == j // dim
    partners = same_block and i % dim // 2 == j % dim // 2
    norms = {
        "independent": "independent",
        "pnc": "mirrored" if partners else "independent",
        "monotone": "equal" if same_block else "independent",
        "stratified": "strata",
    }[e.norms]
    directions = e.directions if same_block else "iid"
    return pair_moment(sign, directions, norms, n, dim, t, opposite)


@cache
def pair_moment(
    sign: float, directions: str, norms: str, n: int, dim: int, t: float, opposite: bool = False
) -> float:
    """`E[g(w_1) g(+-w_2)]` for one relation of directions and one of norms."""

    def bessel(square: np.ndarray) -> np.ndarray:
        return special.hyp0f1(dim / 2, sign * t**2 * square / 4)

    def given(r1: np.ndarray, r2: np.ndarray) -> np.ndarray:
        if directions == "iid":
            return bessel(r1**2) * bessel(r2**2)
        cosine = 0.0 if directions == "orthogonal" else -1 / (dim - 1)
        both = r1**2 + r2**2
        cross = 2 * r1 * r2 * cosine * (-1 if opposite else 1)
        if sign > 0:
            return bessel(both + cross)
        # cos a cos b = (cos(a + b) + cos(a - b)) / 2
        return (bessel(both + cross) + bessel(both - cross)) / 2

    r, weight = norm_rule(dim)
    if norms == "equal":
        return float(weight @ given(r, r))
    if norms == "mirrored":
        # Over the upper half: there the mirrored norm is a smooth function of the norm.
        median = float(stats.chi.ppf(0.5, dim))
        r, weight = norm_rule(dim, (median, np.inf))
        return 2 * float(weight @ given(r, stats.chi.ppf(stats.chi.sf(r, dim), dim)))
    whole = float(weight @ given(r[:, None], r) @ weight)
    if norms == "independent":
        return whole
    # One frequency in each of n strata: the pair avoids equal strata, and is otherwise free.
    edges = stats.chi.ppf(np.arange(n + 1) / n, dim)
    within = 0.0
    for stratum in pairwise(edges):
        r, weight = norm_rule(dim, stratum)
        within += float(weight @ given(r[:, None], r) @ weight)
    return (whole - within) * n / (n - 1)


@cache
def norm_rule(
    dim: int, interval: tuple[float, float] = (0.0, np.inf)
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of integrals against the density of `chi_d` over an interval."""
    lower, upper = interval
    upper = min(upper, np.sqrt(dim) + 14.0)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(lower, upper, 2 + int(upper - lower))
    half = np.diff(edges)[:, None] / 2
    r = (edges[:-1, None] + half * (1 + nodes)).ravel()
    return r, (half * weights).ravel() * stats.chi.pdf(r, dim)


def orthogonal_moment(sign: float, dim: int, t: float) -> float:
    """`rho` (sign 1) or `zeta` (sign -1) of orthogonal frequencies with independent norms.

    `Gamma(d/2) / Gamma(d) sum_k (+-t^2/2)^k Gamma(k+d) / (k! Gamma(k+d/2))`.
    """
    k = np.arange(200)
    logs = special.gammaln(k + dim) - special.gammaln(k + 1) - special.gammaln(k + dim / 2)
    terms = (sign * t**2 / 2) ** k * np.exp(logs)
    return float(np.exp(special.gammaln(dim / 2) - special.gammaln(dim)) * terms.sum())


def z_score(samples: np.ndarray, expected: np.ndarray | float) -> np.ndarray:
    """How many standard errors the mean over the first axis is from what is expected."""
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    difference = samples.mean(axis=0) - expected
    # Samples that are all equal have no error to measure by: rounding is all that is allowed.
    error = np.maximum(error, 1e-14 * np.maximum(1.0, np.abs(expected)))
    return difference / error


# Probability 6e-7 for a normal mean; the whole suite makes about a thousand such tests.
MAX_Z = 5.0


def assert_mean(samples: np.ndarray, expected: np.ndarray | float) -> None:
    """The mean over the first axis is what is expected, to within its standard error."""
    z = z_score(samples, expected)
    worst = float(np.max(np.abs(z)))
    assert worst < MAX_Z, f"mean is {worst:.1f} standard errors from {expected}"
