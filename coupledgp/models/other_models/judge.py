"""Other models that a user could choose, beside a fitted model or anybody's predictions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.rivals.contest import Contest, HeldOut
from coupledgp.diagnostics.rivals.rival import Rival, chosen_rivals, laws_of_process
from coupledgp.diagnostics.scoring.alternatives import Alternatives
from coupledgp.diagnostics.scoring.laws import PointLaws, check_targets, law_of
from coupledgp.diagnostics.scoring.score_table import NLPD
from coupledgp.diagnostics.scoring.subject import Subject, own_process, process_of, some_rows
from coupledgp.diagnostics.sections.transformed import Comparison
from coupledgp.diagnostics.verdicts.chance import shared_variances
from coupledgp.diagnostics.verdicts.gathering import correlations
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features.sklearn import Columns, seed_from_random_state
from coupledgp.gp.nodes import NodeGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.ground.progress import reporter
from coupledgp.inference.nodes.forecast import seconds_of
from coupledgp.models.node_estimator import NodeRegressor
from coupledgp.models.other_models.fields import FieldTask, field_member
from coupledgp.models.other_models.nodes import NodeTask
from coupledgp.models.other_models.tables import TableTask
from coupledgp.models.tables import TableRegressor
from coupledgp.random import FloatArray

# Most test points at which models are scored; of more, so many are drawn at random.
MOST_POINTS = 2000
# Most nodes of a graph whose joint law is computed by a solve for each point.
MOST_NODES = 2000
DEFAULT_BUDGET = "60s"


def alternatives(
    model: Any,
    X_test: Any,
    y_test: ArrayLike,
    *,
    budget: float | str = DEFAULT_BUDGET,
    positions: ArrayLike | None = None,
    rivals: Any = "all",
    random_state: Any = 0,
    progress: bool | None = None,
) -> Alternatives:
    """Fit other models to a model's training rows and score them at the same test points.

    Tables: rougher and smoother kernels by the same method, fitted hyperparameters where those of
    the model were given, transformed targets, `LocalGPRegressor`, `GPRegressor`, and scikit-learn's
    `HistGradientBoostingRegressor` with the error of five folds as standard deviation. Graphs: the
    families of kernels, the graph without weights, the combinatorial Laplacian, and positions.
    Fields: kernels along the surface or network, of position, and of both.

    Parameters
    ----------
    model
        Fitted estimator of this package, or its process.
    X_test, y_test
        Test inputs (p, d), labels of p nodes, or places, and targets (p,) or (p, k). They should be
        none of the training rows. Of more than 2000 points a random subset is used.
    budget
        Seconds for all alternatives, or a text such as `"90s"` or `"5min"`. The cheapest come
        first; one that is forecast to take more than is left is skipped, and one that takes much
        longer than its forecast is ended at the next step of its search.
    positions
        Positions (n_nodes, d) of a graph's nodes: adds a model of them.
    rivals
        `"all"` of the above, the name of one, a rival of your own, or a list of any of these; or
        rivals of your own by name. One of your own is a function of the training data, or an object
        with a `name` and `fit(data)`, where `data.points` (n, ...) and `data.targets` (n, k) are
        those of the model. It returns a fitted model of this package or one that `audit` takes, or
        a function of the points (p, ...) that gives means, or means and standard deviations of
        observations, (p,) or (p, k). Of means alone the error of five folds is the standard
        deviation. Its `action` is the advice if it wins, its `seconds` the forecast of its time.
    random_state
        Seed of all alternatives and of the subset.
    progress
        Show progress on stderr; None does so on a terminal.

    Returns
    -------
    Alternatives
        A tuple of `Alternative`, the greatest gain first: mean paired decrease of the NLPD, nats
        per point, with its standard error, which allows for errors of the model that near test
        points share. `skipped` names the others with the
        reason, an error of their fit included. A model of transformed targets is compared in units
        of the transformed targets, in which gains are the same.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or the model is none of this package.
    CoupledGPError
        The model has not kept its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor("matern-1/2", random_state=0).fit(X[::2], y[::2])
    >>> found = cgp.alternatives(model, X[1::2], y[1::2], budget="20s", rivals=["kernel gaussian"])
    >>> [bool(one.gain > 0) for one in found]
    [True]
    """
    own_process(model, "cgp.audit(..., alternatives=True) takes predictions of any other")
    seed, start = seed_from_random_state(random_state), time.perf_counter()
    asked = Comparison.of(model, X_test, y_test, None)
    inner = process_of(asked.model)
    assert inner is not None
    points = Subject.of(asked.model, asked.X).points
    assert asked.y is not None
    y = check_targets(asked.y, (len(points), inner.units.n_outputs))
    chosen = some_rows(len(y), MOST_POINTS, seed)
    places = None if positions is None else _checked_positions(positions)
    seconds = seconds_of(budget)
    points, y = points[chosen], y[chosen]
    own = laws_of_process(inner, points).losses(NLPD, y).reshape(len(y), -1).mean(axis=1)
    known = _rivals(model, inner, places, asked.model is not model, seed, seconds)
    found = chosen_rivals(rivals, known)
    shared = _shared(Subject(asked.model, points, inner))
    held_out = HeldOut(inner.data, points, y, own, seed, shared)
    with reporter("alternatives", progress) as report:
        left = seconds - (time.perf_counter() - start)
        return held_out.alternatives(found, Contest(left, report))


def alternatives_of_predictions(
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    y_test: FloatArray,
    nlpd: FloatArray,
    *,
    budget: float | str = DEFAULT_BUDGET,
    rivals: Any = "all",
    random_state: Any = 0,
    progress: bool | None = None,
) -> Alternatives:
    """Fit models of this package, and boosted trees, beside anybody's predictions of a table.

    Parameters
    ----------
    X_train, y_train
        Rows (n, d) of numbers and targets (n,) from which the predictions were made.
    X_test, y_test
        Test rows (p, d) and targets (p,).
    nlpd
        Negative log predictive density (p,) of each test target, nats.
    budget, rivals, random_state, progress
        As for `alternatives`.
    """
    seed, seconds = seed_from_random_state(random_state), seconds_of(budget)
    data = Data.of(X_train, y_train[:, None])
    chosen = some_rows(len(y_test), MOST_POINTS, seed)
    task = TableTask(data, Columns(X_train.shape[1]), None, False, seed, seconds)
    found = chosen_rivals(rivals, task.rivals())
    held_out = HeldOut(data, X_test[chosen], y_test[chosen, None], nlpd[chosen], seed)
    with reporter("alternatives", progress) as report:
        return held_out.alternatives(found, Contest(seconds, report))


def _rivals(
    model: Any,
    process: GaussianProcess,
    positions: FloatArray | None,
    transformed: bool,
    seed: int,
    seconds: float,
) -> list[Rival]:
    """Alternatives of the kind of a process's points."""
    first = process.first
    if isinstance(first, NodeGP):
        n_nodes = first.graph.n_nodes
        if positions is not None and len(positions) != n_nodes:
            raise InvalidInputError(
                f"positions: expected {n_nodes} rows, one for each node, got {len(positions)}"
            )
        base = model if isinstance(model, NodeRegressor) else None
        return NodeTask(first, process.data, base, positions, seed, seconds).rivals()
    if positions is not None:
        raise InvalidInputError("positions: expected them for a model of a graph only")
    if field_member(process) is not None:
        return FieldTask(process, seed).rivals()
    table = model if isinstance(model, TableRegressor) else None
    columns = Columns(process.data.points.shape[1]) if table is None else table.fitted_.columns
    assert columns is not None
    return TableTask(process.data, columns, table, transformed, seed, seconds).rivals()


def _shared(subject: Subject) -> Callable[[PointLaws, FloatArray], float]:
    """What errors that near points share add to the variance of a gain; nothing where unknown.

    It is what it would be if the model were true, or, if that is less, what it is where gains go
    together as much as observations do: a model that is far off takes a sharper law for absurd. The
    joint law of a large graph is left out where it takes a solve for each point.
    """
    process = subject.process
    first = None if process is None else process.first
    if isinstance(first, NodeGP):
        solved = not first.posterior.has_all_variances
        if solved and first.graph.n_nodes > MOST_NODES:
            return lambda laws, gains: 0.0
    try:
        law = law_of(subject, "model")
    except CoupledGPError:
        return lambda laws, gains: 0.0
    correlation = correlations(law.cov)
    between = np.abs(correlation).mean(axis=2)
    p = len(between)
    together = float(between.sum() - p) / p**2

    def added(laws: PointLaws, gains: FloatArray) -> float:
        if_true = shared_variances(law, correlation, laws.mean, laws.std)["nlpd"]
        return min(if_true, together * float(gains.var(ddof=1)))

    return added


def _checked_positions(positions: ArrayLike) -> FloatArray:
    found = np.asarray(positions, dtype=np.float64)
    if found.ndim != 2 or not np.isfinite(found).all():
        raise InvalidInputError(
            f"positions: expected finite rows (n_nodes, d), got shape {found.shape}"
        )
    return found
