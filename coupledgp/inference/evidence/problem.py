"""Log evidence of a GP with noise, its gradient, and its spectral form (MATH section 6).

Model, for a Gram matrix `G` (n, n) of unit outputscale: `y ~ N(0, v G + s I)`, k independent
outputs that share everything. With `lam = s / v`,

    log p(y) = -1/2 [ quad(lam) / v + k (logdet(G + lam I) + n log v + n log 2 pi) ],

`quad(lam) = y' (G + lam I)^-1 y` summed over outputs, and, with `a = (G + lam I)^-1 y`,
`d log p / d G = 1/2 [ a a' / v - k (G + lam I)^-1 ]`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.inference.evidence.rows import RowWeights
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
from coupledgp.linalg.rounding import ENTRY_ROUNDINGS, bounded, inverse_sizes
from coupledgp.random import FloatArray, IntArray


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
