"""Searches for the hyperparameters of an expression of kernels, also under a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coupledgp.core.dense_evidence import ExpressionEvidence
from coupledgp.core.minimise import Stopping
from coupledgp.core.problem import Box, VectorObjective
from coupledgp.core.process import Data
from coupledgp.core.search import Rounds, Search, SearchResult
from coupledgp.core.sites import REACH, DenseRows, Observed, Pull, SiteObjective
from coupledgp.core.units import Units, are_constant
from coupledgp.expressions import Kernel
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.dense_prior import KernelPrior, covariance_of
from coupledgp.tables.exact_process import ExactGP
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import VALUE_TOLERANCE, Round

# Evidence costs O(n^3): most of the search is on few rows. Rows beyond the last number take part in
# the posterior alone.
EXPRESSION_ROUNDS = (Round(512, 60), Round(2000, 15))
# Factors on all lengthscales of the starts beside the means of the priors.
SHORTER = (0.35,)
# Logarithm of the factor by which variances at the start of a search exceed the means of their
# priors, which are those of targets of unit variance: functions of logits are larger.
LARGER = 1.5


class LatentEvidence(VectorObjective):
    """Minus the log posterior of hyperparameters under a likelihood, per observation.

    Variables (1 + q + l,) are those of `ExpressionEvidence`, whose priors they have, then the
    logarithms of l parameters of the likelihood, of a flat prior. The first one, of the noise, is
    the unit of the sites' noise and stays zero.

    Parameters
    ----------
    evidence
        The evidence of the same rows under normal noise of variance one, which knows the priors.
    observed
        The observations under their likelihood.
    """

    def __init__(self, evidence: ExpressionEvidence, observed: Sequence[Observed]) -> None:
        self.normal, self.size = evidence, evidence.size
        covariance, rows = evidence.covariance, evidence.rows

        def prior(theta: FloatArray) -> tuple[DenseRows, Pull]:
            found = covariance.evaluate(rows, rows, theta)
            return DenseRows(found.covariance), found.pull

        self.sites = SiteObjective(prior, len(covariance.parameters), observed)

    @property
    def start(self) -> FloatArray:
        """Variables at the means of the priors, with larger variances, and at the likelihood's."""
        own = self.sites.likelihood.parameters.values()
        larger = LARGER * variances_of(self.normal.covariance)
        return np.append(self.normal.start + larger, np.log(list(own)))

    def box(self, start: FloatArray) -> Box:
        n, likelihood = self.normal.start.size, self.sites.likelihood
        return [*self.normal.box(start[:n]), *likelihood.log_box(start[n:], REACH)]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.sites.value_and_gradient(variables[1:])
        normal = self.normal
        n = normal.start.size
        gaps = ((variables[:n] - normal.means) / normal.widths)[1:]
        gradient[: n - 1] += gaps / normal.widths[1:]
        value += 0.5 * float(gaps @ gaps)
        return value / self.size, np.append(0.0, gradient) / self.size


def variances_of(covariance: RowCovariance) -> FloatArray:
    """One (1 + q,) where a variable of an expression's evidence is a variance of f, else zero."""
    return np.array([0.0, *(name.startswith("variance") for name in covariance.names)])


@dataclass(frozen=True, eq=False)
class ObservedProblem:
    """A table whose process under an expression and a likelihood is searched for.

    Hyperparameters are those of the function over its unit, the scale of the table's units: one but
    for observations that are f plus noise.

    Attributes
    ----------
    table : LocalProblem
        The table; the offset of its units is the prior mean of the function, their scale its unit,
        and its known noise one.
    kernel : Kernel
        The expression.
    likelihood : Likelihood
        Law of an observation given the function, with the parameters where a search starts.
    """

    table: LocalProblem
    kernel: Kernel
    likelihood: Likelihood

    @property
    def normal(self) -> ExpressionProblem:
        """The same table under normal noise."""
        return ExpressionProblem(self.table, self.kernel)

    def evidence(self, rows: IntArray) -> LatentEvidence:
        """The evidence of some rows, of observations over the unit."""
        data, units = self.table.data.take(rows), self.table.units
        unit = float(units.scale[0])
        law = self.likelihood.rescaled(1 / unit)
        observed = Observed.of(law, data.targets / unit, units.offset / unit, data.weights)
        return LatentEvidence(self.normal.evidence(rows), observed)

    def search(self, rounds: Sequence[Round]) -> SearchResult[FloatArray]:
        """Maximise the posterior of the hyperparameters, on rounds of more and more rows.

        Parameters
        ----------
        rounds
            Numbers of rows and of iterations; one that would repeat the rows of the one before is
            left out.
        """
        search, normal = Search(), self.normal
        found, before = None, 0
        for stage, part in enumerate(rounds):
            rows = normal.rows(part.batch_rows, stage)
            if len(rows) == before:
                continue
            evidence, before = self.evidence(rows), len(rows)
            start = evidence.start if found is None else found.point
            found = search.improved(evidence, start, Stopping(part.max_iterations, VALUE_TOLERANCE))
        assert found is not None
        return found

    def likelihood_of(self, vector: FloatArray) -> Likelihood:
        """The likelihood of observations at a point of the search (1 + q + l,)."""
        law = self.likelihood
        own = np.exp(vector[len(vector) - len(law.parameters) :]).tolist()
        found = law.with_parameters(dict(zip(law.parameters, own, strict=True)))
        return found.rescaled(float(self.table.units.scale[0]))

    def prior_process(self, vector: FloatArray) -> ExactGP:
        """A process of one row that carries the prior of f at a point of the search."""
        table, normal = self.table, self.normal
        unit = float(table.units.scale[0])
        own = vector[: 1 + len(normal.covariance.names)]
        own = own + 2 * np.log(unit) * (
            variances_of(normal.covariance) + (np.arange(len(own)) == 0)
        )
        units = Units(table.units.offset, np.ones(1))
        row = Data.of(table.data.points[:1], units.offset[None])
        found: ExactGP = ExactGP.given(normal.prior(own), row, units, False, warns=False)
        return found


@dataclass(frozen=True, eq=False)
class ExpressionProblem:
    """A table whose exact process under an expression is searched for.

    Attributes
    ----------
    table : LocalProblem
        The table, its units and standardisation.
    kernel : Kernel
        The expression.
    """

    table: LocalProblem
    kernel: Kernel

    @property
    def columns(self) -> RowColumns:
        """The encoded columns, by numbers where the table has no names."""
        return self.table.columns or RowColumns.of_groups(self.table.groups)

    @cached_property
    def covariance(self) -> RowCovariance:
        """The covariance of standardised rows."""
        table = self.table
        return covariance_of(self.kernel, self.columns, table.center, table.spread)

    def rows(self, size: int, stage: int) -> IntArray:
        """Numbers of the rows of a round, in rising order."""
        n_rows = len(self.table.data)
        if size >= n_rows:
            return np.arange(n_rows)
        rng = np.random.default_rng([self.table.seed, 5, stage])
        return np.sort(rng.choice(n_rows, size, replace=False))

    def evidence(self, rows: IntArray) -> ExpressionEvidence:
        """The evidence of some rows."""
        table = self.table
        data = table.data.take(rows)
        inputs = (data.points - table.center) / table.spread
        targets = table.units.normalized(data.targets)
        return ExpressionEvidence(self.covariance, inputs, targets, data.weights, table.known_noise)

    def search(
        self,
        rounds: Sequence[Round] = EXPRESSION_ROUNDS,
        n_starts: int = 1 + len(SHORTER),
    ) -> SearchResult[FloatArray]:
        """Maximise the posterior of the hyperparameters, on rounds of more and more rows.

        Parameters
        ----------
        rounds
            Numbers of rows and of iterations. A round that would repeat the rows of the one before
            is left out. None: the means of the priors are kept.
        n_starts
            Starts from which the first round is run, of those of greatest evidence.
        """
        table, first = self.table, self.evidence(np.arange(0))
        constant = are_constant(table.data.targets, table.units.offset)
        if constant or not rounds:  # constant targets say nothing about scales
            return SearchResult(first.start, np.nan)
        sizes = [min(each.batch_rows, len(table.data)) for each in rounds]
        kept = [each for place, each in enumerate(rounds) if sizes[place] not in sizes[:place]]
        search, first = Search(), self.evidence(self.rows(kept[0].batch_rows, 0))
        stopping = Stopping(kept[0].max_iterations, VALUE_TOLERANCE)
        found = search.best(lambda _: first, self._starts(first), stopping, n_starts)
        return search.in_rounds(_Longer(self, kept), replace(found, n_rounds=1))

    def _starts(self, evidence: ExpressionEvidence) -> list[FloatArray]:
        """The means of the priors, and the same with shorter lengthscales."""
        names = ["noise", *self.covariance.names]
        scales = np.array(["lengthscale" in name for name in names])
        return [evidence.start] + [evidence.start + np.log(factor) * scales for factor in SHORTER]

    def prior(self, vector: FloatArray) -> KernelPrior:
        """The prior at hyperparameters (1 + q,)."""
        table = self.table
        return KernelPrior(self.kernel, vector, self.columns, table.center, table.spread)

    def process(self, vector: FloatArray, normalize: bool, warns: bool = True) -> ExactGP:
        """The process given all rows, with more noise where rounding needs it."""
        table = self.table

        def given(own: KernelPrior) -> ExactGP:
            found: ExactGP = ExactGP.given(own, table.data, table.units, normalize, warns=warns)
            return found

        return table.conditioned(self.prior(vector), given)


@dataclass
class _Longer(Rounds[FloatArray]):
    """Rounds on more and more rows, each from the best point of the one before.

    Attributes
    ----------
    problem : ExpressionProblem
        The table.
    rounds : sequence of Round
        Numbers of rows and of iterations.
    """

    problem: ExpressionProblem
    rounds: Sequence[Round]

    @property
    def most(self) -> int:
        """Number of rounds."""
        return len(self.rounds)

    def improved(
        self, search: Search, before: SearchResult[FloatArray]
    ) -> SearchResult[FloatArray]:
        """Go on for one round."""
        own = self.rounds[before.n_rounds]
        evidence = self.problem.evidence(self.problem.rows(own.batch_rows, before.n_rounds))
        return search.improved(
            evidence, before.point, Stopping(own.max_iterations, VALUE_TOLERANCE)
        )
