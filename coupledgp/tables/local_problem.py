"""A table whose local models are searched for: its moments, structures, fits and processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.column_moments import column_means, column_spread
from coupledgp.core.process import Data
from coupledgp.core.units import Units, are_constant
from coupledgp.couplings import CouplingLike
from coupledgp.errors import NumericalError
from coupledgp.features.registry import make_features
from coupledgp.ground.devices import CPU, DeviceLike, check_device_memory, parse_device
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import varies
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum
from coupledgp.tables.dense_prior import KernelPrior
from coupledgp.tables.local_evidence import OrderedRows
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.local_search import (
    FITTING_ROUNDS,
    LocalFitter,
    rotated,
    searched_order,
)
from coupledgp.tables.local_table import Table

Process = TypeVar("Process")
Noisy = TypeVar("Noisy", LocalPrior, KernelPrior)
# Rounding of an eigenvalue of a covariance, relative to its variance, for each row; and how often
# the noise may grow tenfold from there.
ROUNDING, ESCALATIONS = 1e-13, 8
# Covariances of the neighbours of each row that are alive at once, for gradients.
MATRICES = 6
# Rows whose moments standardise the columns: all, up to this number.
MOMENT_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """A table whose local models are searched for.

    Attributes
    ----------
    data : Data
        Observations.
    units : Units
        Units of y.
    groups : NDArray (d,)
        Number of the lengthscale of each column.
    seed : int
        Seed of the order of rows, of batches and of frequencies.
    known_noise : float or None
        Noise variance in normalised units, where it is known.
    center, spread : FloatArray (d,)
        Means and standard deviations of the columns; columns of a group share the latter.
    shared : bool
        Whether all columns share a lengthscale by `sharing_lengthscale`.
    device : torch.device
        Where rows are whitened and kriged, see `LocalPrior`.
    columns : RowColumns or None
        Names of the encoded columns, by which expressions of kernels know them.
    """

    data: Data
    units: Units
    groups: NDArray[np.int64]
    seed: int
    known_noise: float | None
    center: FloatArray
    spread: FloatArray
    shared: bool = False
    device: torch.device = CPU
    columns: RowColumns | None = None

    @classmethod
    def of(
        cls,
        data: Data,
        units: Units,
        groups: NDArray[np.int64],
        seed: int,
        known_noise: float | None = None,
    ) -> LocalProblem:
        """The problem of a table, with moments of at most `MOMENT_ROWS` rows spread over it.

        Where a column varies and these rows do not show it, moments are those of all rows.
        """
        points: FloatArray = data.points
        rows = points[:: max(1, len(points) // MOMENT_ROWS)]
        if len(rows) < len(points):
            own, every = (varies(a.min(axis=0), a.max(axis=0)) for a in (rows, points))
            rows = rows if (own == every).all() else points
        spread = column_spread(rows, True, groups)
        return cls(data, units, groups, seed, known_noise, column_means(rows), spread)

    def on(self, device: DeviceLike, n_neighbours: int) -> LocalProblem:
        """The problem whose rows are whitened on a device, if laws of a batch fit there."""
        where = parse_device(device)
        if where.type != "cpu":
            check_device_memory(
                where,
                8.0 * MATRICES * FITTING_ROUNDS[-1].batch_rows * n_neighbours**2,
                f"n_neighbors: covariances of {n_neighbours} neighbours",
                "take fewer, or device=None, which is the CPU",
            )
        return replace(self, device=where)

    def take(self, rows: NDArray[np.int64]) -> LocalProblem:
        """The problem of some rows, in the units and with the standardised columns of all."""
        return replace(self, data=self.data.take(rows))

    def with_targets(self, data: Data, units: Units) -> LocalProblem:
        """The problem of other targets of the same rows, in units of their own."""
        known = self.known_noise
        if known is not None:
            known *= float((self.units.scale[0] / units.scale[0]) ** 2)
        return replace(self, data=data, units=units, known_noise=known)

    def sharing_lengthscale(self) -> LocalProblem:
        """The problem with one lengthscale for all columns.

        The standardised columns are divided by the root of the number of lengthscales before, so
        that rows stay at distances of about one, for which the priors of the scales are made.
        """
        spread = self.spread * np.sqrt(self.groups[-1] + 1)
        return replace(self, groups=np.zeros_like(self.groups), spread=spread, shared=True)

    def rotated(self) -> LocalProblem:
        """The same problem in as many columns as rows, where more share a lengthscale.

        With `X' = Q R` of the standardised inputs X (n, d), d > n, the rows of `R'` (n, n) have the
        same inner products and Euclidean distances as those of X, and a kernel of one lengthscale
        with its trend depends on nothing else, unless its metric is another. Other problems are
        returned as they are.
        """
        n_rows, dim = self.data.points.shape
        if not self.shared or dim <= n_rows:
            return self
        scaled = (self.data.points - self.center) / self.spread
        points = rotated(scaled)
        data = Data.of(points, self.data.targets, weights=self.data.weights)
        zeros, ones = np.zeros(n_rows), np.ones(n_rows)
        return replace(self, data=data, groups=self.groups[:n_rows], center=zeros, spread=ones)

    def adopted(self, prior: LocalPrior) -> LocalPrior:
        """A prior of the rotated problem, or of this one, in the columns of this one."""
        structure = replace(prior.structure, dim=len(self.groups), groups=self.groups)
        return replace(prior, structure=structure, center=self.center, spread=self.spread)

    def fitter(self, exact: bool = False) -> LocalFitter:
        """The searches on this table."""
        order = searched_order(self.seed, len(self.data))
        inputs = self.data.points[order]
        inputs -= self.center  # in place: a table may take much of the memory
        inputs /= self.spread
        targets = self.units.normalized(self.data.targets[order])
        weights = self.data.weights
        taken = None if weights is None else weights.take(order)
        rows = OrderedRows.of(inputs, targets, taken).merged()
        differs = not are_constant(self.data.targets, self.units.offset)
        return LocalFitter(rows, self.seed, differs, exact or self.shared, self.device)

    def structure(
        self, trend: str, n_neighbours: int, spectrum: Spectrum | None = None
    ) -> Structure:
        """A model without features."""
        dim = self.data.points.shape[1]
        return Structure(
            dim, spectrum, n_neighbours, None, False, trend, self.groups, self.known_noise
        )

    def with_features(
        self, structure: Structure, n_frequencies: int, coupling: CouplingLike, fitted: bool
    ) -> Structure:
        """A model with frequencies drawn from the Gaussian kernel's spectrum."""
        drawn = make_features(
            "fourier", structure.dim, n_frequencies, coupling, GaussianSpectrum(),
            np.random.default_rng([self.seed, 2]),
        )  # fmt: skip
        frequencies = drawn.frequencies.numpy()
        return replace(structure, frequencies=frequencies, fits_frequencies=fitted)

    @cached_property
    def table(self) -> Table:
        """The table that all local models of the problem are conditioned on."""
        return Table.first(self.center, self.spread, self.data)

    def process(self, prior: LocalPrior, normalize: bool) -> LocalGP:
        """A prior given all rows, with more noise where rounding needs it."""
        return self.conditioned(
            prior, lambda own: LocalGP.given(own, self.data, self.units, normalize, self.table)
        )

    def conditioned(self, prior: Noisy, given: Callable[[Noisy], Process]) -> Process:
        """The process of a prior, or of the prior with the least further noise that has a factor.

        Covariances of many equal rows are singular to rounding where the noise is small. Noise
        starts at the rounding of a covariance of the rows and grows by factors of ten. A noise that
        is known stays.

        Raises
        ------
        NumericalError
            The covariance is not positive definite even so.
        """
        if self.known_noise is not None:
            return given(prior)
        least = ROUNDING * len(self.data) * prior.hyperparameters.outputscale
        for _ in range(ESCALATIONS):
            try:
                return given(prior)
            except NumericalError:
                prior = prior.with_noise(max(10 * prior.noise, least))
        return given(prior)

    def prior(self, structure: Structure, vector: FloatArray) -> LocalPrior:
        """A model with its hyperparameters."""
        return LocalPrior(structure, vector, self.center, self.spread, device=self.device)
