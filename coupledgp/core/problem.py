"""Log evidence of a GP with noise, its gradient, and its spectral form (MATH section 6).

Model, for a Gram matrix `G` (n, n) of unit outputscale: `y ~ N(0, v G + s I)`, k independent
outputs that share everything. With `lam = s / v`,

    log p(y) = -1/2 [ quad(lam) / v + k (logdet(G + lam I) + n log v + n log 2 pi) ],

`quad(lam) = y' (G + lam I)^-1 y` summed over outputs, and, with `a = (G + lam I)^-1 y`,
`d log p / d G = 1/2 [ a a' / v - k (G + lam I)^-1 ]`.

Objectives that a search for hyperparameters minimises, and rounds of such objectives.

Rows that differ in their noise, or that count more than once.

Row i has the noise variance `s r_i` and counts `c_i` times, as if it stood c_i times in the table:

    p(y | f) = prod_i N(y_i; f_i, s r_i)^c_i .

With `p_i = c_i / r_i` and `P = diag(p)`, the evidence of k outputs is that of the rows of
`P^1/2 Phi`, or the Gram matrix `P^1/2 G P^1/2`, and of the targets `P^1/2 y`, whose number of rows
is `sum_i c_i`, times `prod_i r_i^(-k c_i / 2)`. A row of weight c in a table is a row of count c; a
row of known noise is one of count 1. For whole counts it is the table with repeated rows.

Distances of rows in the metric of a kernel, and stationary kernels on any device.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.linalg.low_rank import ENTRY_ROUNDINGS, bounded, inverse_sizes
from coupledgp.linalg.matrices import (
    Matrix,
    add_to_diagonal,
    as_numpy,
    beside,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    library,
    rounding_unit,
)
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum


@stored
@dataclass(frozen=True, eq=False)
class RowWeights:
    """Relative noise and counts of n rows.

    Attributes
    ----------
    noise : FloatArray (n,)
        Relative noise variances r, positive: row i has the noise variance `s r_i`.
    counts : FloatArray (n,)
        Counts c, positive: how often each row counts.
    level : float or None
        Noise variance of a row of relative noise one, in units of y squared, where it is known.
    exposure : FloatArray (n,) or None
        Exposures e, positive: a likelihood of counts takes `f + log e` for f. None: ones.
    """

    noise: FloatArray
    counts: FloatArray
    level: float | None = None
    exposure: FloatArray | None = None

    def read_back(self) -> RowWeights:
        """The weights of a file."""
        check_shapes(self, noise=("n",), counts=("n",), exposure=("n",))
        check_range(
            self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "noise", "counts", "level", "exposure"
        )  # fmt: skip
        return self

    def __len__(self) -> int:
        return len(self.noise)

    @classmethod
    def ones(cls, n_rows: int, exposure: FloatArray | None = None) -> RowWeights:
        """Weights of n rows that count once each and have the noise variance s."""
        return cls(np.ones(n_rows), np.ones(n_rows), exposure=exposure)

    @classmethod
    def joined(cls, parts: Sequence[RowWeights]) -> RowWeights:
        """Weights of the rows of all parts, with the level of the first part."""
        noise = np.concatenate([part.noise for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        exposure = None
        if any(part.exposure is not None for part in parts):
            own = [np.ones(len(p)) if p.exposure is None else p.exposure for p in parts]
            exposure = np.concatenate(own)
        return cls(noise, counts, parts[0].level, exposure)

    def take(self, rows: NDArray[np.integer] | slice) -> RowWeights:
        """Weights of some rows, by their places."""
        exposure = None if self.exposure is None else self.exposure[rows]
        return RowWeights(self.noise[rows], self.counts[rows], self.level, exposure)

    @property
    def relative_noise(self) -> FloatArray:
        """`r / c` (n,): the posterior depends on the weights by these ratios alone."""
        return self.noise / self.counts

    @cached_property
    def root(self) -> FloatArray:
        """`sqrt(c / r)` (n,), the factors of the rows of features and targets."""
        return np.sqrt(self.counts / self.noise)

    @property
    def n_counted(self) -> float:
        """Number of rows, each as often as it counts."""
        return float(self.counts.sum())

    @property
    def precision(self) -> float:
        """`sum_i c_i / r_i`."""
        return float((self.counts / self.noise).sum())

    @property
    def log_noise(self) -> float:
        """`sum_i c_i log r_i`."""
        return float(self.counts @ np.log(self.noise))

    def log_repetition(self, noise: float) -> float:
        """Log evidence of one output minus the log density of its rows with noise `s r / c`.

        `1/2 sum log(r / c) - 1/2 sum c log r - 1/2 sum (c - 1) log(2 pi s)`, zero where all counts
        are one: the law of repeated values about their mean.
        """
        own = np.log(self.relative_noise) - self.counts * np.log(self.noise)
        return float(0.5 * (own - (self.counts - 1) * np.log(2 * np.pi * noise)).sum())


@stored
@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a stationary Gaussian process with noise.

    Attributes
    ----------
    lengthscale : FloatArray (d,)
        In units of the inputs.
    outputscale, noise : float
        Variances of f and of the noise, in units of the normalised targets.
    """

    lengthscale: FloatArray
    outputscale: float
    noise: float

    def read_back(self) -> Hyperparameters:
        """The hyperparameters of a file."""
        check_shapes(self, lengthscale=("d",))
        check_range(
            self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "lengthscale", "outputscale", "noise"
        )  # fmt: skip
        return self


@dataclass(frozen=True)
class EvidenceGradient:
    """Log evidence and its gradient.

    Attributes
    ----------
    value : float
        Log evidence in nats.
    lengthscale : FloatArray (d,)
        Gradient in the log lengthscales.
    outputscale, noise : float
        Derivatives in the log of v and in the log of s, the other one fixed.
    """

    value: float
    lengthscale: FloatArray
    outputscale: float
    noise: float


class EvidenceAtLengthscale(ABC):
    """Evidence of a table at fixed lengthscales, as a function of v and s only."""

    @abstractmethod
    def spectral(self) -> SpectralEvidence:
        """Eigenvalues and energies, from which the evidence at any (v, s) costs O(min(n, M))."""

    @abstractmethod
    def value(self, outputscale: float, noise: float) -> float:
        """Log evidence in nats, by a Cholesky factor."""

    @abstractmethod
    def evaluate(self, outputscale: float, noise: float) -> EvidenceGradient:
        """Evidence and its gradient in all hyperparameters, by a Cholesky factor."""

    def error(self, outputscale: float, noise: float) -> float:
        """Estimated error of the log evidence by rounding, nats; zero where it is not known."""
        return 0.0


class EvidenceProblem(ABC):
    """Evidence of one table as a function of the hyperparameters.

    Attributes
    ----------
    n_rows, n_outputs : int
        Number n of rows and number k of outputs.
    weights : RowWeights or None
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    n_rows: int
    n_outputs: int
    weights: RowWeights | None = None

    @property
    def n_counted(self) -> float:
        """Number of rows, each as often as it counts."""
        return self.n_rows if self.weights is None else self.weights.n_counted

    @property
    def inputs(self) -> FloatArray | None:
        """Inputs (n, d), by which near rows are found; None where they are not in memory."""
        return None

    @abstractmethod
    def at(self, lengthscale: FloatArray) -> EvidenceAtLengthscale:
        """Return the evidence at lengthscales (d,)."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> EvidenceProblem:
        """Return the problem of some rows, given by their numbers (b,)."""

    def in_double(self) -> EvidenceProblem:
        """The problem with sums as exact as the posterior's, for the end of a search."""
        return self


class PredictiveEvidence(EvidenceAtLengthscale):
    """Evidence of a table at fixed lengthscales, from which other rows can be predicted."""

    @abstractmethod
    def log_density(self, others: LadderProblem, outputscale: float, noise: float) -> FloatArray:
        """Log densities (q,) of the normalised targets of other rows, each row alone.

        The outputs of a row are scored jointly. Rows that count more or less than others do so in
        the mean, too.
        """


class LadderProblem(EvidenceProblem):
    """Evidence of a table of which a part of the rows may be enough."""

    @abstractmethod
    def at(self, lengthscale: FloatArray) -> PredictiveEvidence:
        """Return the evidence at lengthscales (d,), which also predicts other rows."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> LadderProblem:
        """Return the problem of some rows, given by their numbers (b,); it has parts again."""

    @property
    def most_rows(self) -> int:
        """Most rows that a part of the table may have; the whole may have more."""
        return self.n_rows

    def row_order(self, rng: np.random.Generator, size: int) -> IntArray:
        """The first numbers (size,) of the rows in random order, drawn by `permutation`."""
        return rng.permutation(self.n_rows)[:size]

    @abstractmethod
    def single_precision(self) -> LadderProblem | None:
        """The problem with features in single precision; None where it has no such form."""


class GramAtLengthscale(EvidenceAtLengthscale):
    """Evidence from the Gram matrix of the rows, of unit outputscale: O(n^3).

    Parameters
    ----------
    gram
        `Phi Phi'` or a kernel matrix (n, n), positive semidefinite.
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    def __init__(self, gram: Matrix, targets: Matrix, weights: RowWeights | None = None) -> None:
        self.n_counted: float = len(targets)
        self.log_noise = 0.0
        self._root: Matrix | None = None
        if weights is not None:
            self.n_counted, self.log_noise = weights.n_counted, weights.log_noise
            self._root = beside(weights.root[:, None], gram)
            gram, targets = gram * self._root * self._root.T, targets * self._root
        self.gram = gram
        self.targets = targets

    def spectral(self) -> SpectralEvidence:
        eigenvalues, vectors = library(self.gram).linalg.eigh(self.gram)
        energy = ((vectors.T @ self.targets) ** 2).sum(1)
        return SpectralEvidence(
            np.maximum(as_numpy(eigenvalues), 0.0), as_numpy(energy), 0.0, self.n_counted,
            self.targets.shape[1], self.log_noise,
        )  # fmt: skip

    def _solve(self, outputscale: float, noise: float) -> tuple[float, Matrix, Matrix]:
        """Log evidence, Cholesky factor of `G + lam I`, and `(G + lam I)^-1 y`."""
        ridge = 1.0 * self.gram
        add_to_diagonal(ridge, noise / outputscale)
        factor = cholesky(ridge, "K / outputscale + (noise / outputscale) I")
        solved = cholesky_solve(self.targets, factor)
        quad = float((self.targets * solved).sum())
        logdet = 2 * float(library(factor).log(factor.diagonal()).sum()) + self.log_noise
        repeated = self.n_counted - len(self.targets)
        if repeated:
            logdet += repeated * math.log(noise / outputscale)
        value = log_evidence(quad, logdet, outputscale, self.n_counted, self.targets.shape[1])
        return value, factor, solved

    def value(self, outputscale: float, noise: float) -> float:
        return self._solve(outputscale, noise)[0]

    def error(self, outputscale: float, noise: float) -> float:
        """Estimated error of the evidence: `|x' dG x| / 2 v + k |tr((G + lam I)^-1 dG)| / 2`."""
        _, factor, solved = self._solve(outputscale, noise)
        eps = ENTRY_ROUNDINGS * rounding_unit(self.gram)
        squares = solved * solved
        quadratic = (squares * ((self.gram * self.gram) @ squares)).sum(0) ** 0.5
        trace = inverse_sizes(factor)[0] * float(self.gram.diagonal().mean())
        nats = float(quadratic.sum()) / outputscale + solved.shape[1] * trace
        return bounded(0.5 * eps * nats)

    def evaluate(self, outputscale: float, noise: float) -> EvidenceGradient:
        n, n_outputs = self.n_counted, self.targets.shape[1]
        lam = noise / outputscale
        value, factor, solved = self._solve(outputscale, noise)
        inverse = cholesky_inverse(factor)
        quad, trace = float((self.targets * solved).sum()), float(inverse.diagonal().sum())
        by_noise = 0.5 * lam * (float((solved * solved).sum()) / outputscale - n_outputs * trace)
        by_noise -= 0.5 * n_outputs * (n - len(self.targets))
        # Scaling v and s together leaves lam alone, and the derivative along that is known.
        by_both = 0.5 * (quad / outputscale - n_outputs * n)
        cotangent = (solved * (0.5 / outputscale)) @ solved.T
        cotangent -= 0.5 * n_outputs * inverse
        if self._root is not None:
            cotangent = cotangent * self._root * self._root.T
        by_lengthscale = as_numpy(self._lengthscale_gradient(cotangent))
        return EvidenceGradient(value, by_lengthscale, by_both - by_noise, by_noise)

    @abstractmethod
    def _lengthscale_gradient(self, cotangent: Matrix) -> Matrix:
        """Gradient (d,) in the log lengthscales from that in the Gram matrix (n, n) as given."""


@dataclass(frozen=True)
class SpectralEvidence:
    """Evidence at fixed lengthscales as a function of (v, s); each evaluation takes O(r).

    `quad(lam) = sum_i energy_i / (eigenvalue_i + lam) + remainder / lam` and
    `logdet(lam) = sum_i log(eigenvalue_i + lam) + (n - r) log lam + log_noise`.

    Attributes
    ----------
    eigenvalues : FloatArray (r,)
        Eigenvalues of the smaller Gram matrix, r = min(n, M).
    energies : FloatArray (r,)
        Squares of the targets' components along the eigenvectors, summed over outputs.
    remainder : float
        Squares of the targets' components outside the span of the features, summed.
    n_rows : float
        Number n of rows, each as often as it counts.
    n_outputs : int
        Number k of outputs.
    log_noise : float
        `RowWeights.log_noise`; zero for rows that are all alike.
    """

    eigenvalues: FloatArray
    energies: FloatArray
    remainder: float
    n_rows: float
    n_outputs: int
    log_noise: float = 0.0

    def quadratic(self, lam: FloatArray | float) -> FloatArray:
        """`y' (Phi Phi' + lam I)^-1 y`, summed over outputs, at `lam` of any shape."""
        lam = np.asarray(lam, dtype=np.float64)
        return (self.energies / (self.eigenvalues + lam[..., None])).sum(-1) + self.remainder / lam

    def log_determinant(self, lam: FloatArray | float) -> FloatArray:
        """`logdet(Phi Phi' + lam I)` at `lam` of any shape."""
        lam = np.asarray(lam, dtype=np.float64)
        logs = np.log(self.eigenvalues + lam[..., None]).sum(-1)
        return logs + (self.n_rows - self.eigenvalues.size) * np.log(lam) + self.log_noise

    def value(self, outputscale: FloatArray | float, noise: FloatArray | float) -> FloatArray:
        """Log evidence at each pair (v, s)."""
        v = np.asarray(outputscale, dtype=np.float64)
        lam = np.asarray(noise, dtype=np.float64) / v
        return log_evidence(
            self.quadratic(lam), self.log_determinant(lam), v, self.n_rows, self.n_outputs
        )

    def best_outputscale(self, lam: FloatArray | float) -> FloatArray:
        """`argmax_v` of the evidence at fixed `lam = s / v`, of any shape: `quad(lam) / (n k)`."""
        return self.quadratic(lam) / (self.n_rows * self.n_outputs)


_Number = TypeVar("_Number", float, FloatArray)


def log_evidence(
    quad: _Number, logdet: _Number, outputscale: _Number, n_rows: float, n_outputs: int
) -> _Number:
    """Log evidence from `quad(lam)`, `logdet(G + lam I)` and v; numbers or arrays."""
    scale = n_rows * np.log(2 * np.pi * outputscale)
    value = -0.5 * (quad / outputscale + n_outputs * (logdet + scale))
    return float(value) if isinstance(quad, float) else value


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


def distances_between(rows: Tensor, others: Tensor, metric: Metric) -> Tensor:
    """Distances (..., n, p) between rows (..., n, d) and (..., p, d), where they are.

    Each is a sum over differences of columns, so that near rows lose no digits.
    """
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(rows, others, p=float(metric.order), compute_mode=mode)


def distances_on(device: torch.device, a: FloatArray, b: FloatArray, metric: Metric) -> Tensor:
    """Distances (n, p) between rows of `a` (n, d) and `b` (p, d), on a device."""
    rows, others = (torch.tensor(x, dtype=torch.float64, device=device) for x in (a, b))
    return distances_between(rows, others, metric)


def kernel_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """Kernel `kappa(r)` (n, p) of distances, where they are.

    Kernels that torch has no function for are computed on the CPU, and come back.
    """
    return spectrum.kernel_and_slope(spectrum.metric.powers(distances))[0]


def slope_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """`kernel_slope` (n, p) of distances, zero at distance zero where it has no limit."""
    metric = spectrum.metric
    return -metric.order * spectrum.kernel_and_slope(metric.powers(distances))[1]
