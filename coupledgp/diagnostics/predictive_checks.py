"""Predictive checks: statistics of the targets beside those of joint draws of the model's law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from coupledgp.diagnostics.verdicts.verdict import SIGNS, Colour
from coupledgp.errors import InvalidInputError
from coupledgp.ground.notebook import Card, Notebook, NotebookTable, Shown
from coupledgp.ground.validation import check_positive_int, real_array
from coupledgp.random import FloatArray, Seed, as_rng

Statistic = Callable[[FloatArray], float]
# Statistics where none are given.
STATISTICS: Mapping[str, Statistic] = {
    "mean": lambda y: float(np.mean(y)),
    "standard deviation": lambda y: float(np.std(y)),
    "skewness": lambda y: float(stats.skew(y, axis=None)),
    "minimum": lambda y: float(np.min(y)),
    "maximum": lambda y: float(np.max(y)),
}
# Fewest draws, and the chance of a right law that any statistic is called off.
FEWEST_DRAWS, LEVEL = 100, 0.01


@dataclass(frozen=True)
class CheckedStatistic:
    """A statistic of the targets beside its draws.

    Attributes
    ----------
    name : str
        Name of the statistic.
    observed : float
        Its value for the targets.
    mean, low, high : float
        Mean and central 95 % interval of its values for draws of the law.
    p_value : float
        Twice the smaller of the shares of draws that are at most and at least the observed value,
        the observed one counted among them; the two-sided Bayesian p-value.
    """

    name: str
    observed: float
    mean: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, eq=False)
class PredictiveCheck(Shown):
    """Statistics of targets beside those of draws; `predictive_check` makes it.

    Attributes
    ----------
    statistics : tuple of CheckedStatistic
        The statistics in the order in which they were given.
    n_draws : int
        Number of draws.
    draws : mapping of str to FloatArray (n_draws,)
        Values of each statistic for the draws, such as for a histogram.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import predictive_check
    >>> rng = np.random.default_rng(0)
    >>> y, draws = rng.standard_t(2, size=300), rng.normal(size=(500, 300))
    >>> statistics = {"median": np.median, "largest size": lambda y: np.abs(y).max()}
    >>> check = predictive_check(draws, None, y, statistics)
    >>> {one.name: one.p_value < 0.01 for one in check.statistics}
    {'median': False, 'largest size': True}
    >>> check.draws["median"].shape
    (500,)
    """

    statistics: tuple[CheckedStatistic, ...]
    n_draws: int
    draws: Mapping[str, FloatArray]

    @property
    def off(self) -> tuple[CheckedStatistic, ...]:
        """Statistics that no right law would show: Holm's corrected p-values below one in 100."""
        ordered = sorted(self.statistics, key=lambda one: one.p_value)
        found: list[CheckedStatistic] = []
        for rank, one in enumerate(ordered):
            if one.p_value * (len(ordered) - rank) >= LEVEL:
                break
            found.append(one)
        return tuple(found)

    def verdict(self) -> str:
        """One sentence: which statistics the law does not reproduce."""
        if not self.off:
            return (
                f"The law reproduces {_listed([one.name for one in self.statistics])} of the "
                f"targets ({self.n_draws} draws)."
            )
        return " ".join(
            f"The law does not reproduce the {one.name}: {one.observed:.3g}, where 95 % of "
            f"{self.n_draws} draws have {one.low:.3g} to {one.high:.3g} (p = {one.p_value:.1g})."
            for one in self.off
        )

    def __str__(self) -> str:
        lines = [self.verdict()]
        lines += [
            f"{one.name}: {one.observed:.4g} (draws {one.mean:.4g}, {one.low:.4g} to "
            f"{one.high:.4g}; p = {one.p_value:.2g})"
            for one in self.statistics
        ]
        return "\n".join(lines)

    def notebook(self) -> Notebook:
        """The sentence as a card, and the table of statistics."""
        colour: Colour = "amber" if self.off else "green"
        question = "Does the law look like the data?"
        card = Card(question, self.verdict(), colour, " ".join(SIGNS[colour]))
        header = ("statistic", "observed", "mean of draws", "low", "high", "p")
        rows = [(o.name, o.observed, o.mean, o.low, o.high, o.p_value) for o in self.statistics]
        return Notebook(
            title="Predictive check", cards=(card,),
            tables=(NotebookTable("Statistics of targets and draws", header, rows),),
        )  # fmt: skip


def predictive_check(
    model: Any,
    X: Any,
    y: ArrayLike,
    statistics: Mapping[str, Statistic] | None = None,
    *,
    n_draws: int = 1000,
    random_state: Seed = 0,
) -> PredictiveCheck:
    """Compare statistics of the targets with those of joint draws of the model's predictive law.

    A statistic T of the targets has the two-sided p-value
    `2 min(share of T(draw) <= T(y), share of T(draw) >= T(y))`, the targets counted as a draw
    (Gelman, Meng and Stern, 1996, Statistica Sinica 6; ArviZ's `plot_bpv` and DHARMa's
    `testGeneric` show the same). At rows of the fit it is conservative, since these rows were used
    twice; at other rows it is exact for a right law.

    Parameters
    ----------
    model
        A fitted estimator with `sample_y(X, n_samples, random_state=...)`, ours or scikit-learn's;
        or joint draws (n_draws, p) or (n_draws, p, k) of observations, and X is None then. Draws of
        an unfitted process make it a prior predictive check.
    X
        Points (p, ...) of the targets, as the model takes them.
    y
        Targets (p,) or (p, k).
    statistics
        Functions by name, each of targets in the shape of y to a number. None: mean, standard
        deviation, skewness, minimum and maximum.
    n_draws
        Number of draws, 100 or more.
    random_state
        Seed of the draws.

    Raises
    ------
    InvalidInputError
        Draws and targets differ in shape, a statistic returns no finite number, or the model has
        no draws.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import predictive_check
    >>> rng = np.random.default_rng(0)
    >>> y, draws = rng.standard_t(2, size=300), rng.normal(size=(500, 300))
    >>> check = predictive_check(draws, None, y, {"largest size": lambda y: np.abs(y).max()})
    >>> [one.name for one in check.off]  # normal draws are never so large
    ['largest size']
    """
    targets = np.asarray(real_array(y, "y"), dtype=np.float64)
    drawn = _draws(model, X, targets, n_draws, random_state)
    chosen = STATISTICS if statistics is None else statistics
    if not isinstance(chosen, Mapping) or not chosen:
        raise InvalidInputError(
            f"statistics: expected a dictionary of names and functions, got {statistics!r:.80}"
        )
    found, values = [], {}
    for name, statistic in chosen.items():
        observed = _value(statistic, targets, name)
        each = np.array([_value(statistic, one, name) for one in drawn])
        values[name] = each
        shares = np.array([(each <= observed).sum(), (each >= observed).sum()]) + 1
        p_value = min(1.0, 2.0 * float(shares.min()) / (len(each) + 1))
        low, high = np.quantile(each, [0.025, 0.975]).tolist()
        found.append(CheckedStatistic(name, observed, float(each.mean()), low, high, p_value))
    return PredictiveCheck(tuple(found), len(drawn), values)


def _draws(model: Any, X: Any, y: FloatArray, n_draws: int, seed: Seed) -> FloatArray:
    """Draws (n_draws, *shape of y)."""
    if hasattr(model, "sample_y"):
        check_positive_int(n_draws, "n_draws", minimum=FEWEST_DRAWS)
        state = int(as_rng(seed).integers(2**31))
        drawn = np.moveaxis(np.asarray(model.sample_y(X, n_draws, random_state=state)), -1, 0)
    else:
        try:
            drawn = np.asarray(real_array(model, "model"), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"model: expected a model with sample_y or joint draws, got {type(model).__name__}"
            ) from None
        if X is not None:
            raise InvalidInputError("X: expected None beside draws")
        if len(drawn) < FEWEST_DRAWS:
            raise InvalidInputError(
                f"model: expected {FEWEST_DRAWS} joint draws or more, got {len(drawn)}"
            )
    if drawn.shape[1:] != y.shape:
        raise InvalidInputError(
            f"y: expected the shape of a draw, {drawn.shape[1:]}, got {y.shape}"
        )
    return drawn


def _value(statistic: Statistic, y: FloatArray, name: str) -> float:
    """A statistic of targets, a finite number."""
    value = statistic(y)
    if np.ndim(value) or not np.isfinite(value):
        raise InvalidInputError(
            f"statistics[{name!r}]: expected a finite number of targets of shape {y.shape}, got "
            f"{value!r:.80}"
        )
    return float(value)


def _listed(names: list[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
