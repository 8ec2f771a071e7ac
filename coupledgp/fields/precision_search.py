"""Search for the hyperparameters of a sparse field: a coarse grid, then L-BFGS from its best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coupledgp.core.minimise import Stopping, lbfgs, patient
from coupledgp.core.problem import Box, Objective
from coupledgp.core.search import Search, SearchResult
from coupledgp.errors import NumericalError
from coupledgp.fields.precision_evidence import (
    FieldPrecisionEvidence,
    FieldScales,
    PositionFeatures,
)
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
