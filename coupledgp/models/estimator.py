"""Base of the estimators: they check, search, and assign one frozen result last.

All results of a fit are in one `FittedModel`, which `fit` and `partial_fit` replace by a single
assignment: an error or an interrupt before it leaves the estimator as it was.
"""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.sklearn import Columns, Fitted
from coupledgp.gp import container
from coupledgp.gp.protocol import (
    Arrays,
    Data,
    GaussianProcess,
    Header,
    Points,
    Problem,
    Want,
)
from coupledgp.gp.row_digests import RowDigests
from coupledgp.gp.schema import check_integer, check_number, require_type
from coupledgp.gp.seen import Seen
from coupledgp.gp.transformed import has_data
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import Progress, reporter, silent
from coupledgp.ground.validation import check_positive_int, check_vector
from coupledgp.random import FloatArray

# Results that hold for the rows of one fit only: `partial_fit` drops them. All other results of a
# fit tell of its search, and stay; `docs/guarantees.md` lists both.
OF_ONE_FIT = ("selection_", "kl_per_point_", "spectrum_start_loss_", "spectrum_loss_")
# Types of JSON that a file may hold for a parameter, by the type of the parameter's default.
TYPES_OF_PARAMETERS: dict[type[Any], tuple[type[Any], ...]] = {
    bool: (bool,),
    int: (int, str, type(None)),
    float: (int, float, str, type(None)),
    str: (str, int, float, list, dict, type(None)),
}


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Results of a fit.

    Attributes
    ----------
    process : GaussianProcess
        Fitted process.
    ndim : int
        Number of dimensions of the y that was given, 1 or 2; predictions have the same.
    results : Mapping of str to Any
        Further fitted attributes of the estimator by name.
    seen : Seen or None
        Where a table had rows; None where these are kept, or for an old file without them.
    dropped : frozenset of str
        Names of those that held for rows other than the process has now.
    columns : Columns or None
        Columns of X; None on graphs.
    digests : RowDigests or None
        Digests of the training rows, for a model from a file without them.
    """

    process: GaussianProcess
    ndim: int
    results: Mapping[str, Any] = field(default_factory=dict)
    columns: Columns | None = None
    digests: RowDigests | None = None
    dropped: frozenset[str] = frozenset()
    seen: Seen | None = None

    @cached_property
    def extent(self) -> Seen | None:
        """Where the table had rows; None for an old file without them."""
        if self.seen is not None or not has_data(self.process):
            return self.seen
        data = self.process.data
        return Seen.of(data.points, data.targets)

    def with_process(
        self,
        process: GaussianProcess,
        digests: RowDigests | None = None,
        seen: Seen | None = None,
    ) -> FittedModel:
        """The same model with another process, without the results that hold for one fit only."""
        results = {k: v for k, v in self.results.items() if k not in OF_ONE_FIT}
        dropped = self.dropped | (self.results.keys() - results.keys())
        return replace(
            self, process=process, results=results, digests=digests, dropped=dropped, seen=seen
        )

    def shaped(self, array: FloatArray, axis: int) -> FloatArray:
        """An array (..., k, ...) without its axis of outputs, at `axis`, if y was of shape (n,)."""
        return np.moveaxis(array, axis, 0)[0] if self.ndim == 1 else array


def fitted_result(name: str, text: str) -> Any:
    """Return a property that reads a result of the last fit by its name.

    Without such a result it raises AttributeError, so that the property seems not to exist.
    """

    def read(model: ProcessRegressor) -> Any:
        record = model.fitted_
        if name in record.results:
            return record.results[name]
        if name in record.dropped:
            raise AttributeError(
                f"{type(model).__name__} has no {name!r} any more: it held for the rows of the "
                "fit, and the model was given others since"
            )
        raise AttributeError(f"{type(model).__name__} has no {name!r} in this fit")

    return property(read, doc=text)


class ProcessRegressor(Fitted[FittedModel], RegressorMixin, BaseEstimator):
    """An estimator around a fitted Gaussian process, of tables or of graphs."""

    # Whether predictions take so long that their progress is shown.
    _slow_predictions: ClassVar[bool] = False

    normalize_y: bool
    optimizer: str | None
    random_state: Any
    progress: bool | None

    n_evaluations_ = fitted_result("n_evaluations_", "Evaluations of the evidence in the search.")
    converged_ = fitted_result("converged_", "Whether the search for hyperparameters converged.")
    selection_ = fitted_result("selection_", 'Trials of `"auto"` and the reason for its choice.')
    kl_per_point_ = fitted_result("kl_per_point_", 'KL, nats per point, that `"auto"` measured.')

    @abstractmethod
    def points(self, X: Any) -> Points:
        """Return checked points as `process_` takes them: rows (p, d), or node numbers (p,)."""

    @abstractmethod
    def _further_data(self, X: Any, y: ArrayLike) -> Data:
        """Further observations, points (n, ...) and targets (n, k), checked against the fit's."""

    @property
    def process_(self) -> GaussianProcess:
        """The fitted process, which never changes: a further fit makes a new one."""
        return self.fitted_.process

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log evidence of y, in its own units, at the fitted hyperparameters."""
        return self.process_.log_evidence

    @property
    def outputscale_(self) -> float | FloatArray:
        """Fitted variance of f, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self.process_.hyperparameters.outputscale)

    @property
    def noise_(self) -> float | FloatArray:
        """Fitted noise variance, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self.process_.noise.variance)

    def _variance(self, normalized: float) -> float | FloatArray:
        value = self.process_.units.spread(normalized)
        return float(value[0]) if self.fitted_.ndim == 1 else value

    @property
    def y_train_(self) -> FloatArray:
        """Training targets, (n,) or (n, k)."""
        record = self.fitted_
        return record.shaped(record.process.data.targets, 1)

    def _predict(self, X: Any, return_std: bool, return_cov: bool, latent: bool) -> Any:
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidInputError("return_std, return_cov: expected at most one to be True")
        points, record = self.points(X), self.fitted_
        want: Want = "covariance" if return_cov else "variance" if return_std else "mean"
        with named_exhaustion("predict"), self._reporter("predict") as report:
            mean, spread = record.process.law(points, want, latent=latent, report=report)
        self._judge(points, mean)
        mean = record.shaped(mean, 1)
        if spread is None:
            return mean
        spread = record.shaped(spread, spread.ndim - 1)
        return mean, (spread if return_cov else np.sqrt(spread))

    def _sample_y(self, X: Any, n_samples: int, seed: int, latent: bool) -> FloatArray:
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        points, record = self.points(X), self.fitted_
        rng = np.random.default_rng(seed)
        with named_exhaustion("sample"), self._reporter("sample") as report:
            samples = record.process.sample(points, n_samples, rng, latent=latent, report=report)
        return record.shaped(samples, 1)

    def _log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        data = self._further_data(X, y)
        with named_exhaustion("predict"), self._reporter("predict") as report:
            return self.process_.log_density(data.points, data.targets, report=report)

    def _quantiles(self, X: Any, probabilities: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        wanted = check_probabilities(probabilities, "quantiles")
        points, record = self.points(X), self.fitted_
        with named_exhaustion("predict"), self._reporter("predict") as report:
            found = record.process.quantiles(points, wanted, report=report)
        self._judge(points)
        return record.shaped(found, 1)

    def _judge(self, points: Points, mean: FloatArray | None = None) -> None:
        """Warn of points whose law, of means (p, k), rests on no data."""

    def predict_quantiles(self, X: Any, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles of observations at each point, noise included.

        Parameters
        ----------
        X
            Inputs (p, d), or labels of p nodes.
        quantiles
            Probabilities (q,) in (0, 1).

        Returns
        -------
        FloatArray
            Shape (p, q), or (p, k, q) for targets of two dimensions. For a model of several members
            they are quantiles of the mixture, not of a Gaussian of its mean and standard deviation.

        Raises
        ------
        InvalidInputError
            A probability is not between 0 and 1, or `X` does not fit the training data.
        """
        return self._quantiles(X, quantiles)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Central interval that holds an observation with the probability `level`.

        Parameters
        ----------
        X
            Inputs (p, d), or labels of p nodes.
        level
            Probability in (0, 1).

        Returns
        -------
        (FloatArray, FloatArray)
            Lower and upper ends, (p,), or (p, k) for targets of two dimensions: the quantiles
            `(1 - level) / 2` and `(1 + level) / 2`.

        Raises
        ------
        InvalidInputError
            `level` is not between 0 and 1, or `X` does not fit the training data.
        """
        (checked,) = check_probabilities([level], "level")
        ends = self._quantiles(X, [(1 - checked) / 2, (1 + checked) / 2])
        return ends[..., 0], ends[..., 1]

    def _prior_covariance(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        record = self.fitted_
        with named_exhaustion("prior_covariance"):
            return record.shaped(record.process.prior(self.points(X)), 2)

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

    @contextmanager
    def _reporter(self, title: str) -> Iterator[Progress]:
        if not self._slow_predictions:
            yield silent
            return
        with reporter(title, self.progress) as report:
            yield report

    def exact_problem(self) -> Problem:
        """Return prior and data of the exact GP, whose twin may be too large to fit."""
        check_is_fitted(self)
        return self.process_.exact_problem()

    def save(
        self,
        path: str | PathLike[str],
        include_data: bool = False,
        row_digests: bool | Literal["inputs"] = True,
    ) -> None:
        """Write the fitted model to a file, whole or not at all; see `coupledgp.save_model`."""
        check_is_fitted(self)
        if row_digests not in (True, False, "inputs"):
            raise InvalidInputError(
                f"row_digests: expected True, False or 'inputs', got {row_digests!r:.60}"
            )
        header, arrays = self._state(include_data)
        if row_digests and "X" not in arrays:
            arrays |= self._digest_arrays(row_digests != "inputs")
        container.write(path, header, arrays)

    def _digest_arrays(self, with_targets: bool) -> Arrays:
        """Arrays of the digests of the training rows where a file holds none of these."""
        digests, process = self.fitted_.digests, self.process_
        if digests is None and has_data(process) and not has_data(process.without_data()):
            digests = digests_of(process, process.data, None, with_targets)
        if digests is not None and not with_targets:
            digests = digests.of_inputs
        return {} if digests is None else digests.arrays()

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        process = self.process_
        if include_data:
            len(process.data)  # refuses where there are none
        else:
            process = process.without_data()
        header, arrays = process.state()
        record = self.fitted_
        header |= {
            "class": type(self).__name__,
            # A file loads where there is no such device.
            "parameters": {
                k: self._plain(k, v) for k, v in self._stored_parameters().items() if k != "device"
            },
            "y_ndim": record.ndim,
        }
        return header, arrays

    def _stored_parameters(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))

    @abstractmethod
    def _plain(self, name: str, value: Any) -> Any:
        """A constructor parameter as JSON can hold it."""


def digests_of(
    process: GaussianProcess, data: Data, salt: bytes | None = None, with_targets: bool = True
) -> RowDigests:
    """Digests of data of a process."""
    targets = data.targets if with_targets else None
    return RowDigests.of(process.row_keys(data.points), targets, salt)


def check_probabilities(value: ArrayLike, name: str) -> FloatArray:
    """Return probabilities (q,) strictly between 0 and 1."""
    try:
        array = check_vector(value, name)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{name}: expected probabilities, got {value!r}") from None
    if not ((array > 0) & (array < 1)).all():
        raise InvalidInputError(
            f"{name}: expected probabilities between 0 and 1, got {array.tolist()}"
        )
    return array


def restored_parameters(kind: type[ProcessRegressor], header: Header) -> dict[str, Any]:
    """Parameters of the constructor in a header, of the types that they have.

    Raises
    ------
    ModelFileError
        A name is that of no parameter, or a value is of another type than the parameter's.
    """
    stored = require_type(header.get("parameters"), dict, "parameters")
    known = inspect.signature(kind).parameters
    for name, value in stored.items():
        if name not in known:
            raise ModelFileError(f"parameters: expected no {name[:40]!r}")
        types = TYPES_OF_PARAMETERS.get(type(known[name].default), ())
        if name == "random_state":
            types = (int, type(None))
        if types and type(value) not in types:
            raise ModelFileError(f"parameters.{name}: expected another type, got {value!r:.40}")
    return stored


def restored_results(header: Header, name: str, known: Iterable[str]) -> dict[str, Any]:
    """Results of a fit among the values of a header: numbers, or whether something is so."""
    stored = require_type(header.get(name), dict, name)
    found = {key: stored[key] for key in known if key in stored}
    for key, value in found.items():
        if value is not None and type(value) is not bool:
            check_number(value, f"{name}.{key}")
    return found


def restored_ndim(header: Header, process: GaussianProcess) -> int:
    """Number of dimensions of y in a header: one for a single output, or two."""
    ndim = check_integer(header.get("y_ndim"), "y_ndim", 1, 2)
    if ndim == 1 and process.units.n_outputs != 1:
        raise ModelFileError(f"y_ndim: expected 2 for {process.units.n_outputs} outputs, got 1")
    return ndim


def plain_seed(random_state: Any) -> int | None:
    """A random state as a file holds it: an int, or None for any other kind of random state."""
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    return int(random_state) if is_seed else None
