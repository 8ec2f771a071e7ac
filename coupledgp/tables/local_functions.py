"""Functions drawn from the posterior of a local model: Matheron's rule with near rows.

The inverse covariance of observations under a local model, and their laws when left out.

With rows whitened by their near earlier ones, `psi~ = W psi` (`inference.neighbours.whitening`),

    C^-1 = W' (I - Psi~ A^-1 Psi~') W ,   A = I + Psi~' Psi~ = L L' .

Without a group G of observations the weights w of features and trend have the mean and covariance

    m - L^-T H_G' r_G ,   L^-T (I + H_G' D_G H_G) L^-1 ,   H = W' Psi~ L^-T ,

with the `r_G` and `D_G` of `inverse_covariance`. Given w an observation is predicted as any other
point is: by kriging from the nearest rows that are not in its group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coupledgp.core.drawn_functions import DrawnFunctions, row_blocks
from coupledgp.core.inverse_covariance import InverseCovariance, batches, inverse_of
from coupledgp.core.process import Points
from coupledgp.core.units import Units
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.dense_prior import (
    Loadings,
    between,
    deviation_error,
    local_loadings,
    spectral_loadings,
)
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_table import Kriged, Table, krige, krige_from
from coupledgp.tables.nearest import nearest_outside
from coupledgp.tables.whitening import WhitenedPosterior


@dataclass(frozen=True, eq=False)
class LocalFunctions(DrawnFunctions):
    """Draws of the weights and of the local part, which near rows correct.

        f(x) = psi(x)'w + g(x) + sum_a b_a (y_a - psi(x_a)'w - g(x_a) - e_a)

    Rows a are those near x, b their kriging weights, w a draw of the posterior of the weights, g
    one of the local part's prior, e one of the noise. At each point f has the model's law where g
    has the prior's. Beside it are draws of what faded features and a bounded trend leave.

    Attributes
    ----------
    prior : LocalPrior
        Prior of the model.
    table : Table
        Its rows.
    targets : Tensor (N, k + k n)
        Normalised targets, and the draws `g + e` at the rows.
    weights : Tensor (M, k n)
        Draws of the weights.
    local, faded : tuple of Loadings and FloatArray, or None
        Loadings of standardised rows and their draws (M, k n): of the local part, and of the
        kernel of the features. None without such a part.
    slopes : FloatArray (d, k n)
        Slopes of the trend beyond its box, standard normal.
    units : Units
        Units of y.
    n_functions : int
    deviation_error : float
        See the base class.
    """

    prior: LocalPrior
    table: Table
    targets: Tensor
    weights: Tensor
    local: tuple[Loadings, FloatArray] | None
    faded: tuple[Loadings, FloatArray] | None
    slopes: FloatArray
    units: Units
    n_functions: int
    deviation_error: float

    @classmethod
    def of(
        cls,
        prior: LocalPrior,
        table: Table,
        targets: Tensor,
        posterior: WhitenedPosterior,
        units: Units,
        n_functions: int,
        rng: np.random.Generator,
    ) -> LocalFunctions:
        """Draw functions of a local model whose normalised targets are (N, k)."""
        structure, size = prior.structure, targets.shape[1] * n_functions
        innovations = torch.as_tensor(rng.standard_normal((len(posterior.factor), size)))
        spread = torch.linalg.solve_triangular(posterior.factor.mT, innovations, upper=True)
        weights = posterior.mean.repeat_interleave(n_functions, dim=1) + spread
        noise = np.sqrt(prior.noise * table.noise)[:, None]
        drawn = noise * rng.standard_normal((len(table), size))
        local = faded = None
        error = 0.0
        if structure.spectrum is not None:
            loadings = local_loadings(prior, rng)
            local = loadings, _draws(loadings, table.inputs, size, rng)
            for rows in row_blocks(len(table)):
                drawn[rows] += loadings(table.inputs[rows]) @ local[1]
            error = _error(prior, table, targets, loadings, between(table.inputs, rng))
        if structure.frequencies is not None:
            loadings = spectral_loadings(
                GaussianSpectrum(), 1.0, 0.0, prior.feature_lengthscale, rng
            )
            faded = loadings, _draws(loadings, table.inputs, size, rng)
        slopes = rng.standard_normal((structure.dim, size))
        both = torch.cat([targets, torch.as_tensor(drawn)], dim=1)
        return cls(prior, table, both, weights, local, faded, slopes, units, n_functions, error)

    def __call__(self, points: Points) -> FloatArray:
        parts = [self._values(points[rows]) for rows in row_blocks(len(points))]
        shape = (len(points), self.units.n_outputs, self.n_functions)
        return self.units.samples(np.concatenate(parts).reshape(shape))

    def _values(self, points: Points) -> FloatArray:
        """Values (p, k n) in normalised units."""
        prior, box, k = self.prior, self.table.box, self.units.n_outputs
        inputs = prior.standardised(points)
        fading = box.fading(inputs, prior.feature_lengthscale)
        kriged = krige(prior, self.table, self.targets, inputs, fading)
        values: FloatArray = (kriged.errors @ self.weights).numpy()
        observed, drawn = kriged.targets[:, :k].numpy(), kriged.targets[:, k:].numpy()
        values += np.repeat(observed, self.n_functions, axis=1) - drawn
        if self.local is not None:
            values += self.local[0](inputs) @ self.local[1]
        if self.faded is not None:
            lost = prior.faded_root(fading)
            if lost.any():
                values += lost[:, None] * (self.faded[0](inputs) @ self.faded[1])
        beyond = prior.beyond(inputs, box)
        return values + beyond @ self.slopes if beyond.any() else values


def _draws(
    loadings: Loadings, inputs: FloatArray, size: int, rng: np.random.Generator
) -> FloatArray:
    """Standard normal draws (M, size) for loadings of M columns."""
    return rng.standard_normal((loadings(inputs[:1]).shape[1], size))


def _error(
    prior: LocalPrior, table: Table, targets: Tensor, loadings: Loadings, inputs: FloatArray
) -> float:
    """Error of the deviations of drawn local parts at standardised inputs (p, d)."""
    kriged = krige(prior, table, targets, inputs, np.ones(len(inputs)))
    used = np.unique(kriged.weights.indices)
    own = kriged.weights[:, used]
    gaps = loadings(inputs) - own @ loadings(table.inputs[used])
    noise = own.power(2) @ (prior.noise * table.noise[used])
    return deviation_error(np.square(gaps).sum(axis=1) + noise, kriged.variance)


class LocalInverse(InverseCovariance):
    """`C^-1 = P - H H'` with the sparse `P = W' W`, in the order of the observations.

    Parameters
    ----------
    prior
        Parts and hyperparameters.
    table
        Observations in the order in which they are conditioned on each other.
    targets
        Normalised targets (n, k) in this order.
    """

    def __init__(self, prior: LocalPrior, table: Table, targets: Tensor) -> None:
        self.prior, self.table, self.targets = prior, table, targets
        whitening = table.whitening(prior)
        features = whitening.features
        eye = torch.eye(features.shape[1], dtype=features.dtype)
        self._factor = cholesky(features.T @ features + eye, "I + Psi' Psi")
        half = torch.linalg.solve_triangular(self._factor, features.T, upper=False).T.numpy()
        self._place = np.argsort(table.order)
        self._columns = whitening.matrix[:, self._place]
        whitened = whitening.matrix @ targets.numpy()
        self._mean = half.T @ whitened  # L' m
        self._half = np.asarray(self._columns.T @ half)
        self.residuals = np.asarray(self._columns.T @ (whitened - half @ self._mean))

    def diagonal(self, rows: IntArray) -> FloatArray:
        own = self._columns[:, rows]
        found: FloatArray = np.asarray(own.multiply(own).sum(axis=0)).reshape(-1)
        return found - np.square(self._half[rows]).sum(axis=1)

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        for group in groups:
            own, half = self._columns[:, group], self._half[group]
            yield (own.T @ own).toarray() - half @ half.T

    def moments(self, groups: list[IntArray]) -> tuple[FloatArray, FloatArray]:
        """Residuals (n, k) and variances (n,) by kriging from the nearest rows of other groups."""
        residual = np.full_like(self.residuals, np.nan)
        variance = np.full(len(residual), np.nan)
        for batch in batches(groups):
            kriged = self._kriged([self._place[group] for group in batch])
            solved = torch.linalg.solve_triangular(self._factor, kriged.errors.T, upper=False)
            errors, start = solved.T.numpy(), 0
            for group in batch:
                own = slice(start, start + group.size)
                start += group.size
                mean, spread = self._without(group, errors[own])
                places = self._place[group]
                mean += kriged.targets[own].numpy()
                residual[group] = self.targets[places].numpy() - mean
                noise = self.prior.noise * self.table.noise[places]
                variance[group] = spread + kriged.variance[own] + noise
        return residual, variance

    def _kriged(self, groups: list[IntArray]) -> Kriged:
        """Kriging of groups of rows of the table, each from the nearest rows outside its group."""
        prior, table = self.prior, self.table
        inputs = table.inputs[np.concatenate(groups)]
        features = prior.features(inputs, np.ones(len(inputs)))
        if prior.structure.spectrum is None:
            return Kriged.of_features(features, self.targets)
        scaled = table.inputs / prior.local_lengthscale
        near = np.concatenate(nearest_outside(scaled, groups, prior.structure.n_neighbours))
        return krige_from(prior, table, self.targets, inputs, near, features)

    def _without(self, group: IntArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (g, k) and variances (g,) of `e'w` without a group, for `L^-1 e` (g, M)."""
        half = self._half[group]
        if group.size == 1:
            covariance = 1 / self.diagonal(group)[:, None]
        else:
            (block,) = self.blocks([group])
            covariance = inverse_of(block)
        pulls = errors @ half.T
        mean = errors @ self._mean - pulls @ (covariance @ self.residuals[group])
        variance = np.square(errors).sum(axis=1) + ((pulls @ covariance) * pulls).sum(axis=1)
        return mean, variance
