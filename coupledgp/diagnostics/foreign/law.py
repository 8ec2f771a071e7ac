"""Laws that a prediction, or the model of another package, states at test points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coupledgp.core.left_out import LeftOut
from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.quantile_laws import (
    DistributionLaws,
    QuantileLaws,
    is_distribution,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    check_magnitude,
    check_sizes,
    real_array,
    wrong,
)
from coupledgp.random import FloatArray

# Largest difference across the diagonal of a covariance, in units of its largest variance: rounding
# of single precision. A Cholesky factor that is given in its place has more.
ASYMMETRY = 1e-3
# Fewest draws of a law.
FEWEST_DRAWS = 8
# Least standard deviation of the draws of a point, in units of the largest.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class ForeignLaw:
    """Law of observations at p points.

    Attributes
    ----------
    mean, variance : FloatArray (p,)
    cov : FloatArray (p, p) or None
        Joint covariance, where it is known.
    own : DrawnLaws, LeftOut, QuantileLaws, DistributionLaws or None
        The laws of single points where they are not normal: draws, a mixture of Gaussians,
        quantiles or a distribution. The mean and the variance are theirs.
    form : str
        What they are, in words.
    """

    mean: FloatArray
    variance: FloatArray
    cov: FloatArray | None = None
    own: DrawnLaws | LeftOut | QuantileLaws | DistributionLaws | None = None
    form: str = ""

    @classmethod
    def of(cls, mean: Any, spread: Any, n_points: int) -> ForeignLaw:
        """Law of means (p,) and standard deviations (p,), or covariance (p, p).

        Raises
        ------
        InvalidInputError
            Shapes do not fit, numbers are not finite or beyond the limits of
            `coupledgp.ground.validation`, a variance is not positive, or a covariance
            is not symmetric.
        """
        mean, spread = (_numbers(value) for value in (mean, spread))
        if mean.size != n_points:
            raise InvalidInputError(f"predict: expected {n_points} means, got shape {mean.shape}")
        if spread.shape == (n_points, n_points) and n_points > 1:
            variance, cov = np.diagonal(spread), spread
        elif spread.size == n_points:
            variance, cov = np.square(spread.reshape(-1)), None
        else:
            raise InvalidInputError(
                f"predict: expected standard deviations ({n_points},) or a covariance "
                f"({n_points}, {n_points}), got shape {spread.shape}"
            )
        stated = variance if cov is not None else spread
        if not (stated > 0).all():
            raise InvalidInputError(
                "predict: expected positive standard deviations or variances, got "
                f"{float(stated.min()):g} among them"
            )
        check_magnitude(mean, "predict")
        check_sizes(np.sqrt(variance) if cov is not None else spread, "predict")
        if cov is not None and np.abs(cov - cov.T).max() > ASYMMETRY * variance.max():
            raise InvalidInputError(
                "predict: expected a symmetric covariance, got one with entries that differ by "
                f"{float(np.abs(cov - cov.T).max()):.2g} from those across the diagonal"
            )
        return cls(mean.reshape(-1), variance, cov)

    @classmethod
    def of_mixture(cls, means: Any, stds: Any, weights: Any = None) -> ForeignLaw:
        """Mixture of m laws, means and standard deviations (m, p), weights (m,) or equal ones."""
        means, stds = (_numbers(value) for value in (means, stds))
        m, p = means.shape
        each = [cls.of(mean, std, p) for mean, std in zip(means, stds, strict=True)]
        shares = np.full(m, 1 / m) if weights is None else _numbers(weights).reshape(-1)
        if shares.shape != (m,) or not (shares >= 0).all() or not shares.sum() > 0:
            raise wrong("predict", f"{m} weights that are not negative", shares.tolist())
        shares = shares / shares.sum()
        variances = np.array([one.variance for one in each])
        mean = shares @ means
        variance = shares @ (variances + np.square(means - mean))
        own = LeftOut(means[..., None], variances[..., None], shares)
        return cls(mean, variance, own=own, form=f"a mixture of {m} Gaussian laws")

    @classmethod
    def of_samples(cls, samples: Any, n_points: int) -> ForeignLaw:
        """Law of draws (n_samples, p) or (n_chains, n_draws, p), 8 or more."""
        draws = _numbers(_draws_first(samples))
        if draws.size == n_points:
            raise InvalidInputError(
                f"predict: expected standard deviations ({n_points},) beside the means, (mean, "
                "std), got means alone, which are no law"
            )
        draws = draws.reshape(-1, draws.shape[-1]) if draws.ndim == 3 else draws
        if draws.ndim != 2 or draws.shape[1] != n_points or len(draws) < FEWEST_DRAWS:
            raise InvalidInputError(
                f"predict: expected at least 8 draws of {n_points} points, (n_samples, "
                f"{n_points}) or (n_chains, n_draws, {n_points}), got shape {draws.shape}"
            )
        own = DrawnLaws(draws[..., None])
        mean, std = own.mean[:, 0], np.sqrt(own.variance[:, 0])
        if not (std > 0).any():
            raise InvalidInputError("predict: expected draws that differ, got equal ones")
        # Where observations have atoms, as dry days, all draws of a point may be equal.
        std = np.maximum(std, LEAST_SPREAD * std.max())
        found = cls.of(mean, std, n_points)
        return replace(found, own=own, form=f"{len(draws)} draws")

    @classmethod
    def of_quantiles(cls, chances: Any, values: Any, n_points: int) -> ForeignLaw:
        """Law of quantiles (p, l) or (l, p) at chances (l,).

        Raises
        ------
        InvalidInputError
            Chances are not between zero and one, shapes do not fit, or quantiles descend.
        """
        levels, found = _numbers(chances).reshape(-1), _numbers(values)
        if not len(levels) or not ((levels > 0) & (levels < 1)).all():
            raise wrong("predict", "chances of quantiles between 0 and 1", levels.tolist())
        if len(np.unique(levels)) < len(levels):
            raise wrong("predict", "chances of quantiles that differ", levels.tolist())
        if found.shape != (n_points, len(levels)) and found.shape == (len(levels), n_points):
            found = found.T
        if found.shape != (n_points, len(levels)):
            raise InvalidInputError(
                f"predict: expected quantiles ({n_points}, {len(levels)}), got shape {found.shape}"
            )
        order = np.argsort(levels)
        levels, found = levels[order], np.ascontiguousarray(found[:, order])
        if (np.diff(found, axis=1) < 0).any():
            row = int(np.flatnonzero((np.diff(found, axis=1) < 0).any(axis=1))[0])
            raise InvalidInputError(
                f"predict: expected quantiles that do not descend, got {found[row].tolist()} at "
                f"the chances {levels.tolist()} in row {row}"
            )
        own = QuantileLaws(levels, found[:, None])
        middle, scale = own.moments()
        form = f"quantiles at the chances {', '.join(f'{level:g}' for level in levels)}"
        return replace(cls.of(middle[:, 0], scale[:, 0], n_points), own=own, form=form)

    @classmethod
    def of_interval(cls, lower: Any, upper: Any, level: float, n_points: int) -> ForeignLaw:
        """Law of which the central interval of a level is stated, its ends (p,)."""
        if not 0 < float(level) < 1:
            raise InvalidInputError(f"predict: expected a level between 0 and 1, got {level}")
        ends = [_numbers(end).reshape(-1) for end in (lower, upper)]
        chances = [(1 - level) / 2, (1 + level) / 2]
        found = cls.of_quantiles(chances, np.stack(ends, axis=1), n_points)
        return replace(found, form=f"intervals of {100 * level:g} %")

    @classmethod
    def of_distribution(cls, distribution: Any, n_points: int) -> ForeignLaw:
        """Law of a frozen distribution, as of `scipy.stats`, of parameters (p,) or numbers."""
        own = DistributionLaws.of(distribution, n_points)
        try:
            mean, std = own.moments()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"predict: expected a distribution of {n_points} points ({error})"
            ) from None
        if not (np.isfinite(mean).all() and np.isfinite(std).all()):
            raise InvalidInputError(
                "predict: expected a distribution with a mean and a variance; state quantiles of "
                "one that has none"
            )
        kind = getattr(getattr(distribution, "dist", distribution), "name", "")
        name = kind or type(distribution).__name__
        return replace(cls.of(mean, std, n_points), own=own, form=f"the distribution {name}")

    def with_noise(self, noise: float) -> ForeignLaw:
        """The law of observations of a Gaussian law of f.

        Raises
        ------
        InvalidInputError
            The law is not Gaussian.
        """
        if self.own is not None:
            raise InvalidInputError(
                f"latent: expected means and standard deviations or a covariance of f, got "
                f"{self.form}; add the noise to them"
            )
        cov = None if self.cov is None else self.cov + noise * np.eye(len(self.mean))
        return replace(self, variance=self.variance + noise, cov=cov)

    def take(self, rows: Any) -> ForeignLaw:
        """The law at some of the points."""
        cov = None if self.cov is None else self.cov[np.ix_(rows, rows)]
        own = None if self.own is None else self.own.take(rows)
        return replace(self, mean=self.mean[rows], variance=self.variance[rows], cov=cov, own=own)

    @property
    def law(self) -> Law:
        """The law; its covariance is diagonal where only single points are known."""
        cov = np.diag(self.variance) if self.cov is None else 0.5 * (self.cov + self.cov.T)
        return Law(self.mean[:, None], cov[..., None])

    @property
    def joint(self) -> Law | None:
        """A law whose correlations are those of the points, where they are known.

        Those of draws are shrunk towards zero as far as the draws are few.
        """
        if self.cov is not None:
            return self.law
        if not isinstance(self.own, DrawnLaws):
            return None
        std = np.sqrt(self.variance)[:, None]
        return Law(self.mean[:, None], self.own.correlation() * std[:, None] * std[None])


def law_of_prediction(prediction: Any, n_points: int) -> ForeignLaw:
    """Law of a prediction of p points in any of its forms.

    A pair of means and standard deviations or covariance, or of both of an ensemble. A mapping,
    data frame or data set with `mean` and `std`; `means`, `stds` and `weights` of a mixture;
    `lower`, `upper` and `level`; `quantiles` and `levels`, or columns whose names are chances;
    `draws`, or those of the posterior predictive group of ArviZ. A frozen distribution, or one of
    torch with a covariance. Anything else is draws.
    """
    if _has(prediction, "posterior_predictive"):
        prediction = _only_variable(prediction["posterior_predictive"])
    if _is_named(prediction):
        return _law_of_named(prediction, n_points)
    if is_distribution(prediction) and not hasattr(prediction, "__array__"):
        return ForeignLaw.of_distribution(prediction, n_points)
    if hasattr(prediction, "covariance_matrix"):  # of torch and gpytorch
        return ForeignLaw.of(prediction.mean, prediction.covariance_matrix, n_points)
    if isinstance(prediction, tuple | list) and len(prediction) == 2:
        mean, spread = prediction
        shape = np.shape(mean)
        if len(shape) == 2 and shape == np.shape(spread) and shape[1] == n_points > 1 < shape[0]:
            return ForeignLaw.of_mixture(mean, spread)
        return ForeignLaw.of(mean, spread, n_points)
    names = [*map(str, prediction.keys())] if hasattr(prediction, "keys") else None
    if names is not None and len(names) != n_points:  # a frame of draws has p columns
        raise InvalidInputError(
            "predict: expected the names 'mean' and 'std', 'lower', 'upper' and 'level', or those "
            f"of chances such as '0.1', got {', '.join(map(repr, names))}"
        )
    return ForeignLaw.of_samples(prediction, n_points)


def _is_named(prediction: Any) -> bool:
    """Whether a prediction has parts with names that say what they are."""
    known = ({"mean", "std"}, {"means", "stds"}, {"lower", "upper", "level"},
             {"quantiles", "levels"}, {"draws"})  # fmt: skip
    return any(all(_has(prediction, name) for name in names) for names in known) or bool(
        chance_names(prediction)
    )


def _law_of_named(given: Any, n_points: int) -> ForeignLaw:
    """Law of a mapping, data frame or data set whose names say what it has."""
    if _has(given, "means"):
        weights = given["weights"] if _has(given, "weights") else None
        return ForeignLaw.of_mixture(given["means"], given["stds"], weights)
    if _has(given, "lower"):
        level = float(np.ravel(given["level"])[0])
        return ForeignLaw.of_interval(given["lower"], given["upper"], level, n_points)
    if _has(given, "quantiles"):
        return ForeignLaw.of_quantiles(given["levels"], given["quantiles"], n_points)
    if _has(given, "draws"):
        return ForeignLaw.of_samples(given["draws"], n_points)
    if named := chance_names(given):
        columns = [_numbers(given[name]).reshape(-1) for name in named]
        return ForeignLaw.of_quantiles(list(named.values()), np.stack(columns, axis=1), n_points)
    return ForeignLaw.of(given["mean"], given["std"], n_points)


def chance_names(given: Any) -> dict[Any, float]:
    """Names of columns that are all chances between zero and one, such as 0.1, and their values."""
    if not hasattr(given, "keys") or _has(given, "mean"):
        return {}
    found = {}
    for name in list(given.keys()):  # not rows of a frame
        try:
            found[name] = float(str(name).lower().removeprefix("q"))
        except ValueError:
            return {}
    return found if found and all(0 < chance < 1 for chance in found.values()) else {}


def _has(value: Any, name: str) -> bool:
    """Whether a mapping, data frame or data set has a column of a name."""
    return hasattr(value, "keys") and name in set(value.keys())  # not rows of a frame


def _only_variable(group: Any) -> Any:
    """The draws of the one variable of a group of ArviZ."""
    names = [str(name) for name in group.data_vars]
    if len(names) != 1:
        raise InvalidInputError(
            "predict: expected one variable in posterior_predictive, got "
            f"{', '.join(map(repr, names))}; give the draws of one, "
            "data.posterior_predictive['NAME']"
        )
    return group[names[0]]


def _draws_first(samples: Any) -> Any:
    """Draws in the order of chains, draws and points where their dimensions have names."""
    names = [name for name in getattr(samples, "dims", ()) if name in ("chain", "draw", "sample")]
    return samples.transpose(*sorted(names), ...) if names else samples


def _numbers(value: Any) -> FloatArray:
    """Finite numbers of an array or tensor."""
    value = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = real_array(value, "predict")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "predict: expected a fitted model, a function of the test inputs, means and standard "
            f"deviations (or a covariance), or draws (n_samples, p), got {type(value).__name__} "
            f"({error})"
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError("predict: expected finite predictions, got NaN or inf")
    check_magnitude(array, "predict", LARGEST_PRODUCT)
    return array
