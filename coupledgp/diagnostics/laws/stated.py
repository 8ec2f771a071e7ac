"""Predictive distributions that somebody states: arrays, frames, draws, objects, chances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.diagnostics.laws.draws import Draws
from coupledgp.diagnostics.laws.mixtures import Mixture
from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.diagnostics.laws.quantiles import Quantiles
from coupledgp.diagnostics.predictions import Law
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    check_magnitude,
    check_sizes,
    real_array,
    wrong,
)
from coupledgp.random import FloatArray, IntArray

# Seed of the uniform numbers of randomised transforms, and quantiles that a ranked probability
# score is summed over.
JUMPS, N_QUANTILES = 23, 200
# Largest difference across the diagonal of a covariance, in units of its largest variance: rounding
# of single precision. A Cholesky factor that is given in its place has more.
ASYMMETRY = 1e-3
# Fewest draws.
FEWEST_DRAWS = 8
# Least chance of a label in a log loss, and largest difference of the sum of chances from one.
LEAST_CHANCE, SUM_TOLERANCE = 1e-15, 1e-3


@dataclass(frozen=True, eq=False)
class Distribution:
    """Distributions of observations at p points by a frozen one, as of `scipy.stats`.

    Attributes
    ----------
    distribution : Any
        With `cdf`, `ppf` and `logpdf` or `logpmf`, of values (p,) for parameters (p,) or numbers.
    rows : IntArray (p,)
        Numbers of the points among those of the distribution.
    n_rows : int
        Number of points of the distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from coupledgp.diagnostics import Distribution
    >>> law = Distribution(stats.poisson([1.0, 4.0]), np.arange(2), 2)
    >>> law.mean.ravel().tolist(), law.is_discrete
    ([1.0, 4.0], True)
    """

    distribution: Any
    rows: IntArray
    n_rows: int

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @property
    def is_discrete(self) -> bool:
        """Whether observations are whole numbers, with chances in place of densities."""
        one = getattr(self.distribution, "dist", self.distribution)
        return hasattr(one, "pmf") and not hasattr(one, "pdf")

    def _of(self, values: Any) -> FloatArray:
        """Values (p,) of the points, from those of all or from one for all."""
        return np.broadcast_to(np.asarray(values, dtype=np.float64), (self.n_rows,))[self.rows]

    def _at(self, function: Callable[[FloatArray], Any], y: FloatArray) -> FloatArray:
        """Values (p,) of a function of targets (p,), that takes those of all points."""
        given = np.full(self.n_rows, y[0])
        given[self.rows] = y
        return self._of(function(given))

    @property
    def mean(self) -> FloatArray:
        return self._of(self.distribution.mean())[:, None]

    @property
    def std(self) -> FloatArray:
        return self._of(self.distribution.std())[:, None]

    def log_density(self, y: FloatArray) -> FloatArray:
        """Log densities (p,), or log chances of discrete observations."""
        own = self.distribution
        return self._at(own.logpmf if self.is_discrete else own.logpdf, y[:, 0])

    def cdf(self, y: FloatArray) -> FloatArray:
        """`F(y)` (p, 1), uniform between `F(y - 1)` and `F(y)` for discrete observations."""
        found = self._at(self.distribution.cdf, y[:, 0])
        if self.is_discrete:
            u = np.random.default_rng(JUMPS).uniform(size=len(y))
            found = found - u * np.exp(self._at(self.distribution.logpmf, y[:, 0]))
        return np.clip(found, 0.0, 1.0)[:, None]

    def ppf(self, chances: FloatArray) -> FloatArray:
        found = [self._of(self.distribution.ppf(float(chance))) for chance in chances]
        return np.stack(found, axis=-1)[:, None]

    def crps(self, y: FloatArray) -> FloatArray:
        """Mean pinball loss of 200 quantiles, twice."""
        total = np.zeros(len(y))
        for chance in (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES:
            gap = self._of(self.distribution.ppf(chance)) - y[:, 0]
            total += 2 * ((gap >= 0) - chance) * gap
        return (total / N_QUANTILES)[:, None]

    def take(self, rows: IntArray) -> Distribution:
        return replace(self, rows=self.rows[rows])


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of classes at p points; targets are the places (p, 1) of labels among the classes.

    Attributes
    ----------
    chances : FloatArray (p, K)
        Chances of each class; rows sum to one.
    classes : NDArray (K,)
        Labels of the classes.
    draws : IntArray (m, p) or None
        Places of labels drawn from the joint distribution; None: points are independent.

    Examples
    --------
    >>> from coupledgp.diagnostics import Chances
    >>> law = Chances.of([0.2, 0.7], ["dry", "wet"], 2)
    >>> law.codes(["wet", "dry"]).tolist(), law.predicted.tolist()
    ([1, 0], [0, 1])
    """

    chances: FloatArray
    classes: NDArray[Any]
    draws: IntArray | None = None

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @classmethod
    def of(cls, chances: Any, classes: Any, n_points: int, name: str = "model") -> Chances:
        """Chances (p, K), or (p,) of the second of two classes, as somebody states them.

        Raises
        ------
        InvalidInputError
            Shapes do not fit, or numbers are no chances.
        """
        found, labels = real_array(chances, name), np.asarray(classes)
        if found.ndim == 1 and len(labels) == 2:
            found = np.column_stack([1 - found, found])
        if found.shape != (n_points, len(labels)):
            raise InvalidInputError(
                f"{name}: expected chances ({n_points}, {len(labels)}) of the classes "
                f"{labels.tolist()}, got shape {found.shape}"
            )
        sums = found.sum(axis=1)
        if not (found >= -SUM_TOLERANCE).all() or np.abs(sums - 1).max() > SUM_TOLERANCE:
            raise InvalidInputError(
                f"{name}: expected chances that are not negative and sum to one, got a row of sum "
                f"{sums[np.abs(sums - 1).argmax()]:.4g} and a least chance of {found.min():.3g}"
            )
        found = np.maximum(found, 0.0)
        return cls(found / found.sum(axis=1, keepdims=True), labels)

    def codes(self, labels: Any, name: str = "y") -> IntArray:
        """Places (p,) of labels among the classes.

        Raises
        ------
        InvalidInputError
            There is not one label a point, or one that is none of the classes.
        """
        given = np.asarray(labels).reshape(-1)
        if len(given) != len(self.chances):
            raise wrong(name, f"{len(self.chances)} labels, one a point", len(given))
        order = np.argsort(self.classes)
        try:
            places = np.searchsorted(self.classes, given, sorter=order).clip(max=len(order) - 1)
            found = order[places]
            strange = self.classes[found] != given
        except TypeError:
            raise wrong(name, f"labels like {self.classes.tolist()}", given[:3].tolist()) from None
        if np.any(strange):
            raise wrong(name, f"labels {self.classes.tolist()}", given[strange].tolist()[0])
        return np.asarray(found)

    @property
    def mean(self) -> FloatArray:
        return self.chances

    @property
    def std(self) -> FloatArray:
        return np.sqrt(self.chances * (1 - self.chances))

    @property
    def log_chances(self) -> FloatArray:
        """Logarithms (p, K) of the chances, nats."""
        return np.log(np.maximum(self.chances, LEAST_CHANCE))

    def log_density(self, y: FloatArray) -> FloatArray:
        """Log chances (p,) of the labels."""
        codes = y.reshape(-1).astype(int)
        return self.log_chances[np.arange(len(codes)), codes]

    def squared_error(self, y: FloatArray) -> FloatArray:
        """Brier scores `sum_c (p_c - [y = c])^2` (p, 1)."""
        codes = y.reshape(-1).astype(int)
        own = self.chances[np.arange(len(codes)), codes]
        return (np.square(self.chances).sum(axis=1) - 2 * own + 1)[:, None]

    def cdf(self, y: FloatArray) -> FloatArray:
        raise InvalidInputError("model: expected a distribution of numbers, got chances of classes")

    def ppf(self, chances: FloatArray) -> FloatArray:
        raise InvalidInputError("model: expected a distribution of numbers, got chances of classes")

    def crps(self, y: FloatArray) -> FloatArray:
        raise InvalidInputError("model: expected a distribution of numbers, got chances of classes")

    @property
    def predicted(self) -> IntArray:
        """Places (p,) of the most probable classes."""
        return self.chances.argmax(axis=1)

    def event(self) -> tuple[FloatArray, IntArray]:
        """Chance (p,) and place (p,) of the class whose calibration is looked at.

        It is the second one of two classes, and the most probable one of more.
        """
        if len(self.classes) == 2:
            return self.chances[:, 1], np.ones(len(self.chances), dtype=int)
        top = self.predicted
        return self.chances[np.arange(len(top)), top], top

    def take(self, rows: IntArray) -> Chances:
        draws = None if self.draws is None else self.draws[:, rows]
        return Chances(self.chances[rows], self.classes, draws)


def normal_of(mean: Any, spread: Any, n_points: int) -> Normal:
    """The distribution of means (p,) and standard deviations (p,), or a covariance (p, p).

    Raises
    ------
    InvalidInputError
        Shapes do not fit, numbers are not finite or too large, a variance is not positive, or a
        covariance is not symmetric.
    """
    mean, spread = (_numbers(value) for value in (mean, spread))
    if mean.size != n_points:
        raise InvalidInputError(f"model: expected {n_points} means, got shape {mean.shape}")
    if spread.shape == (n_points, n_points) and n_points > 1:
        variance, cov = np.diagonal(spread), spread
    elif spread.size == n_points:
        variance, cov = np.square(spread.reshape(-1)), None
    else:
        raise InvalidInputError(
            f"model: expected standard deviations ({n_points},) or a covariance "
            f"({n_points}, {n_points}), got shape {spread.shape}"
        )
    stated = variance if cov is not None else spread
    if not (stated > 0).all():
        raise InvalidInputError(
            "model: expected positive standard deviations or variances, got "
            f"{float(stated.min()):g} among them"
        )
    check_magnitude(mean, "model")
    check_sizes(np.sqrt(variance) if cov is not None else spread, "model")
    if cov is not None and np.abs(cov - cov.T).max() > ASYMMETRY * variance.max():
        raise InvalidInputError(
            "model: expected a symmetric covariance, got one with entries that differ by "
            f"{float(np.abs(cov - cov.T).max()):.2g} from those across the diagonal"
        )
    column = mean.reshape(-1, 1)
    if cov is None:
        return Normal(column, np.sqrt(variance)[:, None])
    return Normal.joint(column, 0.5 * (cov + cov.T)[..., None])


def mixture_of(means: Any, stds: Any, weights: Any = None) -> Mixture:
    """Mixture of m Gaussians, means and standard deviations (m, p), weights (m,) or equal ones."""
    means, stds = (_numbers(value) for value in (means, stds))
    m, p = means.shape
    for mean, std in zip(means, stds, strict=True):
        normal_of(mean, std, p)
    shares = np.full(m, 1 / m) if weights is None else _numbers(weights).reshape(-1)
    if shares.shape != (m,) or not (shares >= 0).all() or not shares.sum() > 0:
        raise wrong("model", f"{m} weights that are not negative", shares.tolist())
    return Mixture.of(means[..., None], stds[..., None], shares / shares.sum())


def draws_of(samples: Any, n_points: int) -> Draws:
    """Draws (n_samples, p) or (n_chains, n_draws, p), 8 or more."""
    draws = _numbers(_draws_first(samples))
    if draws.size == n_points:
        raise InvalidInputError(
            f"model: expected standard deviations ({n_points},) beside the means, (mean, std), got "
            "means alone, which are no distribution"
        )
    draws = draws.reshape(-1, draws.shape[-1]) if draws.ndim == 3 else draws
    if draws.ndim != 2 or draws.shape[1] != n_points or len(draws) < FEWEST_DRAWS:
        raise InvalidInputError(
            f"model: expected at least 8 draws of {n_points} points, (n_samples, {n_points}) or "
            f"(n_chains, n_draws, {n_points}), got shape {draws.shape}"
        )
    found = Draws(draws[..., None])
    if not (found.variance > 0).any():
        raise InvalidInputError("model: expected draws that differ, got equal ones")
    return found


def quantiles_of(chances: Any, values: Any, n_points: int) -> Quantiles:
    """Quantiles (p, l) or (l, p) at chances (l,).

    Raises
    ------
    InvalidInputError
        Chances are not between zero and one, shapes do not fit, or quantiles descend.
    """
    levels, found = _numbers(chances).reshape(-1), _numbers(values)
    if not len(levels) or not ((levels > 0) & (levels < 1)).all():
        raise wrong("model", "chances of quantiles between 0 and 1", levels.tolist())
    if len(np.unique(levels)) < len(levels):
        raise wrong("model", "chances of quantiles that differ", levels.tolist())
    if found.shape != (n_points, len(levels)) and found.shape == (len(levels), n_points):
        found = found.T
    if found.shape != (n_points, len(levels)):
        raise InvalidInputError(
            f"model: expected quantiles ({n_points}, {len(levels)}), got shape {found.shape}"
        )
    order = np.argsort(levels)
    levels, found = levels[order], np.ascontiguousarray(found[:, order])
    if (np.diff(found, axis=1) < 0).any():
        row = int(np.flatnonzero((np.diff(found, axis=1) < 0).any(axis=1))[0])
        raise InvalidInputError(
            f"model: expected quantiles that do not descend, got {found[row].tolist()} at the "
            f"chances {levels.tolist()} in row {row}"
        )
    return Quantiles(levels, found[:, None])


def distribution_of(distribution: Any, n_points: int) -> Distribution:
    """A frozen distribution, as of `scipy.stats`, of parameters (p,) or numbers."""
    found = Distribution(distribution, np.arange(n_points), n_points)
    try:
        finite = np.isfinite(found.mean).all() and np.isfinite(found.std).all()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"model: expected a distribution of {n_points} points ({error})"
        ) from None
    if not finite:
        raise InvalidInputError(
            "model: expected a distribution with a mean and a variance; state quantiles of one "
            "that has none"
        )
    return found


def law_of_prediction(prediction: Any, n_points: int) -> Law:
    """The distribution that a prediction of p points states, in any of its forms.

    A law as it is. A pair of means and standard deviations or covariance, or of both of an
    ensemble. A mapping, data frame or data set with `mean` and `std`; `means`, `stds` and `weights`
    of a mixture; `lower`, `upper` and `level`; `quantiles` and `levels`, or columns whose names are
    chances; `chances` and `classes`; `draws`, or those of the posterior predictive group of ArviZ.
    A frozen distribution, or one of torch with a covariance. Anything else is draws.
    """
    if isinstance(prediction, Law):
        return prediction
    if _has(prediction, "posterior_predictive"):
        prediction = _only_variable(prediction["posterior_predictive"])
    if _has(prediction, "chances") and _has(prediction, "classes"):
        return Chances.of(prediction["chances"], prediction["classes"], n_points)
    if _is_named(prediction):
        return _of_named(prediction, n_points)
    if is_distribution(prediction) and not hasattr(prediction, "__array__"):
        return distribution_of(prediction, n_points)
    if hasattr(prediction, "covariance_matrix"):  # of torch and gpytorch
        return normal_of(prediction.mean, prediction.covariance_matrix, n_points)
    if isinstance(prediction, tuple | list) and len(prediction) == 2:
        mean, spread = prediction
        shape = np.shape(mean)
        if len(shape) == 2 and shape == np.shape(spread) and shape[1] == n_points > 1 < shape[0]:
            return mixture_of(mean, spread)
        return normal_of(mean, spread, n_points)
    names = [*map(str, prediction.keys())] if hasattr(prediction, "keys") else None
    if names is not None and len(names) != n_points:  # a frame of draws has p columns
        raise InvalidInputError(
            "model: expected the names 'mean' and 'std', 'lower', 'upper' and 'level', or those "
            f"of chances such as '0.1', got {', '.join(map(repr, names))}"
        )
    return draws_of(prediction, n_points)


def remarks_of(law: Law) -> tuple[str, ...]:
    """What a reader should know of a distribution that is not normal."""
    if isinstance(law, Normal | Chances):
        return ()
    kl = "A KL is that of the normal distribution of the same moments."
    if isinstance(law, Draws):
        n = len(law.draws)
        form = f"{n} draws"
        kl = (
            f"A KL is that of the moments of {n} draws, which alone give one of about {1 / n:.1g} "
            "nats per point."
        )
    elif isinstance(law, Quantiles):
        form = f"quantiles at the chances {', '.join(f'{one:g}' for one in law.chances)}"
        kl = "A KL is that of normal distributions with the same quantiles."
    elif isinstance(law, Mixture):
        form = f"a mixture of {len(law.parts.shares)} distributions"
    elif isinstance(law, Distribution):
        own = law.distribution
        kind = getattr(getattr(own, "dist", own), "name", "")
        form = f"the distribution {kind or type(own).__name__}"
    else:
        return ()
    found = (f"The predictive distribution is stated by {form}.", kl)
    if law.has_density:
        return found
    return (*found, "It has no density: it is compared by the CRPS in place of the NLPD.")


def is_distribution(value: Any) -> bool:
    """Whether a value has a distribution function, quantiles and moments."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("cdf", "ppf", "mean", "std")
    )


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


def _is_named(prediction: Any) -> bool:
    """Whether a prediction has parts with names that say what they are."""
    known = ({"mean", "std"}, {"means", "stds"}, {"lower", "upper", "level"},
             {"quantiles", "levels"}, {"draws"})  # fmt: skip
    return any(all(_has(prediction, name) for name in names) for names in known) or bool(
        chance_names(prediction)
    )


def _of_named(given: Any, n_points: int) -> Law:
    """The distribution of a mapping, data frame or data set whose names say what it has."""
    if _has(given, "means"):
        weights = given["weights"] if _has(given, "weights") else None
        return mixture_of(given["means"], given["stds"], weights)
    if _has(given, "lower"):
        level = float(np.ravel(given["level"])[0])
        if not 0 < level < 1:
            raise InvalidInputError(f"model: expected a level between 0 and 1, got {level}")
        ends = np.stack([_numbers(given[end]).reshape(-1) for end in ("lower", "upper")], axis=1)
        return quantiles_of([(1 - level) / 2, (1 + level) / 2], ends, n_points)
    if _has(given, "quantiles"):
        return quantiles_of(given["levels"], given["quantiles"], n_points)
    if _has(given, "draws"):
        return draws_of(given["draws"], n_points)
    if named := chance_names(given):
        columns = [_numbers(given[name]).reshape(-1) for name in named]
        return quantiles_of(list(named.values()), np.stack(columns, axis=1), n_points)
    return normal_of(given["mean"], given["std"], n_points)


def _has(value: Any, name: str) -> bool:
    """Whether a mapping, data frame or data set has a column of a name."""
    return hasattr(value, "keys") and name in set(value.keys())  # not rows of a frame


def _only_variable(group: Any) -> Any:
    """The draws of the one variable of a group of ArviZ."""
    names = [str(name) for name in group.data_vars]
    if len(names) != 1:
        raise InvalidInputError(
            f"model: expected one variable in posterior_predictive, got "
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
        array = real_array(value, "model")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "model: expected a fitted model, a function of the test inputs, means and standard "
            f"deviations (or a covariance), or draws (n_samples, p), got {type(value).__name__} "
            f"({error})"
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError("model: expected finite predictions, got NaN or inf")
    check_magnitude(array, "model", LARGEST_PRODUCT)
    return array
