"""Minimisation of a smooth function in a box: the optimisers that a search can use.

An optimiser is a function with the arguments of `lbfgs`. One more is a function here and a line in
`OPTIMIZERS`, by whose name every estimator takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from scipy.optimize import minimize

from coupledgp.random import FloatArray
from coupledgp.validation import check_choice

# `x -> (value, gradient)` at a point (d,), the gradient of the same shape.
ValueAndGradient: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
# Lower and upper end of each variable.
Box: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Stopping:
    """When a minimisation ends.

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
    """Where a minimisation ended.

    Attributes
    ----------
    point : FloatArray (d,)
    value : float
        The function there.
    n_iterations : int
        Iterations taken.
    converged : bool
        Whether it ended by one of the tolerances.
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


def lbfgs(function: ValueAndGradient, start: FloatArray, box: Box, stopping: Stopping) -> Minimum:
    """L-BFGS-B (Byrd, Lu, Nocedal and Zhu, 1995), by SciPy.

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
    return Minimum(result.x, float(result.fun), result.nit, bool(result.success))


OPTIMIZERS: dict[str, Minimiser] = {"lbfgs": lbfgs}


def parse_optimizer(name: str) -> Minimiser:
    """Return the optimiser of a name.

    Raises
    ------
    InvalidInputError
        The name is unknown; the message lists the choices.
    """
    return OPTIMIZERS[check_choice(name, OPTIMIZERS, "optimizer")]
