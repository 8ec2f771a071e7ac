"""Baselines of a fitted process: those of the kind of its points."""

from __future__ import annotations

from collections.abc import Sequence

from coupledgp.core.process import GaussianProcess, Points
from coupledgp.core.transformed import (
    TransformedGP,
    mixed_parts,
    transformed_data,
    untransformed,
)
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.rivals.nodes import NodeRivals
from coupledgp.diagnostics.rivals.observations import Rivals
from coupledgp.diagnostics.rivals.places import FieldRivals
from coupledgp.diagnostics.rivals.rival import Baselines
from coupledgp.diagnostics.rivals.tables import TableRivals
from coupledgp.fields.locations import canonical
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.graphs.process import NodeGP
from coupledgp.random import IntArray

# Share of the weight of a mixture from which its transform of the targets is the model's.
MOST = 0.5


def rivals_of(
    process: GaussianProcess, points: Points, categories: Sequence[IntArray] = ()
) -> Rivals:
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
    categories
        Numbers of the columns that are the code of each category of a table, which are one column
        of its own kind to boosted trees.

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
    transform = chosen_transform(process)
    kind = kind_of(process, transform, categories)
    if isinstance(kind, FieldRivals):
        points = canonical(points)
    return kind.predict(points).with_laws().mapped(transform)


def left_out_rivals(
    process: GaussianProcess, groups: IntArray, categories: Sequence[IntArray] = ()
) -> Rivals:
    """Predict each observation of a process from those of other groups, as `rivals_of` does.

    Parameters
    ----------
    process
        As for `rivals_of`.
    groups
        Number of the group of each observation, (n,).
    categories
        As for `rivals_of`.

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
    transform = chosen_transform(process)
    return kind_of(process, transform, categories).left_out(groups).with_laws().mapped(transform)


def chosen_transform(process: GaussianProcess) -> TargetTransform | None:
    """The transform of the single target that most of a mixture's weight has, if any."""
    if process.units.n_outputs > 1 or not hasattr(process, "members"):
        return None
    shares: dict[TargetTransform, float] = {}
    for part, weight in mixed_parts(process):
        if isinstance(part, TransformedGP):
            (transform,) = part.transforms
            shares[transform] = shares.get(transform, 0.0) + weight
    best = max(shares, key=lambda one: shares[one], default=None)
    return best if best is not None and shares[best] > MOST else None


def kind_of(
    process: GaussianProcess,
    transform: TargetTransform | None = None,
    categories: Sequence[IntArray] = (),
) -> Baselines:
    """Baselines of the kind of a process's points, given its observations, transformed or not."""
    inner = untransformed(process)
    data = inner.data if transform is None else transformed_data(inner.data, (transform,))
    first = inner.first
    if isinstance(first, NodeGP):
        return NodeRivals.of(first.graph, data.points, data.targets, data.weights)
    if isinstance(first, FieldGP | PreciseFieldGP):
        operator, rows = first.field_prior.operator, canonical(data.points)
        return FieldRivals.of(operator, rows, data.targets, data.weights)
    return TableRivals.of(data.points, data.targets, data.weights, categories)
