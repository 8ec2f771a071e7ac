"""Posterior of a sparse field with a few features beside it, by one sparse factorisation.

The model, in units of the amplitude, is `y = A f + B c + e` with `f ~ N(0, Q^-1)`,
`c ~ N(0, D^-1)` (zeros in D stand for a flat prior) and `e ~ N(0, N^-1)`. With `L = Q + A' N A`

    G = L^-1 A' N B,    W = N B - N A G,    H = D + B' W,    c^ = H^-1 W' y,
    f^ = L^-1 A' N (y - B c^),    C^-1 y = N (y - B c^ - A f^)

C being the covariance of y. The law of (f, c) given y is that of `f | c ~ N(f^ - G (c - c^), L^-1)`
and `c ~ N(c^, H^-1)`; `log|C| = log|L| - log|Q| - log|N| + log|H| - log|D|`.

Restricted evidence of a sparse field, with coupled features of position beside it or without.

In units of the amplitude v the covariance of the observations is

    C = A Q^-1 A' + r Phi Phi' + g R

with noise ratio g, relative noise R, and the features' ratio r. The mean is constant with a flat
prior, the amplitude is the one that maximises the restricted likelihood:

    log ev = -1/2 [ log|C| + log(1' C^-1 1) + (n - 1) (log v + 1 + log 2 pi) ],  v = y'Py / (n - 1)

with `P = C^-1 - C^-1 1 1' C^-1 / (1' C^-1 1)`. Derivatives are `-1/2 [tr(P dC) - y'P dC P y / v]`;
the traces come from entries of inverses on sparse patterns, so that a gradient costs about as much
as the value.

Evidence of a field's kernel at many noise ratios, from one eigendecomposition of its matrix.

The model is `y = m + f + e` with a constant m of flat prior, `f ~ N(0, v K)` and
`e ~ N(0, v g I)`. With `K = Q diag(w) Q'`, `a = Q'y`, `b = Q'1` and `d = w + g`

    m = sum(a b / d) / sum(b^2 / d)
    v = sum((a - m b)^2 / d) / (n - 1)
    log evidence = -1/2 [ sum log d + log sum(b^2 / d) + (n - 1) log v ]

up to a constant: the restricted likelihood at the amplitude v that maximises it. Of several
outputs, which share v in units of their own variance, the sums of squares are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from coupledgp.errors import NumericalError
from coupledgp.features import FeatureMap
from coupledgp.fields.precision import FieldPrecision, PriorPrecision, SparsePattern, as_pattern
from coupledgp.ground.tensors import torch
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.random import FloatArray, IntArray

# Columns that are solved for at once.
BLOCK_COLUMNS = 64


class PrecisionPosterior:
    """Posterior of a sparse field and of the weights of a few features, of unit amplitude.

    Parameters
    ----------
    pattern
        Pattern that holds Q and `A' A`.
    prior
        Precision Q of the field at the vertices.
    rows
        A (n, n_vertices), the weights of the vertices in each observation.
    noise
        Noise variances (n,), over the amplitude.
    columns
        B (n, q), features of each observation; the constant mean is one of these.
    penalties
        D (q,), prior precisions of their weights; zeros stand for a flat prior.

    Raises
    ------
    NumericalError
        L or H is not positive definite to rounding.
    """

    def __init__(
        self,
        pattern: SparsePattern,
        prior: PriorPrecision,
        rows: sparse.csr_array,
        noise: FloatArray,
        columns: FloatArray,
        penalties: FloatArray,
    ) -> None:
        self.pattern, self.rows = pattern, rows
        self.weights = 1 / noise
        self.columns, self.penalties = columns, penalties
        data = sparse.csr_array(rows.T @ sparse.diags_array(self.weights) @ rows)
        self.factor = BlockFactor(pattern.nodes, prior.values + pattern.values(data))
        self.spread = self._solved_columns()
        weighted = self.weights[:, None]
        self.whitened = weighted * (columns - rows @ self.spread)
        system = np.diag(penalties) + columns.T @ self.whitened
        try:
            self.root = linalg.cho_factor((system + system.T) / 2, lower=True)
        except linalg.LinAlgError:
            raise NumericalError(
                f"weights of {penalties.size} features have no positive definite precision: raise "
                "the noise, or use fewer features"
            ) from None
        log_determinant = self.factor.log_determinant - prior.log_determinant
        log_determinant -= np.log(self.weights).sum()
        log_determinant += 2 * np.log(np.diagonal(self.root[0])).sum()
        # The penalties of weights with a flat prior are left out: the restricted likelihood.
        self.log_determinant = float(log_determinant - np.log(penalties[penalties > 0]).sum())

    def _solved_columns(self) -> FloatArray:
        """G (n_vertices, q), some columns at a time."""
        found = np.empty((self.rows.shape[1], self.penalties.size))
        for start in range(0, self.penalties.size, BLOCK_COLUMNS):
            block = slice(start, start + BLOCK_COLUMNS)
            found[:, block] = self.factor.solve(self._pulled(self.columns[:, block]))
        return found

    def _pulled(self, V: FloatArray) -> FloatArray:
        """`A' N V` (n_vertices, k) of V (n, k)."""
        return np.asarray(self.rows.T @ (self.weights[:, None] * V))

    def coefficients(self, targets: FloatArray) -> FloatArray:
        """Posterior mean c^ (q, k) of the weights, for targets (n, k)."""
        return np.asarray(linalg.cho_solve(self.root, self.whitened.T @ targets))

    def field(self, targets: FloatArray, coefficients: FloatArray) -> FloatArray:
        """Posterior mean f^ (n_vertices, k) of the field."""
        return self.factor.solve(self._pulled(targets - self.columns @ coefficients))

    def residuals(
        self, targets: FloatArray, coefficients: FloatArray, field: FloatArray
    ) -> FloatArray:
        """`C^-1 y` (n, k)."""
        rest = targets - self.columns @ coefficients - self.rows @ field
        return np.asarray(self.weights[:, None] * rest)

    @cached_property
    def lower(self) -> FloatArray:
        """Entries (e,) of `L^-1` in the lower triangle of the pattern."""
        return self.factor.selected()[0]

    @cached_property
    def entries(self) -> sparse.csr_array:
        """Entries of `L^-1` on the pattern."""
        return self.factor.on_pattern(self.lower)

    def field_variances(self, rows: sparse.csr_array) -> FloatArray:
        """`diag(T L^-1 T')` (p,) for rows T (p, n_vertices), by entries on the pattern.

        Rows with pairs of vertices outside of the pattern take a solve each.
        """
        ones = as_pattern(rows)
        pairs = np.asarray(ones.multiply(ones @ self.pattern.matrix).sum(axis=1)).ravel()
        found = np.asarray(rows.multiply(rows @ self.entries).sum(axis=1)).ravel()
        outside = np.flatnonzero(pairs < np.diff(rows.indptr).astype(float) ** 2)
        for start in range(0, outside.size, BLOCK_COLUMNS):
            chosen = outside[start : start + BLOCK_COLUMNS]
            found[chosen] = self.field_covariance(rows[chosen]).diagonal()
        return found

    def field_covariance(self, rows: sparse.csr_array) -> FloatArray:
        """`T L^-1 T'` (p, p) for rows T (p, n_vertices), by a solve for each row."""
        found = np.empty((rows.shape[0], rows.shape[0]))
        for start in range(0, rows.shape[0], BLOCK_COLUMNS):
            block = slice(start, start + BLOCK_COLUMNS)
            found[:, block] = rows @ self.factor.solve(rows[block].T.toarray())
        return 0.5 * (found + found.T)

    def gap_root(self, rows: sparse.csr_array, columns: FloatArray) -> FloatArray:
        """E (p, q) with `E E'` the covariance that unknown weights add at rows T and columns B.

        `E = (B - T G) R^-T` with `H = R R'`.
        """
        gaps = columns - rows @ self.spread
        return np.asarray(linalg.solve_triangular(self.root[0], gaps.T, lower=True).T)

    def sample_weights(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (q, n_samples) of `c - c^`."""
        white = rng.standard_normal((self.penalties.size, n_samples))
        return np.asarray(linalg.solve_triangular(self.root[0], white, lower=True, trans="T"))

    def sample_field(
        self, prior_noise: FloatArray, weights: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (n_vertices, n_samples) of `f - f^`, given draws `c - c^` of the weights.

        Parameters
        ----------
        prior_noise
            Draws (n_vertices, n_samples) of covariance Q.
        weights
            Draws (q, n_samples).
        rng
            Source of the rest.
        """
        white = rng.standard_normal((self.weights.size, weights.shape[1]))
        noise = prior_noise + self.rows.T @ (np.sqrt(self.weights)[:, None] * white)
        return self.factor.solve(np.asarray(noise)) - self.spread @ weights

    @cached_property
    def _half(self) -> FloatArray:
        """`R^-1 W'` (q, n) with `H = R R'`."""
        return np.asarray(linalg.solve_triangular(self.root[0], self.whitened.T, lower=True))

    def inverse_diagonal(self, rows: IntArray) -> FloatArray:
        """Diagonal entries of `C^-1` of observations (m,)."""
        inner = np.square(self.weights[rows]) * self.field_variances(self.rows[rows])
        entries: FloatArray = (
            self.weights[rows] - inner - np.square(self._half[:, rows]).sum(axis=0)
        )
        return entries

    def inverse_blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        """Blocks `(C^-1)_GG` of groups of observations.

        Observations of a group that share a place take entries on the pattern; others solves.
        """
        for group in groups:
            weight = self.weights[group]
            if self._are_alike(group):
                single = self.field_variances(self.rows[group[:1]])[0]
                inner = np.full((group.size, group.size), single)
            else:
                inner = self.field_covariance(self.rows[group])
            block = np.diag(weight) - weight[:, None] * inner * weight
            half = self._half[:, group]
            yield block - half.T @ half

    def _are_alike(self, group: IntArray) -> bool:
        """Whether observations are at the same place."""
        gap = self.rows[group[1:]] - self.rows[np.full(group.size - 1, group[0])]
        return bool(abs(gap).sum() == 0)


@dataclass(frozen=True, eq=False)
class PositionFeatures:
    """Fourier features of positions, at any lengthscale.

    Attributes
    ----------
    feature_map : FeatureMap
        Features of unit lengthscale: sines, then cosines.
    phases : FloatArray (n, m)
        Products of frequencies and centred positions.
    """

    feature_map: FeatureMap
    phases: FloatArray

    @classmethod
    def of(cls, feature_map: FeatureMap, positions: FloatArray) -> PositionFeatures:
        """Features at centred positions (n, d)."""
        return cls(feature_map, feature_map.project(torch.as_tensor(positions)).numpy())

    def at(self, lengthscale: float) -> tuple[FloatArray, FloatArray]:
        """Features (n, 2 m), and their derivatives in the logarithm of the lengthscale."""
        phases = self.phases / lengthscale
        amplitudes = np.asarray(self.feature_map.amplitudes)
        sines, cosines = np.sin(phases) * amplitudes, np.cos(phases) * amplitudes
        return np.hstack([sines, cosines]), np.hstack([-phases * cosines, phases * sines])


class FieldScales(NamedTuple):
    """Logarithms of the hyperparameters, of which the last two belong to the features.

    Attributes
    ----------
    kappa : float
        kappa of the kernel, per unit of length.
    noise : float
        Ratio g of the variances of noise and field.
    features : float
        Ratio r of the variances of features and field.
    lengthscale : float
        Lengthscale of the features.
    """

    kappa: float
    noise: float
    features: float = -np.inf
    lengthscale: float = 0.0


class RestrictedEvidence(NamedTuple):
    """Restricted log evidence of a field, with its amplitude and gradient.

    Attributes
    ----------
    log_evidence : float
        Nats, of all outputs together.
    amplitude : float
        Variance v of greatest likelihood.
    gradient : FloatArray
        Derivatives in the logarithms of `FieldScales`; empty if they were not asked for.
    """

    log_evidence: float
    amplitude: float
    gradient: FloatArray


class FieldPrecisionEvidence:
    """Evidence of the observations of a field.

    Parameters
    ----------
    precision
        Precisions of the field.
    rows
        A (n, n_vertices).
    relative_noise
        Diagonal of R (n,).
    targets
        Normalised targets (n, k), not all equal.
    features
        Features of position, or None.
    """

    def __init__(
        self,
        precision: FieldPrecision,
        rows: sparse.csr_array,
        relative_noise: FloatArray,
        targets: FloatArray,
        features: PositionFeatures | None = None,
    ) -> None:
        self.precision, self.rows, self.targets = precision, rows, targets
        self.relative_noise, self.features = relative_noise, features
        self._last: tuple[float, bool, PriorPrecision] | None = None

    def with_features(self, features: PositionFeatures) -> FieldPrecisionEvidence:
        """The evidence of the same observations with features of position beside the field."""
        return FieldPrecisionEvidence(
            self.precision, self.rows, self.relative_noise, self.targets, features
        )

    def at(self, scales: FieldScales, with_gradient: bool = False) -> RestrictedEvidence:
        """Evidence at hyperparameters, and its gradient.

        Raises
        ------
        NumericalError
            A matrix is not positive definite to rounding.
        """
        prior = self._prior(float(np.exp(scales.kappa)), with_gradient)
        ones = np.ones((len(self.targets), 1))
        if self.features is None:
            columns, slopes = ones, np.empty((len(ones), 0))
        else:
            features, slopes = self.features.at(np.exp(scales.lengthscale))
            root = np.exp(scales.features / 2)
            columns, slopes = np.hstack([root * features, ones]), root * slopes
        penalties = np.append(np.ones(columns.shape[1] - 1), 0.0)
        noise = np.exp(scales.noise) * self.relative_noise
        posterior = PrecisionPosterior(
            self.precision.pattern, prior, self.rows, noise, columns, penalties
        )
        weights = posterior.coefficients(self.targets)
        field = posterior.field(self.targets, weights)
        residuals = posterior.residuals(self.targets, weights, field)
        squares = float((self.targets * residuals).sum())
        # Targets that are explained to the last bit have no finite evidence.
        squares = max(squares, np.finfo(float).tiny)
        n_free, k = len(ones) - 1, self.targets.shape[1]
        amplitude = squares / (k * n_free)
        constant = n_free * (np.log(amplitude) + 1 + np.log(2 * np.pi))
        value = -0.5 * k * (posterior.log_determinant + constant)
        if not with_gradient:
            return RestrictedEvidence(float(value), amplitude, np.empty(0))
        traces, changes = _derivatives(posterior, prior, slopes, noise, weights, field, residuals)
        gradient = -0.5 * k * (traces + n_free * changes / squares)
        return RestrictedEvidence(float(value), amplitude, gradient)

    def _prior(self, kappa: float, with_slope: bool) -> PriorPrecision:
        """The precision at kappa, stored for the next evaluation at the same kappa."""
        if self._last is None or self._last[0] != kappa or with_slope > self._last[1]:
            self._last = kappa, with_slope, self.precision.at(kappa, with_slope)
        return self._last[2]


def _derivatives(
    posterior: PrecisionPosterior,
    prior: PriorPrecision,
    slopes: FloatArray,
    noise: FloatArray,
    weights: FloatArray,
    field: FloatArray,
    residuals: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """`tr(P dC)` and `-tr(y' P dC P y)` for each hyperparameter."""
    assert prior.slope is not None
    pattern, q = posterior.pattern, slopes.shape[1]
    change = pattern.with_values(prior.slope)
    inverse = linalg.cho_solve(posterior.root, np.eye(q + 1))
    spread = posterior.spread
    by_kappa = pattern.trace(posterior.lower, prior.slope) - prior.determinant_slope
    by_kappa += float((inverse * (spread.T @ (change @ spread))).sum())
    # The diagonal of P is N - N A L^-1 A' N - W H^-1 W'.
    shrunk = posterior.whitened @ inverse
    variances = posterior.field_variances(posterior.rows)
    diagonal = posterior.weights - posterior.weights**2 * variances
    diagonal -= (shrunk * posterior.whitened).sum(axis=1)
    traces = [by_kappa, float(noise @ diagonal)]
    changes = [
        float((field * (change @ field)).sum()),
        -float(noise @ np.square(residuals).sum(axis=1)),
    ]
    if q:
        # With B the features, P B = W H^-1 and B' P y are their weights.
        traces += [q - float(np.trace(inverse[:q, :q])), 2 * float((shrunk[:, :q] * slopes).sum())]
        own = weights[:q]
        changes += [-float(np.square(own).sum()), -2 * float(((slopes.T @ residuals) * own).sum())]
    return np.array(traces), np.array(changes)


# Rounding of an eigenvalue relative to the greatest: lesser ones are zero or negative by rounding.
ROUNDING = 1e-13
# Degrees of freedom below which the variance of Student's law is not followed.
LEAST_DEGREES = 5


class RatioEvidence(NamedTuple):
    """Evidence at noise ratios (r,).

    Attributes
    ----------
    log_evidence : FloatArray (r,)
        Restricted log likelihood up to a constant that depends on the data's size alone, nats.
    amplitude : FloatArray (r,)
        Variance v of the field that maximises it.
    """

    log_evidence: FloatArray
    amplitude: FloatArray


def evidence_at_ratios(K: FloatArray, y: FloatArray, ratios: FloatArray) -> RatioEvidence:
    """Evidence of a kernel matrix K (n, n) for targets y (n, k) at noise ratios g (r,).

    Parameters
    ----------
    K
        Covariance of the field at the observations, of unit amplitude.
    y
        Targets, normalised; not all equal.
    ratios
        Noise variances over the amplitude, positive.
    """
    n, k = y.shape
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, ROUNDING * values[-1])
    a, b = vectors.T @ y, vectors.sum(axis=0)
    d = values + ratios[:, None]
    ones = (b**2 / d).sum(axis=1)
    mean = (b / d) @ a / ones[:, None]
    gaps = a - mean[:, None, :] * b[:, None]
    squares = (gaps**2 / d[:, :, None]).sum(axis=(1, 2))
    # Targets that one kernel explains to the last bit have no finite evidence.
    amplitude = np.maximum(squares / (k * (n - 1)), np.finfo(float).tiny)
    log_evidence = -0.5 * k * (np.log(d).sum(axis=1) + np.log(ones) + (n - 1) * np.log(amplitude))
    return RatioEvidence(log_evidence, amplitude)


def integrated_amplitude(n_observations: int, n_outputs: int = 1) -> float:
    """Factor by which the unknown amplitude widens predictive variances.

    With a flat prior of `log v` the predictive law is Student's with `nu = k (n - 1)` degrees of
    freedom about the same mean, whose variance is `nu / (nu - 2)` of that at the v of greatest
    evidence. Below five degrees, where it is large or infinite, it is taken as that of five.
    """
    degrees = max(n_outputs * (n_observations - 1), LEAST_DEGREES)
    return degrees / (degrees - 2)
