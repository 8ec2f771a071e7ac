"""Grids of places: rows of a table for all combinations of coordinates, and answers as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.features.sklearn import Columns
from coupledgp.ground.validation import check_vector
from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PlaceGrid:
    """Coordinates of places, and values of the other columns.

    Attributes
    ----------
    coordinates : dict of str to FloatArray
        Values of each place, in the order of the answer's axes.
    others : dict of str to Any
        One value for each other column.
    """

    coordinates: dict[str, FloatArray]
    others: dict[str, Any]

    @classmethod
    def of(
        cls,
        coordinates: Mapping[str, ArrayLike],
        others: Mapping[str, Any] | None,
        columns: Columns,
        places: IntArray,
    ) -> Self:
        """Check coordinates against the places (d,), numbers of encoded columns, of a table.

        Raises
        ------
        InvalidInputError
            A name is no place or column, or a place or column has no value.
        """
        wanted = [columns.name(source) for source in columns.sources_of(places)]
        own = dict(others or {})
        if sorted(coordinates) != sorted(wanted):
            raise InvalidInputError(
                f"coordinates: expected values of {', '.join(wanted)}, got {', '.join(coordinates)}"
            )
        rest = {columns.name(j) for j in range(columns.n_features)} - set(wanted)
        if set(own) != rest:
            raise InvalidInputError(
                f"others: expected a value for each of {sorted(rest)}, got {sorted(own)}"
            )
        found = {}
        for name, values in coordinates.items():
            found[name] = check_vector(values, f"coordinates[{name!r}]")
        return cls(found, own)

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

    def filled(self, answers: Mapping[str, FloatArray]) -> Any:
        """Answers (p,) or (p, k) by name on the grid: a Dataset of xarray, or a dict of arrays."""
        shaped = {name: values.reshape(*self.shape, *values.shape[1:])
                  for name, values in answers.items()}  # fmt: skip
        if find_spec("xarray") is None:
            return shaped
        from xarray import Dataset  # slow to import

        axes = list(self.coordinates)
        variables = {
            name: ([*axes, "output"] if values.ndim > len(axes) else axes, values)
            for name, values in shaped.items()
        }
        return Dataset(variables, coords=self.coordinates)
