"""The inverse covariance of observations under a local model, and their laws when left out.

With rows whitened by their near earlier ones, `psi~ = W psi` (`inference.neighbours.whitening`),

    C^-1 = W' (I - Psi~ A^-1 Psi~') W ,   A = I + Psi~' Psi~ = L L' .

Without a group G of observations the weights w of features and trend have the mean and covariance

    m - L^-T H_G' r_G ,   L^-T (I + H_G' D_G H_G) L^-1 ,   H = W' Psi~ L^-T ,

with the `r_G` and `D_G` of `inverse_covariance`. Given w an observation is predicted as any other
point is: by kriging from the nearest rows that are not in its group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coupledgp.gp.inverse_covariance import InverseCovariance, batches, inverse_of
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.local_table import Kriged, Table, krige_from
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.neighbours.nearest import nearest_outside
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray, IntArray


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
