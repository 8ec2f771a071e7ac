"""Grids of places: rows of a table for all combinations of coordinates, and answers as arrays.

Which predictions are extrapolations, in one warning that names rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.estimator import interval_ends
from coupledgp.core.seen import DISTANT, FAR_RANGES, MOST_DISTANT, Seen
from coupledgp.core.stored import FittedModel
from coupledgp.core.transformed import has_normal_noise
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.ground.validation import MOST_NAMED, check_vector, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.codes import DEGREES
from coupledgp.tables.samplers import Columns, FittedToTable

# What variables of a dataset are, in words.
LONG_NAMES = {
    "mean": "posterior mean",
    "std": "posterior standard deviation",
    "lower": "lower end of the interval of an observation",
    "upper": "upper end of the interval of an observation",
    "chance": "probability of the class",
    "label": "most probable class",
}


@dataclass(frozen=True, eq=False)
class PlaceGrid:
    """Coordinates of places, and values of the other columns.

    Attributes
    ----------
    coordinates : dict of str to FloatArray
        Values of each place, in the order of the answer's axes.
    others : dict of str to Any
        One value for each other column.
    degrees : dict of str to str
        Which coordinates are `"latitude"` and `"longitude"`.
    """

    coordinates: dict[str, FloatArray]
    others: dict[str, Any]
    degrees: dict[str, str]

    @classmethod
    def of(
        cls,
        coordinates: Mapping[str, ArrayLike],
        others: Mapping[str, Any] | None,
        columns: Columns,
        places: IntArray | None,
    ) -> Self:
        """Check coordinates against the places (d,), numbers of encoded columns, of a table.

        Without places (None) any columns of the table may be coordinates.

        Raises
        ------
        InvalidInputError
            A name is no place or column, or a place or column has no value.
        """
        every = [columns.name(j) for j in range(columns.n_features)]
        wanted = [name for name in every if name in coordinates] or every
        if places is not None:
            wanted = [columns.name(source) for source in columns.sources_of(places)]
        own = dict(others or {})
        if sorted(coordinates) != sorted(wanted):
            raise InvalidInputError(
                f"coordinates: expected values of {', '.join(wanted)}, got {', '.join(coordinates)}"
            )
        rest = set(every) - set(wanted)
        if set(own) != rest:
            raise wrong("others", f"a value for each of {sorted(rest)}", sorted(own))
        found = {}
        for name, values in coordinates.items():
            found[name] = check_vector(values, f"coordinates[{name!r}]")
        encoding = columns.encoding
        pair = () if encoding is None or encoding.places is None else encoding.places
        named = {columns.name(j): word for j, word in zip(pair, DEGREES, strict=False)}
        return cls(found, own, {name: named[name] for name in found if name in named})

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each coordinate."""
        return tuple(len(values) for values in self.coordinates.values())

    def rows(self, columns: Columns) -> Any:
        """Rows of a table (p, d) for all places of the grid; the last coordinate runs fastest."""
        mesh = np.meshgrid(*self.coordinates.values(), indexing="ij")
        known = dict(zip(self.coordinates, (part.ravel() for part in mesh), strict=True))
        size = int(np.prod(self.shape))
        names = [columns.name(j) for j in range(columns.n_features)]
        values = [known[n] if n in known else np.full(size, self.others[n]) for n in names]
        if columns.names is None:
            return np.column_stack(values)
        from pandas import DataFrame  # slow to import

        return DataFrame(dict(zip(names, values, strict=True)))

    def filled(self, answers: Mapping[str, Any], classes: Any = None) -> Any:
        """Answers (p,) or (p, k) by name on the grid: a Dataset of xarray, or a dict of arrays.

        The last axis of answers (p, k) is `output`, or `class` with these labels.
        """
        shaped = {name: values.reshape(*self.shape, *values.shape[1:])
                  for name, values in answers.items()}  # fmt: skip
        if find_spec("xarray") is None:
            return shaped
        from xarray import Dataset  # slow to import

        axes, last = list(self.coordinates), "output" if classes is None else "class"
        variables = {
            name: ([*axes, last] if values.ndim > len(axes) else axes, values)
            for name, values in shaped.items()
        }
        labels = {} if classes is None else {last: classes}
        coordinates = {**self.coordinates, **labels}
        found = Dataset(variables, coords=coordinates, attrs={"Conventions": "CF-1.8"})
        for name, text in LONG_NAMES.items():
            if name in found:
                found[name].attrs["long_name"] = text
        for name, word in self.degrees.items():
            unit = "degrees_north" if word == DEGREES[0] else "degrees_east"
            found[name].attrs |= {"standard_name": word, "units": unit}
        return found


class HasGrids(FittedToTable[FittedModel]):
    """Part of the estimators of tables: the grids on which they answer."""

    def _grid_places(self) -> IntArray | None:
        """Encoded columns that coordinates have to be; None: any columns."""
        return None

    def _grid(
        self, coordinates: Mapping[str, ArrayLike], others: Mapping[str, Any] | None
    ) -> PlaceGrid:
        check_is_fitted(self)
        return PlaceGrid.of(coordinates, others, self._columns, self._grid_places())


class OnGrids(HasGrids):
    """Part of the regressors of tables: their laws on grids."""

    def predict_grid(
        self,
        coordinates: Mapping[str, ArrayLike],
        others: Mapping[str, Any] | None = None,
        *,
        return_std: bool = False,
        level: float | None = None,
        latent: bool | None = None,
        exposure: float | None = None,
    ) -> Any:
        """Mean, standard deviation and interval on the grid of all combinations of coordinates.

        Parameters
        ----------
        coordinates
            Values of columns, one-dimensional, by their names: `"x0"` and so on for arrays X. For a
            model on a lattice they are its places. Degrees where these are latitude and longitude.
        others
            Values of all other columns by name, one each, which hold on the whole grid.
        return_std
            Also compute the standard deviation.
        level
            Probability that an observation lies between `lower` and `upper`; None: without them.
        latent
            The law of f, or of observations with their noise; see `predict`. None: of f where
            observations are f with normal noise of one variance, else of observations, such as of
            transformed targets or counts. Intervals are always those of observations.
        exposure
            Exposure of the observations, for a likelihood of counts; None: one.

        Returns
        -------
        xarray.Dataset
            Variables `mean`, `std`, `lower` and `upper`, with the coordinates in the order given,
            and names and units of latitude and longitude by the CF conventions. Where xarray is not
            installed a dict of arrays.

        Raises
        ------
        InvalidInputError
            A coordinate is no column (or no place), one is missing, a column has no value, or
            `level` is not between 0 and 1.
        """
        ends = None if level is None else interval_ends(level)
        grid = self._grid(coordinates, others)
        rows = grid.rows(self._columns)
        size = int(np.prod(grid.shape))
        exposures = None if exposure is None else np.full(size, float(exposure))
        of_f = has_normal_noise(self.fitted_.process) if latent is None else latent
        model: Any = self  # a regressor
        answer = model.predict(rows, return_std=return_std, latent=of_f, exposure=exposures)
        found = {"mean": answer[0], "std": answer[1]} if return_std else {"mean": answer}
        if ends is not None:
            interval = model._quantiles(rows, ends, exposures, judged=False)
            found |= {"lower": interval[..., 0], "upper": interval[..., 1]}
        return grid.filled(found)


class ClassesOnGrids(HasGrids):
    """Part of the classifiers of tables: chances of classes on grids."""

    def predict_grid(
        self, coordinates: Mapping[str, ArrayLike], others: Mapping[str, Any] | None = None
    ) -> Any:
        """Chances of the classes on the grid of all combinations of coordinates.

        Parameters
        ----------
        coordinates, others
            Values of columns, as for regressors.

        Returns
        -------
        xarray.Dataset
            `chance` with a last axis `class` in the order of `classes_`, and the most probable
            class, `label`. Where xarray is not installed a dict of arrays.

        Raises
        ------
        InvalidInputError
            A coordinate is no column, one is missing, or a column has no value.
        """
        grid = self._grid(coordinates, others)
        model: Any = self  # a classifier
        chances = model.predict_proba(grid.rows(self._columns))
        labels = model.classes_[chances.argmax(axis=1)]
        return grid.filled({"chance": chances, "label": labels}, model.classes_)


@dataclass(frozen=True, eq=False)
class Extrapolations:
    """Distances of predicted rows from the training rows, and the rows that a warning names.

    Attributes
    ----------
    distance : FloatArray (p,)
        Distance of each row in lengthscales, see `Seen.distances`.
    n_far : int
        Number of rows that are extrapolations: of a distance above `DISTANT`, or of a mean that is
        further than three ranges of y from the training range.
    named : tuple of (int, str)
        Number from zero, and words, of the first of these rows.
    """

    distance: FloatArray
    n_far: int = 0
    named: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(
        cls,
        seen: Seen,
        columns: Columns,
        lengthscale: FloatArray,
        points: FloatArray,
        mean: FloatArray | None = None,
    ) -> Extrapolations:
        """Judge encoded rows (p, d) with means (p, k), or by their distances alone."""
        scale = seen.scale(lengthscale, columns.n_features)
        distance = seen.distances(points, scale)
        distant = distance > DISTANT
        far = np.zeros(len(points), dtype=bool) if mean is None else seen.is_far(mean)
        rows = np.flatnonzero(distant | far)
        first = rows[:MOST_NAMED]
        words = []
        for row, column in zip(first, seen.furthest(points[first], scale), strict=True):
            text = f"{columns.part_of(int(column))!r} {_distance(distance[row])}"
            if far[row] and mean is not None:
                text += f", mean {', '.join(f'{value:.4g}' for value in mean[row])}"
            words.append((int(row), text))
        return cls(distance, rows.size, tuple(words))

    def followed_by(self, other: Extrapolations) -> Extrapolations:
        """The extrapolations of these rows and of others after them."""
        shift = len(self.distance)
        named = (*self.named, *((row + shift, text) for row, text in other.named))[:MOST_NAMED]
        distance = np.concatenate([self.distance, other.distance])
        return Extrapolations(distance, self.n_far + other.n_far, named)

    def warn(self) -> None:
        """Warn once, if any row is an extrapolation."""
        if not self.n_far:
            return
        rows = "; ".join(f"row {row + 1}: {text}" for row, text in self.named)
        more = "" if self.n_far == len(self.named) else "; ..."
        warn(
            f"X: {self.n_far} of {len(self.distance)} rows are extrapolations, more than "
            f"{DISTANT:g} lengthscales from the training rows in a column, or with a mean more "
            f"than {FAR_RANGES:g} ranges of y from the training targets ({rows}{more}); their laws "
            "rest on assumptions of the model, not on data",
            ExtrapolationWarning,
        )


def _distance(value: float) -> str:
    """A distance in words."""
    return "never varied" if value >= MOST_DISTANT else f"{value:.3g} lengthscales away"
