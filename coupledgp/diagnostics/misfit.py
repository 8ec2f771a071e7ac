"""Correlation of the residuals of neighbours for a fitted model; see `residual_correlation`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.scoring.laws import check_targets, law_of
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.diagnostics.sections.posterior import Comparison
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    residual_correlation_of,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import IntArray


def residual_correlation(
    model: Any,
    X_test: Any,
    y_test: ArrayLike,
    *,
    neighbors: ArrayLike | None = None,
    n_draws: int = 2000,
    seed: int = 0,
) -> ResidualCorrelation:
    """Correlation of test residuals between neighbours, beside that of draws of the joint law.

    Parameters
    ----------
    model
        Fitted estimator or process; of another package, one with `predict(X, return_cov=True)`
        and `neighbors`.
    X_test, y_test
        Test inputs (p, d) or labels of p nodes, and targets (p,) or (p, k). Time O(p^3), memory
        O(p^2). They should lie as densely as a test of structure between training rows needs.
    neighbors
        Number (p,) of the nearest other test point of each; None: the one of largest prior
        correlation, which is the nearest one in the fitted metric.
    n_draws
        Draws of the joint law, 100 or more.
    seed
        Seed of the draws.

    Raises
    ------
    InvalidInputError
        An argument is invalid, there are fewer than three points, or a model states no prior and
        there are no neighbours.
    NumericalError
        The predictive covariance is singular.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import residual_correlation
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = residual_correlation(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> found.is_misfit, found.p_value > 0.05
    (False, True)
    """
    check_positive_int(n_draws, "n_draws", minimum=100)
    asked = Comparison.of(model, X_test, y_test, None)
    assert asked.y is not None
    subject = Subject.of(asked.model, asked.X)
    law = law_of(subject, "model")
    y = check_targets(asked.y, law.mean.shape)
    if len(y) < 3:
        raise wrong("X_test", "three points at least", len(y))
    near = None if neighbors is None else _checked(neighbors, len(y))
    return residual_correlation_of(
        law, y, near, n_draws, check_positive_int(seed, "seed", minimum=0)
    )


def _checked(neighbors: ArrayLike, n_points: int) -> IntArray:
    found = np.asarray(neighbors)
    own = np.arange(n_points)
    if found.shape != (n_points,) or not np.issubdtype(found.dtype, np.integer):
        raise InvalidInputError(
            f"neighbors: expected {n_points} numbers of points, got shape {found.shape}"
        )
    if ((found < 0) | (found >= n_points) | (found == own)).any():
        raise InvalidInputError(
            f"neighbors: expected numbers of other points, from 0 to {n_points - 1}"
        )
    return found.astype(np.int64)
