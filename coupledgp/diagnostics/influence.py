"""Influence of single rows on a posterior: leverage, left-out residuals and Cook's distance.

With noise variances s_i, left-out means m_i and variances v_i of observations, all in closed form
from the factorisation that exists, and residuals `e_i = y_i - m_i`:

| measure | formula | of a linear model |
|---|---|---|
| leverage | `h_i = 1 - s_i / v_i` | diagonal of the hat matrix |
| studentized residual | `e_i / v_i^1/2` | externally studentized residual |
| DFFITS | `e_i (h_i / s_i)^1/2` | change of the own fitted value over its deviation |
| Cook's distance | `sum_j d_ij^2 / s_j / sum_j h_j` | the same |

The prediction at x changes by `d_i(x) = cov(f(x), f_i) e_i / s_i` when row i comes in, cov being
the posterior's (Cook, 1977; Belsley, Kuh and Welsch, 1980). Hyperparameters are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.scoring.subject import Subject, own_process, some_rows
from coupledgp.diagnostics.studies.tables import frame_of
from coupledgp.diagnostics.verdicts.verdict import SIGNS, Colour
from coupledgp.errors import InvalidInputError
from coupledgp.gp.left_out import own_noise
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.gp.transformed import untransformed
from coupledgp.ground.notebook import Card, Notebook, NotebookTable, Shown
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

# Rows and points at most among which changes are measured: their joint covariance is dense.
MOST_ROWS, MOST_POINTS = 1500, 500
# Change of a prediction in its own standard deviations that matters, and the chance that any row of
# a right law has a residual as large as one that is called an outlier.
MOVED, OUTLIER = 1.0, 0.01
LISTED = 10
QUESTION = "Do single rows move the posterior?"


@dataclass(frozen=True, eq=False)
class RowInfluence(Shown):
    """Influence of m rows; `row_influence` makes it.

    Attributes
    ----------
    rows : IntArray (m,)
        Numbers of the rows among the training rows, those of the greatest Cook's distance first.
    leverage, studentized_residual, dffits, cooks_distance : FloatArray (m,)
        See the table of the module.
    change : FloatArray (m,)
        Largest change of a prediction at the points by the row, in standard deviations of f there
        given all rows.
    n_effective : float
        Sum of all leverages, the effective number of parameters.
    n_rows, n_points : int
        Numbers of training rows and of points at which changes were measured.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import row_influence
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> y[7] += 3.0
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = row_influence(model.fit(X, y))
    >>> int(found.rows[0]), found.n_rows
    (7, 40)
    >>> found.verdict().split(":")[0]
    '1 of 40 rows are outliers that move predictions by more than a standard deviation'
    """

    rows: IntArray
    leverage: FloatArray
    studentized_residual: FloatArray
    dffits: FloatArray
    cooks_distance: FloatArray
    change: FloatArray
    n_effective: float
    n_rows: int
    n_points: int

    @property
    def influential(self) -> IntArray:
        """Numbers of the outliers that move a prediction by its own standard deviation.

        A row is an outlier whose residual is beyond the largest of all rows in 99 of 100 right
        laws (Bonferroni).
        """
        limit = float(-ndtri(0.5 * OUTLIER / self.n_rows))
        return self.rows[(np.abs(self.studentized_residual) > limit) & (self.change > MOVED)]

    def verdict(self) -> str:
        """Whether single rows carry the posterior, in a sentence or two."""
        first = (
            f"Row {self.rows[0]} has the most influence: Cook's distance "
            f"{self.cooks_distance[0]:.2g}, leverage {self.leverage[0]:.2g}, and predictions move "
            f"by up to {self.change[0]:.2g} of their standard deviations with it."
        )
        found = self.influential
        if not found.size:
            return f"No outlier moves the posterior. {first}"
        named = ", ".join(str(row) for row in found[:LISTED].tolist())
        return (
            f"{found.size} of {self.n_rows} rows are outliers that move predictions by more than "
            f"a standard deviation: {named}. {first}"
        )

    def __str__(self) -> str:
        return self.verdict()

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Names of columns, and one row for each training row in order of Cook's distance."""
        columns = ["row", "leverage", "studentized_residual", "dffits", "cooks_distance", "change"]
        values = (self.rows, self.leverage, self.studentized_residual, self.dffits,
                  self.cooks_distance, self.change)  # fmt: skip
        return columns, [list(row) for row in zip(*(one.tolist() for one in values), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas data frame, which needs pandas."""
        return frame_of(self.table())

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and the rows of the most influence as plain values."""
        columns, rows = self.table()
        return {
            "verdict": self.verdict(), "n_effective": self.n_effective, "n_rows": self.n_rows,
            "n_points": self.n_points,
            "rows": [dict(zip(columns, row, strict=True)) for row in rows[:LISTED]],
        }  # fmt: skip

    def notebook(self) -> Notebook:
        """The sentence as a card, and the table of the first rows."""
        colour: Colour = "amber" if self.influential.size else "green"
        question = QUESTION
        columns, rows = self.table()
        card = Card(question, self.verdict(), colour, " ".join(SIGNS[colour]))
        table = NotebookTable("Rows of the most influence", columns, rows[:LISTED])
        return Notebook(title="Influence of rows", cards=(card,), tables=(table,))


def row_influence(
    model: Any, X: Any = None, *, max_rows: int = MOST_ROWS, random_state: int = 0
) -> RowInfluence:
    """Measure how much each training row moves the posterior, without fitting again.

    Parameters
    ----------
    model
        Fitted estimator or process of this package with Gaussian noise and one output. Of one of
        transformed targets the inner process is measured, in units of the transformed targets.
    X
        Points (p, ...) at which changes of predictions are measured, at most 500 of them, of more
        those that are drawn; None: at training rows.
    max_rows
        Rows whose changes are measured: of more training rows those of the largest DFFITS.
    random_state
        Seed of the choice of points.

    Raises
    ------
    InvalidInputError
        The model is a mixture, has another likelihood or several outputs, or an argument is
        invalid.
    CoupledGPError
        The model was saved without its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import row_influence
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> y[7] += 3.0
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> found = row_influence(model.fit(X, y))
    >>> found.influential.tolist()
    [7]
    """
    check_positive_int(max_rows, "max_rows", minimum=1)
    seed = check_positive_int(random_state, "random_state", minimum=0)
    process = untransformed(own_process(model, "refit others without the row"))
    points = None
    if X is not None:
        points = Subject.of(model, X).points
        points = points[some_rows(len(points), MOST_POINTS, [seed, 59])]
    return influence_of(process, points, max_rows, seed)


def influence_of(
    process: GaussianProcess, points: Points | None, max_rows: int = MOST_ROWS, seed: int = 0
) -> RowInfluence:
    """Influence of the rows of a process on predictions at points (p, ...); see `row_influence`."""
    data = process.data
    n = len(data)
    if isinstance(process, MixtureGP):
        raise InvalidInputError("model: expected one process, got a mixture")
    if not process.is_gaussian or process.units.n_outputs != 1:
        raise InvalidInputError("model: expected Gaussian noise and one output")
    law = process.left_out(np.arange(n))
    noise, entered = (
        process.units.spread(np.broadcast_to(one, n).astype(np.float64))[:, 0]
        for one in own_noise(process.noise.variance, data.weights)
    )
    residual = data.targets[:, 0] - law.mean[:, 0]
    variance = law.variance[:, 0] - noise + entered
    leverage = np.clip(1 - entered / variance, 0.0, 1.0)
    dffits = residual * np.sqrt(leverage / entered)
    chosen = np.sort(np.argsort(-np.abs(dffits), kind="stable")[:max_rows])
    beside = np.sort(some_rows(n, MOST_POINTS, [seed, 61]))
    moved = _changes(process, data.points[chosen], data.points[beside])
    scale = residual[chosen] / entered[chosen]
    squares = np.square(moved.shared * scale)
    # Of many rows some stand for all.
    distance = (squares / entered[beside, None]).mean(axis=0) * n / max(leverage.sum(), 1e-300)
    at = moved if points is None else _changes(process, data.points[chosen], points)
    change = (np.abs(at.shared * scale) / at.std[:, None]).max(axis=0)
    order = np.argsort(-distance, kind="stable")
    kept = chosen[order]
    return RowInfluence(
        kept, leverage[kept], (residual / np.sqrt(variance))[kept], dffits[kept], distance[order],
        change[order], float(leverage.sum()), n, len(at.std),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Shared:
    """Posterior covariances (p, m) of f at points and rows, and deviations (p,) at the points."""

    shared: FloatArray
    std: FloatArray


def _changes(process: GaussianProcess, rows: Points, points: Points) -> _Shared:
    """What the posterior of f at points shares with that at rows."""
    together = process.law(np.concatenate([points, rows]), "covariance", latent=True).spread
    assert together is not None
    p, cov = len(points), together[..., 0]
    std = np.sqrt(np.maximum(cov.diagonal()[:p], 1e-300))
    return _Shared(cov[:p, p:], std)
