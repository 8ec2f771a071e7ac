"""Expected errors of kernel estimates, in closed form or by quadrature (MATH section 3).

An estimate of the Gaussian kernel by m frequencies is `(c/m) sum_i g(w_i)`. Laplace features have
`g(w) = exp(w . v)`, `v = x + y`, `c = exp(-|x|^2 - |y|^2)`; Fourier features `g(w) = cos(w . z)`,
`z = x - y`, `c = 1`. With `t = |v|` or `|z|`, the mean squared error needs `E[g(w_i) g(w_j)]` for
every pair. Given the norms, the mean over the rotation that the pair shares is a Bessel function,
`0F1(; d/2; +-t^2 W^2 / 4)`, `W = |w_i + w_j|`; an integral over one or two norms remains.

These integrals are taken by composite Gauss-Legendre rules over the norm itself, where the
integrands are smooth, and not over its uniform `u`. Couplings without such a form (simplex-plus,
copula, quasi-Monte Carlo) are refused; `simulation` takes them. Fast directions are treated as Haar
rotations in d rounded up to a power of two dimensions, which is exact up to eight dimensions.

Reid et al., "Simplex random features" (2023), sections 2 and 3; "Variance-reducing couplings for
random features" (2024), section 3.

Least errors of kernel estimates over all joint laws of the norms.

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

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.interpolate import CubicSpline

from coupledgp.couplings import (
    CouplingLike,
    DirectionsAndNorms,
    FastDirections,
    FrequencyCoupling,
    IidDirections,
    IndependentNorms,
    MonotoneNorms,
    OrthogonalDirections,
    PairwiseNorms,
    SharedStrataNorms,
    SimplexDirections,
    StratifiedNorms,
    parse_coupling,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features.registry import FeaturesLike, features_class
from coupledgp.ground.validation import check_magnitude, check_positive_int, check_vector, wrong
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum

_DIRECTIONS = {
    IidDirections: "iid",
    OrthogonalDirections: "orthogonal",
    SimplexDirections: "simplex",
}
_NORMS = {
    IndependentNorms: "independent",
    PairwiseNorms: "pnc",
    MonotoneNorms: "monotone",
    StratifiedNorms: "stratified",
    SharedStrataNorms: "shared-strata",
}
# Largest input of positive features, in lengthscales: their error has left the range of numbers
# long before, and series for it take ever longer.
FARTHEST = 1e4
_CHI = GaussianSpectrum()
# Most dimensions in which SciPy's 0F1(; d/2; -x) has a value: beyond them its gamma function has
# none.
MOST_BESSEL = 128


def expected_mse(
    features: FeaturesLike, coupling: CouplingLike, n_frequencies: int, x: ArrayLike, y: ArrayLike
) -> float:
    """Mean squared error of the estimate of the Gaussian kernel `k(x, y)`.

    Parameters
    ----------
    features
        `"fourier"`, `"laplace"`, or others whose class has a `product_sign` of their kind.
    coupling
        Joint law of the frequencies: iid, orthogonal or simplex directions (also fast) with
        independent, pnc, monotone, stratified or shared-strata norms, antithetic or not.
    n_frequencies
        Number of frequencies m.
    x, y
        Inputs (d,), divided by the lengthscales.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or no closed form is known for the coupling.
    NumericalError
        The error is beyond the range of numbers.

    Examples
    --------
    >>> from coupledgp.theory import expected_mse
    >>> x, y = [0.4, -0.1, 0.3], [0.0, 0.2, -0.5]
    >>> alone, coupled = (expected_mse("fourier", c, 3, x, y) for c in ("iid", "orthogonal"))
    >>> round(coupled / alone, 2)
    0.52
    """
    sign = _sign_of(features)
    first, second = check_pair(x, y)
    if sign > 0:
        for name, values in (("x", first), ("y", second)):
            check_magnitude(values, name, FARTHEST)
    factor, argument = reduced(sign, first, second)
    t = float(np.linalg.norm(argument))
    with np.errstate(over="ignore", invalid="ignore"):
        found = factor * distance_mse(features, coupling, n_frequencies, first.size, t)
    if not np.isfinite(found):
        raise NumericalError(
            "x, y: the error is beyond the range of numbers, since that of positive features grows "
            f"with the exponential of |x + y|^2 = {t**2:g}; expected inputs nearer to zero"
        )
    return found


def check_pair(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return two finite inputs (d,) of one dimension."""
    first, second = check_vector(x, "x"), check_vector(y, "y")
    check_magnitude(first, "x")
    check_magnitude(second, "y")
    if first.shape != second.shape:
        raise wrong("y", f"shape {first.shape} as x", second.shape)
    return first, second


def check_distance(t: float) -> float:
    """Return a length `|x - y|` or `|x + y|`, which is finite and not negative."""
    if not (np.isfinite(t) and t >= 0):
        raise wrong("t", "a finite number >= 0", t)
    return float(t)


def reduced(sign: float, x: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return `c^2`, and the vector (d,) whose products with frequencies the estimate depends on."""
    if sign < 0:
        return 1.0, x - y
    return float(np.exp(-2 * x @ x - 2 * y @ y)), x + y


def has_closed_form(features: FeaturesLike, coupling: CouplingLike) -> bool:
    """Whether `expected_mse` knows the error of the features under the coupling.

    Raises
    ------
    InvalidInputError
        A text names no features or no coupling.

    Examples
    --------
    >>> from coupledgp.theory import has_closed_form
    >>> has_closed_form("fourier", "orthogonal+pnc"), has_closed_form("fourier", "halton")
    (True, False)
    """
    parsed = parse_coupling(coupling)
    known = features_class(features).product_sign is not None
    return known and _parts(parsed) is not None


def distance_mse(
    features: FeaturesLike, coupling: CouplingLike, n_frequencies: int, dim: int, t: float
) -> float:
    """Mean squared error divided by `c^2`, which depends on the inputs through `t` alone.

    Parameters
    ----------
    features, coupling, n_frequencies
        As in `expected_mse`.
    dim
        Input dimension d.
    t
        `|x - y|` for Fourier features, where `c = 1`; `|x + y|` for Laplace features, where
        `c^2 = exp(-2 |x|^2 - 2 |y|^2)`.

    Examples
    --------
    >>> import math
    >>> from coupledgp.theory import distance_mse
    >>> alone = distance_mse("fourier", "iid", 8, dim=8, t=1.0)
    >>> math.isclose(alone, (1 - math.exp(-1)) ** 2 / 16)  # (1 - exp(-t^2))^2 / (2 m)
    True
    >>> distance_mse("fourier", "orthogonal+pnc", 8, dim=8, t=1.0) < alone
    True
    """
    sign = _sign_of(features)
    m = check_positive_int(n_frequencies, "n_frequencies")
    ensemble = _Ensemble.of(coupling, m, dim)
    same = (1 + np.exp(-2 * t**2)) / 2 if sign < 0 else np.exp(2 * t**2)
    opposite = same if sign < 0 else 1.0
    total = m * same + 2 * (m - ensemble.n_drawn) * opposite
    for pair, count in ensemble.pairs().items():
        total += count * pair.moment(sign, ensemble.dim, t)
    return float(total / m**2 - np.exp(sign * t**2))


def _sign_of(features: FeaturesLike) -> float:
    """1 for products `exp(w . (x + y))` of features, -1 for `cos(w . (x - y))`."""
    sign = features_class(features).product_sign
    if sign is None:
        raise InvalidInputError(
            "features: expected features whose errors have a closed form, 'fourier' or 'laplace', "
            f"got {features!r}; simulated_mse simulates the others"
        )
    return float(sign)


@dataclass(frozen=True)
class _Pair:
    """Relation of two frequencies: between their directions, their norms and their signs."""

    directions: str
    norms: str
    opposite: bool = False
    n_strata: int = 0

    def moment(self, sign: float, dim: int, t: float) -> float:
        """`E[g(w_1) g(w_2)]`; `sign` is 1 for exponentials and -1 for cosines."""
        return _moment(self, sign, dim, float(t))


@dataclass(frozen=True)
class _Ensemble:
    """A coupling of m frequencies: `n_drawn` in blocks of `dim`, and their negatives."""

    directions: str
    norms: str
    n_frequencies: int
    n_drawn: int
    dim: int

    @classmethod
    def of(cls, coupling: CouplingLike, m: int, dim: int) -> _Ensemble:
        parsed = parse_coupling(coupling)
        check_positive_int(dim, "dim")
        parts = _parts(parsed)
        if parts is None or not isinstance(parsed, DirectionsAndNorms):
            raise InvalidInputError(
                "coupling: expected directions iid, orthogonal or simplex (or fast) with norms "
                f"{', '.join(_NORMS.values())}, whose errors have a closed form, got {parsed}; "
                "simulated_mse simulates the others"
            )
        ambient = parsed.directions.ambient_dim(dim)
        return cls(*parts, m, parsed.n_drawn(m), ambient)

    def pairs(self) -> Counter[_Pair]:
        """Number of ordered pairs in each relation, without pairs made of one drawn frequency."""
        m, n = self.n_frequencies, self.n_drawn
        base = np.concatenate([np.arange(n), np.arange(m - n)])
        negated = np.arange(m) >= n
        distinct = base[:, None] != base
        block = base // self.dim
        same_block = distinct & (block[:, None] == block)
        pair = base % self.dim // 2
        partners = same_block & (pair[:, None] == pair)
        opposite = negated[:, None] != negated
        counts: Counter[_Pair] = Counter()
        for sign in (False, True):
            of_sign = distinct & (opposite == sign)
            for where, relation in (
                (of_sign & ~same_block, self._relation(False, False, sign)),
                (of_sign & same_block & ~partners, self._relation(True, False, sign)),
                (of_sign & partners, self._relation(True, True, sign)),
            ):
                counts[relation] += int(where.sum())
        return +counts

    def _relation(self, same_block: bool, partners: bool, opposite: bool) -> _Pair:
        norms = {
            "independent": "independent",
            "pnc": "mirrored" if partners else "independent",
            "monotone": "equal" if same_block else "independent",
            "stratified": "strata",
            "shared-strata": "equal" if same_block else "strata",
        }[self.norms]
        directions = self.directions if same_block else "iid"
        drawn = self.n_drawn if self.norms == "stratified" else -(-self.n_drawn // self.dim)
        n_strata = drawn if norms == "strata" else 0
        # The sign of one frequency changes the angle between two corners of a simplex only.
        return _Pair(directions, norms, opposite and directions == "simplex", n_strata)


def _parts(coupling: FrequencyCoupling) -> tuple[str, str] | None:
    """Laws of directions and of norms by the names of `_Pair`; None without a closed form."""
    if not isinstance(coupling, DirectionsAndNorms):
        return None
    norms = _NORMS.get(type(coupling.norms))
    directions = _DIRECTIONS.get(type(coupling.directions))
    if isinstance(coupling.directions, FastDirections):
        directions = "simplex" if coupling.directions.simplex else "orthogonal"
    return None if directions is None or norms is None else (directions, norms)


@lru_cache(maxsize=4096)  # couplings that are compared at one t share most relations
def _moment(pair: _Pair, sign: float, dim: int, t: float) -> float:
    """`E[g(w_1) g(w_2)]` by quadrature over the norms."""
    r, weight = norm_rule(dim)
    if pair.norms == "equal":
        return float(weight @ _given_norms(pair, sign, dim, t, r, r))
    if pair.norms == "mirrored":
        # The integral runs over the upper half, where the mirrored norm is smooth in the norm.
        r, weight = norm_rule(dim, (float(_CHI.norm_ppf(0.5, dim)), np.inf))
        upper = special.gammaincc(dim / 2, r**2 / 2)
        mirrored = _CHI.norm_ppf(upper, dim)
        return 2 * float(weight @ _given_norms(pair, sign, dim, t, r, mirrored))
    whole = float(weight @ _given_norms(pair, sign, dim, t, r[:, None], r) @ weight)
    if pair.norms == "independent":
        return whole
    # With one frequency in each of n strata, the two strata of a pair differ and are otherwise
    # independent: the mean over all pairs of strata, less the pairs of equal ones.
    n = pair.n_strata
    within = 0.0
    for stratum in pairwise(_CHI.norm_ppf(np.arange(n + 1) / n, dim)):
        r, weight = norm_rule(dim, stratum)
        within += float(weight @ _given_norms(pair, sign, dim, t, r[:, None], r) @ weight)
    return (whole - within) * n / (n - 1)


def _given_norms(
    pair: _Pair, sign: float, dim: int, t: float, r1: FloatArray, r2: FloatArray
) -> FloatArray:
    """`E[g(w_1) g(w_2)]` given both norms, arrays of any shapes that broadcast."""

    def bessel(square: FloatArray) -> FloatArray:
        if dim == 2 and sign > 0:
            # 0F1(1, x^2 / 4); beyond the range of numbers `hyp0f1` divides by zero and says so
            # on stderr at every node.
            return special.i0(t * np.sqrt(np.maximum(square, 0.0)))
        if dim > MOST_BESSEL and sign < 0:
            return _cosine_mean(dim, t * np.sqrt(np.maximum(square, 0.0)))
        return special.hyp0f1(dim / 2, sign * t**2 * square / 4)

    if pair.directions == "iid" or dim == 1:
        return bessel(r1**2) * bessel(r2**2)
    cosine = -1 / (dim - 1) if pair.directions == "simplex" else 0.0
    both = r1**2 + r2**2
    cross = (-2 if pair.opposite else 2) * r1 * r2 * cosine
    if sign > 0:
        return bessel(both + cross)
    # cos a cos b = (cos(a + b) + cos(a - b)) / 2
    return (bessel(both + cross) + bessel(both - cross)) / 2


def _cosine_mean(dim: int, lengths: FloatArray) -> FloatArray:
    """Mean of `cos(l u)` over the first entry u of a random unit vector, for many dimensions."""
    # u is nearly N(0, 1/d), and beyond nine standard deviations there is nothing left of it.
    limit = min(1.0, 9.0 / np.sqrt(dim))
    nodes, weights = np.polynomial.legendre.leggauss(512)
    u = limit * (1 + nodes) / 2
    weights = weights * np.exp((dim - 3) / 2 * np.log1p(-(u**2)))
    weights /= weights.sum()
    # A smooth function of one number, which a spline of 16000 pieces has to 1e-12.
    grid = np.linspace(0.0, max(float(np.max(lengths)), 1e-300), 16001)
    return CubicSpline(grid, np.cos(np.multiply.outer(grid, u)) @ weights)(lengths)


@lru_cache(maxsize=4096)
def norm_rule(
    dim: int, interval: tuple[float, float] = (0.0, np.inf)
) -> tuple[FloatArray, FloatArray]:
    """Quadrature rule for integrals against the density of `chi_d` over an interval.

    Returns
    -------
    tuple of FloatArray
        Nodes (n,) and weights (n,), which include the density.
    """
    lower = interval[0]
    # The chance of a norm beyond sqrt(d) + 14 is below 1e-40, by concentration of the norm.
    upper = min(interval[1], np.sqrt(dim) + 14.0)
    # 24 nodes on each piece, at most one unit long, are exact for polynomials of degree 47.
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(lower, upper, 2 + int(upper - lower))
    half = np.diff(edges)[:, None] / 2
    r = (edges[:-1, None] + half * (1 + nodes)).ravel()
    return r, (half * weights).ravel() * _CHI.norm_pdf(r, dim)


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
