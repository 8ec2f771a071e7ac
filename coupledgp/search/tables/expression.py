"""The search for the hyperparameters of an expression of kernels, by its dense evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coupledgp.expressions import Kernel
from coupledgp.gp.kernel_prior import KernelGP, KernelPrior, covariance_of
from coupledgp.gp.units import are_constant
from coupledgp.ground.progress import Progress
from coupledgp.inference.dense.expression_evidence import ExpressionEvidence
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Rounds, Search, SearchResult
from coupledgp.search.tables.local import VALUE_TOLERANCE, LocalProblem, Round

# Evidence costs O(n^3): most of the search is on few rows. Rows beyond the last number take part in
# the posterior alone.
EXPRESSION_ROUNDS = (Round(512, 60), Round(2000, 15))
# Factors on all lengthscales of the starts beside the means of the priors.
SHORTER = (0.35,)


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
        report: Progress,
        rounds: Sequence[Round] = EXPRESSION_ROUNDS,
        n_starts: int = 1 + len(SHORTER),
    ) -> SearchResult[FloatArray]:
        """Maximise the posterior of the hyperparameters, on rounds of more and more rows.

        Parameters
        ----------
        report
            Called with a line of progress after each evaluation.
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
        search, first = Search(report=report), self.evidence(self.rows(kept[0].batch_rows, 0))
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

    def process(self, vector: FloatArray, normalize: bool, warns: bool = True) -> KernelGP:
        """The process given all rows, with more noise where rounding needs it."""
        table = self.table

        def given(own: KernelPrior) -> KernelGP:
            found: KernelGP = own.given(table.data, table.units, normalize, warns)
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
