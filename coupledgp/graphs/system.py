"""Equations in the covariance of values at nodes, solved by products of a graph prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.graphs.priors import GraphPrior
from coupledgp.ground.progress import prefixed
from coupledgp.linalg.conjugate_gradients import solve_refined
from coupledgp.linalg.system import LinearSystem, Solution, SystemOptions
from coupledgp.random import FloatArray, IntArray

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
