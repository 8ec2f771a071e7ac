"""Approximations compared with the exact process at rows that neither was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.diagnostics.scoring.laws import Law, law_of_process
from coupledgp.diagnostics.scoring.measures import kl_per_point
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.gp.protocol import Data, GaussianProcess, Points

# Least number of rows per query point, so that at least three quarters of the rows are training
# rows: the posterior of fewer says little about that of the whole table.
ROWS_A_QUERY = 4
MIN_ROWS = 8


@dataclass(frozen=True)
class HeldOutRows:
    """Training and query rows of some data, and the exact law at the query rows.

    Attributes
    ----------
    model : Selectable
        Estimator whose approximations are compared.
    exact : GaussianProcess
        Exact process, fitted to the training rows.
    query : Points
        Query points.
    law : Law
        Exact law at the query points.
    first_size, last_size : int
        Sizes that are tried.
    n_rows : int
        Rows given.
    """

    model: Any
    exact: GaussianProcess
    query: Points
    law: Law
    first_size: int
    last_size: int
    n_rows: int

    @classmethod
    def of(
        cls,
        model: Any,
        data: Data,
        n_query: int,
        max_rows: int,
        seed: int,
        progress: bool | None = False,
        columns: Any = None,
    ) -> HeldOutRows:
        """Split the rows at random and fit the exact process to the training rows.

        Raises
        ------
        InvalidInputError
            There are fewer than eight rows.
        """
        n_rows = len(data)
        if n_rows < MIN_ROWS:
            raise InvalidInputError(f"X: expected at least {MIN_ROWS} rows, got {n_rows}")
        used = np.random.default_rng(seed).permutation(n_rows)[:max_rows]
        n_query = min(n_query, len(used) // ROWS_A_QUERY)
        train, query = np.sort(used[n_query:]), used[:n_query]
        exact = model.exact_process(data.take(train), seed, progress, columns)
        points = data.points[query]
        first, last = model.size_range(data)
        law = law_of_process(exact, points)
        return cls(model, exact, points, law, first, last, n_rows)

    @property
    def n_train(self) -> int:
        """Rows that the laws are conditioned on."""
        return len(self.exact.data)

    @property
    def n_query(self) -> int:
        """Rows that the laws are compared at, jointly."""
        return len(self.query)

    def kl_per_point(self, coupling: Any, size: int, seed: int) -> float:
        """`KL(exact || approximate)` at the query rows, nats per row and output.

        It is infinite where the approximation has no posterior, as when the kernel of the walks
        overflows.
        """
        try:
            process = self.model.approximation(self.exact, coupling, size, seed)
            law = law_of_process(process, self.query)
        except NumericalError:
            return float("inf")
        return kl_per_point(self.law, law)
