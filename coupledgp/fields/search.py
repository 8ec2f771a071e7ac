"""Search for the hyperparameters of a sparse field: a coarse grid, then L-BFGS from its best.

Fits of a field to many observations, by the evidence of its sparse precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.minimise import Stopping, lbfgs, patient
from coupledgp.core.problem import Box, Objective
from coupledgp.core.process import Data
from coupledgp.core.search import Search, SearchResult
from coupledgp.core.units import Units, are_constant
from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.evidence import FieldPrecisionEvidence, FieldScales, PositionFeatures
from coupledgp.fields.locations import location_rows
from coupledgp.fields.precision import FieldPrecision, flat_variance
from coupledgp.fields.process import (
    DEFAULT_LENGTH,
    DEFAULT_NOISE,
    MEAN_VARIANCE,
    FieldHyperparameters,
    FieldPrior,
    PreciseFieldGP,
    PrecisePrior,
    check_factor_size,
)
from coupledgp.ground.visible import warn
from coupledgp.kernels.fields import POSITION_KERNELS, FieldKernel, PositionKernel, WhittleMatern
from coupledgp.random import FloatArray

# Ranges and lengthscales of the grid over the diameter, and noise ratios; features and field start
# with equal variances.
RANGES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
LENGTHSCALES = (0.1, 0.2, 0.4, 0.8)
FIRST_NOISE, NOISE_RATIOS = 1e-2, (1e-4, 1e-3, 1e-1, 1.0)
# Bounds over the diameter, and of the ratios; ranges are no shorter than two edges.
MOST_RANGE, LENGTHSCALE_BOX, EDGES = 3.2, (0.01, 3.2), 2.0
NOISE_BOX, FEATURE_BOX = (1e-7, 1e5), (1e-4, 1e6)
# L-BFGS: most iterations, and tolerances per target.
MAX_ITERATIONS, TOLERANCES = 50, (1e-6, 1e-4)
# It also ends where this number of evaluations gains less: values are rounded by 1e-6 on needles.
PATIENCE = 8
# Value per target where a matrix is not positive definite.
FAILED = 1e6


class SearchSettings(NamedTuple):
    """Free and given hyperparameters of a search, and its grid.

    Attributes
    ----------
    smoothness : float
        nu, with `range = sqrt(8 nu) / kappa`.
    diameter : float
        Unit of the grid.
    shortest : float
        Least range.
    range_, lengthscale : float or None
        Values that are kept; None: free.
    log_ratio : function or None
        `log kappa -> (log r, its derivative)`: the ratio of features and field for a share that is
        kept; None: free.
    max_iterations : int
        Largest number of iterations of L-BFGS.
    """

    smoothness: float
    diameter: float
    shortest: float
    range_: float | None = None
    lengthscale: float | None = None
    log_ratio: Callable[[float], tuple[float, float]] | None = None
    max_iterations: int = MAX_ITERATIONS

    def log_kappa(self, range_: float) -> float:
        """Logarithm of the kappa of a range."""
        return float(np.log(np.sqrt(8 * self.smoothness) / range_))

    @property
    def ranges(self) -> list[float]:
        """Ranges of the grid."""
        if self.range_ is not None:
            return [self.range_]
        own = [r * self.diameter for r in RANGES if r * self.diameter > self.shortest]
        return own or [self.shortest]

    @property
    def lengthscales(self) -> list[float]:
        """Lengthscales of the grid."""
        if self.lengthscale is not None:
            return [self.lengthscale]
        return [scale * self.diameter for scale in LENGTHSCALES]

    @property
    def box(self) -> list[tuple[float, float]]:
        """Bounds of the logarithms of `FieldScales`."""
        longest = max(MOST_RANGE * self.diameter, self.shortest)
        ranges = (self.shortest, longest) if self.range_ is None else (self.range_, self.range_)
        kappas = self.log_kappa(ranges[1]), self.log_kappa(ranges[0])
        low, high = LENGTHSCALE_BOX
        scales = (low * self.diameter, high * self.diameter)
        if self.lengthscale is not None:
            scales = (self.lengthscale, self.lengthscale)
        ratios = FEATURE_BOX if self.log_ratio is None else (1.0, 1.0)
        logs = [(float(np.log(a)), float(np.log(b))) for a, b in (NOISE_BOX, ratios, scales)]
        return [kappas, *logs]


class FieldPoint(NamedTuple):
    """Hyperparameters of a sparse field, and the model that they belong to."""

    evidence: FieldPrecisionEvidence
    scales: FieldScales


class PrecisionObjective(Objective[FieldPoint]):
    """Minus the restricted log evidence of a sparse field per target, in the logarithms of scales.

    Parameters
    ----------
    settings
        Free and given hyperparameters.
    evidence
        The model.
    """

    def __init__(self, settings: SearchSettings, evidence: FieldPrecisionEvidence) -> None:
        self.settings, self.evidence = settings, evidence
        self.size = evidence.targets.size

    def variables(self, point: FieldPoint) -> FloatArray:
        """The free variables (q,) of the scales, within their bounds."""
        box = self.box(point)
        return np.clip(np.array(point.scales[: len(box)]), *np.transpose(box))

    def point(self, variables: FloatArray) -> FieldPoint:
        return FieldPoint(self.evidence, self._tied(FieldScales(*variables))[0])

    def box(self, start: FieldPoint) -> Box:
        return self.settings.box[: 2 if self.evidence.features is None else 4]

    def value(self, point: FieldPoint) -> float:
        found = self.evidence.at(self._tied(point.scales)[0], False)
        return -found.log_evidence / self.size

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient (q,); `FAILED` where a matrix is not positive definite."""
        scales, slope = self._tied(FieldScales(*variables))
        try:
            found = self.evidence.at(scales, True)
        except NumericalError:
            return FAILED, np.zeros(variables.size)
        gradient = found.gradient.copy()
        if slope is not None:
            gradient[0] += slope * gradient[2]
            gradient[2] = 0.0
        return -found.log_evidence / self.size, -gradient / self.size

    def _tied(self, scales: FieldScales) -> tuple[FieldScales, float | None]:
        """Scales with the ratio that a given share implies, and the ratio's derivative."""
        if self.settings.log_ratio is None or not np.isfinite(scales.features):
            return scales, None
        ratio, slope = self.settings.log_ratio(scales.kappa)
        return scales._replace(features=ratio), slope


@dataclass
class PrecisionSearch:
    """A search for one alpha.

    Attributes
    ----------
    settings : SearchSettings
    search : Search
        Runs of the optimiser.
    """

    settings: SearchSettings
    search: Search

    def objective(self, point: FieldPoint) -> PrecisionObjective:
        """The objective of a point's model."""
        return PrecisionObjective(self.settings, point.evidence)

    def scan(self, evidence: FieldPrecisionEvidence) -> SearchResult[FieldPoint]:
        """The best of a grid of ranges, and then of noise ratios, without features.

        Raises
        ------
        NumericalError
            No range has a positive definite matrix.
        """
        noise = float(np.log(FIRST_NOISE))
        grid = [FieldScales(self.settings.log_kappa(r), noise) for r in self.settings.ranges]
        best = self._best([FieldPoint(evidence, scales) for scales in grid])
        scales = [best.point.scales._replace(noise=float(np.log(g))) for g in NOISE_RATIOS]
        with suppress(NumericalError):
            other = self._best([FieldPoint(evidence, own) for own in scales])
            best = min(best, other, key=lambda found: found.value)
        return best

    def scan_features(
        self, plain: FieldPoint, features: Sequence[PositionFeatures]
    ) -> SearchResult[FieldPoint]:
        """The best of a grid of lengthscales and ratios of features, from the best without any.

        Raises
        ------
        NumericalError
            No point of the grid has a positive definite matrix.
        """
        grid = [
            plain.scales._replace(features=0.0, lengthscale=float(np.log(scale)))
            for scale in self.settings.lengthscales
        ]
        evidences = [plain.evidence.with_features(kind) for kind in features]
        return self._best([FieldPoint(own, scales) for own in evidences for scales in grid])

    def climb(self, start: FieldPoint) -> SearchResult[FieldPoint]:
        """Maximise the evidence by L-BFGS."""
        stopping = Stopping(self.settings.max_iterations, *TOLERANCES)
        return self.search.improved(self.objective(start), start, stopping)

    def _best(self, starts: Sequence[FieldPoint]) -> SearchResult[FieldPoint]:
        return self.search.ranked(self.objective, starts)[0]


def precision_search() -> Search:
    """Searches for sparse fields, whose runs also end where they gain hardly any more."""
    return Search(patient(lbfgs, PATIENCE, TOLERANCES[0]))


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
