"""Evidence on a lattice: its value, its gradient, and the average information.

With the covariance `D_x = F D^2 F' + s P^-1` of the observations (F the features at the rows), the
mean `alpha` of the whitened weights and `q = (D g)'alpha`, one output of n rows has

    log p = -1/2 [ (yy - q) / s + log |A| + (n - M) log s + n log 2 pi + sum c log r ] .

In direction g = d log D / d theta of the loadings, and in s,

    d log p = sum_j g_j (alpha_j^2 - 1 + s (A^-1)_jj) ,
    d log p / ds = -1/2 [ -(yy - q) / s^2 + |alpha|^2 / s + tr A^-1 + (n - M) / s ] .

The average information (Gilmour, Thompson and Cullis 1995), half of y'C^-1 dC C^-1 dC C^-1 y for
the covariance C, stands for the Hessian: it has no trace. With `u_a = 2 g_a alpha`,

    I_ab = u_a'(u_b - s A^-1 u_b) / 2 ,    I_as = (A^-1 alpha)'u_a / 2 ,    I_ss = Y3 / 2 ,
    Y1 = (yy - q) / s ,   Y2 = (Y1 - |alpha|^2) / s ,   Y3 = (Y2 - alpha'A^-1 alpha) / s .

Diagonals of A^-1 are those of the preconditioner, plus the mean over probes of the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.core.problem import Hyperparameters
from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.lattice import Lattice
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import LatticeSystem

# Prior variance of the coefficients of standardised trend columns, in units of the variance of y.
TREND_VARIANCE = 10.0
# Relative residuals of solves for probes and for the average information.
PROBE_TOLERANCE = 1e-3
# Error of the gradient by the solve for the mean, in units of its statistical deviation.
GRADIENT_ERROR = 0.05


@stored
@dataclass(frozen=True, eq=False)
class LatticePrior:
    """A stationary kernel on a lattice, the rest of its variance taken for white noise.

    Attributes
    ----------
    spectrum : Spectrum
        Gaussian or Matern kernel.
    hyperparameters : Hyperparameters
        Lengthscales (d,), units of the columns; outputscale v and noise s, normalised units.
    lattice : Lattice
        Frequencies.
    n_trend : int
        Number p of trend columns.
    """

    spectrum: Spectrum
    hyperparameters: Hyperparameters
    lattice: Lattice
    n_trend: int = 0

    @cached_property
    def loadings(self) -> FloatArray:
        """Prior standard deviations (M + p,) of the weights."""
        own = self.lattice.amplitudes(self.spectrum, self.hyperparameters.lengthscale)
        trend = np.full(self.n_trend, np.sqrt(TREND_VARIANCE))
        return np.concatenate([np.sqrt(self.hyperparameters.outputscale) * own, trend])

    @property
    def left_out_variance(self) -> float:
        """Variance of the waves beyond the lattice, `v - sum D^2`, normalised units."""
        held = float(np.square(self.loadings[: self.lattice.n_waves]).sum())
        return max(self.hyperparameters.outputscale - held, 0.0)

    @property
    def noise(self) -> float:
        """Noise of observations given the waves: own noise and the waves that are left out."""
        return self.hyperparameters.noise + self.left_out_variance

    def system(
        self, sums: LatticeSums, n_outputs: int, multiplier: FloatArray | None = None
    ) -> LatticeSystem:
        """The equations of the weights given sums over rows of normalised targets."""
        return LatticeSystem.of(
            self.lattice, sums, n_outputs, self.loadings, self.noise, multiplier
        )

    def slopes(self, shared: bool) -> FloatArray:
        """`d log D / d theta` (q, M + p), theta = (log v, log l), with one l if it is shared."""
        each = self.lattice.log_slopes(self.spectrum, self.hyperparameters.lengthscale)
        each = each.sum(axis=0, keepdims=True) if shared else each
        found = np.zeros((1 + len(each), len(self.loadings)))
        found[0, : self.lattice.n_waves] = 0.5
        found[1:, : self.lattice.n_waves] = each
        return found


@dataclass(frozen=True, eq=False)
class InformationStep:
    """Gradient and average information of the log evidence in theta = (log v, log l, log s).

    Attributes
    ----------
    gradient : FloatArray (q,)
        Of all outputs together.
    gradient_error : FloatArray (q,)
        Its standard error by the probes; zero where traces are exact.
    information : FloatArray (q, q)
        Average information.
    """

    gradient: FloatArray
    gradient_error: FloatArray
    information: FloatArray

    def with_prior(self, gaps: FloatArray, precisions: FloatArray) -> InformationStep:
        """With a normal prior of theta, from whose mean it departs by gaps (q,)."""
        return InformationStep(
            self.gradient - precisions * gaps,
            self.gradient_error,
            self.information + np.diag(precisions),
        )

    def with_secant(self, step: FloatArray, fall: FloatArray) -> InformationStep:
        """With the curvature along the last step (q,), over which the gradient fell by `fall` (q,).

        `I - I s s'I / (s'I s) + y y' / (y's)` (Broyden, Fletcher, Goldfarb, Shanno): where the
        model is wrong the average information is not the curvature, and steps may swing.
        """
        curvature, moved = float(step @ fall), self.information @ step
        own = float(step @ moved)
        if curvature <= 1e-3 * own or own <= 0:
            return self
        information = self.information - np.outer(moved, moved) / own
        information += np.outer(fall, fall) / curvature
        return InformationStep(self.gradient, self.gradient_error, information)

    def newton(self, free: FloatArray, most: float) -> FloatArray:
        """The step `I^-1 gradient` (q,) of free parameters, at most `most` long in each."""
        step = np.zeros(len(self.gradient))
        if not free.any():
            return step
        information = self.information[np.ix_(free, free)]
        # A direction that the data say nothing of has the curvature of a normal law of sd 30.
        information[np.diag_indices_from(information)] += 1e-3
        step[free] = np.linalg.solve(information, self.gradient[free])
        largest = np.abs(step).max()
        return step * min(1.0, most / largest) if largest > 0 else step

    @property
    def spread(self) -> FloatArray:
        """Errors (q,) of the maximum by the probes, over its statistical standard deviations."""
        information = self.information + 1e-3 * np.eye(len(self.gradient))
        inverse = np.linalg.inv(information)
        moved = np.sqrt(np.square(inverse) @ np.square(self.gradient_error))
        return np.asarray(moved / np.sqrt(np.maximum(np.diag(inverse), 1e-300)))


def information_step(
    prior: LatticePrior,
    system: LatticeSystem,
    shared: bool,
    probes: FloatArray,
) -> InformationStep:
    """Gradient and average information at the hyperparameters of a prior.

    Parameters
    ----------
    prior, system
        The prior and its equations.
    shared
        Whether all columns have one lengthscale.
    probes
        Signs (M + p, P).

    Raises
    ------
    NumericalError
        The equations are not solved to working precision.
    """
    k, s, n_weights = system.n_outputs, system.noise, system.n_weights
    right = system.right_hand_side
    signs = np.empty((n_weights, 0)) if system.is_dense else probes
    tolerance = np.full(k + signs.shape[1], PROBE_TOLERANCE)
    tolerance[:k] = mean_tolerance(system)
    solved = system.solve(np.hstack([right, signs]), tolerance)
    alpha, answers = solved[:, :k], solved[:, k:]
    slopes = prior.slopes(shared)
    moved = (2 * slopes[:, :, None] * alpha).transpose(1, 0, 2).reshape(n_weights, -1)
    further = system.solve(np.hstack([alpha, moved]), PROBE_TOLERANCE)
    beside, of_moved = further[:, :k], further[:, k:]

    weighed = np.vstack([slopes, np.ones(n_weights)])
    traces = weighed @ system.inverse_diagonal
    errors = np.zeros(len(weighed))
    if signs.shape[1]:
        differences = weighed @ (signs * (answers - system.precondition(signs)))
        traces = traces + differences.mean(axis=1)
        errors = differences.std(axis=1, ddof=1) / np.sqrt(signs.shape[1])

    totals = _Totals.of(system, right, alpha, beside)
    of_loadings = (slopes @ (np.square(alpha) - 1)).sum(axis=1) + k * s * traces[:-1]
    of_noise = -0.5 * (
        -totals.first / s + totals.square / s
        + k * (traces[-1] + (system.sums.n_counted - n_weights) / s)
    )  # fmt: skip
    q = len(slopes)
    information = np.zeros((q + 1, q + 1))
    each, pulled = (part.reshape(n_weights, q, k) for part in (moved, of_moved))
    information[:q, :q] = 0.5 * np.einsum("jak,jbk->ab", each, each - s * pulled)
    information[:q, q] = information[q, :q] = 0.5 * np.einsum("jak,jk->a", each, beside)
    information[q, q] = 0.5 * totals.third

    # What the lattice leaves out of the kernel is noise, which moves with its hyperparameters.
    own = np.square(system.loadings)
    jacobian = np.eye(q + 1)
    jacobian[q, :q] = -2 * slopes @ own
    jacobian[q, 0] = prior.left_out_variance
    jacobian[q, q] = prior.hyperparameters.noise
    if prior.left_out_variance == 0.0:
        jacobian[q, :q] = 0.0
    gradient = jacobian.T @ np.append(of_loadings, of_noise)
    by_probes = k * np.append(s * errors[:-1], 0.5 * errors[-1])
    return InformationStep(
        gradient,
        np.sqrt(np.square(jacobian.T) @ np.square(by_probes)),
        jacobian.T @ information @ jacobian,
    )


@dataclass(frozen=True)
class _Totals:
    """Y1, |alpha|^2 and Y3, summed over outputs."""

    first: float
    square: float
    third: float

    @classmethod
    def of(
        cls, system: LatticeSystem, right: FloatArray, alpha: FloatArray, beside: FloatArray
    ) -> _Totals:
        s = system.noise
        first = (squares_of(system.sums, system.n_outputs) - (right * alpha).sum(axis=0)) / s
        square = np.square(alpha).sum(axis=0)
        third = ((first - square) / s - (alpha * beside).sum(axis=0)) / s
        return cls(float(first.sum()), float(square.sum()), float(third.sum()))


def mean_tolerance(system: LatticeSystem) -> FloatArray:
    """Relative residuals (k,) of the mean that a gradient needs.

    A residual of share r leaves an error e of alpha with `s |e|^2 <= e'Ae = r^2 alpha'A alpha`, at
    most `r^2 yy`. It moves sums of squares of alpha, whose deviation is about `|alpha|`, by
    `2 |alpha| |e|`.
    """
    squares = np.maximum(squares_of(system.sums, system.n_outputs), system.noise)
    return np.minimum(GRADIENT_ERROR * np.sqrt(system.noise / squares), PROBE_TOLERANCE)


def squares_of(sums: LatticeSums, n_outputs: int) -> FloatArray:
    """Weighted squares yy (k,) of the targets."""
    return np.asarray(np.diag(sums.products)[:n_outputs])


def log_evidence(
    system: LatticeSystem, alpha: FloatArray, n_probes: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Log evidence of normalised targets, nats, all outputs together, and its standard error."""
    s, k, sums = system.noise, system.n_outputs, system.sums
    determinant, error = system.log_determinant(n_probes, rng)
    quadratic = squares_of(sums, k) - (system.right_hand_side * alpha).sum(axis=0)
    each = (
        determinant + (sums.n_counted - system.n_weights) * np.log(s)
        + sums.n_counted * np.log(2 * np.pi) + sums.log_noise
    )  # fmt: skip
    return float(-0.5 * (quadratic.sum() / s + k * each)), 0.5 * k * error
