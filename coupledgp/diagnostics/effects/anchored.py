"""Draws of an exact posterior at anchors, continued to other points by their conditional mean."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from coupledgp.gp.drawn_functions import DrawnFunctions, row_blocks
from coupledgp.gp.exact import ExactGP
from coupledgp.linalg.matrices import as_numpy
from coupledgp.random import FloatArray

# What is added to variances at the anchors, relative to their mean prior variance.
JITTER = 1e-9


class AnchoredFunctions(DrawnFunctions):
    """Functions of an exact process for averages over the law that anchors Z are drawn from.

        f(x) = k(x, X) (alpha - (K + s R)^-1 K(X, Z) c) + k(x, Z) c ,   c ~ N(0, C^-1)

    C is the posterior covariance at Z, so that values there are exact draws. Elsewhere they lack
    the variance that rows and anchors leave open, which averages over many points do not have.

    Parameters
    ----------
    process
        The process.
    anchors
        Rows Z (N, D).
    n_functions
        Number of functions.
    rng
        Where the draws come from.
    """

    def __init__(
        self, process: ExactGP, anchors: FloatArray, n_functions: int, rng: np.random.Generator
    ) -> None:
        self.process, self.n_functions = process, n_functions
        prior, rows = process.dense_prior, process.data.points
        self._places = np.vstack([rows, anchors])
        factor = as_numpy(process.factor)
        root = linalg.solve_triangular(factor, prior.covariance(rows, anchors), lower=True)
        covariance = prior.covariance(anchors, anchors) - root.T @ root
        covariance[np.diag_indices_from(covariance)] += JITTER * prior.variance(anchors).mean()
        own = np.linalg.cholesky(0.5 * (covariance + covariance.T))
        size = process.units.n_outputs * n_functions
        innovations = rng.standard_normal((len(anchors), size))
        draws = linalg.solve_triangular(own, innovations, lower=True, trans="T")
        taken = linalg.solve_triangular(factor, root @ draws, lower=True, trans="T")
        alpha = np.repeat(as_numpy(process.alpha), n_functions, axis=1)
        self._weights = np.vstack([alpha - taken, draws])

    def __call__(self, points: FloatArray) -> FloatArray:
        prior, units = self.process.dense_prior, self.process.units
        parts = [
            prior.covariance(points[rows], self._places) @ self._weights
            for rows in row_blocks(len(points))
        ]
        shape = (len(points), units.n_outputs, self.n_functions)
        return units.samples(np.concatenate(parts).reshape(shape))
