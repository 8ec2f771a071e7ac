"""KL from an exact posterior to a spectrum's posterior, differentiable in it (MATH 4, 7).

The law of Fourier features `phi_i = sqrt(a_i) [sin, cos](w_i . x / l)`, `sum a_i = 1`, is compared
with that of an exact GP, the teacher, which has the same hyperparameters and the same rows. With
`Phi` the features of the rows, `Psi` those of q query points, `A = Phi' Phi + lam I`, `lam = s/v`,
and `B = A + Psi' Psi`, the approximate predictive covariance `C^ = s (I + Psi A^-1 Psi')` has

    logdet C^ = q log s + logdet B - logdet A,        C^^-1 = (I - Psi B^-1 Psi') / s,

so that one evaluation costs O((n + q) M^2 + q^2 M), without a factor of q x q.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_lengthscale, check_magnitude, check_positive, wrong
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum, SpectrumLike, parse_spectrum


@dataclass(frozen=True)
class JointLaw:
    """Joint predictive law of observations at query points.

    Attributes
    ----------
    inputs : Tensor (q, d)
        Query points in units of the lengthscales.
    mean : Tensor (q, k)
        Means of the observations.
    cov : Tensor (q, q)
        Their covariance, noise included.
    logdet : float
        Log determinant of `cov`.
    """

    inputs: Tensor
    mean: Tensor
    cov: Tensor
    logdet: float

    def to(self, device: torch.device) -> JointLaw:
        """The same law with its tensors on a device."""
        moved = {name: getattr(self, name).to(device) for name in ("inputs", "mean", "cov")}
        return replace(self, **moved)


class Teacher:
    """Exact GP that a spectrum is fitted to: O(n^3) once, O(n^2 q) for a law of q points.

    Parameters
    ----------
    X
        Inputs (n, d).
    targets
        Normalised targets (n, k).
    spectrum
        The kernel.
    hyper
        Hyperparameters, shared with the spectrum that is fitted.
    device
        Device of the tensors, which is the device of the frequencies. Kernels are evaluated on the
        CPU.
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    def __init__(
        self,
        X: FloatArray,
        targets: FloatArray,
        spectrum: Spectrum,
        hyper: Hyperparameters,
        device: torch.device | str = "cpu",
        weights: RowWeights | None = None,
    ) -> None:
        self.spectrum, self.hyper, self.device = spectrum, hyper, torch.device(device)
        self._rows = X / hyper.lengthscale
        self.inputs = torch.as_tensor(self._rows, device=self.device)
        self.targets = torch.as_tensor(targets, device=self.device)
        gram = self._kernel(self._rows, self._rows)
        if weights is None:
            weights = RowWeights.ones(len(targets))
        self.root = torch.as_tensor(weights.root, device=self.device)[:, None]
        gram.diagonal().add_(hyper.noise / self.root[:, 0].square())
        self._factor = cholesky(gram, "K + noise I of the teacher")
        self._alpha = torch.cholesky_solve(self.targets, self._factor)

    def to(self, device: torch.device) -> Teacher:
        """The same teacher with its tensors on a device."""
        other = copy(self)
        other.device = device
        for name in ("inputs", "targets", "root", "_factor", "_alpha"):
            setattr(other, name, getattr(self, name).to(device))
        return other

    def _kernel(self, a: FloatArray, b: FloatArray) -> Tensor:
        values = self.spectrum.kernel(scaled_distances(a, b, self.spectrum.metric))
        return self.hyper.outputscale * torch.as_tensor(values, device=self.device)

    def law(self, X: FloatArray) -> JointLaw:
        """Joint predictive law at query points X (q, d), in the units of the rows."""
        points = X / self.hyper.lengthscale
        cross = self._kernel(self._rows, points)
        whitened = torch.linalg.solve_triangular(self._factor, cross, upper=False)
        cov = self._kernel(points, points) - whitened.T @ whitened
        cov.diagonal().add_(self.hyper.noise)
        root = cholesky(cov, "predictive covariance of the teacher")
        inputs = torch.as_tensor(points, device=self.device)
        return JointLaw(inputs, cross.T @ self._alpha, cov, 2 * float(root.diagonal().log().sum()))


def weighted_features(inputs: Tensor, frequencies: Tensor, weights: Tensor) -> Tensor:
    """`sqrt(a_i) [sin(w_i . x), cos(w_i . x)]`, (n, 2m), for inputs in units of lengthscales."""
    phase, amplitude = inputs @ frequencies.T, weights.sqrt()
    return torch.cat([phase.sin() * amplitude, phase.cos() * amplitude], dim=1)


def kl_per_point(teacher: Teacher, law: JointLaw, frequencies: Tensor, weights: Tensor) -> Tensor:
    """`KL(exact || of the spectrum) / q` in nats, averaged over outputs: a scalar tensor.

    It is differentiable in the frequencies (m, d) and the weights (m,).

    Parameters
    ----------
    teacher
        The exact GP.
    law
        Its joint law at q query points.
    frequencies
        Tensor (m, d), in units of one over the lengthscale, on the teacher's device.
    weights
        Tensor (m,) of sum one.
    """
    noise, lam = teacher.hyper.noise, teacher.hyper.noise / teacher.hyper.outputscale
    rows = weighted_features(teacher.inputs, frequencies, weights) * teacher.root
    points = weighted_features(law.inputs, frequencies, weights)
    (q, n_outputs), size = law.mean.shape, rows.shape[1]
    a = rows.T @ rows + lam * torch.eye(size, dtype=rows.dtype, device=rows.device)
    root_a = torch.linalg.cholesky(a)
    root_b = torch.linalg.cholesky(a + points.T @ points)
    targets = teacher.targets * teacher.root
    mean = points @ torch.cholesky_solve(rows.T @ targets, root_a)
    gap = law.mean - mean
    spread = law.cov + gap @ gap.T / n_outputs
    whitened = torch.linalg.solve_triangular(root_b, points.T, upper=False)
    quadratic = (spread.diagonal().sum() - ((whitened @ spread) * whitened).sum()) / noise
    logdets = root_b.diagonal().log().sum() - root_a.diagonal().log().sum()
    return 0.5 * (quadratic - q + q * math.log(noise) + 2 * logdets - law.logdet) / q


class PosteriorKL:
    """Loss `frequencies, weights -> KL per query point`; see `posterior_kl_loss`."""

    def __init__(self, teacher: Teacher, law: JointLaw) -> None:
        self.teacher, self.law = teacher, law

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.law.inputs.shape[1]

    def __call__(self, frequencies: Tensor, weights: Tensor | None = None) -> Tensor:
        """Nats per query point, differentiable; weights (m,) of sum one, equal if None."""
        check_frequencies(frequencies, self.dim)
        if frequencies.device != self.teacher.device:
            self.teacher = self.teacher.to(frequencies.device)
            self.law = self.law.to(frequencies.device)
        return kl_per_point(self.teacher, self.law, *with_weights(frequencies, weights))


def posterior_kl_loss(
    X: ArrayLike,
    y: ArrayLike,
    queries: ArrayLike,
    *,
    lengthscale: ArrayLike,
    outputscale: float,
    noise: float,
    kernel: SpectrumLike = "gaussian",
) -> PosteriorKL:
    """Loss that compares the posterior of a spectrum with the exact one, at query points.

    `loss(frequencies, weights=None)` is `KL(exact || approximate) / q` in nats, noise included: a
    differentiable scalar of frequencies (m, d) in units of one over the lengthscale, as a coupling
    draws them, and weights (m,) of sum one.

    Parameters
    ----------
    X, y
        Rows (n, d) and targets (n,) or (n, k) that both posteriors are given. O(n^3) once.
    queries
        Points (q, d) at which the two laws are compared, jointly.
    lengthscale, outputscale, noise
        Hyperparameters of both; the variances in the units of y squared.
    kernel
        The exact kernel.

    Raises
    ------
    InvalidInputError
        An array is empty, not finite or of a shape that does not fit; a hyperparameter is not
        positive.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> loss = cgp.posterior_kl_loss(
    ...     X, np.sin(X[:, 0]), X + 0.1, lengthscale=1.0, outputscale=1.0, noise=0.01
    ... )
    >>> few, more = (torch.linspace(0.1, 2.5, m, dtype=torch.float64)[:, None] for m in (1, 6))
    >>> bool(loss(more) < loss(few))
    True
    """
    inputs, targets = check_table(X, y)
    points = check_matrix(queries, "queries")
    if points.shape[1] != inputs.shape[1]:
        raise wrong("queries", f"{inputs.shape[1]} columns as X has", points.shape[1])
    hyper = check_hyperparameters(inputs.shape[1], lengthscale, outputscale, noise)
    teacher = Teacher(inputs, targets, parse_spectrum(kernel, "kernel"), hyper)
    return PosteriorKL(teacher, teacher.law(points))


def check_matrix(value: ArrayLike, name: str) -> FloatArray:
    """Return a finite matrix (n, d) in float64, not empty."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}: expected a matrix of numbers") from None
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(f"{name}: expected a non-empty 2-D array, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    check_magnitude(array, name)
    return np.ascontiguousarray(array)


def check_table(X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return inputs (n, d) and targets (n, k); unequal numbers of rows are refused."""
    inputs = check_matrix(X, "X")
    targets = np.asarray(y, dtype=np.float64)
    targets = check_matrix(targets[:, None] if targets.ndim == 1 else targets, "y")
    if len(targets) != len(inputs):
        raise wrong("y", f"{len(inputs)} rows as X has", len(targets))
    return inputs, targets


def check_hyperparameters(
    dim: int, lengthscale: ArrayLike, outputscale: float, noise: float
) -> Hyperparameters:
    """Return checked hyperparameters of inputs of `dim` columns."""
    return Hyperparameters(
        check_lengthscale(lengthscale, dim),
        check_positive(outputscale, "outputscale"),
        check_positive(noise, "noise"),
    )


def check_frequencies(frequencies: Tensor, dim: int) -> None:
    """Refuse a value that is not a tensor of frequencies (m, dim)."""
    if not isinstance(frequencies, Tensor) or frequencies.ndim != 2:
        raise InvalidInputError(
            f"frequencies: expected a tensor (m, {dim}), got {type(frequencies).__name__} of shape "
            f"{tuple(np.shape(frequencies))}"
        )
    if frequencies.shape[1] != dim or not len(frequencies):
        raise wrong("frequencies", f"shape (m, {dim})", tuple(frequencies.shape))


def with_weights(frequencies: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Frequencies (m, d) and weights (m,) in float64, the weights equal if None."""
    m = len(frequencies)
    if weights is None:
        weights = frequencies.new_full((m,), 1 / m)
    elif weights.shape != (m,):
        raise wrong("weights", f"shape ({m},), one a frequency", tuple(weights.shape))
    return frequencies.double(), weights.double()
