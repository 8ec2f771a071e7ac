"""Restricted evidence of a sparse field, with coupled features of position beside it or without.

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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from coupledgp.features import FeatureMap
from coupledgp.fields.precision import FieldPrecision, PriorPrecision
from coupledgp.fields.precision_posterior import PrecisionPosterior
from coupledgp.ground.tensors import torch
from coupledgp.random import FloatArray


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
