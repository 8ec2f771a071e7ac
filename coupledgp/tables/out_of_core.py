"""The fit of a table that is larger than memory: the same steps as in memory, in passes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coupledgp.core.budget import current_budget
from coupledgp.core.column_moments import (
    RULE_ROWS,
    laplace_lengthscale,
    root_of_parts,
    spread_of_moments,
)
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.posterior_draw import Pilot, pilot_places
from coupledgp.core.process import Data
from coupledgp.core.starts import SearchSpace
from coupledgp.core.units import Units
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap
from coupledgp.features.fourier import check_directions
from coupledgp.features.registry import PROPOSAL_ROWS, features_class
from coupledgp.ground.devices import check_device_memory, parse_device
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import duration, tell
from coupledgp.ground.validation import (
    check_choice,
    check_lengthscale,
    check_magnitude,
    check_positive_int,
    check_vector,
)
from coupledgp.random import FloatArray
from coupledgp.tables.batched_evidence import KEPT_ROWS, BatchedEvidence
from coupledgp.tables.rows import noise_of_level
from coupledgp.tables.spectrum_options import MATRICES, check_frequencies, why_sampled
from coupledgp.tables.spectrum_search import PilotRows, drawn_for_posterior
from coupledgp.tables.stationary_regressor import HYPERPARAMETER_CHOICES, search_results
from coupledgp.tables.table_passes import StatisticsPass, TablePasses, TableSummary
from coupledgp.tables.weight_space import FeaturePrior, WeightSpaceGP

# Rows of which features are made to see how long it takes.
TRIAL_ROWS = 8192
# Rows of which the search on the ladder usually makes features, the gradient included.
SEARCH_ROWS = 1_000_000
# Passes that only read: random rows, and the posterior beside its features.
READING_PASSES = 2
# Copies of the random rows of the search that are alive at once.
COPIES = 3
# Parameters that need all rows in memory, and the only value that passes take.
WHOLE_TABLE: dict[str, Any] = {
    "hyperparameters": "maximum", "target_transform": None,
}  # fmt: skip


def check_options(model: Any) -> None:
    """Refuse parameters of `SparseSpectrumGPRegressor` for which all rows have to be in memory.

    Raises
    ------
    InvalidInputError
        A parameter has a value that a fit in passes over batches does not take.
    """
    check_frequencies(model.frequencies)
    if model.frequencies == "fitted":
        raise InvalidInputError(
            "frequencies: expected 'auto', 'sampled' or 'posterior' for batches, got 'fitted', "
            "which needs all rows in memory; fit it to some of the rows"
        )
    check_choice(model.hyperparameters, HYPERPARAMETER_CHOICES, "hyperparameters")
    for name, only in WHOLE_TABLE.items():
        value = getattr(model, name)
        if value != only:
            raise InvalidInputError(
                f"{name}: expected {only!r} for batches, got {value!r}, which needs all rows in "
                "memory; fit it to some of the rows"
            )
    for name in ("n_frequencies", "coupling"):
        if getattr(model, name) == "auto":
            raise InvalidInputError(
                f"{name}: expected a choice for batches, got 'auto', which needs all rows in "
                "memory; fit it to some of the rows and take what it chose"
            )


def fit_passes(model: Any, passes: TablePasses) -> tuple[WeightSpaceGP, dict[str, Any]]:
    """Fit a `SparseSpectrumGPRegressor` in passes; its rows are not kept.

    Lengthscales come from the ladder of random rows, variances and posterior from all rows, as in
    `fit_data`, whose result this is to rounding.

    Parameters
    ----------
    model
        Estimator; it is not changed.
    passes
        The table.

    Returns
    -------
    (WeightSpaceGP, dict)
        Process without rows, and further results of the fit by their names.

    Raises
    ------
    InvalidInputError
        A parameter of the estimator is invalid, or needs all rows in memory, or the forecast is
        above the budget.
    MemoryLimitError
        Matrices of the features' order do not fit into memory.
    """
    check_options(model)
    summary = passes.summary
    if summary.n_rows <= KEPT_ROWS:
        data = passes.take(np.arange(summary.n_rows))
        process, results = model.fit_data(data, summary.columns)
        return process.without_data(), results
    model._check_parameters(summary.n_rows)
    rng = model._rng()
    dim = summary.inputs.mean.size
    check_features(model, dim)
    draw = partial(model._drawn, dim, model.sampled_by, model.n_frequencies, rng)
    center = _center(model, summary)
    units = summary.units(model.normalize_y)
    drawn = None if model._from_rows else draw()
    base = _base(model, passes, center, rng)
    if drawn is None:
        places = np.sort(rng.choice(summary.n_rows, PROPOSAL_ROWS, replace=False))
        scale = base if model.lengthscale is None else model.lengthscale
        drawn = draw((passes.take(places).points - center) / check_lengthscale(scale, dim))
    check_directions(drawn)
    space = _space(model, summary, units, base)
    stream = FeatureStream(drawn, np.empty((0, dim)), center, np.ones(dim))
    problem = BatchedEvidence(passes, stream, units)
    forecast = forecast_of(passes, stream, units)
    forecast.check(model.n_frequencies)
    tell(f"forecast: {forecast}")
    limits = {
        "n_restarts": model.n_restarts,
        "max_iterations": model.max_iter,
    }
    (of_draws,) = rng.spawn(1)
    found = maximise_evidence(problem, space, rng=rng, **limits)
    prior = FeaturePrior(drawn, center, found.hyperparameters)
    pilot = Pilot(why_sampled(model, summary.n_rows, dim))
    if not pilot.reason:
        data = passes.take(pilot_places(summary.n_rows, of_draws))
        rows = PilotRows(data.points, data.weights, problem.n_counted)

        def under(made: FeatureMap) -> BatchedEvidence:
            return BatchedEvidence(passes, replace(stream, feature_map=made), units)

        prior, found, pilot = drawn_for_posterior(
            prior,
            found,
            rows,
            under,
            space,
            of_draws,
            model.frequencies == "posterior",
        )
        problem = under(prior.feature_map)
    results = search_results(found) | {"forecast_": forecast.seconds, "pilot_": pilot}
    return problem.given(prior, model.normalize_y), results


def check_features(model: Any, dim: int) -> None:
    """Refuse a number of features, or of columns, of which too much would be in memory.

    Parameters
    ----------
    model
        Estimator.
    dim
        Number of encoded columns D.

    Raises
    ------
    MemoryLimitError
        Matrices of the features' order, or the random rows of the search, do not fit.
    """
    size = check_positive_int(model.n_frequencies, "n_frequencies")
    n_features = 2 * size if model.features == "fourier" else size
    check_device_memory(
        parse_device(model.device),
        MATRICES * 8.0 * n_features**2,
        f"n_frequencies: matrices of {n_features} features",
        lambda share: (
            f"take n_frequencies={max(int(0.9 * size * np.sqrt(share)), 1)}, since memory grows "
            "with its square"
        ),
    )
    check_memory(
        COPIES * 8.0 * KEPT_ROWS * dim,
        f"X: {KEPT_ROWS} random rows of {dim} encoded columns",
        "leave columns out, or categories of many levels",
    )


def _center(model: Any, summary: TableSummary) -> FloatArray:
    if model.center is None:
        return summary.inputs.mean
    center = check_vector(np.broadcast_to(model.center, summary.inputs.mean.shape), "center")
    check_magnitude(center, "center")
    return center


def _base(
    model: Any, passes: TablePasses, center: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Data-driven lengthscales (D,), as `_default_lengthscale` finds them in memory."""
    inputs, groups = passes.summary.inputs, passes.summary.columns.groups
    spread = spread_of_moments(inputs.variance, inputs.low, inputs.high, model.ard, groups)
    if not features_class(model.features).lengthscale_by_rule:
        return root_of_parts(spread.size, model.ard, groups) * spread
    if not model.ard:
        spread = np.ones_like(spread)
    rows = np.sort(rng.choice(passes.summary.n_rows, RULE_ROWS, replace=False))
    data = passes.take(rows)
    return spread * laplace_lengthscale((data.points - center) / spread, rng, data.counts)


def _space(model: Any, summary: TableSummary, units: Units, base: FloatArray) -> SearchSpace:
    targets = summary.targets
    ends = units.normalized(np.stack([targets.low, targets.high]))
    known = noise_of_level(summary.level, units, model.noise)
    space: SearchSpace = model._space(bool(ends.any()), known, base, summary.columns.groups)
    return space


@dataclass(frozen=True)
class PassForecast:
    """Expected cost of a fit in passes.

    Attributes
    ----------
    seconds : float
        Seconds of one core that remain after the columns are known, if the ladder ends before the
        whole table.
    features_a_second : float
        Rows of which features and their products are made in a second.
    """

    seconds: float
    features_a_second: float

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} for the passes and the search"

    def check(self, n_frequencies: int) -> None:
        """Refuse a fit that takes more seconds than its budget.

        Raises
        ------
        InvalidInputError
            The message gives the forecast, and a number of frequencies that may be within it.
        """
        budget = current_budget().seconds
        if budget is None or self.seconds <= budget:
            return
        fewer = max(int(n_frequencies * budget / self.seconds), 1)
        raise InvalidInputError(
            f"budget: the fit takes {self}, more than the {duration(budget)} allowed; take "
            f"n_frequencies={fewer}, some of the rows, or a larger budget"
        )


def forecast_of(passes: TablePasses, stream: FeatureStream, units: Units) -> PassForecast:
    """Forecast from the time that features of a few rows take, which are drawn.

    Parameters
    ----------
    passes
        The table, whose first pass is over.
    stream
        Feature map and centre.
    units
        Units of the targets.
    """
    summary, rng = passes.summary, np.random.default_rng(0)
    points = summary.inputs.mean + rng.normal(size=(TRIAL_ROWS, summary.inputs.mean.size))
    data = Data.of(points, np.broadcast_to(summary.targets.mean, (TRIAL_ROWS, units.n_outputs)))
    sums = StatisticsPass(stream, units, summary.targets.mean)
    times = []
    for _ in range(2):  # the first call also loads what it needs
        start = time.process_time()
        sums.add(sums.start(), data)
        times.append(time.process_time() - start)
    rate = TRIAL_ROWS / max(min(times), 1e-6)
    featured = summary.n_rows + SEARCH_ROWS
    return PassForecast(READING_PASSES * passes.seconds_a_pass + featured / rate, rate)
