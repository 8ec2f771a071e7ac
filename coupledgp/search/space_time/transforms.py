"""A transform of the values of a space-time model, of greatest evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coupledgp.gp.graph_time_prior import SpaceTimeRows, informative_sensors
from coupledgp.gp.transforms import Counts, Identity, TargetTransform, YeoJohnson
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.inference.space_time.imputation import SpaceTimeData
from coupledgp.inference.space_time.sites import Sites
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.random import FloatArray
from coupledgp.search.minimise import along_line
from coupledgp.search.space_time.fitter import SpaceTimeModel
from coupledgp.search.space_time.rounds import ImputationRounds

# Most sensors and last steps on which a transform is chosen.
MOST_SENSORS, MOST_STEPS = 64, 1024
# Shapes on a grid, the accuracy to which the best one is polished, and most evaluations for that.
N_SHAPES, SHAPE_TOLERANCE, SHAPE_ITERATIONS = 9, 0.02, 8
# Nats by which the evidence of a transform must exceed that of none, besides log(n) / 2.
MARGIN = 5.0
# Whole numbers are counts where this quantile of them is below this share of their mean.
LOW_QUANTILE, FAR_BELOW = 0.05, 0.25


class TransformSearch:
    """Evidence of values under transforms, with gaps filled along time.

    Filled values count as data, so that transforms are compared on the same values: by the evidence
    of z and the slopes of the transform at all values.

    Parameters
    ----------
    sites
        Covariances between sites; their parameters are found for each transform.
    rows
        Observations in units of y.
    model
        Terms of the model.
    report
        Progress.
    """

    def __init__(
        self, sites: Sites, rows: SpaceTimeRows, model: SpaceTimeModel, report: Progress
    ) -> None:
        rng = np.random.default_rng([model.seed, 2])
        chosen = np.flatnonzero(informative_sensors(sites, rows))
        if chosen.size > MOST_SENSORS:
            chosen = np.sort(rng.choice(chosen, MOST_SENSORS, replace=False))
        last = slice(max(rows.times.size - MOST_STEPS, 0), None)
        observed = rows.observed[chosen, last]
        kept = observed.any(axis=1)
        self.sensors, self.times = rows.sensors[chosen][kept], rows.times[last]
        values = np.where(observed, rows.values[chosen, last], 0.0)[kept]
        self.values = SpaceTimeData(values, observed[kept], self.times).interpolated()
        self.sites, self.model, self.report = sites, model, report
        self.last: SpaceTimeParameters | None = None

    def loss(self, transform: TargetTransform) -> float:
        """Minus the log evidence of the values, nats."""
        z = transform.forward(self.values.reshape(-1))
        units = Units.of(z[:, None], True)
        slopes = float(transform.log_slope(self.values.reshape(-1)).sum())
        normalized = units.normalized(z[:, None]).reshape(self.values.shape)
        data = SpaceTimeData(
            normalized, np.ones(z.size, bool).reshape(normalized.shape), self.times
        )
        rounds = ImputationRounds(
            data, self._gram, self.sites.bounds(), own_scales=False,
            fixed_noise=False, seed=self.model.seed, report=self.report,
        )  # fmt: skip
        start = (
            self.last or replace(self.model, noise=None).starts(data, self.sites.theta, units)[0]
        )
        found = rounds.run([start])
        self.last = found.point
        return found.value + units.log_jacobian(z.size) - slopes

    def _gram(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self.sites.with_theta(theta).gram(self.sensors))

    def shaped(self, transform: TargetTransform) -> TargetTransform:
        """The transform with the shape of greatest evidence, if it has a free one."""
        adapted = transform.adapted(self.values.reshape(-1), None)
        if not adapted.is_free or adapted.shape_bounds is None:
            return adapted
        shape = along_line(
            lambda shape: self.loss(adapted.with_shape(shape)), adapted.shape_bounds, N_SHAPES,
            SHAPE_TOLERANCE, SHAPE_ITERATIONS,
        )  # fmt: skip
        return adapted.with_shape(shape)


def looks_like_counts(values: FloatArray) -> bool:
    """Whether values (n,) are whole numbers from zero on of which many are far below the mean.

    Rounded measurements, such as speeds, are whole numbers too, but stay near their mean.
    """
    if not values.size or values.min() < 0 or (values != np.round(values)).any():
        return False
    return bool(np.quantile(values, LOW_QUANTILE) < FAR_BELOW * values.mean())


def candidates(values: FloatArray) -> list[TargetTransform]:
    """Transforms that are compared for values (n,) of all kinds.

    Values that are never negative keep their lower end, unless they do worse with it.
    """
    kinds: list[TargetTransform] = [Counts()] if values.size and values.min() >= 0 else []
    return [*kinds, YeoJohnson()]


def chosen_transform(
    tried: Sequence[TargetTransform],
    sites: Sites,
    rows: SpaceTimeRows,
    model: SpaceTimeModel,
    report: Progress,
) -> TargetTransform:
    """The transform of greatest evidence among some and none, its shape of greatest evidence."""
    search = TransformSearch(sites, rows, model, report)
    shaped = [search.shaped(one) for one in tried]
    losses = [search.loss(one) for one in shaped]
    gain = search.loss(Identity()) - min(losses)
    best = shaped[int(np.argmin(losses))]
    return best if gain > MARGIN + 0.5 * np.log(search.values.size) else Identity()
