"""Figures of a comparison of two predictive laws, their errors, and predictions, as plain data.

Versions of the software that figures were computed with.

Other models as a report compares them with its own.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from scipy.special import ndtr

from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.quantile_laws import QuantileLaws
from coupledgp.diagnostics.scoring.score_table import PREFIXES, OwnLaws, lacking, score_names
from coupledgp.diagnostics.scoring.scores import nats_text, point_crps, point_nlpd
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class Accuracy:
    """Method by which figures were computed, and bounds and standard errors of them.

    Attributes
    ----------
    method : str
        `"dense"`: exact to rounding. `"stochastic"`: by iterative solves.
    bounds : dict of str to (float, float)
        By figure, the distances below and above it within which the true value lies, for solves
        that stop at a tolerance. `differences.nlpd` is the mean of that paired difference. For
        figures of several values, as `coverage`, each value lies within them.
    standard_errors : dict of str to float
        By figure, the standard error of random probes, widened by Student's law of
        `settings["n_probes"] - 1` degrees of freedom so that two of them hold 95.4 %, or that of
        scoring a random subset of the points.
    unbounded : list of str
        Figures that move with the solver or the subset and have neither. A figure that is in none
        of the three is exact to rounding. The standard errors of scores over points, which are
        estimates themselves, are never listed.
    settings : dict
        Tolerances, sizes and work of the stochastic method.

    Examples
    --------
    >>> from coupledgp.diagnostics import Accuracy
    >>> accuracy = Accuracy("stochastic", standard_errors={"rmse": 0.01}, unbounded=["pit"])
    >>> accuracy.text("rmse"), accuracy.text("pit"), accuracy.text("n_test")
    ('(se 0.01)', '(no bound)', '')
    >>> accuracy.how
    'by iterative solves, whose errors are bounded beside the figures'
    """

    method: str
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    standard_errors: dict[str, float] = field(default_factory=dict)
    unbounded: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """The method in words."""
        if self.method == "stochastic":
            return "by iterative solves, whose errors are bounded beside the figures"
        return "by dense algebra"

    def text(self, name: str, share: bool = False) -> str:
        """Return the error of a figure as a text such as `(se 0.001, bounds -1e-5 +2e-5)`.

        It is `(no bound)` for a figure whose error is not known, and empty for one without. Errors
        of a `share` are in per cent.
        """
        unit, text = (100.0, " %") if share else (1.0, "")
        parts = []
        if name in self.standard_errors:
            parts.append(f"se {unit * self.standard_errors[name]:.1g}{text}")
        if name in self.unbounded:
            parts.append("no bound")
        if any(self.bounds.get(name, ())):
            below, above = self.bounds[name]
            parts.append(f"bounds -{unit * below:.1g}{text} +{unit * above:.1g}{text}")
        return f"({', '.join(parts)})" if parts else ""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Figures:
    """All figures of a comparison. None means that it could not be computed from what was given.

    `get` finds scores that were registered (`register_score`) as well, under their name and
    `reference_` and their name.

    Attributes
    ----------
    n_test, n_outputs : int
        Test points and outputs.
    n_scored : int or None
        Number of test points that are scored, if not all of them are; the joint NLPD is that of
        all.
    kl_per_point : float or None
        `KL(reference || model)` of the joint predictive laws, nats per point and output. None
        where there is no reference.
    reverse_kl_per_point : float or None
        `KL(model || reference)` of the joint predictive laws, nats per point and output.
    prior_kl_per_point : float or None
        `KL(reference || model)` of the prior laws of observations, nats per point and output.
    kernel_rmse, kernel_relative_error : float or None
        Errors of the model's prior covariance of f at the test points: root mean squared error
        over entries (units of y squared), and Frobenius norm relative to the reference's.
    rmse, reference_rmse : float or None
        Root mean squared error, units of y.
    nlpd, reference_nlpd : float or None
        Marginal negative log predictive density, nats per point.
    nlpd_joint, reference_nlpd_joint : float or None
        Negative log predictive density of all points jointly, nats per point.
    mae, reference_mae, crps, reference_crps : float or None
        Mean absolute error and continuous ranked probability score, units of y.
    sharpness, reference_sharpness : float or None
        Root mean predictive variance, units of y.
    coverage, reference_coverage : dict of float to float, or None
        Share of targets inside the central interval of each nominal level.
    interval_width, reference_interval_width : dict of float to float, or None
        Mean width of those intervals, units of y.
    pit, reference_pit : tuple of float, or None
        Shares of the probability integral transforms in ten equal bins.
    standard_errors, reference_standard_errors : dict of str to float, or None
        Standard errors of `"rmse"`, `"mae"`, `"nlpd"` and `"crps"` over test points taken as
        independent; each None for a single point.
    differences : dict or None
        Losses of the model minus losses of the reference, `"squared_error"`, `"absolute_error"`,
        `"nlpd"` and `"crps"`: mean over points and its standard error, as `{"mean": ...,
        "standard_error": ...}`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> report.figures.get("rmse") == report.rmse, report.figures.n_test
    (True, 30)
    >>> sorted(report.figures.coverage)
    [0.5, 0.8, 0.95]
    """

    n_test: int
    n_outputs: int
    kl_per_point: float | None = None
    reverse_kl_per_point: float | None = None
    prior_kl_per_point: float | None = None
    kernel_rmse: float | None = None
    kernel_relative_error: float | None = None
    rmse: float | None = None
    reference_rmse: float | None = None
    nlpd: float | None = None
    reference_nlpd: float | None = None
    nlpd_joint: float | None = None
    reference_nlpd_joint: float | None = None
    coverage: dict[float, float] | None = None
    reference_coverage: dict[float, float] | None = None
    mae: float | None = None
    reference_mae: float | None = None
    crps: float | None = None
    reference_crps: float | None = None
    sharpness: float | None = None
    reference_sharpness: float | None = None
    interval_width: dict[float, float] | None = None
    reference_interval_width: dict[float, float] | None = None
    pit: tuple[float, ...] | None = None
    reference_pit: tuple[float, ...] | None = None
    standard_errors: dict[str, float | None] | None = None
    reference_standard_errors: dict[str, float | None] | None = None
    differences: dict[str, dict[str, float | None]] | None = None
    n_scored: int | None = None

    def __init__(
        self,
        n_test: int,
        n_outputs: int,
        kl_per_point: float | None = None,
        reverse_kl_per_point: float | None = None,
        **others: Any,
    ) -> None:
        given = {
            "n_test": n_test,
            "n_outputs": n_outputs,
            "kl_per_point": kl_per_point,
            "reverse_kl_per_point": reverse_kl_per_point,
        } | others
        names = dict.fromkeys([*(item.name for item in fields(self)), *score_names()])
        if unknown := sorted(set(others) - set(names)):
            raise TypeError(f"Figures: expected names of figures and scores, got {unknown}")
        # The dataclass is frozen: attributes are set past it.
        vars(self).update(names | given)

    def get(self, name: str) -> Any:
        """Return the figure of a name; None if it was not computed."""
        return vars(self).get(name)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures by name."""
        return deepcopy(vars(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Figures) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # figures hold dicts

    def __repr__(self) -> str:
        return f"Figures({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass(frozen=True, eq=False)
class OwnScores:
    """Scores of targets (p, k) under laws of single points that are not normal, as plain numbers.

    Attributes
    ----------
    transforms : FloatArray (p, k)
        Distribution functions `F(y)`.
    log_density : FloatArray (p,) or None
        Log densities, nats, outputs jointly; None for laws that have none.
    crps : FloatArray (p, k)
        Continuous ranked probability scores.
    energy : (float, float) or None
        Energy scores of joint draws, and of the same draws shuffled at each point, so that points
        are independent; None for laws without joint draws.
    below : dict of float to (float, float)
        By the chance of each stated quantile, the share of targets that are at most it, and its
        mean pinball loss in units of y.
    """

    transforms: FloatArray
    log_density: FloatArray | None
    crps: FloatArray
    energy: tuple[float, float] | None = None
    below: dict[float, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, laws: OwnLaws | None, y: FloatArray | None) -> OwnScores | None:
        """Scores of targets under laws; None without either."""
        if laws is None or y is None:
            return None
        density = None if "nlpd" in lacking(laws) else laws.log_density(y)
        found = cls(laws.transforms(y), density, laws.crps(y))
        if isinstance(laws, DrawnLaws):
            return replace(found, energy=(laws.energy(y), laws.shuffled().energy(y)))
        return replace(found, below=laws.below(y)) if isinstance(laws, QuantileLaws) else found


@dataclass(frozen=True)
class Predictions:
    """Means and standard deviations of both laws at each test point, and targets.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
        Means and standard deviations of the model, p test points and k outputs, in units of y.
    reference_mean, reference_std : FloatArray (p, k) or None
        Means and standard deviations of the reference, in units of y, if there is one.
    y : FloatArray (p, k) or None
        Targets, if there are any.
    cov, reference_cov : FloatArray (p, p, k) or None
        Joint covariances of observations, where they are known.
    points : array or None
        The points themselves, of any kind.
    own, reference_own : OwnScores or None
        Scores of the targets under laws that are not normal; None: those of normal laws.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> p = report.predictions
    >>> p.mean.shape, p.cov.shape
    ((30, 1), (30, 30, 1))
    >>> bool(np.allclose(-p.log_density.mean(), report.nlpd))
    True
    """

    mean: FloatArray
    std: FloatArray
    reference_mean: FloatArray | None
    reference_std: FloatArray | None
    y: FloatArray | None
    cov: FloatArray | None = None
    reference_cov: FloatArray | None = None
    points: Any = None
    own: OwnScores | None = None
    reference_own: OwnScores | None = None

    def laws(self) -> Iterator[tuple[str, FloatArray, FloatArray]]:
        """The prefix of its names, means and standard deviations of each law there is."""
        yield PREFIXES[0], self.mean, self.std
        if self.reference_mean is not None and self.reference_std is not None:
            yield PREFIXES[1], self.reference_mean, self.reference_std

    @property
    def log_density(self) -> FloatArray:
        """Log densities (p, k) of the targets under the model, (p, 1) of a law that is not normal.

        The outputs of the latter are scored jointly.

        Raises
        ------
        InvalidInputError
            The law has no density, as of draws and quantiles.
        """
        assert self.y is not None
        if self.own is not None:
            if self.own.log_density is None:
                raise InvalidInputError(
                    "predict: expected a law with a density, got draws or quantiles"
                )
            return self.own.log_density[:, None]
        return -point_nlpd(self.y, self.mean, self.std)

    @property
    def crps(self) -> FloatArray:
        """Continuous ranked probability scores (p, k) of the targets under the model."""
        assert self.y is not None
        return point_crps(self.y, self.mean, self.std) if self.own is None else self.own.crps

    def transforms_of(self, prefix: str) -> FloatArray:
        """Transforms `F(y)` (p, k) of the targets under the model, or under the reference.

        They are those of a mixture where the law is one, which every interval is judged by.
        """
        given = self.reference_own if prefix else self.own
        if given is not None:
            return given.transforms
        assert self.y is not None
        mean, std = next((mean, std) for name, mean, std in self.laws() if name == prefix)
        return np.asarray(ndtr((self.y - mean) / std))


# Packages whose code changes figures in their last digits.
PACKAGES = ("coupledgp", "numpy", "scipy", "torch", "gpytorch", "numba", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python, of the platform and of the installed numerical packages."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Alternative:
    """Another model, fitted to the same training rows and scored at the same test points.

    Attributes
    ----------
    name : str
    action : str
        How to get it, a sentence in the imperative.
    gain : float
        Mean paired decrease of the NLPD, that of the model minus its own, nats per point.
    standard_error : float or None
        Its standard error; where the model's joint law is known it allows for errors that near
        points share. None for a single point.
    rmse, nlpd : float
        Scores of the alternative, in units of y (of the transformed targets for a model of such)
        and nats per point.
    seconds : float
        Time of its fit and predictions.

    Examples
    --------
    >>> from coupledgp.diagnostics.scoring.figures import Alternative
    >>> trees = Alternative(
    ...     "trees", "Fit boosted trees.", 0.5, 0.25, rmse=0.3, nlpd=0.2, seconds=1.5
    ... )
    >>> trees.advantage  # standard errors by which it is better
    2.0
    """

    name: str
    action: str
    gain: float
    standard_error: float | None
    rmse: float
    nlpd: float
    seconds: float

    @property
    def advantage(self) -> float:
        """Standard errors by which it is better than the model; negative where it is worse."""
        return self.gain / self.standard_error if self.standard_error else 0.0

    def gain_text(self) -> str:
        """The gain with its sign and its standard error."""
        return nats_text(self.gain, self.standard_error, "+.3f")


@dataclass(frozen=True)
class Skipped:
    """An alternative without scores, and why."""

    name: str
    reason: str
