"""Functions drawn from the posterior of a local model: Matheron's rule with near rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.gp.drawn_functions import DrawnFunctions, row_blocks
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.local_table import Table, krige
from coupledgp.gp.prior_draws import (
    Loadings,
    between,
    deviation_error,
    local_loadings,
    spectral_loadings,
)
from coupledgp.gp.protocol import Points
from coupledgp.gp.units import Units
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.neighbours.whitening import WhitenedPosterior
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum


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
