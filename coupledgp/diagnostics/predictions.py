"""Predictions of a model at test points: a predictive distribution, targets, roles of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude, real_array, wrong
from coupledgp.random import FloatArray

Rows = NDArray[Any]


@runtime_checkable
class Law(Protocol):
    """Predictive distribution of observations at p points, k outputs, in units of y.

    `coupledgp.diagnostics.laws` has those of Gaussians, mixtures, draws, quantiles, distribution
    objects and classes; any object with these members is one, too.

    Attributes
    ----------
    has_density, has_moments : bool
        Whether it has log densities, and means and standard deviations of its own. Draws have no
        density, quantiles neither.
    mean, std : FloatArray (p, k)
        Means and standard deviations of observations; of quantiles their middles and scales.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Law, Normal
    >>> isinstance(Normal(np.zeros((2, 1)), np.ones((2, 1))), Law)
    True
    """

    @property
    def has_density(self) -> bool: ...
    @property
    def has_moments(self) -> bool: ...
    @property
    def mean(self) -> FloatArray: ...
    @property
    def std(self) -> FloatArray: ...

    def log_density(self, y: FloatArray) -> FloatArray:
        """Log densities (p,) of targets (p, k), outputs jointly."""

    def cdf(self, y: FloatArray) -> FloatArray:
        """Distribution functions (p, k) at targets (p, k), drawn at random within atoms."""

    def ppf(self, chances: FloatArray) -> FloatArray:
        """Quantiles (p, k, l) at chances (l,)."""

    def crps(self, y: FloatArray) -> FloatArray:
        """Continuous ranked probability scores (p, k) of targets (p, k), in units of y."""

    def take(self, rows: Rows) -> Law:
        """The distribution at some of the points, by their numbers (m,)."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of one model at p test points.

    Attributes
    ----------
    law : Law
        Predictive distribution of observations, noise included, p points and k outputs.
    y : FloatArray (p, k) or None
        Targets; labels of classes as their numbers (p, 1).
    inputs : DataFrame (p rows) or None
        What the model saw of the points.
    columns : DataFrame (p rows) or None
        What it did not see: numbers, times, labels. Residuals are examined along both.
    groups : DataFrame (p rows) or None
        Labels by which coverage is looked at.
    parts : array (p,) or None
        The part of each point whose scores are given apart: `"gap"`, `"60 min"`.
    cluster : DataFrame (p rows) or None
        Labels, each column of which groups errors that go together, as sensors and times.
    positions : FloatArray (p, 2 or 3) or None
        Places of the points, for maps and neighbours.
    times : array (p,) or None
        Times of the points.
    correlation : FloatArray (p, p, k) or None
        Correlations of the standardised errors; None: unknown.
    is_stated : bool
        The correlations are those of the law itself, so that residuals are whitened by them.
    n_train : int or None
        Rows that the scale of the law was fitted to; None where it is stated.
    n_parameters : int
        Hyperparameters that were fitted.
    name, target, unit : str
        Names of the model and of what is predicted, and its unit.
    remarks : tuple of str
        What a reader should know of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Normal, Predictions
    >>> p = Predictions(Normal(np.zeros((5, 1)), np.ones((5, 1))), np.ones((5, 1)))
    >>> len(p), len(p.take([0, 3]))
    (5, 2)
    """

    law: Law
    y: FloatArray | None = None
    inputs: pd.DataFrame | None = None
    columns: pd.DataFrame | None = None
    groups: pd.DataFrame | None = None
    parts: Rows | None = None
    cluster: pd.DataFrame | None = None
    positions: FloatArray | None = None
    times: Rows | None = None
    correlation: FloatArray | None = None
    is_stated: bool = False
    n_train: int | None = None
    n_parameters: int = 0
    name: str = "model"
    target: str = "y"
    unit: str = ""
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.law.mean)

    def take(self, rows: ArrayLike) -> Predictions:
        """The predictions at some of the points, by their numbers (m,)."""
        chosen = np.asarray(rows)
        found: dict[str, Any] = {"law": self.law.take(chosen)}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, pd.DataFrame):
                found[one.name] = value.iloc[chosen].reset_index(drop=True)
            elif one.name == "correlation" and value is not None:
                found[one.name] = value[np.ix_(chosen, chosen)]
            elif isinstance(value, np.ndarray):
                found[one.name] = value[chosen]
        return replace(self, **found)


def as_frame(
    given: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame | None,
    n_points: int,
    argument: str,
    name: str = "group",
) -> pd.DataFrame | None:
    """Columns of p points as a frame; one array is called `name`.

    Raises
    ------
    InvalidInputError
        There is not one value for each point, or one is missing.
    """
    if given is None:
        return None
    named = dict(given) if isinstance(given, Mapping | pd.DataFrame) else {name: given}
    found = {}
    for key, values in named.items():
        column = np.asarray(values)
        if column.shape != (n_points,):
            raise InvalidInputError(
                f"{argument}: expected {n_points} values for {key!r}, one for each test point, got "
                f"shape {column.shape}"
            )
        missing = np.flatnonzero(pd.isna(column))
        if missing.size:
            raise InvalidInputError(
                f"{argument}: expected a value for each test point, got {column[missing[0]]!r} for "
                f"{key!r} in row {missing[0]}"
            )
        found[str(key)] = column
    return pd.DataFrame(found) if found else None


def checked_targets(y: ArrayLike, shape: tuple[int, ...], argument: str = "y") -> FloatArray:
    """Finite targets of a shape (p, k).

    Raises
    ------
    InvalidInputError
        They are no finite numbers, or of another shape.
    """
    try:
        found = real_array(y, argument)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{argument}: expected numbers, {error}") from None
    if found.shape != shape and (found.ndim != 1 or (found.size, 1) != shape):
        raise wrong(argument, f"shape {shape} or {shape[:1]}", found.shape)
    if not np.isfinite(found).all():
        raise InvalidInputError(f"{argument}: expected finite values, got NaN or inf")
    check_magnitude(found, argument)
    return found.reshape(shape)
