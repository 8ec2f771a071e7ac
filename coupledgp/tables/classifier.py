"""The classifier of tables that chooses its own kernel.

What classifiers answer: chances of classes, labels and log odds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import confusion_matrix
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from coupledgp.core.budget import seconds_of, within_budget
from coupledgp.core.options import estimator
from coupledgp.core.process import Data, Points
from coupledgp.core.process_estimator import ProcessEstimator
from coupledgp.core.stored import FittedModel, fitted_result
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.expressions import Kernel
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.validation import check_positive_int, plain_array, wrong
from coupledgp.likelihoods.counts import Bernoulli, class_log_chances
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.discrete_targets import left_out_power
from coupledgp.tables.estimator_base import TableEstimator
from coupledgp.tables.grids import ClassesOnGrids
from coupledgp.tables.likelihood_parameter import explained_table, fit_latent_table
from coupledgp.tables.rows import RowArguments, further_rows_with_targets, learn_rows


@estimator
class ProcessClassifier(ClassifierMixin, ProcessEstimator):
    """A classifier around a process of functions whose observations are zeros and ones.

    Two classes have one function f, and chances `p_0 = E sigmoid(-f)` and `p_1 = E sigmoid(f)`.
    K > 2 classes have one each, of the class against all others, and chances
    `p_c = E sigmoid(f_c)`. Both are averages over the posterior of a function, and

        P(class c) = p_c^a / sum_k p_k^a .

    Parameters
    ----------
    class_weight
        Weights of the classes: a dict of labels, or `"balanced"` for weights that make all classes
        count alike. They multiply `sample_weight`.

    Attributes
    ----------
    classes_
        Labels of the classes, ascending.
    power_
        The power a, chosen by labels that are left out; one where it is not chosen.
    """

    _: KW_ONLY
    class_weight: Mapping[Any, float] | str | None = None

    classes_ = fitted_result("classes_", "Labels (K,) of the classes, ascending.")

    @property
    def power_(self) -> float:
        """Power of the chances, chosen by labels that are left out; one where it is not."""
        return float(self.fitted_.results.get("power_", 1.0))

    def predict_proba(self, X: Any = None) -> FloatArray:
        """Chances (p, K) of the classes at points, in the order of `classes_`.

        Parameters
        ----------
        X
            Points, as in `fit`.

        Raises
        ------
        InvalidInputError
            `X` does not fit the training data.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any = None) -> FloatArray:
        """Logarithms (p, K) of `predict_proba`, nats."""
        zero, one = self._log_chances(X)
        return class_log_chances(zero, one, self.power_)

    def decision_function(self, X: Any = None) -> FloatArray:
        """Log odds of the second class of two (p,), or of each class against all others (p, K).

        The power of the chances multiplies them.
        """
        zero, one = self._log_chances(X)
        odds = self.power_ * (one - zero)
        return odds[:, 0] if odds.shape[1] == 1 else odds

    def _log_chances(self, X: Any) -> FloatArray:
        """Logarithms (2, p, k) of the chances of zero and of one, of each function."""
        check_is_fitted(self)
        points = self.points(X)
        with named_exhaustion("predict"), self._reporter("predict"):
            law = self.process_.marginals(points)
            found = [
                law.likelihood.marginal_log_density(np.full_like(law.mean, y), *law[1:3])
                for y in (0.0, 1.0)
            ]
        self._judge(points)
        return np.array(found)

    def predict(self, X: Any = None) -> NDArray[Any]:
        """The most probable class (p,) at each point."""
        chances = self.predict_log_proba(X)
        labels: NDArray[Any] = self.classes_[chances.argmax(axis=1)]
        return labels

    def _against(self, X: Any, y: ArrayLike) -> Any:
        names, labels = self.classes_, _labels(y)
        matrix = confusion_matrix(labels, self.predict(X), labels=names)
        from coupledgp.diagnostics.render.pictures import confusion_map  # slow

        return confusion_map(matrix, [str(name) for name in names])

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, **weights: Any
    ) -> Self:
        """Add observations, hyperparameters kept; the first call on an unfitted model is `fit`.

        An error leaves the model as it was.

        Parameters
        ----------
        X, y
            Further points and labels, which are among those of the fit.
        classes
            All labels, as other classifiers take them; the first call must have each among `y`.
        weights
            `sample_weight`, as in `fit`.

        Raises
        ------
        InvalidInputError
            A label is new, or one of `classes` is not in the first `y`.
        """
        if classes is not None:
            known = self.classes_ if self.__sklearn_is_fitted__() else np.unique(_labels(y))
            if not np.array_equal(np.unique(_labels(classes)), known):
                raise wrong("classes", f"{known.tolist()}, all of which the first y has", classes)
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, **weights)
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, **weights)
        return self._updated(data)

    def _observed(
        self, points: Points, y: ArrayLike, codes: IntArray, n_classes: int, given: Any
    ) -> Data:
        """Indicators of labels y at points, each as often as its weights say."""
        if len(codes) != len(points):
            raise wrong("y", f"{len(points)} labels", len(codes))
        weights = self._weights(y, len(points), given)
        return RowArguments(weights, None).data(points, indicators(codes, n_classes))

    def _weights(self, y: ArrayLike, n: int, given: ArrayLike | None) -> ArrayLike | None:
        """Weights (n,) of rows, those of their classes included; None where there are none."""
        if self.class_weight is None:
            return given
        try:
            weights = compute_sample_weight(self.class_weight, y)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"class_weight: {error}") from None
        own = RowArguments(given, None).data(np.zeros((n, 1)), np.zeros((n, 1))).counts
        if own is not None:
            weights = weights * np.asarray(given, dtype=np.float64)
        return np.asarray(weights)

    def _codes(self, y: Any) -> IntArray:
        """Places (n,) of labels in `classes_`; other labels are refused."""
        labels = _labels(y)
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        strange = self.classes_[places] != labels
        if strange.any():
            raise wrong(
                "y", f"labels {self.classes_.tolist()} of the fit", labels[strange].tolist()[0]
            )
        return places

    def _check_classes(self) -> None:
        """Refuse labels of a file that are not as many as the functions ask for, or in no order."""
        classes, n_outputs = self.fitted_.results["classes_"], self.process_.units.n_outputs
        expected = 2 if n_outputs == 1 else n_outputs
        if not isinstance(classes, np.ndarray) or classes.shape != (expected,):
            raise ModelFileError(f"classes: expected {expected} labels, got others")
        if len(np.unique(classes)) < expected or (np.sort(classes) != classes).any():
            raise ModelFileError("classes: expected numbers or texts in order, got others")


def learn_classes(y: Any) -> tuple[NDArray[Any], IntArray]:
    """Labels (K,) in order, and the place (n,) of each observation's label among them.

    Raises
    ------
    InvalidInputError
        There are fewer than two classes, or labels of several types.
    ValueError
        y is not one label an observation.
    """
    labels = _labels(y)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError(
            f"y: expected two classes or more, got one class: {classes.tolist()}"
        )
    return classes, codes


def indicators(codes: IntArray, n_classes: int) -> FloatArray:
    """Zeros and ones: (n, 1) of the second class of two, or (n, K) of each of several."""
    found = np.eye(n_classes)[codes]
    return found[:, 1:] if n_classes == 2 else found


def logits_of_shares(targets: FloatArray, counts: FloatArray | None) -> FloatArray:
    """Logits (k,) of the shares of indicators (n, k), one more of either kind counted."""
    shares = np.average(targets, axis=0, weights=counts)
    n = len(targets) if counts is None else counts.sum()
    return np.asarray(np.log(n * shares + 1) - np.log(n * (1 - shares) + 1))


def _labels(y: Any) -> NDArray[Any]:
    """Labels (n,) as they were given."""
    if y is None:
        raise InvalidInputError("a classifier requires y to be passed, but the target y is None")
    labels: NDArray[Any] = column_or_1d(plain_array(y, "y"), warn=True)
    kinds = sorted({type(label).__name__ for label in labels} if labels.dtype.kind == "O" else ())
    if len(kinds) > 1:
        raise InvalidInputError(f"y: expected labels of one type, got {', '.join(kinds)}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInputError("y: expected labels, got NaN or infinity")
    check_classification_targets(labels)
    return labels


@estimator
class GPClassifier(TableEstimator, ProcessClassifier, ClassesOnGrids):
    """Gaussian process classification that chooses its kernel and says why.

    A class is one where a function f of the rows is large: `P(y = 1) = sigmoid(f)`,
    `f ~ GP(b, K)`. Posteriors are normal laws by sites, exact on up to 3000 rows and by coupled
    Fourier features on more. Hyperparameters are those of greatest posterior density on at most 600
    rows. Kernels are compared by the chances of labels that are left out, on at most 1000 rows.

    Parameters
    ----------
    kernel
        An expression of kernels, or its text (docs/kernels.md). None: `"matern-3/2 + linear +
        constant"`, an additive kernel of columns and pairs, and `"laplace + constant"` are
        compared; on more rows than exact posteriors are for, `"matern-3/2"` and `"matern-5/2"`.
    budget
        Seconds of one core, or a text such as `"5min"`, that the fit may take by a forecast. Beyond
        it the first kernel alone is fitted; `fit` refuses if that is too much, too.
    n_frequencies
        Frequencies of the features of large tables.

    Attributes
    ----------
    choice_
        The kernels that were compared, with their log losses (`choice_.explain()`).
    forecast_
        Forecast of the cost in seconds, as it was before the fit.
    lengthscale_
        Lengthscales of the function of the first class, or of the second one of two.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = cgp.GPClassifier(random_state=0).fit(X, np.where(np.sin(X[:, 0]) > 0, "up", "down"))
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    """

    kernel: str | Kernel | None = None
    budget: float | str = 600.0
    n_frequencies: int = 512
    random_state: Any = None
    _: KW_ONLY
    missing: str = "indicator"

    choice_ = fitted_result("choice_", "The kernels that were compared, with their log losses.")
    forecast_ = fitted_result("forecast_", "Forecast of the cost of the fit, seconds of one core.")

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose a kernel, fit its hyperparameters, then the posterior given all rows.

        Parameters
        ----------
        X
            Inputs (n, d): numbers, categories, Booleans, dates, with missing values.
        y
            Labels (n,) of two classes or more: numbers, texts or Booleans.
        sample_weight
            Weights (n,), not negative: the log chance of a label counts so often. Rows of weight
            zero are left out.

        Raises
        ------
        InvalidInputError
            A parameter or the data are invalid, or no kernel is within the budget.
        MemoryLimitError
            Matrices do not fit into memory.
        NumericalError
            A matrix is not positive definite to working precision.
        """
        return self._assigned(lambda: self._fit(X, y, sample_weight), y, y=y)

    def _fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> FittedModel:
        n_frequencies = check_positive_int(self.n_frequencies, "n_frequencies")
        classes, codes = learn_classes(y)
        points, _, columns = learn_rows(self, X, codes.astype(np.float64), self.missing)
        data = self._observed(points, y, codes, len(classes), sample_weight)
        units = Units(logits_of_shares(data.targets, data.counts), np.ones(data.targets.shape[1]))
        with within_budget(seconds_of(self.budget)):
            process, results = fit_latent_table(
                self, data, columns, Bernoulli(), units, n_frequencies
            )
        results["classes_"] = classes
        seed = int(self._rng().integers(2**31))
        results["power_"] = left_out_power(process, seed)
        return FittedModel(process, 1 if data.targets.shape[1] == 1 else 2, results, columns)

    def _further_data(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Data:
        codes = self._codes(y)
        points, _ = further_rows_with_targets(self, X, codes.astype(np.float64), self._columns)
        return self._observed(points, y, codes, len(self.classes_), sample_weight)

    def _explained(self) -> list[str]:
        process: Any = self.process_
        classes = self.classes_[-len(process.functions) :]
        lines = explained_table(self, classes)
        if len(process.functions) > 1:
            lines.append(
                f"Chances are raised to the power {self.power_:.3g}, by labels that are left out."
            )
        return lines

    def check_restored(self) -> None:
        super().check_restored()
        self._check_classes()
