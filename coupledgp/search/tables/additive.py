"""The search for models of a table with additive features: columns, pairs, and a local part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from coupledgp.expressions import Factor, RowKernel
from coupledgp.features.axes.maps import LEAST_OF_PAIR, OF_COLUMN, OF_PAIR, AxisFeatures
from coupledgp.gp.local import LocalGP
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.random import FloatArray
from coupledgp.search.tables.local import LocalFitter, LocalSearch, Round
from coupledgp.search.tables.local_problem import LocalProblem

# Rows for each feature at least, and features at most: a step of the fixed point takes M^3.
ROWS_PER_FEATURE, MOST_FEATURES = 10, 800
# Pairs that are kept, of those that explain most of what main effects leave; rows and features of
# a pair by which they are ranked.
MOST_PAIRS, RANKING_ROWS, RANKING_FEATURES = 40, 10_000, 12
# Rows on which lengthscales are compared, in standard deviations of the columns.
PILOT_ROWS, LENGTHSCALES = 2000, (0.4, 0.8, 1.6, 3.2, 6.4)
# Logarithms by which the second start of a local part has smaller variance and lengthscale.
SMALLER, SHORTER = 1.4, 0.7
# Batches of the search for local part and additive features together.
ADDITIVE_ROUNDS = (Round(1024, 12), Round(2048, 16), Round(4096, 16))


@dataclass(frozen=True)
class FeatureSizes:
    """About how many features a column and a pair of columns have, and how many pairs there are.

    Attributes
    ----------
    of_column, of_pair, n_pairs : int
    """

    of_column: int
    of_pair: int
    n_pairs: int

    @classmethod
    def of(cls, n_rows: int, n_factors: int, order: int) -> FeatureSizes:
        """Sizes for rows, factors and an order of interactions, 1 or 2.

        There are at most a feature for every ten rows. Columns come first, with half of these
        where there are pairs; a pair has at least `LEAST_OF_PAIR`.
        """
        budget = min(n_rows // ROWS_PER_FEATURE, MOST_FEATURES)
        share = budget // 2 if order > 1 else budget
        of_column = max(1, min(OF_COLUMN, share // max(n_factors, 1)))
        left = max(budget - of_column * n_factors, 0) if order > 1 else 0
        n_pairs = min(n_factors * (n_factors - 1) // 2, MOST_PAIRS, left // LEAST_OF_PAIR)
        return cls(of_column, min(OF_PAIR, left // n_pairs) if n_pairs else 0, n_pairs)

    def total(self, n_factors: int) -> int:
        """Number of all features, about."""
        return self.of_column * n_factors + self.of_pair * self.n_pairs


@dataclass(frozen=True, eq=False)
class AdditiveSearch:
    """Additive models of one table.

    Attributes
    ----------
    problem : LocalProblem
        The table.
    kernel : RowKernel
        Kernel of one column.
    lengthscale : FloatArray (g,)
        Lengthscale of each group of columns, of standardised columns.
    order : int
        1 for columns, 2 for columns and pairs.
    """

    problem: LocalProblem
    kernel: RowKernel
    lengthscale: FloatArray
    order: int = 2

    @classmethod
    def of(cls, problem: LocalProblem, kernel: RowKernel, order: int = 2) -> AdditiveSearch:
        """The search with the lengthscale of greatest evidence of the features on some of the rows.

        All columns share it: with lengthscales of their own the evidence rises and test rows are
        predicted no better.
        """
        step = max(1, len(problem.data) // PILOT_ROWS)
        pilot = problem.take(np.arange(0, len(problem.data), step))
        n_groups = int(problem.groups.max()) + 1
        tried = [cls(pilot, kernel, np.full(n_groups, length), order) for length in LENGTHSCALES]
        best = max(tried, key=lambda search: search.alone().log_evidence)
        return replace(best, problem=problem)

    @cached_property
    def inputs(self) -> FloatArray:
        """Standardised inputs (n, d)."""
        scaled: FloatArray = (self.problem.data.points - self.problem.center) / self.problem.spread
        return scaled

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """One for each group of columns that varies."""
        groups = self.problem.groups
        varies = np.ptp(self.inputs, axis=0) > 0
        return tuple(
            Factor(tuple(np.flatnonzero(groups == g).tolist()), self.kernel, np.log([length]))
            for g, length in enumerate(self.lengthscale)
            if varies[groups == g].any()
        )

    @cached_property
    def sizes(self) -> FeatureSizes:
        """Numbers of features."""
        return FeatureSizes.of(len(self.problem.data), len(self.factors), self.order)

    @cached_property
    def features(self) -> AxisFeatures:
        """Features of the columns and of the pairs that are kept."""
        sizes = self.sizes
        singles = [(factor,) for factor in range(len(self.factors))]
        supports = [*singles, *self._pairs]
        return AxisFeatures.of(
            self.factors, self.inputs, supports, sizes.of_column, sizes.of_pair
        )  # fmt: skip

    @property
    def _pairs(self) -> list[tuple[int, ...]]:
        every: list[tuple[int, ...]] = list(combinations(range(len(self.factors)), 2))
        n_kept = self.sizes.n_pairs
        if n_kept == len(every) or not n_kept:
            return every[:n_kept]
        gains = self._explained(every)
        order = np.argsort(-gains, kind="stable")
        return [every[k] for k in np.sort(order[:n_kept])]

    def _explained(self, pairs: Sequence[tuple[int, ...]]) -> FloatArray:
        """Squares (P,) that each pair explains of what main effects leave, on a part of the rows.

        Ridge regression of the residual on a pair's features, `r'Phi (Phi'Phi + I s / v)^-1 Phi'r`,
        with the noise s of the main effects and v a tenth of the residual's variance.
        """
        own = self.problem
        step = max(1, len(own.data) // RANKING_ROWS)
        part = replace(self, problem=own.take(np.arange(0, len(own.data), step)), order=1)
        alone = part.alone()
        law = alone.latent_law(part.problem.data.points, "mean")[0]
        residual = part.problem.units.normalized(part.problem.data.targets) - law
        level = 10.0 * alone.local_prior.noise / float(np.square(residual).mean())
        axes = AxisFeatures.of(self.factors, part.inputs, pairs, 1, RANKING_FEATURES)
        values = [np.ascontiguousarray(axis.at(part.inputs).T) for axis in axes.axes]
        gains = dict.fromkeys(pairs, 0.0)
        for support in axes.supports:
            phi = support.features(axes.axes, values, part.inputs)
            gram = phi @ phi.T + level * np.eye(len(phi))
            cross = phi @ residual
            gains[support.factors] = float((cross * np.linalg.solve(gram, cross)).sum())
        return np.array([gains[pair] for pair in pairs])

    def structure(self, local: Structure | None = None) -> Structure:
        """Additive features, with a constant or with the parts of another structure."""
        base = local or self.problem.structure("constant", 0)
        return replace(base, additive=self.features)

    def alone(self, report: Progress = silent) -> LocalGP:
        """Additive features without a local part, by one pass over the rows."""
        structure = self.structure()
        prior = self.problem.prior(structure, structure.start())
        return self.problem.process(prior, True).refitted(report)

    def __str__(self) -> str:
        """The numbers of columns and of pairs that the features are made of, in words."""
        sizes = [len(columns.factors) for columns in self.features.supports]
        text = f"additive, {self.kernel}: {sizes.count(1)} columns"
        if self.order == 1:
            return text
        n_pairs, every = sizes.count(2), len(self.factors) * (len(self.factors) - 1) // 2
        return f"{text}, {n_pairs} pairs" + (f" of {every}" if n_pairs < every else "")

    def with_local(
        self,
        fitter: LocalFitter,
        local: LocalSearch,
        alone: LocalGP,
        rounds: Sequence[Round] = ADDITIVE_ROUNDS,
    ) -> LocalSearch:
        """Features and local part together, by the evidence of both.

        The search starts from the local part, and from the variances of the features, that were
        found without the other; and from a local part of smaller variance and lengthscale.
        In-sample residuals of the features, which are too small, are never fitted to.
        """
        structure = self.structure(local.structure)
        named = {k: np.asarray(v) for k, v in structure.named(local.started(structure)).items()}
        additive = np.log(alone.local_prior.additive_variances)
        starts = [structure.pack(named | {"additive": additive})]
        if structure.spectrum is not None:
            smaller = {
                "additive": additive,
                "outputscale": named["outputscale"] - SMALLER,
                "lengthscale": named["lengthscale"] - SHORTER,
            }
            starts.append(structure.pack(named | smaller))
        return fitter.search(structure, rounds, starts)
