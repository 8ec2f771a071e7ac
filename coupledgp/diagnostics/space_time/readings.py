"""Values of sensors over times, as splits, rivals and scores need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class SensorReadings:
    """Values of p sensors at n times, and where the sensors stand.

    Attributes
    ----------
    values : FloatArray (p, n)
        Readings; NaN is a gap.
    times : FloatArray (n,)
        Rising times, in any unit.
    sites : IntArray (p,)
        Numbers of the sensors' nodes in the graph or the operator.
    domain : Graph or LaplaceOperator
    seconds_of_day : FloatArray (n,) or None
        Local time of day; None where times are numbers.
    labels : sequence
        Names (p,) of the sensors as the user gave them.
    stamps : Any
        The n times as the user gave them, which a model is fitted to.
    days : IntArray (n,) or None
        Days since 1970 on local clocks; None where times are numbers or nothing is known of it.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings
    >>> ring = cgp.Graph.from_edges([0, 1, 2], [1, 2, 0])
    >>> values = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]])
    >>> readings = SensorReadings(values, np.array([0.0, 1.0, 2.0]), np.array([0, 2]), ring)
    >>> int(readings.seen.sum()), readings.step, readings.span
    (5, 1.0, 3.0)
    """

    values: FloatArray
    times: FloatArray
    sites: IntArray
    domain: Any = field(repr=False)
    seconds_of_day: FloatArray | None = None
    labels: Sequence[Any] = ()
    stamps: Any = None
    days: IntArray | None = None

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or shape != (self.sites.size, self.times.size):
            raise InvalidInputError(
                f"values: expected shape ({self.sites.size}, {self.times.size}), one row a sensor "
                f"and one column a time, got {shape}"
            )
        if np.isinf(self.values).any():
            raise InvalidInputError("values: expected numbers or NaN, got inf")
        if not (np.isfinite(self.times).all() and (np.diff(self.times) > 0).all()):
            raise InvalidInputError("times: expected finite numbers that rise")

    @cached_property
    def seen(self) -> BoolArray:
        """Where there is a reading (p, n)."""
        return np.isfinite(self.values)

    @cached_property
    def step(self) -> float:
        """Median distance of neighbouring times; one for a single time."""
        return float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0

    @cached_property
    def span(self) -> float:
        """Distance of the last time from the first, and one step."""
        return float(self.times[-1] - self.times[0]) + self.step

    def without(self, hidden: BoolArray) -> SensorReadings:
        """The same readings with further gaps where `hidden` (p, n) says so."""
        return replace(self, values=np.where(hidden, np.nan, self.values))
