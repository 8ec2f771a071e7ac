"""What could be picked instead of a model: anything that gives laws at points, given data.

Baselines of a kind of points: simple rivals that are fitted in closed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from coupledgp.core.process import GaussianProcess, Points
from coupledgp.diagnostics.foreign.recognised import is_model, law_of_model
from coupledgp.diagnostics.rivals.nearest import Finder, left_out_by_nearest, predicted_by_nearest
from coupledgp.diagnostics.rivals.observations import BaselinePrediction, Observations, Rivals
from coupledgp.diagnostics.scoring.laws import PointLaws, ProcessLaws
from coupledgp.diagnostics.scoring.subject import process_of
from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray, IntArray


class FittedRival(NamedTuple):
    """A fitted rival that chose something for itself.

    Attributes
    ----------
    law : object
        What `laws_at` takes.
    detail : str
        What it chose, for the end of its action.
    """

    law: Any
    detail: str


@dataclass(frozen=True, eq=False)
class Rival:
    """Anything that gives laws at points: a baseline, another model, one of another package.

    Attributes
    ----------
    name : str
    fit : callable
        Takes data, `core.process.Data` or `SensorReadings`, and the seconds that are left.
        Returns what `laws_at` takes, a `FittedRival`, or a sentence that says why there is nothing.
    action : str
        The advice if it wins, a sentence in the imperative.
    seconds : float
        Forecast of its cost: the time of its fit and predictions.
    """

    name: str
    fit: Callable[[Any, float], Any]
    action: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, given: Any, name: str = "") -> Self:
        """A rival of one's own: an object with `fit(data)`, or a function that stands for it.

        Its `name`, `action` and `seconds` are taken where it has them; a function has its own name.
        Of an unfitted estimator of scikit-learn a clone is fitted to points and targets.

        Raises
        ------
        InvalidInputError
            There is nothing to call.
        """
        if isinstance(given, cls):
            return given
        is_estimator = hasattr(given, "get_params") and hasattr(given, "predict")
        fit = partial(_estimator_fitted, given) if is_estimator else getattr(given, "fit", given)
        if not callable(fit) or isinstance(given, type):
            raise InvalidInputError(
                "rivals: expected a function of the data, or an object with a name and fit(data), "
                f"got {given!r}{f' for {name!r}' if name else ''}"
            )
        own = getattr(given, "name", "") or getattr(given, "__name__", type(given).__name__)
        name = name or str(own)
        return cls(
            name,
            lambda data, seconds: fit(data),
            getattr(given, "action", f"Use {name}."),
            float(getattr(given, "seconds", 0.0)),
        )


def chosen_rivals(
    asked: Any, known: Sequence[Rival], of: Callable[..., Rival] = Rival.of
) -> list[Rival]:
    """The rivals that are asked for.

    Parameters
    ----------
    asked
        `"all"` of the known ones, the name of one, a rival of one's own, or a list of any of these;
        or rivals of one's own by name.
    known
        Those that have names.
    of
        Makes a rival of one's own, and of its name where it has one.

    Raises
    ------
    InvalidInputError
        A name is unknown, two rivals have the same one, or something is no rival.
    """
    if isinstance(asked, Mapping):
        return [of(one, str(name)) for name, one in asked.items()]
    named = {one.name: one for one in known}
    found: list[Rival] = []
    for one in asked if isinstance(asked, Sequence) and not isinstance(asked, str) else [asked]:
        if isinstance(one, str):
            found += known if one == "all" else [named[check_choice(one, named, "rivals")]]
        else:
            found.append(of(one))
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInputError(f"rivals: expected different names, got {twice[0]!r} twice")
    return found


def fitted_to(rival: Rival, data: Any, seconds: float) -> FittedRival:
    """A rival fitted to data within some seconds.

    Raises
    ------
    InvalidInputError
        It says why there is nothing.
    """
    found = rival.fit(data, seconds)
    if isinstance(found, str):
        raise InvalidInputError(found)
    return found if isinstance(found, FittedRival) else FittedRival(found, "")


def laws_at(fitted: Any, points: Points, n_outputs: int) -> PointLaws | FloatArray:
    """Laws of observations at p points by a fitted rival, or means (p, k) where it has no more.

    Parameters
    ----------
    fitted
        A process or estimator of this package, a fitted model that `coupledgp.audit` takes, or a
        function of the points that returns means, means and standard deviations, or `PointLaws`.
    points
        Points (p, ...) in the form of the data.
    n_outputs
        Number k of outputs.

    Raises
    ------
    InvalidInputError
        It predicts another number of points or outputs, or deviations that are not positive.
    """
    process = process_of(fitted)
    if process is not None:
        return laws_of_process(process, points)
    if is_model(fitted):
        law = law_of_model(fitted, points, points)
        found = law.mean, np.sqrt(law.variance)
    else:
        found = fitted(points)
    if isinstance(found, PointLaws):
        return found
    mean, std = found if isinstance(found, tuple) else (found, None)
    shape = (len(points), n_outputs)
    mean = of_shape(mean, shape, "means")
    if std is None:
        return mean
    std = of_shape(std, shape, "standard deviations")
    if not (std > 0).all():
        raise InvalidInputError(f"expected positive standard deviations, got {std.min():g}")
    return PointLaws(mean, std)


def laws_of_process(process: GaussianProcess, points: Points) -> PointLaws:
    """Laws of single observations of a process at points (p, ...)."""
    with reporter("predict"):
        tell("predictions")
        mean, variance = process.law(points, "variance")
    assert variance is not None
    own = None if process.is_gaussian else ProcessLaws(process, points)
    return PointLaws(mean, np.sqrt(variance), own)


def _estimator_fitted(estimator: Any, data: Any) -> Any:
    """The law, or the means, of a clone of an estimator of rows."""
    targets = data.targets[:, 0] if data.targets.shape[1] == 1 else data.targets
    fitted = clone(estimator).fit(data.points, targets)
    return fitted if is_model(fitted) else fitted.predict


def of_shape(values: Any, shape: tuple[int, int], name: str) -> FloatArray:
    """Numbers (p, k), or (p,) of a single output, or one for each output or for all."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape == shape[:1]:
        array = array[:, None]
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise InvalidInputError(
            f"expected {name} of shape {shape} or {shape[:1]}, got {array.shape}"
        ) from None


class Baseline(NamedTuple):
    """A fitted baseline.

    Attributes
    ----------
    predict : callable
        Predictions (p, k) at points (p, ...).
    left_out : callable
        Predictions (n, k) of each observation from those of other groups (n,).
    """

    predict: Callable[[Any], BaselinePrediction]
    left_out: Callable[[IntArray], BaselinePrediction]


# Fits a baseline, or says why there is none.
Maker = Callable[[], Baseline | str]


class Baselines(ABC):
    """Baselines of a kind of points, given observations.

    Attributes
    ----------
    observations : Observations
    """

    observations: Observations

    @abstractmethod
    def makers(self) -> dict[str, Maker]:
        """What fits each baseline besides the mean, by its name."""

    def predict(self, queries: Any) -> Rivals:
        """Predictions (p, k) at points (p, ...) by all baselines."""
        return self._gathered(lambda one: one.predict(queries))

    def left_out(self, groups: IntArray) -> Rivals:
        """Predictions (n, k) of each observation from those of other groups (n,).

        Raises
        ------
        InvalidInputError
            There is only one group, or not one number for each observation.
        """
        numbers = self.observations.as_groups(groups)
        return self._gathered(lambda one: one.left_out(numbers))

    def by_nearest(self, finder: Finder, number: Callable[[Any], IntArray]) -> Baseline:
        """Observations at the nearest site, whose number (p,) is -1 for points without one."""
        return Baseline(
            lambda queries: predicted_by_nearest(self.observations, finder, number(queries)),
            lambda groups: left_out_by_nearest(self.observations, finder, groups),
        )

    def _by_mean(self) -> Baseline:
        data = self.observations
        return Baseline(lambda queries: data.predicted_by_mean(len(queries)), data.left_out_by_mean)

    def _gathered(self, use: Callable[[Baseline], BaselinePrediction]) -> Rivals:
        """Predictions of all; those whose matrix cannot be factorised or stored are left out."""
        makers: dict[str, Maker] = {"mean": self._by_mean, **self.makers()}
        rivals = Rivals()
        with suited_threads(len(self.observations)):
            for name, make in makers.items():
                try:
                    made = make()
                    found = made if isinstance(made, str) else use(made)
                except (NumericalError, MemoryLimitError) as error:
                    found = str(error)
                if isinstance(found, str):
                    rivals.left_out[name] = found
                else:
                    rivals.append(found)
        return rivals
