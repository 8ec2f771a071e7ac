"""The search for hyperparameters of a local model, on batches of rows of growing size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.column_moments import HYPERPARAMETERS
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.minimise import Stopping
from coupledgp.core.problem import RowWeights
from coupledgp.core.search import Rounds, Search, SearchResult
from coupledgp.core.starts import (
    N_CENTRES,
    NEAR_ROWS,
    SearchSpace,
    coarse_rows,
    proposed_starts,
)
from coupledgp.ground.devices import CPU
from coupledgp.ground.progress import tell
from coupledgp.ground.tensors import torch
from coupledgp.ground.threads import LIGHT, suited_threads
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum, parse_spectrum
from coupledgp.tables.local_evidence import BatchEvidence, OrderedRows
from coupledgp.tables.local_parameters import Structure, trend_columns
from coupledgp.tables.nearest import nearest_earlier
from coupledgp.tables.stationary_evidence import MOST_ROWS, DenseEvidence, has_compiled

Evidence: TypeAlias = BatchEvidence | DenseEvidence


@dataclass(frozen=True)
class Round:
    """A part of a search with the same neighbours.

    Attributes
    ----------
    batch_rows : int
        Number of rows whose conditional laws make the likelihood.
    max_iterations : int
        Most iterations of L-BFGS.
    """

    batch_rows: int
    max_iterations: int


# Kernels among which models of tables choose, and columns up to which those of another metric than
# the Euclidean one are among them: their distances are no products of matrices.
TABLE_KERNELS = ("matern-1/2", "matern-3/2", "matern-5/2", "gaussian", "laplace")
MOST_AXES = 50


def kernels_for(dim: int, shared: bool) -> tuple[str, ...]:
    """Kernels that suit a table of d columns, with a shared lengthscale or not.

    A shared lengthscale is for wide tables, which are rotated into few columns: only functions of
    the Euclidean distance stay what they are.
    """
    if dim <= MOST_AXES and not shared:
        return TABLE_KERNELS
    return tuple(name for name in TABLE_KERNELS if parse_spectrum(name).metric is Metric.L2)


# Batches hold ten times as many rows as a model of 128 features has weights, or more: with fewer
# the evidence of the features is that of the batch (LOCAL.md of the design).
SCREENING = (Round(1024, 15),)
LOCAL_ROUNDS = (Round(1024, 20), Round(2048, 25), Round(4096, 25))
FITTING_ROUNDS = (Round(4096, 15), Round(4096, 25), Round(8192, 40))
# Starts that are proposed beside that of the priors, how many of them all are tried, and the
# iterations after which the best goes on.
N_PROPOSED, TRIALS, TRIAL_ITERATIONS = 2, 2, 4
# Relative decrease of the objective, nats per observation, below which a round ends.
VALUE_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class LocalSearch:
    """Result of a search.

    Attributes
    ----------
    structure : Structure
        The model.
    vector : FloatArray
        Its hyperparameters.
    value : float
        Log posterior per observation of the last batch, nats.
    n_evaluations : int
        Evaluations of the evidence.
    converged : bool
        Whether the last round ended by a tolerance.
    """

    structure: Structure
    vector: FloatArray
    value: float
    n_evaluations: int
    converged: bool

    def after(self, n_evaluations: int) -> LocalSearch:
        """The same result, with the evaluations of earlier searches."""
        return replace(self, n_evaluations=self.n_evaluations + n_evaluations)

    def started(self, structure: Structure) -> FloatArray:
        """A vector (q,) of another structure, with the values of the parameters that both have."""
        start = structure.named(structure.start())
        found = self.structure.named(self.vector)
        values = {name: np.asarray(found.get(name, value)) for name, value in start.items()}
        return structure.pack(values)


@dataclass(frozen=True, eq=False)
class LocalFitter:
    """Searches for the hyperparameters of models of one table.

    Attributes
    ----------
    rows : OrderedRows
        The table, standardised and in random order, equal rows merged.
    seed : int
        Seed of the batches.
    varies : bool
        Whether any target differs from the offset of its units by more than rounding.
    exact : bool
        Whether the evidence of few rows without features is exact.
    device : torch.device
        Where the evidence of batches is computed.
    """

    rows: OrderedRows
    seed: int
    varies: bool = True
    exact: bool = False
    device: torch.device = CPU

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return len(self.rows)

    def batch(self, size: int, stage: int) -> NDArray[np.int64]:
        """Places (b,) of the rows of a batch, in rising order."""
        n_rows = self.n_rows
        if size >= n_rows:
            return np.arange(n_rows)
        rng = np.random.default_rng([self.seed, stage])
        return np.sort(rng.choice(n_rows, size, replace=False))

    def lengthscale(self, structure: Structure, vector: FloatArray) -> FloatArray:
        """Lengthscales (d,) of the metric in which neighbours are near."""
        if structure.spectrum is None:
            return np.ones(structure.dim)
        logarithms = np.asarray(structure.named(vector)["lengthscale"])
        lengthscale: FloatArray = np.exp(logarithms)[structure.groups]
        return lengthscale

    def evidence(
        self, structure: Structure, batch: NDArray[np.int64], vector: FloatArray
    ) -> Evidence:
        """The evidence of the rows of a batch, with neighbours that are near at a vector.

        That of few rows without features is exact.
        """
        if self.exact and len(batch) <= MOST_ROWS and has_compiled(structure.spectrum):
            return DenseEvidence.of(structure, self.rows.take(batch))
        lengthscale = self.lengthscale(structure, vector)
        return BatchEvidence.of(structure, self.rows, batch, lengthscale, self.device)

    def search(
        self,
        structure: Structure,
        rounds: Sequence[Round],
        starts: Sequence[FloatArray] | None = None,
    ) -> LocalSearch:
        """Maximise the posterior of the hyperparameters, neighbours found anew in each round.

        The first round goes a few steps from each of the best starts, and on from the better end.

        Parameters
        ----------
        structure
            The model.
        rounds
            Batches; two that cover the whole table are one after the other on the same rows.
        starts
            Vectors (q,) to start from; None for that of the priors and proposed ones.
        """
        start = structure.start()
        if not self.varies:  # constant targets say nothing about scales
            return LocalSearch(structure, start, np.nan, 0, True)
        search, batches = Search(), Batches(self, structure, rounds)
        most = min(max(each.batch_rows for each in rounds), len(self.rows.inputs))
        with suited_threads(most / LIGHT):
            starts = starts or [start, *self.proposals(structure, search)]
            trial = Stopping(TRIAL_ITERATIONS, VALUE_TOLERANCE)
            found = search.best(partial(batches.objective, 0), starts, trial, TRIALS)
            found = search.in_rounds(batches, found)
        return LocalSearch(
            structure, found.point, -found.value, found.n_evaluations, found.converged
        )

    def coarse(self, base: FloatArray) -> OrderedRows:
        """Rows on which starts are compared: the order is random, and rows near its last ones.

        Rows are near in units of `base` (d,).
        """
        n = self.n_rows
        centres = np.arange(max(n - N_CENTRES, 0), n)
        places = coarse_rows(
            np.arange(n), centres, lambda: self.near(centres, base, NEAR_ROWS - 1).ravel()
        )
        return self.among(places)

    def among(self, places: NDArray[np.int64]) -> OrderedRows:
        """Rows by their places in the order, ascending ones."""
        return self.rows.take(places)

    def near(self, places: NDArray[np.int64], scale: FloatArray, k: int) -> NDArray[np.int64]:
        """Places (w, k) of rows near to those at places, in units of `scale` (d,), and before."""
        return nearest_earlier(self.rows.inputs / scale, places, k)

    def proposals(self, structure: Structure, search: Search) -> list[FloatArray]:
        """Starts at which one part alone, under its exact kernel, has great evidence on some rows.

        The part is the local one, or the features where there is none. The trend is taken off by
        least squares where there are twice as many rows as columns. Evaluations are counted.
        """
        name = "" if structure.spectrum is not None else "feature_"
        if name and structure.frequencies is None:
            return []
        n_scales = int(structure.groups.max()) + 1
        base = np.full(structure.dim, np.sqrt(n_scales))
        kernel = structure.spectrum or GaussianSpectrum()
        rows, known = self.coarse(base), structure.known_noise
        inputs, targets = rows.inputs, rows.targets
        columns = trend_columns(torch.as_tensor(inputs), structure.trend).numpy()
        if 0 < 2 * columns.shape[1] <= len(columns):
            targets = targets - columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]
        if n_scales == 1 and kernel.metric == Metric.L2:
            inputs = rotated(inputs)
        groups, base = structure.groups[: inputs.shape[1]], base[: inputs.shape[1]]
        weights = RowWeights(rows.noise * rows.counts, rows.counts)
        problem = ExactEvidence(kernel, inputs, targets, weights)
        free = set(HYPERPARAMETERS) - ({"noise"} if known is not None else set())
        space = SearchSpace(base, True, noise=known or 1.0, free=frozenset(free), groups=groups)
        starts, n_evaluations = proposed_starts(problem, space, N_PROPOSED)
        search.n_evaluations += n_evaluations
        default = structure.named(structure.start())
        found = []
        for theta in starts:
            outputscale, noise = space.scales(problem.at(space.lengthscales(theta)))
            own = {
                f"{name}lengthscale": theta + np.log(base[0]),
                f"{name}outputscale": np.log(outputscale),
                "noise": np.log(noise),
            }
            found.append(structure.pack({k: np.asarray(v) for k, v in (default | own).items()}))
        return found

    def smoothest(
        self, structure: Structure, spectra: Sequence[Spectrum], rounds: Sequence[Round]
    ) -> LocalSearch:
        """The search whose kernel has the greatest evidence on the same rows."""
        found = [self.search(replace(structure, spectrum=spectrum), rounds) for spectrum in spectra]
        best = max(found, key=lambda search: search.value)
        return replace(best, n_evaluations=sum(search.n_evaluations for search in found))


@dataclass
class Batches(Rounds[FloatArray]):
    """Rounds on batches of rows of growing size, neighbours found anew at the best point.

    Attributes
    ----------
    fitter : LocalFitter
        The table.
    structure : Structure
        The model.
    rounds : sequence of Round
        The batches.
    """

    fitter: LocalFitter
    structure: Structure
    rounds: Sequence[Round]

    @property
    def most(self) -> int:
        """Number of rounds."""
        return len(self.rounds)

    def objective(self, number: int, point: FloatArray) -> Evidence:
        """The evidence of the batch of a round, with neighbours that are near at a point."""
        batch = self.fitter.batch(self.rounds[number].batch_rows, number)
        return self.fitter.evidence(self.structure, batch, point)

    def improved(
        self, search: Search, before: SearchResult[FloatArray]
    ) -> SearchResult[FloatArray]:
        """Go on for one round; the trials are a part of the first round."""
        number, rows = before.n_rounds, self.rounds[before.n_rounds]
        left = rows.max_iterations - (0 if number else TRIAL_ITERATIONS)
        objective, stopping = self.objective(number, before.point), Stopping(left, VALUE_TOLERANCE)
        found = search.improved(objective, before.point, stopping)
        tell(
            f"{_text(self.structure)}: {objective.n_rows} rows, {found.n_evaluations} "
            f"evaluations, {-found.value:.4f} nats per observation"
        )
        return found


def rotated(inputs: FloatArray) -> FloatArray:
    """Rows (n, min(n, d)) with the inner products of inputs (n, d): `R'` of `X' = Q R`."""
    if inputs.shape[1] <= len(inputs):
        return inputs
    return np.ascontiguousarray(np.asarray(np.linalg.qr(inputs.T, mode="r")).T)


def searched_order(seed: int, n_rows: int) -> NDArray[np.int64]:
    """Places (n_rows,) of the rows in the order in which a search conditions them."""
    return np.random.default_rng([seed, 1]).permutation(n_rows)


def _text(structure: Structure) -> str:
    parts = [str(structure.spectrum)] if structure.spectrum is not None else []
    if structure.frequencies is not None:
        kind = "fitted" if structure.fits_frequencies else "sampled"
        parts.append(f"{len(structure.frequencies)} {kind} frequencies")
    return " + ".join([*parts, f"{structure.trend} trend"])
