"""Least errors of kernel estimates over all joint laws of the norms.

Directions of a block are a random rotation of fixed angles, independent of the norms, and each
norm alone is chi_d. Then the mean squared error of n frequencies is that of independent norms plus
`n^-2 sum_{i != j} E h~(r_i, r_j)`, where `h(r, s) = E[g(w_i) g(w_j) | norms r, s]` and
`h~ = h - E_r h - E_s h + E h` is its interaction. With the eigenvalues lambda_k and the
orthonormal eigenfunctions f_k of h~ under chi_d,

    sum_{i != j} E h~(r_i, r_j) = sum_k lambda_k (E (sum_i f_k(r_i))^2 - n) .

Each square has a mean from 0 to n^2, whatever the joint law, whence the floor

    MSE >= MSE_independent - [P + (n - 1) N] / n ,

P the sum of the positive eigenvalues and N that of the sizes of the negative ones.

At small distances of Fourier features one eigenvalue remains, of `f(r) = r^2 - d`: the floor says
that no law does better than to keep the sum of the squared norms constant. It is a bound and need
not be met; by how little it is missed is what `distance_mse` of pairwise norms shows.
"""

from __future__ import annotations

import numpy as np

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features.registry import FeaturesLike
from coupledgp.ground.validation import check_positive_int
from coupledgp.theory.closed_forms import (
    _Ensemble,
    _given_norms,
    _Pair,
    _sign_of,
    check_distance,
    distance_mse,
    norm_rule,
)


def norms_floor(
    features: FeaturesLike, coupling: CouplingLike, n_frequencies: int, dim: int, t: float
) -> float:
    """Bound below which no coupling of the norms brings `distance_mse`, whatever their joint law.

    It holds for norms that are chi_d each, independent of the directions, and independent between
    the blocks of d frequencies. Norms that are coupled across blocks can go below it: equal norms
    within a block leave its directions no error of second order, and blocks then cancel each
    other's.

    Parameters
    ----------
    features, n_frequencies, dim, t
        As in `distance_mse`.
    coupling
        Its directions count, orthogonal or simplex, also fast; its norms are left out.

    Returns
    -------
    float
        Least mean squared error over `c^2`, at least zero.

    Raises
    ------
    InvalidInputError
        Directions are neither orthogonal nor simplex, frequencies are antithetic, or another
        argument is invalid.
    NumericalError
        The error is beyond the range of numbers.

    Examples
    --------
    >>> from coupledgp.theory import distance_mse, norms_floor
    >>> alone = distance_mse("fourier", "orthogonal", 8, dim=8, t=1.0)
    >>> round(norms_floor("fourier", "orthogonal", 8, dim=8, t=1.0) / alone, 3)
    0.544
    """
    sign, m = _sign_of(features), check_positive_int(n_frequencies, "n_frequencies")
    ensemble = _Ensemble.of(coupling, m, dim)
    if ensemble.directions == "iid" or ensemble.n_drawn < m:
        raise InvalidInputError(
            "coupling: expected orthogonal or simplex directions, not antithetic, whose norms have "
            f"a floor, got {coupling}"
        )
    t = check_distance(t)
    d, directions = ensemble.dim, ensemble.directions
    above, below = _interaction(directions, sign, d, t)
    found = 0.0
    for n, blocks in ((d, m // d), (m % d, 1)):
        if n == 0 or blocks == 0:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            independent = distance_mse(features, directions, n, d, t)
        least = max(0.0, independent - (above + (n - 1) * below) / n)
        found += blocks * (n / m) ** 2 * least
    if not np.isfinite(above + below + found):
        raise NumericalError(f"t: the error at {t:g} is beyond the range of numbers; expected less")
    return float(found)


def _interaction(directions: str, sign: float, dim: int, t: float) -> tuple[float, float]:
    """Sums of the positive eigenvalues of the interaction, and of the negative ones' sizes."""
    r, weight = norm_rule(dim)
    with np.errstate(over="ignore", invalid="ignore"):
        h = _given_norms(_Pair(directions, "independent"), sign, dim, t, r[:, None], r)
        means = h @ weight
        interaction = h - means - means[:, None] + weight @ means
        root = np.sqrt(weight)
        scaled = root[:, None] * interaction * root
    if not np.isfinite(scaled).all():
        return np.inf, np.inf
    eigenvalues = np.linalg.eigvalsh(scaled)
    return float(eigenvalues[eigenvalues > 0].sum()), float(-eigenvalues[eigenvalues < 0].sum())


def small_distance_coefficient(
    n_frequencies: int,
    dim: int,
    block_variance: float | None = None,
    mean_variance: float | None = None,
) -> float:
    """Coefficient a of `a t^4 / 4`, the Fourier error of orthogonal frequencies at small distances.

    Let B blocks have n frequencies each, `V_b` be the variance of the mean squared norm of one
    block and `V` that of all. The error is `-t^2/2` times the mean of `r_i^2 p_i - 1` to second
    order, where the squared cosines `p_i` of a block are Dirichlet(1/2, ..., 1/2) and independent
    of the norms. The covariance of p, given the norms, and the mean `1/d` of each p give

        a = [2 / n - 2 / (d + 2) - 2 V_b / (d^2 (d + 2))] / B + V / d^2 .

    Norms independent of each other have `V_b = 2 d / n`, and of the other blocks `V = V_b / B`.
    For n = d and one block: independent `6 / (d (d + 2))`; pairwise norms
    `(6 - 2 rho) / (d (d + 2))`, rho = -corr(r_1^2, r_2^2); least `4 / (d (d + 2))`, where
    the sum of squares is constant. The ratio of the least to independent norms is 2/3 in any d.
    With equal norms in each block of d, `V_b = 2 d` and `a = V / d^2` alone.

    Parameters
    ----------
    n_frequencies
        Number m: at most d, or a multiple of d.
    dim
        Input dimension d.
    block_variance, mean_variance
        `V_b` and `V`; None for independent norms and for independent blocks.

    Raises
    ------
    InvalidInputError
        Blocks would differ in size, or a variance is not in its range: `V_b` at most `2 d`, and
        `V` at most `V_b`.

    Examples
    --------
    >>> import math
    >>> from coupledgp.theory import small_distance_coefficient
    >>> independent = small_distance_coefficient(8, dim=8)
    >>> math.isclose(independent, 6 / (8 * 10))  # 6 / (d (d + 2))
    True
    >>> least = small_distance_coefficient(8, dim=8, block_variance=0.0)
    >>> math.isclose(least / independent, 2 / 3)
    True
    """
    m, d = check_positive_int(n_frequencies, "n_frequencies"), check_positive_int(dim, "dim")
    if m > d and m % d:
        raise InvalidInputError(f"n_frequencies: expected at most {d} or a multiple of it, got {m}")
    size, blocks = min(m, d), max(1, m // d)
    within = 2 * d / size if block_variance is None else block_variance
    _check_at_most(within, 2.0 * d, "block_variance")
    overall = within / blocks if mean_variance is None else mean_variance
    _check_at_most(overall, within, "mean_variance")
    directions = 2 / size - 2 / (d + 2) - 2 * within / (d**2 * (d + 2))
    return float(directions / blocks + overall / d**2)


def _check_at_most(value: float, limit: float, name: str) -> None:
    if not 0 <= value <= limit * (1 + 1e-12):
        raise InvalidInputError(f"{name}: expected a number from 0 to {limit:g}, got {value!r}")
