"""Base of the estimators: they check, search, and assign one frozen result last.

All results of a fit are in one `FittedModel`, which `fit` and `partial_fit` replace by a single
assignment: an error or an interrupt before it leaves the estimator as it was. A new estimator
declares its parameters as fields and states four methods: `fit`, `points`, `_further_data` and
`check_restored`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.options import estimator
from coupledgp.core.plotted import Plotted
from coupledgp.core.process import Data, GaussianProcess, Points, Problem
from coupledgp.core.seen import Seen
from coupledgp.core.stored import FittedModel, Stored, digests_of, fitted_result, names_of_targets
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.notebook import Notebook, NotebookTable, Shown
from coupledgp.ground.progress import Progress, reporter
from coupledgp.ground.threads import suited_threads
from coupledgp.ground.validation import wrong
from coupledgp.ground.visible import name_of_targets
from coupledgp.random import FloatArray, draw_seed

# Most numbers of a hyperparameter that `explain` lists.
LISTED = 24


class Declared:
    """Parameters of every estimator; each estimator states their place among its own parameters."""

    normalize_y: bool
    random_state: Any


@estimator
class ProcessEstimator(Declared, Plotted, Stored):
    """An estimator around a fitted process, whatever it answers: numbers or classes.

    Parameters
    ----------
    normalize_y
        Subtract the mean of y and divide by its standard deviation before fitting.
    random_state
        Seed of everything that is drawn.
    progress
        Show progress with a forecast of the rest. None: a line on a terminal, a bar in a notebook.
        True: lines on stderr elsewhere, too. False: never.
    missing
        Missing values: `"raise"` refuses them. Estimators of tables take `"indicator"` of missing
        inputs too; regressors of nodes and places take `"omit"`, which leaves out observations
        whose y is NaN, as of silent sensors. For sensors over time these are gaps.
    """

    # Whether predictions take so long that their progress is shown.
    _slow_predictions: ClassVar[bool] = False

    _: KW_ONLY
    progress: bool | None = None
    missing: str = "raise"

    n_evaluations_ = fitted_result("n_evaluations_", "Evaluations of the evidence in the search.")
    converged_ = fitted_result("converged_", "Whether the search for hyperparameters converged.")

    @abstractmethod
    def points(self, X: Any) -> Points:
        """Return checked points as `process_` takes them: rows (p, d), or node numbers (p,)."""

    @abstractmethod
    def _further_data(self, X: Any, y: ArrayLike) -> Data:
        """Further observations, points (n, ...) and targets (n, k), checked against the fit."""

    def _assigned(self, fit: Callable[[], FittedModel], *sizes: Any, y: Any = None) -> Self:
        """The estimator with the results of a fit to y, which take effect by one assignment.

        `sizes` are those of the work, by which its threads are chosen; see `suited_threads`.
        """
        with named_exhaustion("fit"), suited_threads(*sizes):
            self.check_parameters()
            fitted = fit()
        self._fitted = replace(fitted, target_names=names_of_targets(y))
        return self

    def check_parameters(self) -> None:
        """Refuse parameters that no data go with. `fit` does so first.

        Raises
        ------
        InvalidInputError
            A parameter has a value that the estimator does not take.
        """
        if self.missing != "raise":
            raise InvalidInputError(
                "missing: expected 'raise', since points of this model cannot be missing, got "
                f"{self.missing!r}; rows whose y is missing are to be left out"
            )

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Add observations, hyperparameters kept; the first call on an unfitted model is `fit`.

        The posterior is that of all observations, and the normalisation of y follows them. An
        error leaves the model as it was.

        Parameters
        ----------
        X, y
            Further points and observations, as in `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y)
        return self._updated(data)

    @property
    def process_(self) -> GaussianProcess:
        """The fitted process, which never changes: a further fit makes a new one."""
        return self.fitted_.process

    @property
    def target_names_(self) -> tuple[str, ...]:
        """Names of the targets of the fit, columns of a data frame or series; () without names."""
        return self.fitted_.target_names

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log evidence of y, in its own units, at the fitted hyperparameters."""
        return self.process_.log_evidence

    def explain(self) -> str:
        """What the fit means for the data, then hyperparameters and how they were chosen.

        The first lines say how far predictions are off, which columns they hang on, and which
        columns look like identifiers.
        """
        check_is_fitted(self)
        return "\n".join([*self._told(), *self._explained()])

    def _told(self) -> list[str]:
        """Sentences about the data, which stand first."""
        return []

    def _summary(self) -> dict[str, Any]:
        """Hyperparameters by name."""
        return self.process_.summary()

    def _explained(self) -> list[str]:
        """Lines of `explain`: hyperparameters, then the search and the choice among kernels."""
        results = self.fitted_.results
        lines = [f"{name}: {in_words(value)}" for name, value in self._summary().items()]
        if "n_evaluations_" in results:
            ended = "converged" if results.get("converged_", True) else "ended before it converged"
            lines.append(f"{results['n_evaluations_']} evaluations; the search {ended}")
        choices = (results.get(name) for name in ("search_", "selection_"))
        lines += [choice.explain() for choice in choices if choice is not None]
        return [*lines, *map(str, results.get("steps_", ()))]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows: scikit-learn's diagram, and `explain()` once there is a fit."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in shown and self.__sklearn_is_fitted__():
            shown["text/html"] += self._notebook().html()
        return shown

    def _notebook(self) -> Notebook:
        """What the fit means for the data, and the tables of the choices that it made."""
        made = [one for one in self.fitted_.results.values() if isinstance(one, Shown)]
        tables = [table for one in made for table in one.notebook().tables]
        if not tables:
            summary = self._summary().items()
            rows = [(name.replace("_", " "), in_words(value)) for name, value in summary]
            tables = [NotebookTable("Hyperparameters", ("", "value"), rows)]
        return Notebook("After the fit", sentences=self._told(), tables=tables)

    def picture(self, X: Any = None, y: ArrayLike | None = None) -> Any:
        """The picture of what was fitted, or of predictions against observations.

        Without `y`: the law along the column of a table of one, with the rows; maps of latitude and
        longitude, of a lattice, and of a field; partial dependence on the columns of other tables;
        the series of a sensor over time, whose label is `X`. Nodes of a graph are drawn where `X`
        says, a mesh or positions (n_nodes, 2), or else where their edges suggest.

        Parameters
        ----------
        X, y
            Points and observations that the fit did not see, drawn against their predictions.

        Raises
        ------
        InvalidInputError
            `X` and `y` do not fit the model, or it has a picture with both alone.
        """
        check_is_fitted(self)
        found = self._picture(X) if y is None else self._against(X, y)
        return found.named(name_of_targets(y, self.target_names_))

    def _picture(self, X: Any) -> Any:
        """The picture of the model alone."""
        raise InvalidInputError(f"y: expected observations at X to plot {type(self).__name__}")

    @abstractmethod
    def _against(self, X: Any, y: ArrayLike) -> Any:
        """The picture of observations beside their predictions."""

    @staticmethod
    def _seed_of(random_state: Any) -> int:
        return draw_seed(random_state)

    def _judge(self, points: Points, mean: FloatArray | None = None) -> None:
        """Warn of points whose law, of means (p, k), rests on no data."""

    def conditioned_on(self, X: Any, y: ArrayLike, *weights: Any, **further: Any) -> Self:
        """Return the same model, hyperparameters in units of y included, given other data.

        Parameters
        ----------
        X, y
            Points and observations, as in `fit`.
        weights, further
            Further arguments of `partial_fit`.
        """
        check_is_fitted(self)
        data = self._further_data(X, y, *weights, **further)
        return self._conditioned_on(data)

    def _conditioned_on(self, data: Data) -> Self:
        record = self.fitted_.with_process(self.process_.conditioned(data))
        return copy.copy(self).holding(record)

    def _updated(self, data: Data) -> Self:
        record, digests = self.fitted_, self.fitted_.digests
        with named_exhaustion("partial_fit"):
            process = record.process.updated(data)
            if digests is not None:
                own = digests_of(process, data, digests.salt, digests.with_targets)
                digests = digests.joined(own)
            seen = record.seen  # of rows that are kept it follows from these
            if seen is not None:
                seen = seen.joined(Seen.of(data.points, data.targets))
            record = record.with_process(process, digests, seen)
        self._fitted = record
        return self

    def _around(self, process: GaussianProcess) -> Self:
        """A copy of this estimator around another process of the same rows."""
        record = self.fitted_
        return copy.copy(self).holding(record.with_process(process, seen=record.seen))

    def holding(self, fitted: FittedModel) -> Self:
        """Return this estimator with the results of a fit in place of its own."""
        self._fitted = fitted
        return self

    def _check_outputs(self, data: Data) -> Data:
        """Return further data, which have as many outputs as the fit's."""
        n_outputs = self.process_.units.n_outputs
        if data.targets.shape[1] != n_outputs:
            raise wrong("y", f"{n_outputs} outputs as in the first fit", data.targets.shape[1])
        return data

    def _reporter(self, title: str) -> AbstractContextManager[Progress]:
        return reporter(title, self.progress if self._slow_predictions else False)

    def exact_problem(self) -> Problem:
        """Return prior and data of the exact GP, whose twin may be too large to fit."""
        check_is_fitted(self)
        return self.process_.exact_problem()


def in_words(value: Any) -> str:
    """A hyperparameter, or several, with four digits."""
    if isinstance(value, dict):
        more = f" and {len(value) - LISTED} more" if len(value) > LISTED else ""
        named = [f"{name} {in_words(part)}" for name, part in value.items()]
        return ", ".join(named[:LISTED]) + more
    if isinstance(value, list):
        return "; ".join(map(in_words, value))
    if isinstance(value, (float, int, np.ndarray, np.generic)):
        parts = np.ravel(value)
        more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
        return ", ".join(f"{part:.4g}" for part in parts[:LISTED]) + more
    return str(value)
