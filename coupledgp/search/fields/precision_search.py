"""Search for the hyperparameters of a sparse field: a coarse grid, then L-BFGS from its best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.progress import Progress
from coupledgp.inference.fields.precision_evidence import (
    PositionFeatures,
    PrecisionEvidence,
    Restricted,
    Scales,
)
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping, lbfgs, patient

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
    """What is free and what is given.

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
        Of L-BFGS.
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
        """Bounds of the logarithms of `Scales`."""
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


@dataclass
class Found:
    """The best hyperparameters so far.

    Attributes
    ----------
    evidence : PrecisionEvidence
        Model that they belong to.
    scales : Scales
    value : float
        Restricted log evidence, nats.
    n_evaluations : int
        Number of evaluations so far.
    converged : bool
        Whether L-BFGS ended by a tolerance.
    """

    evidence: PrecisionEvidence
    scales: Scales
    value: float = -np.inf
    n_evaluations: int = 0
    converged: bool = False


@dataclass
class PrecisionSearch:
    """A search for one alpha.

    Attributes
    ----------
    settings : SearchSettings
    report : Progress
        Called with a line at each evaluation.
    n_evaluations : int
        Number of evaluations so far.
    """

    settings: SearchSettings
    report: Progress
    n_evaluations: int = 0
    errors: list[NumericalError] = field(default_factory=list)

    def scan(self, evidence: PrecisionEvidence) -> Found:
        """The best of a grid of ranges, and then of noise ratios, without features."""
        ranges = [self.settings.log_kappa(r) for r in self.settings.ranges]
        best = self._best(evidence, [Scales(kappa, np.log(FIRST_NOISE)) for kappa in ranges])
        ratios = [best.scales._replace(noise=float(np.log(g))) for g in NOISE_RATIOS]
        return self._best(evidence, ratios, best)

    def scan_features(self, plain: Found, features: Sequence[PositionFeatures]) -> Found:
        """The best of a grid of lengthscales and ratios of features, from the best without any."""
        best = replace(plain, value=-np.inf)
        for kind in features:
            evidence = plain.evidence.with_features(kind)
            grid = [
                plain.scales._replace(features=0.0, lengthscale=float(np.log(scale)))
                for scale in self.settings.lengthscales
            ]
            best = self._best(evidence, grid, best)
        return best

    def climb(self, start: Found) -> Found:
        """Maximise the evidence by L-BFGS."""
        n_scales = 2 if start.evidence.features is None else 4
        size = start.evidence.targets.size
        stopping = Stopping(self.settings.max_iterations, *TOLERANCES)
        box = self.settings.box[:n_scales]
        x = np.clip(np.array(start.scales[:n_scales]), *np.transpose(box))
        minimise = patient(lbfgs, PATIENCE, TOLERANCES[0])
        minimum = minimise(lambda x: self.loss(start.evidence, x), x, box, stopping)
        scales = self._tied(Scales(*minimum.point))[0]
        return Found(
            start.evidence, scales, -minimum.value * size, self.n_evaluations, minimum.converged
        )

    def loss(self, evidence: PrecisionEvidence, x: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence per target, and its gradient, at the free ones of `Scales`."""
        found, slope = self._evaluated(evidence, Scales(*x), True)
        if found is None:
            return FAILED, np.zeros(x.size)
        gradient = found.gradient.copy()
        if slope is not None:
            gradient[0] += slope * gradient[2]
            gradient[2] = 0.0
        size = evidence.targets.size
        return -found.log_evidence / size, -gradient / size

    def _best(
        self, evidence: PrecisionEvidence, grid: Sequence[Scales], best: Found | None = None
    ) -> Found:
        """The best of a grid and of what was found before.

        Raises
        ------
        NumericalError
            None of them has a positive definite matrix.
        """
        best = best or Found(evidence, grid[0])
        for scales in grid:
            found, _ = self._evaluated(evidence, scales, False)
            if found is not None and found.log_evidence > best.value:
                best = Found(evidence, scales, found.log_evidence)
        if not np.isfinite(best.value):
            raise self.errors[-1]
        return best

    def _tied(self, scales: Scales) -> tuple[Scales, float | None]:
        """Scales with the ratio of a share that is kept, and the ratio's derivative."""
        if self.settings.log_ratio is None or not np.isfinite(scales.features):
            return scales, None
        ratio, slope = self.settings.log_ratio(scales.kappa)
        return scales._replace(features=ratio), slope

    def _evaluated(
        self, evidence: PrecisionEvidence, scales: Scales, with_gradient: bool
    ) -> tuple[Restricted | None, float | None]:
        self.n_evaluations += 1
        scales, slope = self._tied(scales)
        try:
            found = evidence.at(scales, with_gradient)
        except NumericalError as error:
            self.errors.append(error)
            return None, None
        self.report(f"evaluation {self.n_evaluations}: log evidence {found.log_evidence:.2f}")
        return found, slope
