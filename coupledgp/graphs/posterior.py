"""Posterior of the values at nodes: dense, or by conjugate gradients and pathwise samples.

Posterior at all nodes from one factor of a sparse precision.

The function given the data has the precision `M = Q + D P' P D / r` over the output scale v, see
`precision_evidence`: the mean is `D M^-1 D P' Y / r`, the covariance `v D M^-1 D`, and all
variances are entries of the inverse on the pattern of M.

Equations in the covariance of values at nodes, solved by products of a graph prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.inverse_covariance import FactoredInverse, InverseCovariance, SolvedInverse
from coupledgp.graphs.evidence import PrecisionEvidence
from coupledgp.graphs.laplacian_power import (
    ObservedPrecision,
    SolvePrior,
    observed_precision,
    power_pattern,
)
from coupledgp.graphs.priors import GraphPrior, spread, unscaled
from coupledgp.ground.progress import prefixed, tell
from coupledgp.ground.visible import warn
from coupledgp.linalg.conjugate_gradients import (
    DiagonalPreconditioner,
    NotConvergedError,
    solve_columns,
    solve_refined,
)
from coupledgp.linalg.low_rank import ENTRY_ROUNDINGS, column_norms, error_of_residual
from coupledgp.linalg.matrices import Factor, covariance_factor
from coupledgp.linalg.system import LinearSystem, Solution, SystemOptions
from coupledgp.random import FloatArray, IntArray

# Nodes or samples whose columns exist at once.
BLOCK = 256
# Largest error of an explained covariance, as a multiple of the noise variance.
EXPLAINED = 1e-3
# Most covariances between observations and other nodes that are formed at once: 256 MiB.
CROSS_ENTRIES = 2**25
# Error of draws that are squared and averaged, as a share of the noise's standard deviation: far
# below the error of the average, `sqrt(2 / n)` of n draws. And the largest residual for it.
ROUGH, MOST_RESIDUAL = 3e-3, 1e-2
# Steps of conjugate gradients after which what they have is used.
MOST_STEPS = 2000
# Least relative residual that is asked for: smaller ones are rounding.
LEAST_TOLERANCE = 1e-12


class GraphPosterior(ABC):
    """`f | y` for `y = f + e`, `f ~ N(0, v K)`, `e ~ N(0, s R)`, all in units of centred targets.

    R is diagonal, the identity but where `relative` is given, which some classes take.

    Parameters
    ----------
    prior
        The prior at its final parameters.
    nodes, Y
        Observed node numbers (n,) and centred targets (n, n_outputs) of independent outputs.
    outputscale, noise
        v and s, shared by the outputs.
    weights
        `(v K + s R)^-1 Y` (n, n_outputs) if it is known already.
    relative
        Diagonal (n,) of R; None: ones.

    Attributes
    ----------
    has_all_variances : bool
        Whether exact variances of all nodes cost little more than that of one.
    """

    has_all_variances: ClassVar[bool] = False

    def __init__(
        self,
        prior: GraphPrior,
        nodes: IntArray,
        Y: FloatArray,
        outputscale: float,
        noise: float,
        *,
        weights: FloatArray | None = None,
        relative: FloatArray | None = None,
    ) -> None:
        self.prior, self.nodes, self._Y = prior, nodes, Y
        self.outputscale, self.noise = outputscale, noise
        self.relative = np.ones(nodes.size) if relative is None else relative
        self.weights = self.solve(Y) if weights is None else weights

    @property
    def row_noise(self) -> FloatArray:
        """Noise variances `s r` (n,) of the observations."""
        return self.noise * self.relative

    @abstractmethod
    def solve(self, B: FloatArray) -> FloatArray:
        """`(v K + s R)^-1 B` for B (n, k)."""

    def explain(self, cross: FloatArray) -> FloatArray:
        """`(v K + s I)^-1 cross`, (n, p), of covariances, exact enough for their difference."""
        return self.solve(cross)

    def solve_draws(self, B: FloatArray, error: float) -> FloatArray:
        """`X = (v K + s I)^-1 B` for draws B (n, k), with an error of `error s^1/2` in `v K X`."""
        return self.solve(B)

    def mean(self, nodes: IntArray) -> FloatArray:
        """Means `v K[nodes, train] (v K + s I)^-1 Y` of f, shape (p, n_outputs)."""
        return self.outputscale * self.prior.product(nodes, self.nodes, self.weights)

    def covariance(self, nodes: IntArray) -> FloatArray:
        """Covariance of f at nodes, shape (p, p): exact, by one solve for each node, in blocks."""
        covariance = np.empty((nodes.size, nodes.size))
        for block in blocks_of(nodes.size):
            tell(f"covariance, {block.start} of {nodes.size} nodes")
            own = self.prior.matrix(nodes, nodes[block])
            solved = self.explain(self.outputscale * self.prior.matrix(self.nodes, nodes[block]))
            explained = self.prior.product(nodes, self.nodes, solved)
            covariance[:, block] = self.outputscale * (own - explained)
        return 0.5 * (covariance + covariance.T)

    def variance(self, nodes: IntArray) -> FloatArray:
        """Variance of f at nodes, shape (p,): exact, by one solve for each node, in blocks."""
        variance = np.empty(nodes.size)
        for block in blocks_of(nodes.size):
            tell(f"variances, {block.start} of {nodes.size} nodes")
            cross = self.outputscale * self.prior.matrix(self.nodes, nodes[block])
            own = self.outputscale * self.prior.diagonal(nodes[block])
            variance[block] = own - np.einsum("ij,ij->j", cross, self.explain(cross))
        return np.maximum(variance, 0.0)

    def deviations(
        self, nodes: IntArray, n_samples: int, rng: np.random.Generator, error: float = 0.0
    ) -> FloatArray:
        """Draws of f less its mean at nodes, shape (p, n_samples), by Matheron's rule.

        `f* - v K[nodes, train] (v K + s I)^-1 (f + e)` with prior draws (f*, f) and noise e
        (Wilson et al., 2020): one solve for each sample, whatever the number of nodes. `error` is
        the root mean square of an error that may be left, over that of the noise.
        """
        together = np.concatenate([nodes, self.nodes])
        unique, places = np.unique(together, return_inverse=True)
        deviations = np.empty((nodes.size, n_samples))
        for block in self._slices(n_samples):
            tell(f"samples, {block.start} of {n_samples}")
            count = block.stop - block.start
            draws = np.sqrt(self.outputscale) * self.prior.sample(unique, count, rng)[places]
            there, here = draws[: nodes.size], draws[nodes.size :]
            noisy = here + np.sqrt(self.row_noise)[:, None] * rng.standard_normal(here.shape)
            deviations[:, block] = there - self._smoothed_draws(noisy, nodes, error)
        return deviations

    def _slices(self, size: int) -> list[slice]:
        """Draws or nodes in blocks."""
        return blocks_of(size)

    def _smoothed_draws(self, noisy: FloatArray, nodes: IntArray, error: float) -> FloatArray:
        """Means (p, n_samples) at nodes given drawn observations (n, n_samples)."""
        solved = self.solve_draws(noisy, error)
        return self.outputscale * self.prior.product(nodes, self.nodes, solved)

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws of f at nodes, shape (p, n_outputs, n_samples); see `deviations`."""
        mean = self.mean(nodes)
        draws = self.deviations(nodes, mean.shape[1] * n_samples, rng)
        return mean[:, :, None] + draws.reshape(*mean.shape, n_samples)

    def sampled_variance(
        self, nodes: IntArray, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Variance (p,) of f at nodes from samples, of relative error `sqrt(2 / n_samples)`."""
        draws = self.deviations(nodes, n_samples, rng, ROUGH)
        variance: FloatArray = np.einsum("ij,ij->i", draws, draws) / n_samples
        return variance


def error_of_direct(posterior: GraphPosterior, Y: FloatArray) -> float:
    """Estimated error by rounding of a posterior without iterations, in standard deviations.

    See `error_of_residual`; Y (n, k) are the centred targets.
    """
    nodes, v, s = posterior.nodes, posterior.outputscale, posterior.noise
    weights = posterior.weights
    residual = Y - v * posterior.prior.product(nodes, nodes, weights)
    residual -= posterior.row_noise[:, None] * weights
    largest = v * float(posterior.prior.diagonal(nodes).max()) + s
    eps = ENTRY_ROUNDINGS * float(np.finfo(np.float64).eps)
    entries = eps * largest * column_norms(weights)
    return error_of_residual(residual, entries, largest, s)


def blocks_of(size: int) -> list[slice]:
    """Slices that cut `size` columns into blocks of at most `BLOCK`."""
    return [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]


class DensePosterior(GraphPosterior):
    """Posterior by a Cholesky factor of the training covariance: O(n^3)."""

    has_all_variances = True

    @cached_property
    def _factor(self) -> Factor:
        A = self.outputscale * self.prior.matrix(self.nodes, self.nodes)
        A[np.diag_indices_from(A)] += self.row_noise
        return covariance_factor(A, self.noise / self.outputscale, overwrite=True)

    def log_evidence(self, Y: FloatArray) -> float:
        """Log density of centred targets (n, k), the outputs independent."""
        diagonal = np.log(self._factor[0].diagonal()).sum() + 0.5 * len(Y) * np.log(2 * np.pi)
        return float(-0.5 * (Y * self.weights).sum() - Y.shape[1] * diagonal)

    def solve(self, B: FloatArray) -> FloatArray:
        solved: FloatArray = linalg.cho_solve(self._factor, B)
        return solved

    def variance(self, nodes: IntArray) -> FloatArray:
        """Variance (p,) of f at nodes; `s - s^2 (A^-1)_ii` at observed nodes, if there are many."""
        if nodes.size <= BLOCK:
            return super().variance(nodes)
        tell(f"variances of {nodes.size} nodes")
        place = np.full(self.prior.graph.n_nodes, -1)
        place[self.nodes] = np.arange(self.nodes.size)
        seen, variance = place[nodes] >= 0, np.empty(nodes.size)
        if np.count_nonzero(seen) > BLOCK:
            at = place[nodes[seen]]
            s = self.row_noise[at]
            variance[seen] = s - s**2 * self._inverse_diagonal[at]
        else:
            seen[:] = False
        rest, width = np.flatnonzero(~seen), max(CROSS_ENTRIES // self.nodes.size, 1)
        for part in np.array_split(rest, -(-rest.size // width)) if rest.size else []:
            cross = self.prior.matrix(self.nodes, nodes[part])
            half = linalg.solve_triangular(self._factor[0], cross, lower=self._factor[1])
            own = self.outputscale * self.prior.diagonal(nodes[part])
            variance[part] = own - self.outputscale**2 * np.einsum("ij,ij->j", half, half)
        return np.maximum(variance, 0.0)

    @property
    def factor(self) -> FloatArray:
        """Lower Cholesky factor (n, n) of the observations' covariance."""
        return np.tril(self._factor[0])

    @cached_property
    def _inverse_diagonal(self) -> FloatArray:
        """Diagonal (n,) of the inverse of the observations' covariance."""
        half = np.tril(linalg.lapack.dtrtri(self._factor[0], lower=self._factor[1])[0])
        return np.einsum("ij,ij->j", half, half)


class IterativePosterior(GraphPosterior):
    """Posterior by preconditioned conjugate gradients, to a relative residual of `tolerance`."""

    tolerance = 1e-6

    @cached_property
    def _precondition(self) -> DiagonalPreconditioner:
        rough = self.outputscale * self.prior.rough_diagonal(self.nodes)
        return DiagonalPreconditioner(rough + self.row_noise)

    def solve(self, B: FloatArray) -> FloatArray:
        return self._solve(B, self.tolerance)

    def solve_draws(self, B: FloatArray, error: float) -> FloatArray:
        # A residual r of `(v K + s I) x = b` changes `v K x` by no more than its own size.
        sizes = np.maximum(np.sqrt(np.square(B).mean(axis=0)), np.finfo(float).tiny)
        wanted = np.clip(
            error * np.sqrt(self.row_noise.min()) / sizes, self.tolerance, MOST_RESIDUAL
        )
        return self._solve(B, wanted)

    def explain(self, cross: FloatArray) -> FloatArray:
        # A residual r changes a covariance by x' r, x being weights of at most about one. Under
        # small noise a posterior variance is about as small as the noise, however large the prior
        # one: the change has to be small beside the noise.
        norms = np.maximum(np.linalg.norm(cross, axis=0), np.finfo(float).tiny)
        return self._solve(
            cross,
            np.clip(EXPLAINED * self.row_noise.min() / norms, LEAST_TOLERANCE, self.tolerance),
        )

    def _solve(self, B: FloatArray, tolerance: float | FloatArray) -> FloatArray:
        def product(V: FloatArray) -> FloatArray:
            inner = self.prior.product(self.nodes, self.nodes, V)
            return self.outputscale * inner + self.row_noise[:, None] * V

        try:
            return solve_columns(product, self._precondition, B, tolerance, MOST_STEPS)
        except NotConvergedError as error:
            if not error.residual < MOST_RESIDUAL:  # nor where it is not a number
                raise
            warn(
                f"noise: conjugate gradients ended at a relative residual of {error.residual:.1g}, "
                f"{np.min(tolerance):.1g} was wanted: means and deviations are off by about that "
                "share of the prior's; raise the noise, or use solver='dense'",
                ConvergenceWarning,
            )
            return error.values


# Values at all nodes that exist at once, as columns of a solve: 128 MiB.
COLUMN_VALUES = 2**24


class PrecisionNodePosterior(GraphPosterior):
    """Posterior of a prior `(I + s L~)^-p`, for any number of observations.

    Arguments are those of `GraphPosterior`; the prior is a `SolvePrior`, scaled or not.

    Raises
    ------
    MemoryLimitError
        The factor does not fit in memory.
    NumericalError
        The precision is not positive definite to rounding.
    """

    has_all_variances = True

    def solve(self, B: FloatArray) -> FloatArray:
        """`(v K + s I)^-1 B`: B (n, k) minus its posterior mean, over the noise."""
        return (B - self._smoothed(B)[self.nodes]) / self.noise

    def mean(self, nodes: IntArray) -> FloatArray:
        return self._mean[nodes]

    def variance(self, nodes: IntArray) -> FloatArray:
        """Variance (p,) of f at nodes; all variances come from one pass."""
        return self._variances[nodes]

    def covariance(self, nodes: IntArray) -> FloatArray:
        covariance = np.empty((nodes.size, nodes.size))
        scales = self._scales[nodes]
        for block in self._slices(nodes.size):
            tell(f"covariance, {block.start} of {nodes.size} nodes")
            own = nodes[block]
            columns = np.zeros((self._scales.size, own.size))
            columns[own, np.arange(own.size)] = scales[block]
            covariance[:, block] = self._precision.solve(columns)[nodes]
        covariance *= self.outputscale * scales[:, None]
        return 0.5 * (covariance + covariance.T)

    def _smoothed_draws(self, noisy: FloatArray, nodes: IntArray, error: float) -> FloatArray:
        return self._smoothed(noisy)[nodes]

    def log_evidence(self) -> float:
        """Log evidence of Y, summed over outputs, from the same factor."""
        prior = self._own_prior
        evidence = PrecisionEvidence(prior.graph, prior.power, self.nodes, self._Y)
        # The factor is shared: it is in use here.
        assert self._precision is not None
        return evidence.log_evidence(prior.kernel, self.outputscale, self.noise)

    @property
    def _own_prior(self) -> SolvePrior:
        prior = unscaled(self.prior)
        assert isinstance(prior, SolvePrior)
        return prior

    @cached_property
    def _scales(self) -> FloatArray:
        """Scales d (n_nodes,) of the nodes; ones where there are none."""
        graph = self.prior.graph
        return np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale

    @cached_property
    def _precision(self) -> ObservedPrecision:
        """The precision `M = (I + s L~)^p + diag(w)` of the function given the observations."""
        prior, ratio = self._own_prior, self.noise / self.outputscale
        counts = np.bincount(self.nodes, minlength=self._scales.size)
        pattern = power_pattern(prior.graph, prior.power)
        return observed_precision(pattern, prior.scale, counts * self._scales**2 / ratio)

    @cached_property
    def _mean(self) -> FloatArray:
        return self._smoothed(self._Y)

    @cached_property
    def _variances(self) -> FloatArray:
        return self.outputscale * self._scales**2 * self._precision.variances

    def _smoothed(self, B: FloatArray) -> FloatArray:
        """`D M^-1 D P' B / r`, the mean (n_nodes, k) of all nodes given observations B (n, k)."""
        ratio = self.noise / self.outputscale
        pulled = spread(self.prior.graph, self.nodes, self._scales[self.nodes, None] * B)
        return self._scales[:, None] * self._precision.solve(pulled / ratio)

    def _slices(self, size: int) -> list[slice]:
        """Slices that cut columns of values at all nodes into blocks."""
        width = min(max(COLUMN_VALUES // self._scales.size, 1), BLOCK)
        return [slice(start, min(start + width, size)) for start in range(0, size, width)]


# Number of columns that exist on the whole graph at once.
BLOCK_COLUMNS = 32
# Share of the wanted tolerance that residuals are solved to: the bound `A >= s min(R)` of their
# effect is cruder than a preconditioner's.
BOUND_FACTOR = 1e-2


@dataclass(frozen=True, eq=False)
class GraphProblem:
    """Prior, data and scales of a model of the nodes of a graph.

    Attributes
    ----------
    prior : GraphPrior
        Prior of unit output scale.
    nodes : IntArray (n,)
        Observed node numbers.
    targets : FloatArray (n, k)
        Normalised targets.
    outputscale, noise : float
        Output scale and noise variance, in units of the normalised targets.
    offset, scale : FloatArray (k,)
        Units of the targets: `y = offset + scale * target`.
    relative : FloatArray (n,) or None
        Noise variances of the observations over `noise`; None: ones.
    """

    prior: GraphPrior
    nodes: IntArray
    targets: FloatArray
    outputscale: float
    noise: float
    offset: FloatArray
    scale: FloatArray
    relative: FloatArray | None = None

    def system(self, options: SystemOptions) -> GraphSystem:
        """Return the equations in the covariance of the data."""
        return GraphSystem(self)


class GraphSystem(LinearSystem):
    """`A = v K[nodes, nodes] + s R`, solved for some columns at a time, in float64.

    Parameters
    ----------
    problem
        Prior, data and scales.
    """

    def __init__(self, problem: GraphProblem) -> None:
        self.problem = problem
        self.targets, self.noise = problem.targets, problem.noise
        relative = np.ones(problem.nodes.size) if problem.relative is None else problem.relative
        self.row_noise = problem.noise * relative

    def _between(self, out: IntArray, into: IntArray) -> FloatArray:
        """`v K[out, into]`, (len(out), len(into)), from products with columns of the identity."""
        columns = np.empty((out.size, into.size))
        for start in range(0, into.size, BLOCK_COLUMNS):
            part = np.arange(start, min(start + BLOCK_COLUMNS, into.size))
            unit = np.zeros((into.size, part.size))
            unit[part, part - start] = self.problem.outputscale
            columns[:, part] = self.problem.prior.product(out, into, unit)
        return columns

    def cross(self, points: IntArray) -> FloatArray:
        return self._between(self.problem.nodes, points)

    def prior(self, points: IntArray) -> FloatArray:
        gram = self._between(points, points)
        return 0.5 * (gram + gram.T)

    def product(self, V: FloatArray) -> FloatArray:
        """`A V` for V (n, k)."""
        problem = self.problem
        return problem.outputscale * problem.prior.product(problem.nodes, problem.nodes, V) + (
            self.row_noise[:, None] * V
        )

    def solve(self, B: FloatArray, tolerance: float) -> Solution:
        problem = self.problem
        rough = problem.outputscale * problem.prior.rough_diagonal(problem.nodes) + self.row_noise
        diagonal = rough[:, None]
        parts = []
        for start in range(0, B.shape[1], BLOCK_COLUMNS):
            done = f"columns {start} to {min(start + BLOCK_COLUMNS, B.shape[1])} of {B.shape[1]}"
            with prefixed(f"{done}, "):
                parts.append(
                    solve_refined(
                        self.product,
                        lambda V: V / diagonal,
                        B[:, start : start + BLOCK_COLUMNS].copy(),
                        BOUND_FACTOR * tolerance,
                        "float64",
                    )
                )
        values, residuals, steps = zip(*parts, strict=True)
        return Solution(np.hstack(values), np.hstack(residuals), sum(steps))

    def inverse_bound(self, R: FloatArray) -> FloatArray:
        return R.T @ R / self.row_noise.min()

    def bytes_needed(self, n_columns: int) -> float:
        graph = self.problem.prior.graph
        at_once = min(BLOCK_COLUMNS, n_columns)
        return 8.0 * (self.n_rows * (3 * n_columns + 6 * at_once) + graph.n_nodes * 4 * at_once)


class NodeInverse(InverseCovariance):
    """Blocks of `C^-1` from variances and covariances of a posterior that has a factor.

    Parameters
    ----------
    posterior
        The posterior, whose weights are `C^-1 y`.
    """

    def __init__(self, posterior: GraphPosterior) -> None:
        self.posterior, self.residuals = posterior, posterior.weights

    def diagonal(self, rows: IntArray) -> FloatArray:
        noise = self.posterior.noise
        kept = 1 - self.posterior.variance(self.posterior.nodes[rows]) / noise
        # An observation that nothing else informs: the difference may round to zero.
        return np.asarray(np.maximum(kept, np.finfo(float).eps) / noise)

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        noise = self.posterior.noise
        for group in groups:
            covariance = self.posterior.covariance(self.posterior.nodes[group])
            yield (np.eye(group.size) - covariance / noise) / noise


def node_inverse(
    posterior: GraphPosterior, errors: FloatArray, most_solves: int
) -> InverseCovariance:
    """The inverse covariance of the observations of a posterior of f.

    Parameters
    ----------
    posterior
        The posterior.
    errors
        Normalised targets less the posterior mean of f, (n, k).
    most_solves
        Largest number of solves, where there is no factor.
    """
    if isinstance(posterior, DensePosterior):
        factor = posterior.factor
        return FactoredInverse(lambda: factor, posterior.weights)
    if posterior.has_all_variances:
        return NodeInverse(posterior)
    advice = (
        "raise exact_variances, ask for some rows only (max_rows of a report), or fit with "
        "solver='dense'"
    )
    return SolvedInverse(posterior.solve, posterior.weights, most_solves, advice)
