"""The table of scores: a report's values, errors, tables and JSON are built from its entries.

A score is added by one entry:

    register_score(
        PointScore(
            name="pinball", label="pinball loss at 90 %", unit="units of y",
            points=lambda y, mean, std: pinball(y, mean + 1.2816 * std),
        )
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.score_bounds import (
    absolute_error_bounds,
    coverage_bounds,
    crps_bounds,
    interval_width_bounds,
    nlpd_bounds,
    nlpd_joint_bounds,
    pit_bounds,
    squared_error_bounds,
    variance_bounds,
)
from coupledgp.diagnostics.scoring.scores import (
    LEVELS,
    coverage,
    coverage_points,
    inside_bins,
    inside_levels,
    interval_width,
    interval_width_points,
    nlpd_joint,
    pit_histogram,
    pit_points,
    point_absolute_error,
    point_crps,
    point_nlpd,
    point_squared_error,
)
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray
from coupledgp.registry import add, remove

# A score of a whole law: a number, numbers by nominal level, or the shares of a histogram.
ScoreValue = float | dict[float, float] | tuple[float, ...]
# Functions of targets, means and standard deviations (p, k).
PointLosses = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
MarginalFunction = Callable[[FloatArray, FloatArray, FloatArray], ScoreValue]
# Function of targets, means, standard deviations, bounds of the errors of the means and lower
# bounds of the standard deviations, all (p, k): least and greatest loss of each point, both (p, k).
LossBounds = Callable[
    [FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]
]
# Function of targets (p,), means (p,), covariance (p, p), its lower bound (p, p) and the factor on
# their difference that bounds the error of the mean: distances below and above the score.
JointBounds = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, float], tuple[float, float]]


class OwnLaws(Protocol):
    """Laws of single points that are not Gaussian, such as mixtures; targets are (p, k).

    Laws without a density, or without moments, name the scores that they have not in `lacks`. Laws
    of which a few intervals are stated have their `levels`.
    """

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log densities (p,), outputs jointly."""

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Distribution functions `F(y)` (p, k)."""

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability scores (p, k)."""


def lacking(laws: OwnLaws | None) -> frozenset[str]:
    """Names of the scores that laws do not have; none for normal laws."""
    found: frozenset[str] = getattr(laws, "lacks", frozenset())
    return found


def levels_of(laws: OwnLaws) -> tuple[float, ...]:
    """Nominal levels of the central intervals that laws state."""
    found: tuple[float, ...] = getattr(laws, "levels", LEVELS)
    return found


# Function of targets (p, k) and laws that are mixtures of Gaussians: losses or parts of points.
MixtureParts = Callable[[FloatArray, OwnLaws], FloatArray]


def four_digits(value: float) -> str:
    """Return a number to four significant digits."""
    return f"{value:.4g}"


def per_cent(share: float) -> str:
    """Return a share in per cent, to one decimal."""
    return f"{100 * share:.1f} %"


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score of predictive laws against targets; see the classes below for the kinds.

    Attributes
    ----------
    name : str
        Key in the JSON and in `figures.get`; `reference_` and the name is the reference's.
    label : str
        Text in tables. For a value by levels it contains `{level}`.
    unit : str
        Unit of the value, empty for a share.
    format : callable
        Text of a number of the value.
    """

    name: str
    label: str
    unit: str = ""
    format: Callable[[float], str] = four_digits

    def heading(self, level: float | None = None) -> str:
        """Return the text of the score's row in a table, with its unit."""
        label = self.label if level is None else self.label.format(level=f"{100 * level:.0f} %")
        return f"{label}, {self.unit}" if self.unit else label


@dataclass(frozen=True, kw_only=True)
class PointScore(Score):
    """A mean of losses over points and outputs, or the root of such a mean.

    Attributes
    ----------
    points : callable
        Losses (p, k) of the points from targets, means and standard deviations, all (p, k).
    root : bool
        The score is the root of the mean loss.
    standard_error : bool
        The score has a standard error over points, and the losses of model and reference a paired
        difference.
    lower_is_better : bool
        Direction of the losses, which the table of differences states where it is upwards.
    loss_name, loss_label : str
        Key and text of the paired difference; those of the score if left empty.
    bounds : callable or None
        Least and greatest losses of laws that are known up to bounds. None: where solves stop at a
        tolerance, the score is reported as one without a bound.
    is_log_density : bool
        The losses are negative log densities, so that a mixture gives its own.
    of_mixture : callable or None
        Losses (p, k) of laws that are mixtures from targets (p, k) and the laws. None: those of
        Gaussian laws of the same moments.
    of_draws : callable or None
        Losses (p, k) of laws by draws, where few draws have losses of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import PointScore
    >>> def cubed(y, mean, std):
    ...     return np.abs(y - mean) ** 3
    >>> score = PointScore(name="cubed", label="mean cubed error", unit="mm^3", points=cubed)
    >>> losses = score.losses(np.array([[2.0], [0.0]]), np.zeros((2, 1)), np.ones((2, 1)))
    >>> score.heading(), score.value(losses)
    ('mean cubed error, mm^3', 4.0)
    """

    points: PointLosses
    root: bool = False
    standard_error: bool = True
    lower_is_better: bool = True
    loss_name: str = ""
    loss_label: str = ""
    bounds: LossBounds | None = None
    is_log_density: bool = False
    of_mixture: MixtureParts | None = None
    of_draws: Callable[[FloatArray, DrawnLaws], FloatArray] | None = None

    def losses(
        self,
        y: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        mixture: OwnLaws | None = None,
    ) -> FloatArray:
        """Loss of each point.

        Parameters
        ----------
        y, mean, std
            Targets, means and standard deviations (p, k).
        mixture
            The laws of the points where they are mixtures.

        Returns
        -------
        FloatArray
            Losses (p, k), or (p,) where they are those of a mixture.
        """
        if mixture is not None and self.is_log_density:
            return -mixture.log_density(y) / y.shape[1]
        if isinstance(mixture, DrawnLaws) and self.of_draws is not None:
            return self.of_draws(y, mixture)
        if mixture is not None and self.of_mixture is not None:
            return self.of_mixture(y, mixture)
        return self.points(y, mean, std)

    def value(self, losses: FloatArray) -> float:
        """Return the score of the losses (p, k) or (p,)."""
        mean = float(np.mean(losses))
        # Fair losses of few draws may be negative on the whole.
        return float(np.sqrt(max(mean, 0.0)) if self.root else mean)

    def error(self, losses: FloatArray, of_mean: float | None) -> float | None:
        """Standard error of the score from that of the mean loss, a root's by the delta method."""
        if not self.root or of_mean is None:
            return of_mean
        value = self.value(losses)
        return of_mean / (2 * value) if value > 0 else 0.0

    @property
    def difference_name(self) -> str:
        """Key of the paired difference of the losses."""
        return self.loss_name or self.name

    @property
    def difference_label(self) -> str:
        """Text of the paired difference of the losses."""
        label = self.loss_label or self.label
        return label if self.lower_is_better else f"{label} (higher is better)"


@dataclass(frozen=True, kw_only=True)
class MarginalScore(Score):
    """A score of the laws of single points that is no mean of losses.

    Attributes
    ----------
    function : callable
        Value from targets, means and standard deviations, all (p, k). Tables show a number, and
        numbers by levels; the shares of a histogram are left to a picture.
    points : callable or None
        Parts (p, k, l) of the points, whose means over points and outputs are the l numbers of the
        value; None where the value is no such mean.
    bounds : callable or None
        Least and greatest parts of laws that are known up to bounds. None: where solves stop at a
        tolerance, the score is reported as one without a bound.
    of_mixture : callable or None
        Parts (p, k, l) of laws that are mixtures from targets (p, k) and the laws. None: those of
        Gaussian laws of the same moments.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import MarginalScore
    >>> def longest(y, mean, std):
    ...     return float(np.max(2 * 1.96 * std))
    >>> score = MarginalScore(name="longest", label="longest interval", unit="mm", function=longest)
    >>> score.heading(), score.value(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1.0], [2.0]]))
    ('longest interval, mm', 7.84)
    """

    function: MarginalFunction
    points: PointLosses | None = None
    bounds: LossBounds | None = None
    of_mixture: MixtureParts | None = None

    def value(
        self, y: FloatArray, mean: FloatArray, std: FloatArray, mixture: OwnLaws | None = None
    ) -> ScoreValue:
        """The score of laws of means and standard deviations (p, k), or of mixtures."""
        found = self.function(y, mean, std)
        if mixture is None or self.of_mixture is None:
            return found
        parts = self.of_mixture(y, mixture)
        means = parts.mean(axis=(0, 1)).tolist()
        if isinstance(found, dict):
            return dict(zip(levels_of(mixture), means, strict=True))
        return tuple(means)

    def parts(
        self, y: FloatArray, mean: FloatArray, std: FloatArray, mixture: OwnLaws | None = None
    ) -> FloatArray | None:
        """Parts (p, k, l) of the points whose means are the value; None where it is no mean."""
        if mixture is not None and self.of_mixture is not None:
            return self.of_mixture(y, mixture)
        return None if self.points is None else self.points(y, mean, std)


@dataclass(frozen=True, kw_only=True)
class JointScore(Score):
    """A score of the joint law of all points, the mean over outputs.

    Attributes
    ----------
    function : callable
        Value from targets (p,), means (p,) and covariance (p, p) of one output.
    bounds : callable or None
        Distances below and above the value, for a law that is known up to bounds. None: where
        solves stop at a tolerance, the score is reported as one without a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import JointScore, nlpd_joint
    >>> score = JointScore(name="joint", label="joint NLPD", unit="nats", function=nlpd_joint)
    >>> score.heading()
    'joint NLPD, nats'
    >>> round(score.function(np.zeros(2), np.zeros(2), np.eye(2)), 4)  # log(2 pi) / 2
    0.9189
    """

    function: Callable[[FloatArray, FloatArray, FloatArray], float]
    bounds: JointBounds | None = None


NLPD = PointScore(
    name="nlpd", label="NLPD, marginal", unit="nats per point", is_log_density=True,
    points=point_nlpd, bounds=nlpd_bounds, loss_label="NLPD",
)  # fmt: skip
CRPS = PointScore(
    name="crps", label="CRPS", unit="units of y", points=point_crps, bounds=crps_bounds,
    of_mixture=lambda y, law: law.crps(y),
)  # fmt: skip
# Before the names of the model's scores and of the reference's.
PREFIXES = ("", "reference_")
# In the order of the rows of tables.
SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        PointScore(
            name="rmse", label="RMSE", unit="units of y", root=True,
            points=point_squared_error, bounds=squared_error_bounds,
            loss_name="squared_error", loss_label="squared error",
            of_draws=lambda y, law: law.squared_error(y),
        ),
        PointScore(
            name="mae", label="MAE", unit="units of y", points=point_absolute_error,
            bounds=absolute_error_bounds, loss_name="absolute_error", loss_label="absolute error",
        ),
        NLPD,
        JointScore(
            name="nlpd_joint", label="NLPD, joint", unit="nats per point", function=nlpd_joint,
            bounds=nlpd_joint_bounds,
        ),
        CRPS,
        PointScore(
            name="sharpness", label="sharpness (root mean variance)", unit="units of y", root=True,
            points=lambda y, mean, std: np.square(std), standard_error=False,
            bounds=variance_bounds,
        ),
        MarginalScore(
            name="coverage", label="coverage of {level} intervals", format=per_cent,
            function=coverage, points=coverage_points, bounds=coverage_bounds,
            of_mixture=lambda y, law: inside_levels(law.transforms(y), levels_of(law)),
        ),
        MarginalScore(
            name="interval_width", label="mean width of {level} intervals", unit="units of y",
            function=lambda y, mean, std: interval_width(std),
            points=interval_width_points, bounds=interval_width_bounds,
            of_mixture=lambda y, law: law.interval_widths(levels_of(law)),
        ),
        MarginalScore(
            name="pit", label="probability integral transforms", function=pit_histogram,
            points=pit_points, bounds=pit_bounds,
            of_mixture=lambda y, law: inside_bins(law.transforms(y)),
        ),
    )
}  # fmt: skip
# The package's own, which reports count on.
OWN = frozenset(SCORES)
# Figures that are no scores.
FIGURES = frozenset({
    "n_test", "n_outputs", "n_scored", "kl_per_point", "reverse_kl_per_point", "differences",
    "prior_kl_per_point", "kernel_rmse", "kernel_relative_error", "standard_errors",
})  # fmt: skip


def register_score(score: Score, *, replace: bool = False) -> None:
    """Add a score to all reports made from now on.

    Parameters
    ----------
    score
        The score.
    replace
        Put it in the place of the registered score that has its name, if there is one. The
        package's own scores stay.

    Raises
    ------
    InvalidInputError
        The score's name or the name of its paired difference is taken or no identifier.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import PointScore, audit, register_score, unregister_score
    >>> def over(y, mean, std):
    ...     return np.maximum(mean - y, 0.0)
    >>> register_score(PointScore(name="over", label="mean excess", unit="units of y", points=over))
    >>> X, y = np.arange(40.0)[:, None], np.arange(40.0)
    >>> report = audit((y[::2] + 3, np.ones(20)), X[1::2], y[1::2], X[::2], y[::2])
    >>> report.figures.get("over"), report.standard_errors["over"]
    (3.0, 0.0)
    >>> unregister_score("over")
    """
    if not isinstance(score, PointScore | MarginalScore | JointScore):
        raise wrong("score", "a PointScore, MarginalScore or JointScore", type(score))
    name = score.name
    if not name.isidentifier() or name.startswith("reference_") or name in OWN | FIGURES:
        raise wrong("name", "an identifier that is not taken", name)
    if isinstance(score, PointScore) and score.standard_error:
        taken = {other.difference_name for other in paired_scores() if other.name != name}
        if score.difference_name in taken:
            raise wrong("loss_name", "a name that is not taken", score.difference_name)
    add(SCORES, name, score, "name", replace)


def unregister_score(name: str) -> None:
    """Take a score that was registered out of all reports that are made from now on.

    Raises
    ------
    InvalidInputError
        There is none of that name, or it is one of the package's own.

    Examples
    --------
    >>> from coupledgp.diagnostics import unregister_score
    >>> unregister_score("rmse")
    Traceback (most recent call last):
        ...
    coupledgp.errors.InvalidInputError: name: expected a score that was registered, got 'rmse'
    """
    if name in OWN:
        raise wrong("name", "a score that was registered", name)
    remove(SCORES, name, "name")


def point_scores() -> list[PointScore]:
    """Return the scores that are means of losses over points."""
    return [score for score in SCORES.values() if isinstance(score, PointScore)]


def paired_scores() -> list[PointScore]:
    """Return the scores with a standard error and a paired difference."""
    return [score for score in point_scores() if score.standard_error]


def score_names() -> list[str]:
    """Return the names of all scores, each followed by that of the reference's value."""
    return [prefix + name for name in SCORES for prefix in PREFIXES]
