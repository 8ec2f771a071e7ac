"""Fits of a field to many observations, by the evidence of its sparse precision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.process import Data
from coupledgp.core.search import SearchResult
from coupledgp.core.units import Units, are_constant
from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.locations import location_rows
from coupledgp.fields.precise_prior import PrecisePrior, check_factor_size
from coupledgp.fields.precise_process import PreciseFieldGP
from coupledgp.fields.precision import FieldPrecision, flat_variance
from coupledgp.fields.precision_evidence import (
    FieldPrecisionEvidence,
    FieldScales,
    PositionFeatures,
)
from coupledgp.fields.precision_search import (
    EDGES,
    MAX_ITERATIONS,
    FieldPoint,
    PrecisionSearch,
    SearchSettings,
    precision_search,
)
from coupledgp.fields.process import (
    DEFAULT_LENGTH,
    DEFAULT_NOISE,
    MEAN_VARIANCE,
    FieldHyperparameters,
    FieldPrior,
)
from coupledgp.ground.visible import warn
from coupledgp.kernels.fields import POSITION_KERNELS, FieldKernel, PositionKernel, WhittleMatern
from coupledgp.random import FloatArray

# Values of alpha with a sparse precision, by the dimension of the operator.
PRECISE_ALPHAS = {1: (1, 2), 2: (2,)}
N_FREQUENCIES = 192
# Joint law of sampled frequencies, and most coordinates for which a quadrature rule is tried, too.
SAMPLED, MOST_COORDINATES = "orthogonal+pnc", 3
# Step in `log kappa` by which the mean variance is differentiated.
STEP = 1e-3


def fit_precise(
    fields: FieldCovariance,
    kernel: FieldKernel,
    data: Data,
    normalize: bool = True,
    *,
    n_frequencies: int = N_FREQUENCIES,
    coupling: CouplingLike = "auto",
    seed: int = 0,
    max_iterations: int = MAX_ITERATIONS,
) -> tuple[PreciseFieldGP, SearchResult[FieldPoint]]:
    """Fit a field by maximum restricted likelihood and condition it on the observations.

    Parameters
    ----------
    fields
        Covariances on the operator, from which the mean variance comes.
    kernel
        Kernel along the surface, or a sum with one of position; parameters that are None are free.
    data
        Locations (n, ...) and targets (n, k).
    normalize
        Whether targets are normalised.
    n_frequencies, coupling, seed
        Number of frequencies of the features of position, their joint law, and its seed. With
        `"auto"` the Gaussian kernel takes a quadrature rule, which is as good as exact for
        lengthscales of a fifth of the diameter and more, or orthogonal samples, whichever has the
        greater evidence; other kernels take the latter.
    max_iterations
        Most iterations of L-BFGS.

    Returns
    -------
    (PreciseFieldGP, SearchResult)
        The process, and the search; its value is minus the restricted log evidence of the
        normalised targets, nats, or NaN without a search.

    Raises
    ------
    InvalidInputError
        The kernel has no part along the surface, or an alpha without a sparse precision.
    MemoryLimitError
        The factor does not fit in memory.

    Warns
    -----
    ConvergenceWarning
        L-BFGS ended at its limit.
    """
    units = Units.of(data.targets, normalize, data.counts)
    fit = _PreciseFit(fields, kernel, data, units.normalized(data.targets))
    dim = 0 if kernel.position is None else fields.center(kernel.position).size
    maps = [
        FourierFeatures(dim, n_frequencies, law, name, seed)
        for name in fit.position_kernels
        for law in (_couplings(dim, name) if coupling == "auto" else (coupling,))
    ]
    found = fit.best(maps, max_iterations)
    if not found.converged:
        warn(
            f"max_iter: the search for hyperparameters of the field stopped after {max_iterations} "
            "iterations before it converged; raise it, or give the kernel's range",
            ConvergenceWarning,
        )
    process = PreciseFieldGP.given(fit.prior(found), data, units, normalize)
    return process, found


@dataclass(frozen=True)
class _PreciseFit:
    """Model, data and free parameters of a fit; targets are normalised."""

    fields: FieldCovariance
    kernel: FieldKernel
    data: Data
    targets: FloatArray

    @property
    def position_kernels(self) -> tuple[str, ...]:
        """Kernels of position that are compared."""
        position = self.kernel.position
        if position is None:
            return ()
        return POSITION_KERNELS if position.kernel is None else (position.kernel,)

    @property
    def surface(self) -> WhittleMatern:
        """The kernel along the surface, whose parameters may be free."""
        if self.kernel.surface is None:
            raise InvalidInputError(
                "kernel: expected a part along the surface, which has a sparse precision, got "
                f"{self.kernel}"
            )
        return self.kernel.surface

    @property
    def alphas(self) -> tuple[int, ...]:
        """Values of alpha that are compared."""
        known, own = PRECISE_ALPHAS[self.fields.operator.dimension], self.surface.alpha
        if own is not None and own not in known:
            raise InvalidInputError(
                f"alpha: expected {' or '.join(map(str, known))}, which have a sparse precision, "
                f"got {own}"
            )
        return known if own is None else (own,)

    def best(self, maps: list[FourierFeatures], max_iterations: int) -> SearchResult[FieldPoint]:
        """The hyperparameters of greatest evidence."""
        if are_constant(self.data.targets):
            return self._default(maps)
        n_columns = maps[0].n_features + 1 if maps else 1
        runner, starts, errors = precision_search(), [], []
        for alpha in self.alphas:
            search = PrecisionSearch(self._settings(alpha, max_iterations), runner)
            try:
                starts.append((search, search.scan(self._evidence(alpha, n_columns))))
            except NumericalError as error:  # the square of alpha = 2 loses twice the digits
                errors.append(error)
        if not starts:
            raise errors[-1]
        search, start = min(starts, key=lambda pair: pair[1].value)
        if maps:
            start = search.scan_features(start.point, [self._features(made) for made in maps])
        found = search.climb(start.point)
        return replace(found, value=found.value * self.targets.size)

    def _default(self, maps: list[FourierFeatures]) -> SearchResult[FieldPoint]:
        alpha, length = self.alphas[0], DEFAULT_LENGTH * self.fields.operator.diameter
        settings, position = self._settings(alpha, 0), self.kernel.position
        evidence = self._evidence(alpha, maps[0].n_features + 1 if maps else 1)
        if maps:
            evidence = evidence.with_features(self._features(maps[0]))
        own = None if position is None else position.lengthscale
        scales = FieldScales(
            settings.log_kappa(self.surface.range_ or length), float(np.log(DEFAULT_NOISE)),
            0.0, float(np.log(own or length)),
        )  # fmt: skip
        return SearchResult(FieldPoint(evidence, scales), np.nan)

    def _evidence(self, alpha: int, n_columns: int) -> FieldPrecisionEvidence:
        operator, relative = self.fields.operator, self.data.relative_noise
        rows = location_rows(self.data.points, operator.n_vertices)
        precision = FieldPrecision.of(operator, alpha, rows)
        check_factor_size(precision, n_columns)
        noise = np.ones(len(self.targets)) if relative is None else relative
        return FieldPrecisionEvidence(precision, rows, noise, self.targets)

    def _features(self, feature_map: FourierFeatures) -> PositionFeatures:
        position = self.kernel.position
        assert position is not None
        places = self.fields.places(self.data.points, position) - self.fields.center(position)
        return PositionFeatures.of(feature_map, places)

    def _settings(self, alpha: int, max_iterations: int) -> SearchSettings:
        operator, position = self.fields.operator, self.kernel.position
        share = self.kernel.share
        tied = position is not None and share is not None

        def log_ratio(log_kappa: float) -> tuple[float, float]:
            assert share is not None
            low, middle, high = (
                np.log(self._mean_variance(alpha, log_kappa + step)) for step in (-STEP, 0.0, STEP)
            )
            return middle + np.log((1 - share) / share), (high - low) / (2 * STEP)

        return SearchSettings(
            alpha - operator.dimension / 2,
            operator.diameter,
            EDGES * _mean_edge(operator),
            self.surface.range_,
            None if position is None else position.lengthscale,
            log_ratio if tied else None,
            max_iterations,
        )

    def _mean_variance(self, alpha: int, log_kappa: float) -> float:
        """Mean variance of the field as the search scales it."""
        operator = self.fields.operator
        kappa = float(np.exp(log_kappa))
        kernel = WhittleMatern(self._range(alpha, kappa), alpha)
        variance = self.fields.surface.known(kernel).mean_variance
        return variance / flat_variance(kappa, alpha, operator.dimension)

    def _range(self, alpha: int, kappa: float) -> float:
        return float(np.sqrt(8 * (alpha - self.fields.operator.dimension / 2)) / kappa)

    def prior(self, found: SearchResult[FieldPoint]) -> PrecisePrior:
        """The prior of hyperparameters that were found."""
        evidence, scales = found.point
        alpha, features = evidence.precision.alpha, evidence.features
        range_ = self.surface.range_ or self._range(alpha, float(np.exp(scales.kappa)))
        surface = WhittleMatern(range_, alpha)
        variance = self._mean_variance(alpha, scales.kappa)
        ratio = 0.0 if features is None else float(np.exp(scales.features))
        position = share = None
        if features is not None and self.kernel.position is not None:
            scale = self.kernel.position.lengthscale or float(np.exp(scales.lengthscale))
            columns = self.kernel.position.columns or ()
            position = PositionKernel(str(features.feature_map.spectrum), scale, columns)
            share = self.kernel.share or variance / (variance + ratio)
        known = not np.isnan(found.value)
        amplitude = evidence.at(scales).amplitude if known else 1 / (variance + ratio)
        hyper = FieldHyperparameters(
            FieldKernel(surface, position, share),
            amplitude * (variance + ratio),
            amplitude * float(np.exp(scales.noise)),
            MEAN_VARIANCE * max(float(np.mean(self.targets**2)), np.finfo(float).tiny),
        )
        feature_map = None if features is None else features.feature_map
        return PrecisePrior(FieldPrior(self.fields, hyper), feature_map, evidence.precision)


def _mean_edge(operator: LaplaceOperator) -> float:
    """Mean length of an element, from the number of elements and the measure."""
    return float((operator.measure / len(operator.elements)) ** (1 / operator.dimension))


def _couplings(dim: int, kernel: str) -> tuple[str, ...]:
    """Joint laws of frequencies that are compared for a kernel of position."""
    if kernel == "gaussian" and dim <= MOST_COORDINATES:
        return "quadrature", SAMPLED
    return (SAMPLED,)
