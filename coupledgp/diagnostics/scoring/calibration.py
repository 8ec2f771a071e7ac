"""Whether intervals are honest: coverage and PIT beside the chance that an honest law gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaincc, ndtr, ndtri

from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.ecdf import EcdfEnvelope
from coupledgp.diagnostics.scoring.scores import LEVELS
from coupledgp.diagnostics.scoring.whitened import (
    WhitenedResiduals,
    distances_from_uniform,
    two_sided,
)
from coupledgp.random import FloatArray, IntArray

# Share of honest laws whose spread is called off, and of those whose coverage, worst group, place
# or shape is: together about one honest law in a hundred.
SURE, SURE_OF_DETAIL = 0.003, 0.001
# Mean standardised residual from which an honest law's targets are called shifted.
SHIFTED = 0.3
# Draws of the law, which settle a standard error to two per cent and a share of .005 to a third.
N_DRAWS = 2000
# Draws from which the envelope of transforms is made.
N_ECDF = 1000
# Fewest points of a group.
MIN_GROUP = 8
# Transforms nearer to 0 or 1 than this are beyond eight standard deviations.
EDGE = 1e-15
# Ends of the logarithm of a scale that is sought between the ends of intervals.
MOST_LOG_SCALE = (-5.0, 5.0)


class Intervals(NamedTuple):
    """Intervals of transforms `F(y)`: nominal levels, and the chances (l,) below both ends."""

    levels: tuple[float, ...]
    low: FloatArray
    high: FloatArray

    @classmethod
    def central(cls, levels: tuple[float, ...] = LEVELS) -> Intervals:
        """Central intervals of nominal levels."""
        half = 0.5 * np.array(levels)
        return cls(levels, 0.5 - half, 0.5 + half)

    def hold(self, residuals: FloatArray) -> FloatArray:
        """Whether standard normal residuals of any shape lie in each, (l, ...)."""
        ends = zip(ndtri(self.low), ndtri(self.high), strict=True)
        return np.array([(residuals >= low) & (residuals <= high) for low, high in ends])


@dataclass(frozen=True)
class GroupCoverage:
    """Coverage of the central intervals of one level among some of the points.

    Attributes
    ----------
    grouping, name : str
        The quantity by which points are grouped, and the group.
    n_points : int
    level, share : float
        Nominal level, and share of the group's targets in the intervals.
    standard_error : float
        Standard deviation of the share over draws of an honest law.
    """

    grouping: str
    name: str
    n_points: int
    level: float
    share: float
    standard_error: float

    @property
    def off(self) -> float:
        """Standard errors by which the share is above (positive) or below the level."""
        return (self.share - self.level) / self.standard_error

    def text(self) -> str:
        """The group and its share in words."""
        return (
            f"{100 * self.level:.0f} % intervals hold {100 * self.share:.0f} % (chance ± "
            f"{100 * self.standard_error:.0f}) of {self.n_points} targets where {self.grouping} is "
            f"{self.name}"
        )


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
    coverage_p_value : float
        Share of draws with a level at least as many standard errors off as the worst one here.
    pit_distance, pit_p_value : float
        Largest distance of the distribution of `F(y)` from the uniform one, and the share of draws
        that are as far from it.
    worst_group : GroupCoverage or None
        The group and level that is most standard errors off; None without groups.
    group_p_value : float
        Share of draws in which some group and level is as far off.
    rescaling, rescaling_gain : float
        Factor on all standard deviations that is best for these targets, the root mean square of
        the standardised residuals `r = Phi^-1(F(y))`, and the nats per point that it gains:
        `(s^2 - 1 - log s^2) / 2`, s the factor. Of laws without a density, the likeliest factor for
        the numbers of targets between the ends of the intervals, and what that gains.
    n_points : int
        Number of targets.
    shift, shift_p_value : float
        Mean standardised residual, and the share of draws whose mean is as far from zero in units
        of their root mean square, whatever the scale.
    spread_p_value : float
        Twice the share of draws whose mean squared residual is as large, or as small. That of
        independent points whose scale is known is by the chi-square law of n degrees of freedom.
    whitened : WhitenedResiduals or None
        What residuals say that are whitened by the stated covariance, if there is one.
    ecdf : EcdfEnvelope or None
        Distribution of the transforms, with an envelope at all places at once: of draws of the
        joint law, or of independent points where none is known.
    """

    coverage: dict[float, float]
    binomial_error: dict[float, float]
    standard_error: dict[float, float]
    coverage_p_value: float
    pit_distance: float
    pit_p_value: float
    worst_group: GroupCoverage | None = None
    group_p_value: float = 1.0
    rescaling: float = 1.0
    rescaling_gain: float = 0.0
    n_points: int = 0
    shift: float = 0.0
    shift_p_value: float = 1.0
    spread_p_value: float = 1.0
    whitened: WhitenedResiduals | None = None
    ecdf: EcdfEnvelope | None = None

    @classmethod
    def of(
        cls,
        y: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        correlation: FloatArray | None = None,
        groups: Mapping[str, Any] | None = None,
        n_train: int | None = None,
        whiten: bool = False,
    ) -> Calibration:
        """Calibration of Gaussian laws of observations at p points.

        Parameters
        ----------
        y, mean, std
            Targets, means and standard deviations (p,) or (p, k).
        correlation
            Correlations (p, p) or (p, p, k) of observations, positive definite; None for
            independent ones.
        groups
            Labels (p,) of the points by the name of what groups them. Groups of fewer than 8
            points are left out.
        n_train
            Number of rows from which the scale of the law was fitted, so that it is known up to a
            relative error of `(2 n_train)^-1/2`, by which the draws are scaled at random; None
            where it is known.
        whiten
            The correlation is that of the law itself, so that residuals are whitened by it, too.
        """
        residuals = (y - mean) / std
        found = cls._of_residuals(residuals, correlation, groups, n_train, Intervals.central())
        if not whiten or correlation is None or len(y) < MIN_GROUP:
            return found
        return replace(found, whitened=WhitenedResiduals.of(residuals, correlation, n_train))

    @classmethod
    def of_transforms(
        cls,
        transforms: FloatArray,
        correlation: FloatArray | None = None,
        groups: Mapping[str, Any] | None = None,
        n_train: int | None = None,
        intervals: Intervals | None = None,
        *,
        is_binned: bool = False,
    ) -> Calibration:
        """Calibration of any laws from the transforms `F(y)` (p,) or (p, k); see `of`.

        Residuals beyond eight standard deviations count as eight. `intervals` are those whose
        coverage is looked at, by default the central ones of 50, 80 and 95 %. `is_binned` says that
        the laws have no density, so that it is not known how far beyond their ends targets lie.
        """
        z = ndtri(np.clip(transforms, EDGE, 1 - EDGE))
        chosen = Intervals.central() if intervals is None else intervals
        found = cls._of_residuals(z, correlation, groups, n_train, chosen)
        if not is_binned:
            return found
        factor, gain = _scale_between(z, chosen)
        return replace(found, rescaling=factor, rescaling_gain=gain)

    @classmethod
    def _of_residuals(
        cls,
        residuals: FloatArray,
        correlation: FloatArray | None,
        groups: Mapping[str, Any] | None,
        n_train: int | None,
        intervals: Intervals,
    ) -> Calibration:
        """Calibration from standardised residuals (p,) or (p, k); see `of`."""
        z, levels = residuals.reshape(len(residuals), -1), intervals.levels
        members = _members(groups or {}, z.shape)
        draws = _draws(z.shape, correlation, n_train)
        inside, own = intervals.hold(draws), intervals.hold(z.ravel())
        shares, own_shares = inside.mean(axis=2), own.mean(axis=1)
        errors = shares.std(axis=1, ddof=1)
        worst, p_group = _worst_group(own, inside, members, levels)
        distances = distances_from_uniform(ndtr(draws))
        distance = float(distances_from_uniform(ndtr(z.reshape(1, -1)))[0])
        square = float(np.mean(np.square(z)))
        known = correlation is not None or n_train is not None
        beside = ndtr(draws[:N_ECDF]) if known else None
        return cls(
            dict(zip(levels, own_shares.tolist(), strict=True)),
            {level: float(np.sqrt(level * (1 - level) / z.size)) for level in levels},
            dict(zip(levels, errors.tolist(), strict=True)),
            _share_beyond(_off(own_shares[:, None], errors, levels), _off(shares, errors, levels)),
            distance,
            float((1 + (distances >= distance).sum()) / (1 + N_DRAWS)),
            worst,
            p_group,
            float(np.sqrt(square)),
            0.5 * (square - 1 - np.log(max(square, 1e-300))),
            z.size,
            float(z.mean()),
            _share_beyond(float(_one_sided(z.reshape(1, -1))[0]), _one_sided(draws)),
            _spread_p_value(z, draws if known else None),
            ecdf=EcdfEnvelope.of(ndtr(z.ravel()), beside),
        )

    def off(self, level: float) -> float:
        """Standard errors by which the share is above (positive) or below a level."""
        return (self.coverage[level] - level) / self.standard_error[level]

    @property
    def worst_level(self) -> float:
        """The level whose share is most standard errors off."""
        return max(self.coverage, key=lambda level: abs(self.off(level)))

    @property
    def is_off(self) -> bool:
        """Whether the shares of all points are further off than an honest law's."""
        return self.coverage_p_value <= SURE_OF_DETAIL

    @property
    def is_spread_off(self) -> bool:
        """Whether squared residuals are larger or smaller on the whole than an honest law's."""
        return self.spread_p_value <= SURE

    @property
    def is_group_off(self) -> bool:
        """Whether the shares of some group are further off than any of an honest law's."""
        return self.group_p_value <= SURE_OF_DETAIL

    @property
    def is_shape_off(self) -> bool:
        """Whether the transforms are further from uniform than an honest law's."""
        return self.pit_p_value <= SURE_OF_DETAIL

    @property
    def is_place_off(self) -> bool:
        """Whether the mean residual is further from zero than an honest law's."""
        return self.shift_p_value <= SURE_OF_DETAIL

    @property
    def is_shifted(self) -> bool:
        """Whether targets lie on one side of the predictions, further than an honest law's."""
        far = abs(self.shift) > SHIFTED * max(self.rescaling, 1.0)
        return far and self.shift_p_value <= SURE_OF_DETAIL

    @property
    def shift_text(self) -> str:
        """The mean standardised residual in words."""
        side = "above" if self.shift > 0 else "below"
        return (
            f"targets lie {abs(self.shift):.2g} standard deviations {side} the predictions on "
            "average"
        )

    @property
    def tails(self) -> str:
        """`"heavier"` or `"lighter"` than the law's, else empty.

        Heavier: the narrowest intervals hold too many targets, and the widest too few, or squared
        residuals are too large on average; lighter: the reverse.
        """
        off = [self.off(level) for level in self.coverage]
        if off[0] > 0.5 and (min(off) < -0.5 or self.rescaling > 1):
            return "heavier"
        return "lighter" if off[0] < -0.5 and (max(off) > 0.5 or self.rescaling < 1) else ""

    def text(self) -> str:
        """The shares of all levels in words."""
        levels, shares, errors = (
            _listed([100 * value for value in values], form)
            for values, form in (
                (list(self.coverage), "{:.0f}"),
                (list(self.coverage.values()), "{:.1f}"),
                (list(self.standard_error.values()), "{:.1f}"),
            )
        )
        return f"{levels} % intervals hold {shares} % of the targets (chance ± {errors})"


def _listed(values: list[float], form: str) -> str:
    """Numbers in a sentence."""
    texts = [form.format(value) for value in values]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def _draws(
    shape: tuple[int, ...], correlation: FloatArray | None, n_train: int | None
) -> FloatArray:
    """Standardised draws (N_DRAWS, p k) of a law with correlations (p, p) or (p, p, k)."""
    p, k = shape
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((N_DRAWS, k, p))
    if correlation is not None:
        matrices = correlation.reshape(p, p, -1)
        for j in range(k):
            root = covariance_root(matrices[..., min(j, matrices.shape[2] - 1)], "correlation")
            draws[:, j] = draws[:, j] @ root.T
    if n_train is not None:
        draws *= np.exp(rng.standard_normal((N_DRAWS, k, 1)) / np.sqrt(2 * n_train))
    return draws.transpose(0, 2, 1).reshape(N_DRAWS, -1)


def _members(groups: Mapping[str, Any], shape: tuple[int, ...]) -> list[tuple[str, str, IntArray]]:
    """Grouping, name and targets of each group that is large enough."""
    found = []
    for grouping, labels in groups.items():
        values, number = np.unique(np.asarray(labels).astype(str), return_inverse=True)
        each = np.repeat(number.reshape(-1), shape[1])
        for place, name in enumerate(values):
            rows = np.flatnonzero(each == place)
            if MIN_GROUP <= rows.size < each.size:
                found.append((grouping, str(name), rows))
    return found


def _worst_group(
    own: FloatArray,
    inside: FloatArray,
    members: list[tuple[str, str, IntArray]],
    levels: tuple[float, ...] = LEVELS,
) -> tuple[GroupCoverage | None, float]:
    """The group of own (l, m) that is furthest off, and the share of draws (l, N, m) as far."""
    worst: GroupCoverage | None = None
    furthest = np.zeros(N_DRAWS)
    for grouping, name, rows in members:
        shares = inside[:, :, rows].mean(axis=2)
        own_shares = own[:, rows].mean(axis=1)
        # A share of few targets that never varies among draws is not certain.
        errors = np.maximum(shares.std(axis=1, ddof=1), 0.5 / rows.size)
        furthest = np.maximum(furthest, _off(shares, errors, levels))
        for level, share, error in zip(levels, own_shares, errors, strict=True):
            one = GroupCoverage(grouping, name, rows.size, level, float(share), float(error))
            if worst is None or abs(one.off) > abs(worst.off):
                worst = one
    return (None, 1.0) if worst is None else (worst, _share_beyond(abs(worst.off), furthest))


def _off(shares: FloatArray, errors: FloatArray, levels: tuple[float, ...] = LEVELS) -> FloatArray:
    """Largest number (m,) of standard errors (l,) by which shares (l, m) are off their levels."""
    gaps = np.abs(shares - np.array(levels)[:, None])
    largest: FloatArray = (gaps / np.maximum(errors, 1e-12)[:, None]).max(axis=0)
    return largest


def _scale_between(residuals: FloatArray, intervals: Intervals) -> tuple[float, float]:
    """The likeliest scale of normal residuals of which ends of intervals alone are known, a gain.

    The gain is in nats per point over the scale one.
    """
    ends = ndtri(np.unique([*intervals.low, *intervals.high]))
    ends = ends[np.isfinite(ends)]
    counts = np.bincount(np.searchsorted(ends, residuals.ravel()), minlength=len(ends) + 1)

    def loss(log_scale: float) -> float:
        between = np.diff(ndtr(np.r_[-np.inf, ends / np.exp(log_scale), np.inf]))
        return float(-counts @ np.log(np.maximum(between, 1e-300)) / residuals.size)

    found = minimize_scalar(loss, bounds=MOST_LOG_SCALE, method="bounded")
    return float(np.exp(found.x)), max(loss(0.0) - loss(float(found.x)), 0.0)


def _spread_p_value(residuals: FloatArray, draws: FloatArray | None) -> float:
    """Twice the chance of a mean square as large as of residuals (p, k), or as small.

    `draws` (N, p k) are those of a right law; None: independent standard normal ones.
    """
    total, half = float(np.square(residuals).sum()), 0.5 * residuals.size
    if draws is None:
        return float(min(1.0, 2 * min(gammainc(half, total / 2), gammaincc(half, total / 2))))
    return two_sided(total, np.square(draws).sum(axis=1))


def _share_beyond(value: Any, draws: FloatArray) -> float:
    """Share of draws (N,) that are at least a value, rounding aside; the value counts as one."""
    return float((1 + (draws >= np.max(value) * (1 - 1e-9)).sum()) / (1 + draws.size))


def _one_sided(residuals: FloatArray) -> FloatArray:
    """Magnitudes (k,) of the means of rows (k, n) over their root mean squares."""
    size = np.sqrt(np.square(residuals).mean(axis=1))
    means = np.abs(residuals.mean(axis=1))
    found: FloatArray = np.divide(means, size, out=np.zeros_like(size), where=size > 0)
    return found
