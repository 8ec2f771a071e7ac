"""A Gaussian process of position alone, by scikit-learn, as a baseline of fields on surfaces."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from coupledgp.diagnostics.rivals.prediction import BaselinePrediction
from coupledgp.gp.left_out import rows_of_groups
from coupledgp.random import FloatArray, IntArray

# Observations, drawn at random, from which its hyperparameters are found, and restarts of that.
SEARCHED, RESTARTS = 300, 4


class PositionGP:
    """`sqrt(v) Matern-5/2` of positions with noise, one process for each output.

    Parameters
    ----------
    positions
        Positions (n, d) of the observations, about zero and of about unit extent.
    y
        Observations (n, k).
    """

    def __init__(self, positions: FloatArray, y: FloatArray) -> None:
        self.positions, self.y = positions, y
        self.models = [_fitted(positions, column) for column in y.T]

    def predict(self, positions: FloatArray) -> BaselinePrediction:
        """Predictions (p, k) at positions (p, d), and standard deviations of observations."""
        laws = [model.predict(positions, return_std=True) for model in self.models]
        mean, std = (np.column_stack(columns) for columns in zip(*laws, strict=True))
        return BaselinePrediction("position GP", mean, std)

    def left_out(self, groups: IntArray) -> BaselinePrediction:
        """Predictions (n, k) of observations from those of other groups (n,), in closed form.

        Hyperparameters, mean and scale are those of all observations.
        """
        members = rows_of_groups(groups)
        mean, std = np.empty_like(self.y), np.empty_like(self.y)
        for k, model in enumerate(self.models):
            column = self.y[:, k]
            inverse = np.linalg.inv(model.kernel_(self.positions))
            pulls = inverse @ (column - column.mean())
            for rows in members:
                covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
                mean[rows, k] = column[rows] - covariance @ pulls[rows]
                std[rows, k] = _scale(column) * np.sqrt(covariance.diagonal())
        return BaselinePrediction("position GP", mean, std)


def scaling(vertices: FloatArray, extent: float) -> Callable[[FloatArray], FloatArray]:
    """The map of positions (p, d) to those about the mean of the vertices, in units of extent."""
    centre = vertices.mean(axis=0)
    return lambda positions: (positions - centre) / extent


def _fitted(inputs: FloatArray, y: FloatArray) -> Any:
    """A process of inputs (n, d) and y (n,), its hyperparameters found from some of them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern(0.3, (1e-2, 1e1), nu=2.5) + WhiteKernel(
        1e-2, (1e-6, 1e1)
    )
    chosen = np.random.default_rng(0).permutation(y.size)[:SEARCHED]
    search = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(inputs[chosen], y[chosen])
    model = GaussianProcessRegressor(search.kernel_, normalize_y=True, optimizer=None)
    return model.fit(inputs, y)


def _scale(y: FloatArray) -> float:
    """Standard deviation that scikit-learn divides y by."""
    return float(np.std(y)) or 1.0
