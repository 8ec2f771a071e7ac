"""Fits of an expression of kernels with features: lengthscales on some rows, variances on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coupledgp.gp.kernel_features import KernelFeatureGP, KernelFeaturePrior
from coupledgp.gp.kernel_prior import KernelPrior
from coupledgp.ground.progress import Progress
from coupledgp.ground.tensors import torch
from coupledgp.inference.dense.expression_evidence import NOISE_PRIOR
from coupledgp.inference.weights.groups import WeightSums
from coupledgp.inference.weights.scale_evidence import ScaleEvidence
from coupledgp.kernels.feature_terms import feature_terms
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Search, SearchResult
from coupledgp.search.tables.expression import ExpressionProblem
from coupledgp.search.tables.local import VALUE_TOLERANCE, Round

# Rows of the search for all hyperparameters, by the dense evidence.
FEATURE_ROUNDS = (Round(512, 60), Round(1024, 15))
# Rows by which the laws of columns are made, and iterations of the search for variances.
LAW_ROWS, SCALE_ITERATIONS = 20_000, 60


class WholeTable(NamedTuple):
    """A table of which some rows are in memory.

    Attributes
    ----------
    n_rows : int
    ends : FloatArray (2, D)
        Least and greatest value of each column.
    given : callable
        The process of a prior given all rows.
    """

    n_rows: int
    ends: FloatArray
    given: Callable[[KernelFeaturePrior], KernelFeatureGP]


@dataclass(frozen=True, eq=False)
class FeatureExpression:
    """An expression of kernels of a table, whose process has features.

    Attributes
    ----------
    problem : ExpressionProblem
        The table and the expression.
    n_frequencies : int
        Number of frequencies of each term that has waves.
    coupling : object
        Their joint law.
    """

    problem: ExpressionProblem
    n_frequencies: int
    coupling: Any

    def prior(self, vector: FloatArray, ends: FloatArray | None = None) -> KernelFeaturePrior:
        """Features at hyperparameters (1 + q,), of rows between ends (2, D), if known."""
        table = self.problem.table
        step = max(len(table.data) // LAW_ROWS, 1)
        own = self.problem.prior(vector).bounded_by(table.data.points if ends is None else ends)
        rng = np.random.default_rng([table.seed, 6])
        return KernelFeaturePrior.of(
            own, table.data.points[::step], self.n_frequencies, self.coupling, rng
        )

    def fit(
        self,
        report: Progress,
        rounds: tuple[Round, ...],
        n_starts: int,
        normalize: bool,
        whole: WholeTable | None = None,
    ) -> tuple[KernelFeatureGP, SearchResult[FloatArray]]:
        """The process of greatest posterior density of its hyperparameters.

        All are searched for by the dense evidence of some rows; then variances and noise go on by
        the evidence of the features of all rows, which takes one further pass. `whole` is the table
        of which the problem has some rows; None for that of the problem.
        """
        table = self.problem.table
        n_rows, ends = (len(table.data), None) if whole is None else whole[:2]

        def given(prior: KernelFeaturePrior) -> KernelFeatureGP:
            return prior.given(table.data, table.units, normalize)

        conditioned = given if whole is None else whole.given
        # A term without features is refused before any work.
        covariance = self.problem.covariance
        feature_terms(covariance, covariance.start)
        found = self.problem.search(report, rounds, n_starts)
        prior = self.prior(found.point, ends)
        process = conditioned(prior)
        if not rounds or n_rows <= rounds[-1].batch_rows or np.isnan(found.value):
            return process, found
        evidence, active = scale_evidence(process, table.known_noise is None)
        if evidence is None:
            return process, found
        search = Search(report=report)
        best = search.improved(
            evidence, evidence.start, Stopping(SCALE_ITERATIONS, VALUE_TOLERANCE)
        )
        vector = found.point.copy()
        vector[active] = best.point
        after = replace(found, point=vector, value=best.value, converged=best.converged,
                        n_evaluations=found.n_evaluations + best.n_evaluations)  # fmt: skip
        return conditioned(prior.at(vector)), after


def scale_evidence(
    process: KernelFeatureGP, fits_noise: bool
) -> tuple[ScaleEvidence | None, FloatArray]:
    """Evidence of noise and variances by the sums of a process, and their places in its vector.

    None for fewer rows than features, of which no sums are kept.
    """
    prior = process.feature_prior
    assert isinstance(prior, KernelFeaturePrior)
    own: KernelPrior = prior.expression
    theta, covariance = own.theta, own.rows

    def logarithms(moved: FloatArray) -> FloatArray:
        return np.log([term.variance for term in feature_terms(covariance, moved)])

    steps = [logarithms(theta + step) - logarithms(theta) for step in np.eye(theta.size)]
    jacobian = np.round(np.array(steps).T, 6)
    scales = np.flatnonzero(np.abs(jacobian).max(axis=0, initial=0.0) > 0)
    active = np.concatenate([[0], 1 + scales])
    moments = process.statistics.moments
    if moments is None:
        return None, active
    offset, scale = (torch.as_tensor(u) for u in (process.units.offset, process.units.scale))
    equations = moments.normalized(offset, scale)
    unit = prior.hyperparameters.outputscale
    sums = WeightSums(
        unit * equations.gram.numpy(), unit**0.5 * equations.cross.numpy(),
        equations.square.numpy(), equations.log_noise, equations.n_rows,
    )  # fmt: skip
    means, widths = np.array(
        [NOISE_PRIOR, *((each.mean, each.width) for each in covariance.parameters)]
    ).T
    return ScaleEvidence(
        sums, prior.features.groups, jacobian[:, scales], own.vector[active], means[active],
        widths[active], fits_noise,
    ), active  # fmt: skip
