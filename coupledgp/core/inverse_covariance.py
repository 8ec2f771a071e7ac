"""Laws of observations that are left out, from the inverse covariance of all observations.

With the covariance C of the observations and a group G of them, the residual of the group given all
others and its covariance are

    r_G = D_G C_G. y ,   D_G = ((C^-1)_GG)^-1 ,   C_G. = rows G of C^-1

(Rasmussen and Williams, 2006, section 5.4.2, for groups of one): no factorisation is repeated. The
residuals of all groups have the joint covariance `D C^-1 D`, D the block diagonal of the `D_G`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from coupledgp.core.dense_system import CovarianceSystem
from coupledgp.core.left_out import Groups
from coupledgp.core.weights_posterior import FeatureStream, WeightPosterior
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.matrices import (
    Matrix,
    as_numpy,
    beside,
    cholesky_inverse,
    cholesky_solve,
    library,
    solve_lower,
)
from coupledgp.random import FloatArray, IntArray

# Most observations of a block of the inverse covariance that is computed from parts, 200 MiB.
MOST_BLOCK = 5000
# Least reciprocal condition number of a factor whose inverse keeps ten digits.
LEAST_RECIPROCAL = 1e-5
# Most observations left out in one call where each takes a solve by iteration.
MOST_LEFT_OUT = 4000
# Rows of a low-rank factor that are computed at once.
CHUNK_ROWS = 4096


class InverseCovariance(ABC):
    """The inverse of the covariance C of n observations of k outputs, noise included, by blocks.

    Attributes
    ----------
    residuals : FloatArray (n, k)
        `C^-1 y`.
    most_rows : int
        Largest group whose block is computed.
    """

    residuals: FloatArray
    most_rows: int = MOST_BLOCK

    @abstractmethod
    def diagonal(self, rows: IntArray) -> FloatArray:
        """Diagonal entries (m,) of `C^-1`."""

    @abstractmethod
    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        """Blocks `(C^-1)_GG` of groups of at most `most_rows` observations."""

    def serves(self, groups: list[IntArray]) -> bool:
        """Whether the laws of all these groups take less time than the user allows."""
        return True

    def moments(self, groups: list[IntArray]) -> tuple[FloatArray, FloatArray]:
        """Residuals (n, k) and variances (n,) of observations, each given the other groups.

        Rows of other groups than these hold NaN.
        """
        residual = np.full_like(self.residuals, np.nan)
        variance = np.full(len(residual), np.nan)
        single = np.array([group[0] for group in groups if group.size == 1], dtype=np.int64)
        if single.size:
            variance[single] = 1 / self.diagonal(single)
            residual[single] = variance[single, None] * self.residuals[single]
        larger = [group for group in groups if group.size > 1]
        for rows, block in zip(larger, self.blocks(larger), strict=True):
            covariance = inverse_of(block)
            residual[rows] = covariance @ self.residuals[rows]
            variance[rows] = covariance.diagonal()
        return residual, variance

    def covariance(self, groups: Groups) -> FloatArray | None:
        """Joint covariance (m, m) of the wanted residuals; None where it would take too much."""
        together = np.concatenate(groups.members)
        if together.size > self.most_rows:
            return None
        (whole,) = self.blocks([together])
        start, bounds = 0, []
        for group in groups.members:
            bounds.append(slice(start, start + group.size))
            start += group.size
        for own in bounds:
            covariance = inverse_of(whole[own, own])
            whole[own] = covariance @ whole[own]
            whole[:, own] = whole[:, own] @ covariance
        place = np.empty(groups.n_rows, dtype=np.int64)
        place[together] = np.arange(together.size)
        wanted = place[groups.rows]
        return whole[np.ix_(wanted, wanted)]


def inverse_of(block: FloatArray) -> FloatArray:
    """Inverse (m, m) of a positive definite block (m, m).

    Raises
    ------
    NumericalError
        The block is singular to working precision.
    """
    try:
        return np.asarray(np.linalg.inv(0.5 * (block + block.T)))
    except np.linalg.LinAlgError:
        raise NumericalError(
            "left-out observations: their covariance is singular in float64; raise the noise, or "
            "leave out duplicates of inputs"
        ) from None


class ExplainedPart(NamedTuple):
    """The part of prior covariances at p points that rows explain, `C A^-1 C'` for C (p, n).

    Attributes
    ----------
    variance : Matrix (p,)
        Its diagonal.
    left, right : Matrix (p, n)
        Factors whose product `left right'` is the whole.
    """

    variance: Matrix
    left: Matrix
    right: Matrix


class FactoredInverse(InverseCovariance):
    """The inverse of a covariance by its lower Cholesky factor L: O(n^3) time, O(n^2) memory.

    Parameters
    ----------
    make
        Computes the factor (n, n), at its first use.
    residuals
        `C^-1 y` (n, k).
    """

    def __init__(self, make: Callable[[], Matrix], residuals: FloatArray) -> None:
        self._make, self.residuals = make, residuals
        self.most_rows = len(residuals)

    @cached_property
    def factor(self) -> Matrix:
        """L itself, where it was made."""
        return self._make()

    @cached_property
    def _whole(self) -> FloatArray:
        found: FloatArray = cholesky_inverse(as_numpy(self.factor))
        return found

    @cached_property
    def _diagonal(self) -> FloatArray:
        """Diagonal (n,) of the inverse, by `L^-T`: a third of the time of the inverse."""
        root, _ = lapack.dtrtri(as_numpy(self.factor).T, lower=0)
        return np.asarray(np.einsum("ij,ij->i", root, root))

    def diagonal(self, rows: IntArray) -> FloatArray:
        return self._diagonal[rows]

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        for group in groups:
            yield self._whole[np.ix_(group, group)]

    @cached_property
    def _root(self) -> FloatArray | None:
        """`L^-1` (n, n) on the CPU; None where L is near singular.

        A product with it takes half the time of a solve, and loses digits where L is near singular.
        """
        if isinstance(self.factor, Tensor):
            return None
        factor = np.asfortranarray(self.factor)
        reciprocal, _ = lapack.dtrcon(factor, uplo="L")
        if reciprocal < LEAST_RECIPROCAL:
            return None
        inverse, info = lapack.dtrtri(factor, lower=1)
        return inverse if info == 0 else None

    def solved(self, right: FloatArray) -> FloatArray:
        """`C^-1 B` (n, j) for B (n, j)."""
        return as_numpy(cholesky_solve(beside(right, self.factor), self.factor))

    def explained(self, cross: Matrix) -> ExplainedPart:
        """What the rows explain at points of covariances C (p, n), which it may overwrite."""
        if self._root is None:
            root = solve_lower(self.factor, cross.T).T
        else:
            columns = np.ascontiguousarray(cross).T
            root = blas.dtrmm(1.0, self._root, columns, lower=1, overwrite_b=1).T
        return ExplainedPart((root * root).sum(1), root, root)


class SolvedInverse(InverseCovariance):
    """The inverse of a covariance C by a solve for each observation, of which there is a limit.

    Parameters
    ----------
    solve
        `B -> C^-1 B` for B (n, j).
    residuals
        `C^-1 y` (n, k).
    most_solves
        Largest number of observations that are solved for.
    advice
        How to raise the limit or to do without solves, for an error.
    """

    # Columns that are solved for at once.
    columns: ClassVar[int] = 256

    def __init__(
        self,
        solve: Callable[[FloatArray], FloatArray] | None,
        residuals: FloatArray,
        most_solves: int,
        advice: str,
    ) -> None:
        self._solve, self.residuals, self._advice = solve, residuals, advice
        self.most_rows = self.most_solves = most_solves

    def serves(self, groups: list[IntArray]) -> bool:
        return sum(group.size for group in groups) <= self.most_solves

    def moments(self, groups: list[IntArray]) -> tuple[FloatArray, FloatArray]:
        """Residuals (n, k) and variances (n,) of observations, each given the other groups.

        Raises
        ------
        InvalidInputError
            The groups hold more observations than are solved for.
        """
        if not self.serves(groups):
            count = sum(group.size for group in groups)
            raise InvalidInputError(
                f"groups: {count} observations would take a solve each, of at most "
                f"{self.most_solves}; {self._advice}"
            )
        return super().moments(groups)

    def diagonal(self, rows: IntArray) -> FloatArray:
        parts = np.array_split(rows, max(-(-rows.size // self.columns), 1))
        return np.concatenate([self._columns(part)[part, np.arange(part.size)] for part in parts])

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        for group in groups:
            yield self._columns(group)[group]

    def _columns(self, rows: IntArray) -> FloatArray:
        """Columns (n, m) of `C^-1`."""
        unit = np.zeros((len(self.residuals), rows.size))
        unit[rows, np.arange(rows.size)] = 1.0
        return self.solved(unit)

    def solved(self, right: FloatArray) -> FloatArray:
        """`C^-1 B` (n, j) for B (n, j)."""
        assert self._solve is not None
        return self._solve(right)


class IteratedInverse(SolvedInverse):
    """The inverse by conjugate gradients: O(n^2) time a column, and O(n) memory.

    Parameters
    ----------
    system
        The equations in C.
    residuals
        `C^-1 y` (n, k).
    """

    def __init__(self, system: CovarianceSystem, residuals: FloatArray) -> None:
        advice = "ask for some rows only (rows=, or max_rows= of a report)"
        super().__init__(None, residuals, MOST_LEFT_OUT, advice)
        self.system = system

    def solved(self, right: FloatArray) -> FloatArray:
        return self.system.solve(right, self.system.options.tolerance).values

    def explained(self, cross: Matrix) -> ExplainedPart:
        """By `C A^-1 C' = X' (C' + R) + R' A^-1 R`, X solutions with residuals R.

        The last term, quadratic in the tolerance, is left out.
        """
        found = self.system.solve(cross.T, self.system.options.tolerance)
        left, right = cross + found.residuals.T, found.values.T
        return ExplainedPart((left * right).sum(1), left, right)


class LowRankInverse(InverseCovariance):
    """The inverse of `C = s R^1/2 (I - E E')^-1 R^1/2`, R diagonal, with E of r columns.

    For weights of features of output scale v, `E = R^-1/2 Phi L^-T` with the lower Cholesky factor
    L of `A = Phi' R^-1 Phi + (s / v) I`. O(r^2) time for each observation, and O(r^3) for a group
    of more than r, for which `(I - E E')^-1 = I + E S^-1 E'` with `S = I - E_G' E_G`.

    Parameters
    ----------
    noise
        Noise variance s.
    relative
        Diagonal (n,) of R.
    errors
        `y - f` (n, k) with the posterior mean f at the observations.
    """

    def __init__(self, noise: float, relative: FloatArray, errors: FloatArray) -> None:
        self.noise, self.relative, self.errors = noise, relative, errors
        self.residuals = errors / (noise * relative[:, None])
        self.most_rows = len(errors)

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number r of the columns of E."""

    @abstractmethod
    def rows(self, rows: IntArray) -> Matrix:
        """Rows (m, r) of E, in float64."""

    @abstractmethod
    def prior(self) -> Matrix:
        """`(s / v) L^-1 L^-T` (r, r), which is `I - E' E`."""

    def diagonal(self, rows: IntArray) -> FloatArray:
        parts = [1 - as_numpy((part * part).sum(1)) for _, part in self._chunks(rows)]
        # An observation that nothing else informs: one minus its leverage may round to zero.
        kept = np.maximum(np.concatenate(parts), np.finfo(float).eps)
        return np.asarray(kept / (self.noise * self.relative[rows]))

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        """Blocks `(C^-1)_GG` of groups, which share passes over the features."""
        for batch in batches(groups):
            E = self.rows(np.concatenate(batch))
            start = 0
            for group in batch:
                own = E[start : start + group.size]
                start += group.size
                block = -as_numpy(own @ own.T)
                block[np.diag_indices_from(block)] += 1
                root = self.relative[group] ** -0.5
                yield block * np.multiply.outer(root, root) / self.noise

    def moments(self, groups: list[IntArray]) -> tuple[FloatArray, FloatArray]:
        small = [group for group in groups if group.size <= self.rank]
        residual, variance = super().moments(small)
        for group in groups:
            if group.size > self.rank:
                residual[group], variance[group] = self._large(group)
        return residual, variance

    def _large(self, group: IntArray) -> tuple[FloatArray, FloatArray]:
        """Residuals (g, k) and variances (g,) of a group of more observations than columns."""
        root = self.relative[group] ** 0.5
        errors = self.errors[group] / root[:, None]
        factor = self._factor_without(group)
        pull = sum(part.T @ beside(errors[own], part) for own, part in self._chunks(group))
        solved = cholesky_solve(pull, factor)
        variance = np.empty(group.size)
        for own, part in self._chunks(group):
            half = solve_lower(factor, part.T)
            variance[own] = 1 + as_numpy((half * half).sum(0))
            errors[own] += as_numpy(part @ solved)
        return root[:, None] * errors, self.noise * self.relative[group] * variance

    def _factor_without(self, group: IntArray) -> Matrix:
        """Lower Cholesky factor (r, r) of `S = I - E_G' E_G`."""
        n_rows = len(self.errors)
        if 2 * group.size <= n_rows:
            own = self._gram(group)
            S = beside(np.eye(self.rank), own) - own
        else:  # the difference would lose digits
            S = self.prior() + self._gram(np.setdiff1d(np.arange(n_rows), group))
        return library(S).linalg.cholesky(S)

    def _gram(self, rows: IntArray) -> Matrix:
        """`E_G' E_G` (r, r) of some rows."""
        return sum((part.T @ part for _, part in self._chunks(rows)), start=0.0 * self.prior())

    def _chunks(self, rows: IntArray) -> Iterator[tuple[slice, Matrix]]:
        for start in range(0, rows.size, CHUNK_ROWS):
            own = slice(start, start + CHUNK_ROWS)
            yield own, self.rows(rows[own])

    def covariance(self, groups: Groups) -> FloatArray:
        """Covariance (m, m) of residuals: `-s Z Z'` between groups, `Z = (I - E_G E_G')^-1 E_G`."""
        place = np.full(groups.n_rows, -1)
        place[groups.rows] = np.arange(groups.rows.size)
        Z = np.empty((groups.rows.size, self.rank))
        own_blocks = []
        for group in groups.members:
            inside = np.flatnonzero(place[group] >= 0)
            wanted = place[group[inside]]
            Z[wanted], block = self._pulls(group, inside)
            own_blocks.append((wanted, block))
        covariance = -(Z @ Z.T)
        for wanted, block in own_blocks:
            covariance[np.ix_(wanted, wanted)] = block
        root = self.relative[groups.rows] ** 0.5
        return self.noise * covariance * np.multiply.outer(root, root)

    def _pulls(self, group: IntArray, inside: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows of `(I - E E')^-1 E` (i, r) of a group, and entries (i, i) of `(I - E E')^-1`."""
        if group.size <= self.rank:
            E = as_numpy(self.rows(group))
            inverse = inverse_of(np.eye(group.size) - E @ E.T)
            return inverse[inside] @ E, inverse[np.ix_(inside, inside)]
        factor, own = self._factor_without(group), self.rows(group[inside])
        pulled = cholesky_solve(own.T, factor).T
        block = as_numpy(pulled @ own.T)
        block[np.diag_indices_from(block)] += 1
        return as_numpy(pulled), block


def batches(groups: list[IntArray]) -> Iterator[list[IntArray]]:
    """Groups in batches of about `CHUNK_ROWS` rows."""
    batch: list[IntArray] = []
    for group in groups:
        if batch and sum(own.size for own in batch) + group.size > CHUNK_ROWS:
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch


class FeatureInverse(LowRankInverse):
    """`C^-1 = R^-1/2 (I - E E') R^-1/2 / s` with `E = R^-1/2 Phi L^-T`, see `LowRankInverse`.

    Parameters
    ----------
    stream
        Features (n, M) of the observations, of unit output scale.
    posterior
        Posterior of their weights, with `A = L L'`.
    relative
        Diagonal (n,) of R.
    targets
        Normalised targets (n, k).
    """

    def __init__(
        self,
        stream: FeatureStream,
        posterior: WeightPosterior,
        relative: FloatArray,
        targets: FloatArray,
    ) -> None:
        self.stream, self.posterior = stream, posterior
        parts = [posterior.predict(features) for _, _, features in stream]
        super().__init__(posterior.noise, relative, targets - torch.cat(parts).cpu().numpy())

    @property
    def rank(self) -> int:
        """Number r of the columns of E, at most the number of observations."""
        return len(self.posterior.factor)

    def rows(self, rows: IntArray) -> Tensor:
        half = self.posterior.whitened(self.stream.subset(rows).dense())
        root = torch.as_tensor(self.relative[rows] ** -0.5, device=half.device)
        return root[:, None] * half

    def prior(self) -> Tensor:
        own = self.posterior
        scaled = math.sqrt(own.noise / own.outputscale) * torch.eye(
            self.rank, dtype=own.factor.dtype, device=own.factor.device
        )
        half = torch.linalg.solve_triangular(own.factor, scaled, upper=False)
        return half @ half.T


class LatticeInverse(InverseCovariance):
    """`C^-1 = R^-1 / s - R^-1 F D A^-1 D F' R^-1 / s` of the observations.

    Its diagonal follows from the variances of f at the rows; blocks take a solve for each row.
    """

    # Most rows of all blocks together.
    most_solves: ClassVar[int] = 4000

    def __init__(self, process: Any) -> None:
        self.process, data = process, process.data
        self.noise = process.lattice_prior.noise
        count = len(data)
        relative = data.relative_noise
        self.relative = np.ones(count) if relative is None else relative
        mean, _ = process.latent_law(data.points, "mean")
        errors = process.units.normalized(data.targets) - mean
        self.residuals = errors / (self.noise * self.relative[:, None])
        self.most_rows = min(count, 1000)

    def diagonal(self, rows: IntArray) -> FloatArray:
        own = self.process
        placed = own._placed(own.data.points[rows])
        variance = own._variance(*placed) - own.lattice_prior.left_out_variance
        relative = self.relative[rows]
        left = 1 - variance / (self.noise * relative)
        # An observation that nothing else informs: one minus its leverage may round to zero.
        kept = np.maximum(left, 1e-3 if own.posterior.relative_error else np.finfo(float).eps)
        return np.asarray(kept / (self.noise * relative))

    def serves(self, groups: list[IntArray]) -> bool:
        larger = sum(group.size for group in groups if group.size > 1)
        return self.process.system.is_dense or larger <= self.most_solves

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        own = self.process
        for group in groups:
            loaded = own._loaded_features(*own._placed(own.data.points[group]))
            hat = loaded.T @ own._solved(loaded)
            relative = self.relative[group]
            block = -hat / np.multiply.outer(relative, relative)
            block[np.diag_indices_from(block)] += 1 / relative
            yield block / self.noise
