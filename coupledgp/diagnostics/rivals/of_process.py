"""Baselines of a fitted process: those of the kind of its points."""

from __future__ import annotations

from coupledgp.diagnostics.rivals.baselines import Baselines
from coupledgp.diagnostics.rivals.nodes import NodeRivals
from coupledgp.diagnostics.rivals.observations import Rivals
from coupledgp.diagnostics.rivals.places import FieldRivals
from coupledgp.diagnostics.rivals.tables import TableRivals
from coupledgp.geometry.locations import canonical
from coupledgp.gp.fields import FieldGP
from coupledgp.gp.nodes import NodeGP
from coupledgp.gp.precise_fields import PreciseFieldGP
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.gp.transformed import untransformed
from coupledgp.random import IntArray


def rivals_of(process: GaussianProcess, points: Points) -> Rivals:
    """Predict at points from a process's own observations, by what a person would use instead.

    Tables have the mean, the nearest row in columns of unit variance, a linear model, a plain
    process and one of an additive kernel from 30 rows on, and boosted trees from 60 rows on. Graphs
    have the mean, the nearest observed node along edges and the harmonic function. Fields have
    these and, on surfaces, a Gaussian process of position. All have standard deviations of
    observations.

    Parameters
    ----------
    process
        The process; one of transformed targets is taken for its inner process, so that predictions
        are in units of the transformed targets.
    points
        Points (p, ...) of the process.

    Returns
    -------
    Rivals
        A list of `BaselinePrediction`, means and standard deviations (p, k). Baselines that do not
        apply or are too dear are named in `left_out` with the reason.

    Raises
    ------
    CoupledGPError
        The process has not kept its observations.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import rivals_of
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> process = model.fit(X, 2 * X[:, 0]).process_
    >>> rivals = rivals_of(process, np.array([[9.0]]))
    >>> {one.name: one.mean.round(1).item() for one in rivals}
    {'mean': 6.0, 'nearest': 12.0, 'linear': 18.0}
    """
    kind = kind_of(process)
    if isinstance(kind, FieldRivals):
        points = canonical(points)
    return kind.predict(points).with_laws()


def left_out_rivals(process: GaussianProcess, groups: IntArray) -> Rivals:
    """Predict each observation of a process from those of other groups, as `rivals_of` does.

    Parameters
    ----------
    process
        As for `rivals_of`.
    groups
        Number of the group of each observation, (n,).

    Returns
    -------
    Rivals
        Predictions (n, k), in the order of the observations.

    Raises
    ------
    CoupledGPError
        The process has not kept its observations.
    InvalidInputError
        There is only one group, or not one number for each observation.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import left_out_rivals
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> process = model.fit(X, 2 * X[:, 0]).process_
    >>> rivals = {one.name: one for one in left_out_rivals(process, np.arange(20))}
    >>> bool(np.allclose(rivals["linear"].mean, 2 * X, atol=0.1))  # each row from the others
    True
    """
    return kind_of(process).left_out(groups).with_laws()


def kind_of(process: GaussianProcess) -> Baselines:
    """Baselines of the kind of a process's points, given its observations."""
    inner = untransformed(process)
    data = inner.data
    first = inner.first
    if isinstance(first, NodeGP):
        return NodeRivals.of(first.graph, data.points, data.targets, data.weights)
    if isinstance(first, FieldGP | PreciseFieldGP):
        operator, rows = first.field_prior.operator, canonical(data.points)
        return FieldRivals.of(operator, rows, data.targets, data.weights)
    return TableRivals.of(data.points, data.targets, data.weights)
