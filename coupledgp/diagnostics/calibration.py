"""Whether intervals are honest: coverage and PIT beside what chance gives an honest joint law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from coupledgp.diagnostics.divergences import covariance_root
from coupledgp.diagnostics.scores import LEVELS, coverage, half_width
from coupledgp.random import FloatArray

# Coverage is off where it is this many standard errors from its level, PIT where this share of
# draws of the law or fewer are as far from uniform: together a few honest laws in a hundred are.
CLEAR, SURE = 3.0, 0.005
# Draws of the law, which settle a standard error to two per cent and a share of .005 to half.
N_DRAWS = 2000


@dataclass(frozen=True)
class Calibration:
    """Coverage of central intervals and probability integral transforms, and their chance.

    Errors of near points go together where the function is uncertain, so that chance is larger than
    for independent points. It is measured by draws of the joint law.

    Attributes
    ----------
    coverage : dict of float to float
        Share of the targets in the central interval of each nominal level.
    binomial_error : dict of float to float
        Standard deviations `(c (1 - c) / n)^1/2` of the shares of independent points, c the level.
    standard_error : dict of float to float
        Those of the shares over draws of the joint law.
    pit_distance, pit_p_value : float
        Largest distance of the distribution of `F(y)` from the uniform one, and the share of draws
        that are as far from it.
    """

    coverage: dict[float, float]
    binomial_error: dict[float, float]
    standard_error: dict[float, float]
    pit_distance: float
    pit_p_value: float

    @classmethod
    def of(
        cls,
        y: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        correlation: FloatArray | None = None,
    ) -> Calibration:
        """Calibration of the law of observations at p points.

        Parameters
        ----------
        y, mean, std
            Targets, means and standard deviations (p,).
        correlation
            Correlations (p, p) of observations, positive definite; None for independent ones.
        """
        draws = np.random.default_rng(0).standard_normal((N_DRAWS, y.size))
        if correlation is not None:
            draws = draws @ covariance_root(correlation, "correlation of the law").T
        shares = {level: (np.abs(draws) <= half_width(level)).mean(axis=1) for level in LEVELS}
        distances = _distances(ndtr(draws))
        distance = float(_distances(ndtr((y - mean) / std)[None])[0])
        return cls(
            coverage(y, mean, std),
            {level: float(np.sqrt(level * (1 - level) / y.size)) for level in LEVELS},
            {level: float(share.std(ddof=1)) for level, share in shares.items()},
            distance,
            float((1 + (distances >= distance).sum()) / (1 + N_DRAWS)),
        )

    def off(self, level: float) -> float:
        """Standard errors by which the share is above (positive) or below a level."""
        return (self.coverage[level] - level) / self.standard_error[level]

    def verdict(self) -> str:
        """Whether the intervals are honest, with the figures that say so."""
        worst = max(self.coverage, key=lambda level: abs(self.off(level)))
        share = (
            f"{100 * worst:.0f} % intervals hold {100 * self.coverage[worst]:.1f} % of the targets "
            f"(chance ± {100 * self.standard_error[worst]:.1f})"
        )
        if self.off(worst) < -CLEAR:
            return f"Its intervals are too narrow: {share}."
        if self.off(worst) > CLEAR:
            return f"Its intervals are too wide: {share}."
        if self.pit_p_value < SURE:
            return (
                "Its intervals hold what they should, but its law is off in shape or place (PIT: "
                f"p = {self.pit_p_value:.1g})."
            )
        return f"Its intervals are honest: at worst, {share}."


def _distances(transforms: FloatArray) -> FloatArray:
    """Largest distances (k,) of empirical distributions of rows (k, n) from the uniform one."""
    ordered = np.sort(transforms, axis=1)
    n = ordered.shape[1]
    above, below = np.arange(1, n + 1) / n - ordered, ordered - np.arange(n) / n
    largest: FloatArray = np.maximum(above.max(axis=1), below.max(axis=1))
    return largest
