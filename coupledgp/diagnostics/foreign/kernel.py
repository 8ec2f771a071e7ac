"""A kernel as somebody states it, and the exact process of it given training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data, Points, Problem
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive, real_array, wrong
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum, parse_spectrum
from coupledgp.tables.dense_prior import DensePrior, DenseProblem
from coupledgp.tables.exact_process import ExactGP, StationaryPrior

# Covariances (n, p) of f between rows (n, d) and (p, d).
KernelFunction = Callable[[FloatArray, FloatArray], FloatArray]
Inputs = Callable[[FloatArray], FloatArray]


def as_given(rows: FloatArray) -> FloatArray:
    """Rows (n, d) as they are."""
    return rows


@dataclass(frozen=True)
class NoiseOnly:
    """Hyperparameters of a kernel that is a function: the noise variance, in units of y squared."""

    noise: float
    outputscale: float = 1.0


@dataclass(frozen=True, eq=False)
class FunctionPrior(DensePrior):
    """A prior whose covariances a function computes, for dense algebra only."""

    function: KernelFunction
    hyperparameters: NoiseOnly

    def covariance(self, a: Points, b: Points) -> FloatArray:
        found = np.asarray(self.function(a, b), dtype=np.float64)
        if found.shape != (len(a), len(b)) or not np.isfinite(found).all():
            raise wrong("kernel", f"finite covariances of shape {(len(a), len(b))}", found.shape)
        return found

    def variance(self, points: Points) -> FloatArray:
        return np.concatenate([np.diagonal(self.covariance(x, x)) for x in points[:, None]])

    def problem(self, data: Data, units: Units) -> DenseProblem:
        """Refuse: iterative solves compute their products from a stationary kernel."""
        raise InvalidInputError(
            "method: iterative solves need a stationary kernel by its name, got a function; use "
            "method='dense'"
        )


@dataclass(frozen=True, eq=False)
class StatedKernel:
    """A prior of tables in units of y.

    Attributes
    ----------
    prior : DensePrior
        Kernel and noise variance, in units of y squared.
    mean : float
        Constant mean of y.
    text : str
        The kernel in words.
    inputs : callable
        Maps rows (n, d) to those that the kernel takes.
    """

    prior: DensePrior
    mean: float
    text: str
    inputs: Inputs = as_given

    @classmethod
    def stationary(
        cls,
        kernel: str | Spectrum,
        lengthscale: ArrayLike,
        outputscale: float,
        noise: float,
        mean: float,
        n_columns: int,
        inputs: Inputs = as_given,
    ) -> StatedKernel:
        """`v kappa(|x - x'| / l)` with lengthscales l, one or (d,); variances in units of y."""
        spectrum = parse_spectrum(kernel, "kernel")
        scales = real_array(lengthscale, "lengthscale").reshape(-1)
        if scales.size not in (1, n_columns) or not (np.isfinite(scales) & (scales > 0)).all():
            raise wrong("lengthscale", f"one positive number, or {n_columns}", lengthscale)
        hyperparameters = Hyperparameters(
            np.broadcast_to(scales, n_columns).copy(),
            check_positive(outputscale, "outputscale"),
            check_positive(noise, "noise"),
        )
        lengths = np.array2string(scales, precision=4, separator=", ")
        text = (
            f"{kernel}, lengthscale={lengths}, outputscale={outputscale:.4g}, noise={noise:.4g}, "
            f"mean={mean:.4g}"
        )
        prior = StationaryPrior(spectrum, hyperparameters)
        return cls(prior, mean, text, inputs)

    @classmethod
    def function(
        cls,
        kernel: KernelFunction,
        noise: float,
        mean: float,
        text: str,
        inputs: Inputs = as_given,
    ) -> StatedKernel:
        """Covariances that a function computes, and a noise variance in units of y squared."""
        prior = FunctionPrior(kernel, NoiseOnly(check_positive(noise, "noise")))
        text = f"{text}, noise={noise:.4g}, mean={mean:.4g}"
        return cls(prior, mean, text, inputs)

    @property
    def noise(self) -> float:
        """Noise variance, in units of y squared."""
        return self.prior.noise

    @property
    def units(self) -> Units:
        """Units of y, which are those of the prior."""
        return Units(np.array([self.mean]), np.ones(1))

    def data(self, X: FloatArray, y: FloatArray) -> Data:
        """Training rows (n, d) and targets (n,) as the prior takes them."""
        return Data.of(np.ascontiguousarray(self.inputs(X)), y[:, None])

    def in_its_metric(self, X: FloatArray) -> FloatArray | None:
        """Rows (n, d) in units of the lengthscales; None for a kernel that is a function."""
        if not isinstance(self.prior, StationaryPrior):
            return None
        inputs = self.inputs(X)
        return in_lengthscales(inputs, self.prior.hyperparameters.lengthscale, inputs)

    def problem(self, X: FloatArray, y: FloatArray) -> Problem:
        """The exact process of training rows as equations to solve."""
        return self.prior.problem(self.data(X, y), self.units)

    def process(self, X: FloatArray, y: FloatArray) -> Any:
        """The exact process of training rows, by dense algebra."""
        return ExactGP.given(self.prior, self.data(X, y), self.units, False)
