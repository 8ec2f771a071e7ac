"""Minimisation of a smooth function in a box: the optimisers that a search can use.

An optimiser is a function with the arguments of `lbfgs`. One more is a function here and a line in
`OPTIMIZERS`, by whose name every estimator takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from coupledgp.core.problem import Box
from coupledgp.errors import NumericalError
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray

# `x -> (value, gradient)` at a point (d,), the gradient of the same shape.
ValueAndGradient: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
# Least curvature along a step that counts as convex, and bounds of the units of variables.
LEAST_CURVATURE = 1e-10
UNITS = (0.1, 10.0)
# Largest entry of the projected gradient, nats for each target and relative to the value where that
# exceeds one, at which a line search that finds no lower value has met rounding: in single
# precision values of the evidence are off by 1e-6.
ROUNDING_GRADIENT = 1e-3
# Value, in nats for each target, of a point where a matrix has no Cholesky factor.
UNFIT = 1e4


@dataclass(frozen=True)
class Stopping:
    """Conditions under which a minimisation ends.

    Attributes
    ----------
    max_iterations : int
        Largest number of iterations; each takes one evaluation or a few.
    value_tolerance : float
        Least decrease of an iteration, relative to the value where that exceeds one.
    gradient_tolerance : float
        Largest entry of the gradient, projected on the box, that counts as zero.
    """

    max_iterations: int
    # SciPy's own: 1e7 machine precisions.
    value_tolerance: float = 1e7 * np.finfo(np.float64).eps
    gradient_tolerance: float = 1e-5


@dataclass(frozen=True)
class Minimum:
    """The point at which a minimisation ended, its value, and the cost.

    Attributes
    ----------
    point : FloatArray (d,)
    value : float
        The function there.
    n_iterations : int
        Iterations taken.
    converged : bool
        Whether it ended by one of the tolerances, or where rounding hides any further gain.
    """

    point: FloatArray
    value: float
    n_iterations: int
    converged: bool


class Minimiser(Protocol):
    """Minimises a function in a box, from a start."""

    def __call__(
        self, function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping
    ) -> Minimum:
        """Return the place where the search ended; `start` is an array (d,) in the box."""


def around_failures(function: ValueAndGradient) -> ValueAndGradient:
    """The function, `UNFIT` above its worst value so far where it raises a NumericalError.

    So a line search that steps to where a matrix is singular to rounding takes a shorter step. The
    error of the first point is raised.
    """
    values: list[float] = []

    def guarded(variables: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, gradient = function(variables)
        except NumericalError:
            if not values:
                raise
            return max(values) + UNFIT, np.zeros(variables.size)
        values.append(value)
        return value, gradient

    return guarded


def lbfgs(function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping) -> Minimum:
    """L-BFGS-B (Byrd, Lu, Nocedal and Zhu, 1995), by SciPy.

    A line search that finds no lower value along the negative gradient has converged where the
    gradient is at most `ROUNDING_GRADIENT`, which rounding explains, and has not elsewhere.

    Parameters
    ----------
    function
        `x -> (value, gradient)` at points (d,) of the box.
    start
        Point (d,) where the search starts.
    box
        Lower and upper end of each variable.
    stopping
        Limits and tolerances.
    """
    result = minimize(
        function,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={
            "maxiter": stopping.max_iterations,
            "ftol": stopping.value_tolerance,
            "gtol": stopping.gradient_tolerance,
        },
    )
    converged = bool(result.success)
    if not converged and result.nit < stopping.max_iterations:
        low, high = np.transpose(box)
        projected = np.clip(result.x - result.jac, low, high) - result.x
        least = ROUNDING_GRADIENT * max(1.0, abs(float(result.fun)))
        converged = float(np.abs(projected).max()) <= least
    return Minimum(result.x, float(result.fun), result.nit, converged)


def brent(
    function: Callable[[float], float],
    ends: tuple[float, float],
    tolerance: float,
    max_iterations: int = 500,
) -> Minimum:
    """Minimise a function of one variable between two ends by values alone (Brent, 1973).

    Parameters
    ----------
    function
        The function; the ends themselves are not evaluated.
    ends
        Lower and upper end.
    tolerance
        Accuracy of the variable.
    max_iterations
        Largest number of evaluations.
    """
    found = minimize_scalar(
        function, bounds=ends, method="bounded",
        options={"xatol": tolerance, "maxiter": max_iterations},
    )  # fmt: skip
    return Minimum(np.array([found.x]), float(found.fun), int(found.nit), bool(found.success))


def along_line(
    function: Callable[[float], float],
    ends: tuple[float, float],
    n_grid: int,
    tolerance: float,
    max_iterations: int = 500,
) -> float:
    """The best of a grid between two ends, polished by Brent's method between its neighbours."""
    grid = np.linspace(*ends, n_grid)
    values = [function(float(x)) for x in grid]
    k = int(np.argmin(values))
    near = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, n_grid - 1)])
    found = brent(function, near, tolerance, max_iterations)
    return float(found.point[0] if found.value < values[k] else grid[k])


@dataclass
class _Watched:
    """A function whose evaluations are watched, so that a search that stands still can be ended.

    Attributes
    ----------
    function : ValueAndGradient
    window : int
        Number of evaluations over which the least value has to fall.
    least_fall : float
        By how much.
    least : list of float
        Least value after each evaluation so far.
    best : FloatArray or None
        Point (d,) of the least value.
    n_falls : int
        Number of evaluations that were the least so far.
    """

    function: ValueAndGradient
    window: int
    least_fall: float
    least: list[float] = field(default_factory=list)
    best: FloatArray | None = None
    n_falls: int = 0

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.function(point)
        if self.best is None or value < self.least[-1]:
            self.best, self.n_falls = point.copy(), self.n_falls + 1
            self.least.append(value)
        else:
            self.least.append(self.least[-1])
        if len(self.least) > self.window:
            fall = self.least[-1 - self.window] - self.least[-1]
            if fall < self.least_fall:
                raise _StandstillError
        return value, gradient


class _StandstillError(Exception):
    """Ends a search from inside its function."""


def patient(minimise: Minimiser, window: int, least_fall: float) -> Minimiser:
    """Return an optimiser that also stops, converged, where the function hardly falls any more.

    Parameters
    ----------
    minimise
        The optimiser.
    window, least_fall
        It stops if `window` evaluations lower the least value so far by less than `least_fall`.
    """

    def run(function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping) -> Minimum:
        watched = _Watched(function, window, least_fall)
        try:
            return minimise(watched, start, box, stopping)
        except _StandstillError:
            assert watched.best is not None
            return Minimum(watched.best, watched.least[-1], watched.n_falls, True)

    return run


@dataclass
class Limited:
    """An optimiser that stops, not converged, when `may_go_on` refuses an evaluation.

    The function is evaluated once in any case. The limits hold for all runs together.

    Attributes
    ----------
    minimise : Minimiser
        The optimiser of each run.
    may_go_on : function
        Number of evaluations so far -> whether there is room for another one.
    n_evaluations : int
        Number of evaluations so far.
    """

    minimise: Minimiser
    may_go_on: Callable[[int], bool]
    n_evaluations: int = 0

    def __call__(
        self, function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping
    ) -> Minimum:
        best: list[tuple[float, FloatArray]] = []

        def counted(point: FloatArray) -> tuple[float, FloatArray]:
            if best and not self.may_go_on(self.n_evaluations):
                raise _ExpiredError
            self.n_evaluations += 1
            value, gradient = function(point)
            if not best or value < best[-1][0]:
                best.append((value, point.copy()))
            return value, gradient

        try:
            return self.minimise(counted, start, box, stopping)
        except _ExpiredError:
            return Minimum(best[-1][1], best[-1][0], len(best), False)


class _ExpiredError(Exception):
    """Ends a search from inside its function."""


class Experienced:
    """An optimiser that measures each variable in units of its curvature in the last run.

    For a function that is minimised several times in slightly different forms, with variables of
    very different curvature.

    Parameters
    ----------
    minimise
        The optimiser of each run.
    """

    def __init__(self, minimise: Minimiser) -> None:
        self.minimise = minimise
        self.units: FloatArray | None = None

    def __call__(
        self, function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping
    ) -> Minimum:
        known = self.units is not None and self.units.shape == start.shape
        units = self.units if known and self.units is not None else np.ones_like(start)
        low, high = np.transpose(box)
        points, gradients = [], []

        def measured(u: FloatArray) -> tuple[float, FloatArray]:
            point = np.clip(u * units, low, high)
            value, gradient = function(point)
            points.append(point)
            gradients.append(gradient)
            return value, gradient * units

        scaled = list(zip(low / units, high / units, strict=True))
        found = self.minimise(measured, start / units, scaled, stopping)
        self.units = curvature_units(np.array(points), np.array(gradients))
        return replace(found, point=np.clip(found.point * units, low, high))


def curvature_units(points: FloatArray, gradients: FloatArray) -> FloatArray:
    """Roots (d,) of the diagonal of the inverse Hessian over their largest, along a path.

    The inverse Hessian is that of the BFGS formula. Without convex steps all units are one.

    Parameters
    ----------
    points, gradients
        Points (n, d) in the order of their evaluation, and the gradients there.
    """
    inverse = np.eye(points.shape[1])
    first = True
    for s, y in zip(np.diff(points, axis=0), np.diff(gradients, axis=0), strict=True):
        product = float(s @ y)
        if product <= LEAST_CURVATURE * float(s @ s):
            continue
        if first:
            inverse, first = inverse * product / float(y @ y), False
        turned = np.eye(s.size) - np.outer(s, y) / product
        inverse = turned @ inverse @ turned.T + np.outer(s, s) / product
    units = np.clip(np.sqrt(np.diag(inverse)), *UNITS)
    return np.asarray(units / units.max())


OPTIMIZERS: dict[str, Minimiser] = {"lbfgs": lbfgs}


def parse_optimizer(name: str) -> Minimiser:
    """Return the optimiser of a name.

    Raises
    ------
    InvalidInputError
        The name is unknown; the message lists the choices.
    """
    return OPTIMIZERS[check_choice(name, OPTIMIZERS, "optimizer")]
