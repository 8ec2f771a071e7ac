"""Functions drawn from a posterior, each the same at every call, and gradients of the posterior.

Gradients are central differences where no closed form is known. Those of the mean have steps of
1e-4 lengthscales: relative to the change of f over a lengthscale their error is near 1e-8, and near
1e-4 beside a row where the kernel is Matern-3/2, of which the mean has no second derivative there.
Variances are those of differences of f over 1e-3 lengthscales, from joint laws. Their error is near
1e-9 of the prior's variance of the slope by rounding, and near one percent under Matern-3/2, whose
slopes change within the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.units import Units
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray, IntArray, symmetric_root

# Points whose values are computed at once.
CALL_ROWS = 1024
# What is added to the variances of earlier values before they are conditioned on, relative to the
# largest: the rounding of a covariance of a few thousand points.
JITTER = 1e-11

Points: TypeAlias = NDArray[Any]
# Moments at points: means (p, k) and covariances (p, p, k).
JointLaw: TypeAlias = Callable[[Points], tuple[FloatArray, FloatArray]]


def row_blocks(n_points: int) -> Iterator[slice]:
    """Slices of at most `CALL_ROWS` points; one empty slice where there are none."""
    for start in range(0, max(n_points, 1), CALL_ROWS):
        yield slice(start, start + CALL_ROWS)


class DrawnFunctions(ABC):
    """Functions drawn from a posterior, in units of y.

    Attributes
    ----------
    n_functions : int
        Number n of functions.
    deviation_error : float
        Root mean square of `sd / sd' - 1` at points between rows: deviations of the functions,
        against those of the posterior. Zero where draws are exact; else Fourier features stand for
        the prior.
    """

    n_functions: int
    deviation_error: float = 0.0

    @abstractmethod
    def __call__(self, points: Points) -> FloatArray:
        """Values (p, k, n) of the functions at points (p, ...)."""


class JointExtension(DrawnFunctions):
    """Functions whose values at new points are drawn given their values at all earlier ones.

    Every value has its exact conditional law, so that all calls together are one draw of the joint
    law. Time and memory grow with the number m of different points, as m^3 and m^2.

    Parameters
    ----------
    law
        Means (p, k) and covariances (p, p, k) of f at points, units of y.
    keys
        Rows of numbers (p, q) that are equal for equal points only.
    n_functions
        Number of functions.
    rng
        Where values come from.
    """

    def __init__(
        self,
        law: JointLaw,
        keys: Callable[[Points], Points],
        n_functions: int,
        rng: np.random.Generator,
    ) -> None:
        self.law, self.keys, self.n_functions, self.rng = law, keys, n_functions, rng
        self._places: dict[bytes, int] = {}
        self._points: Points | None = None
        self._values = np.zeros((0, 0, n_functions))

    def __call__(self, points: Points) -> FloatArray:
        names = [row.tobytes() for row in np.ascontiguousarray(self.keys(points))]
        first = {name: k for k, name in reversed(list(enumerate(names)))}
        new = sorted(k for name, k in first.items() if name not in self._places)
        if new:
            self._extend(points[new])
            for k in new:
                self._places[names[k]] = len(self._places)
        found: FloatArray = self._values[[self._places[name] for name in names]]
        return found

    def _extend(self, further: Points) -> None:
        """Draw values at further points, all different and new."""
        old = len(self._places)
        points = further if self._points is None else np.concatenate([self._points, further])
        check_memory(
            8.0 * 6 * len(points) ** 2,
            f"X: functions of this model at {len(points)} different points",
            "draw new functions (sample_functions) for other points, or use a model with "
            "frequencies, whose functions are evaluated one point at a time",
        )
        mean, covariance = self.law(points)
        k = mean.shape[1]
        values = np.empty((len(points), k, self.n_functions))
        innovations = self.rng.standard_normal((len(further), k, self.n_functions))
        for output in range(k):
            own = covariance[:, :, output]
            middle, rest = mean[old:, output, None], own[old:, old:]
            if old:
                values[:old, output] = known = self._values[:, output]
                among = own[:old, :old] + JITTER * own.diagonal().max() * np.eye(old)
                weights = np.linalg.solve(among, own[:old, old:])
                middle = middle + weights.T @ (known - mean[:old, output, None])
                rest = rest - weights.T @ own[:old, old:]
            root = symmetric_root(0.5 * (rest + rest.T))
            values[old:, output] = middle + root @ innovations[:, output]
        self._points, self._values = points, values


@dataclass(frozen=True, eq=False)
class MatheronFunctions(DrawnFunctions):
    """Draws of the prior, corrected to pass through the observations (Matheron's rule).

        f(x) = g(x) + k(x, X) (K + s R)^-1 (y - g(X) - e) ,   g from the prior, e ~ N(0, s R) .

    The correction is exact; the law of f is that of the posterior where g has the prior's law
    (Wilson and others, 2020).

    Attributes
    ----------
    prior : callable
        Draws (p, k n) of g at points, normalised units.
    cross : callable
        Prior covariances (p, N) between points and the rows.
    weights : FloatArray (N, k n)
        `(K + s R)^-1 (y - g(X) - e)`.
    units : Units
        Units of y.
    n_functions : int
    deviation_error : float
        See the base class.
    """

    prior: Callable[[Points], FloatArray]
    cross: Callable[[Points], FloatArray]
    weights: FloatArray
    units: Units
    n_functions: int
    deviation_error: float

    def __call__(self, points: Points) -> FloatArray:
        parts = [
            self.prior(points[rows]) + self.cross(points[rows]) @ self.weights
            for rows in row_blocks(len(points))
        ]
        shape = (len(points), self.units.n_outputs, self.n_functions)
        return self.units.samples(np.concatenate(parts).reshape(shape))


@dataclass(frozen=True, eq=False)
class WeightFunctions(DrawnFunctions):
    """Functions `phi(x)'w` by draws w of the exact posterior of the weights.

    Attributes
    ----------
    features : callable
        Products (p, j) of the features of points with a matrix (M, j).
    weights : FloatArray (M, k n)
        The draws, normalised units.
    units : Units
        Units of y.
    n_functions : int
    """

    features: Callable[[Points, FloatArray], FloatArray]
    weights: FloatArray
    units: Units
    n_functions: int

    def __call__(self, points: Points) -> FloatArray:
        values = self.features(points, self.weights)
        shape = (len(points), self.units.n_outputs, self.n_functions)
        return self.units.samples(values.reshape(shape))


class ChosenFunctions(DrawnFunctions):
    """Functions of several members, each member's at their own places.

    Parameters
    ----------
    parts
        Places of a member's functions among all, and these.
    n_functions
        Number of all functions. Their deviation error is the greatest of the members.
    """

    def __init__(self, parts: Sequence[tuple[IntArray, DrawnFunctions]], n_functions: int) -> None:
        self.parts, self.n_functions = parts, n_functions
        self.deviation_error = max(functions.deviation_error for _, functions in parts)

    def __call__(self, points: Points) -> FloatArray:
        found = [(places, functions(points)) for places, functions in self.parts]
        values = np.empty((len(points), found[0][1].shape[1], self.n_functions))
        for places, own in found:
            values[:, :, places] = own
        return values


class MappedFunctions(DrawnFunctions):
    """Functions of which each value is a function of a point and of a drawn value f there.

    Parameters
    ----------
    inner
        The functions f.
    to_targets
        Values (p, k, n) at points (p, ...) and values (p, k, n) of f.
    """

    def __init__(
        self, inner: DrawnFunctions, to_targets: Callable[[Points, FloatArray], FloatArray]
    ) -> None:
        self.inner, self.to_targets = inner, to_targets
        self.n_functions, self.deviation_error = inner.n_functions, inner.deviation_error

    def __call__(self, points: Points) -> FloatArray:
        return self.to_targets(points, self.inner(points))


# Steps in lengthscales.
MEAN_STEP, LAW_STEP = 1e-4, 1e-3
# Shifted points whose means are computed at once.
BATCH = 65536


class Gradient(NamedTuple):
    """Gradients at p points in D columns of k outputs, units of y per unit of a column.

    Attributes
    ----------
    mean : FloatArray (p, D, k)
        Gradient of the mean.
    variance : FloatArray (p, D, k) or None
        Variances of the partial derivatives of f; None if only the mean was asked for.
    """

    mean: FloatArray
    variance: FloatArray | None


def mean_differences(
    mean: Callable[[Points], FloatArray], points: Points, lengthscale: FloatArray
) -> FloatArray:
    """Central differences (p, D, k) of means (p, k) at points (p, D)."""
    n_points, dim = points.shape
    found = []
    size = max(BATCH // (2 * dim), 1)
    for start in range(0, max(n_points, 1), size):
        shifted, widths = _shifted(points[start : start + size], MEAN_STEP * lengthscale)
        values = mean(shifted.reshape(-1, dim))
        ends = values.reshape(2, -1, dim, values.shape[1])
        found.append((ends[1] - ends[0]) / widths[..., None])
    return np.concatenate(found)


def _shifted(points: Points, steps: FloatArray) -> tuple[Points, FloatArray]:
    """Points (2, p, D, D) with one column lowered and raised, and the widths (p, D) as rounded."""
    dim = points.shape[1]
    ends = np.array([points[:, None, :] - np.diag(steps), points[:, None, :] + np.diag(steps)])
    columns = np.arange(dim)
    widths: FloatArray = ends[1][:, columns, columns] - ends[0][:, columns, columns]
    return ends, widths


def law_differences(
    covariance: Callable[[Points], FloatArray], points: Points, lengthscale: FloatArray
) -> FloatArray:
    """Variances (p, D, k) of central differences of f, from covariances (q, q, k) of points."""
    dim = points.shape[1]
    found = []
    for point in points:
        shifted, widths = _shifted(point[None], LAW_STEP * lengthscale)
        joint = covariance(shifted.reshape(-1, dim))
        own = np.einsum("iik->ik", joint)
        cross = joint[np.arange(dim), np.arange(dim) + dim]
        variance = own[:dim] + own[dim:] - 2 * cross
        found.append(np.maximum(variance, 0.0) / widths[0][:, None] ** 2)
    shape = (len(points), dim, found[0].shape[1] if found else 1)
    return np.array(found).reshape(shape)
