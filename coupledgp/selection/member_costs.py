"""The size of a table and of its models, and what their searches cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coupledgp.inference.neighbours.nearest import BRUTE_ROWS, TREE_DIM
from coupledgp.search.tables.local import Round

# Seconds of one core of a server of 2023, which `benchmarks/performance/front_door_cost.py` sets
# beside those of the machine at hand: of one entry of the neighbours' covariances, and of each
# column in it, of one entry of the features with its gradient, of one entry of their Gram matrix,
# of one step of a search for neighbours, and of one column in a distance of two rows.
ENTRY_SECONDS, ENTRY_COLUMN_SECONDS = 2e-8, 3.5e-10
FEATURE_SECONDS, GRAM_SECONDS, STEP_SECONDS = 5e-8, 1e-10, 1e-7
DISTANCE_SECONDS = 1.2e-9
# Of a pair of rows in a search for neighbours by all distances to earlier rows, half of all pairs.
PAIR_SECONDS = 1.2e-9
# Further seconds of an evaluation, whatever the table, and seconds of the proposal of starts.
EVALUATION_SECONDS, PROPOSAL_SECONDS = 1.5e-3, 0.15
# L-BFGS takes about this many evaluations an iteration.
EVALUATIONS_PER_ITERATION = 1.2


@dataclass(frozen=True)
class Size:
    """Size of a table and of its models: rows n, columns d, neighbours k, frequencies m.

    With a `shared` lengthscale exact members are searched for in min(n, d) columns.
    """

    n_rows: int
    dim: int
    n_neighbours: int
    n_frequencies: int
    shared: bool = False

    @property
    def searched(self) -> Size:
        """Size of the table in which exact members are searched for."""
        return replace(self, dim=min(self.dim, self.n_rows)) if self.shared else self

    @property
    def entry_seconds(self) -> float:
        """Seconds of one entry of a covariance of neighbours, with its gradient."""
        return ENTRY_SECONDS + self.dim * ENTRY_COLUMN_SECONDS

    def search_seconds(self, rounds: tuple[Round, ...], k: int, features: int) -> float:
        """Seconds of a search with k neighbours and a number of columns of features."""
        columns = features + self.dim + 1
        row = k**2 * self.entry_seconds + columns * FEATURE_SECONDS + columns**2 * GRAM_SECONDS
        return PROPOSAL_SECONDS + sum(
            EVALUATIONS_PER_ITERATION
            * part.max_iterations
            * (min(part.batch_rows, self.n_rows) * row + EVALUATION_SECONDS)
            for part in rounds
        )

    def row_seconds(self, k: int, features: int) -> float:
        """Seconds to whiten a row, its neighbours sought."""
        columns = features + self.dim + 1
        whitening = k**2 * self.entry_seconds + columns * 0.2 * FEATURE_SECONDS
        return whitening + columns**2 * GRAM_SECONDS + (self._neighbours() if k else 0.0)

    def _neighbours(self) -> float:
        if self.dim >= TREE_DIM and self.n_rows <= BRUTE_ROWS:
            return self.n_rows * PAIR_SECONDS
        return float(STEP_SECONDS * self.n_neighbours * 2 ** (min(self.dim, 16) / 1.5))
