"""Objectives that a search for hyperparameters minimises, and rounds of such objectives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

from coupledgp.random import FloatArray

Point = TypeVar("Point")
# Lower and upper end of each variable.
Box: TypeAlias = Sequence[tuple[float, float]]


class Objective(ABC, Generic[Point]):
    """Minus the log posterior density of hyperparameters, up to a constant and a positive factor.

    A point is a set of hyperparameters as its domain states them, for example a kernel; variables
    (q,) are the free hyperparameters as an optimiser moves them, mostly logarithms. Scales whose
    best values are known in closed form given the others are profiled out, or start at these
    values.

    Attributes
    ----------
    title : str
        Words before each line of progress.
    size : float
        Number that nats are divided by: the objective is a mean over so many targets, or a sum.
    line_tolerance : float or None
        Accuracy of a search over a single variable by values alone; None: every search uses the
        gradient.
    """

    title: str = ""
    size: float = 1.0
    line_tolerance: float | None = None

    @abstractmethod
    def variables(self, point: Point) -> FloatArray:
        """Variables (q,) of a point from which a run starts."""

    @abstractmethod
    def point(self, variables: FloatArray) -> Point:
        """The point at which a run has ended, from its variables (q,)."""

    @abstractmethod
    def box(self, start: Point) -> Box:
        """Lower and upper end of each variable in a run from a start."""

    @abstractmethod
    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective at variables (q,), and its gradient (q,).

        Raises
        ------
        NumericalError
            A matrix is singular to rounding there; a run takes a shorter step.
        """

    def safer(self) -> Objective[Point] | None:
        """The objective by a slower way, for a start at which it has no value; None for none."""
        return None

    def value(self, point: Point) -> float:
        """The objective at a point."""
        return self.value_and_gradient(self.variables(point))[0]


class VectorObjective(Objective[FloatArray]):
    """An objective whose points are vectors (q,) of variables."""

    def variables(self, point: FloatArray) -> FloatArray:
        """The point itself."""
        return point

    def point(self, variables: FloatArray) -> FloatArray:
        """The variables themselves."""
        return variables
