"""A kernel as somebody states it, and training and test rows as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data, Points, Problem
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude, check_positive, real_array, wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum, parse_spectrum
from coupledgp.tables.arrow import arrow_columns, special_columns
from coupledgp.tables.dense_prior import DensePrior, DenseProblem
from coupledgp.tables.encoding import TableEncoding
from coupledgp.tables.exact_process import ExactGP, StationaryPrior

# Covariances (n, p) of f between rows (n, d) and (p, d).
KernelFunction = Callable[[FloatArray, FloatArray], FloatArray]
Inputs = Callable[[FloatArray], FloatArray]


def as_given(rows: FloatArray) -> FloatArray:
    """Rows (n, d) as they are."""
    return rows


@dataclass(frozen=True)
class NoiseOnly:
    """Hyperparameters of a kernel that is a function: the noise variance, in units of y squared."""

    noise: float
    outputscale: float = 1.0


@dataclass(frozen=True, eq=False)
class FunctionPrior(DensePrior):
    """A prior whose covariances a function computes, for dense algebra only."""

    function: KernelFunction
    hyperparameters: NoiseOnly

    def covariance(self, a: Points, b: Points) -> FloatArray:
        found = np.asarray(self.function(a, b), dtype=np.float64)
        if found.shape != (len(a), len(b)) or not np.isfinite(found).all():
            raise wrong("kernel", f"finite covariances of shape {(len(a), len(b))}", found.shape)
        return found

    def variance(self, points: Points) -> FloatArray:
        return np.concatenate([np.diagonal(self.covariance(x, x)) for x in points[:, None]])

    def problem(self, data: Data, units: Units) -> DenseProblem:
        """Refuse: iterative solves compute their products from a stationary kernel."""
        raise InvalidInputError(
            "method: iterative solves need a stationary kernel by its name, got a function; use "
            "method='dense'"
        )


@dataclass(frozen=True, eq=False)
class StatedKernel:
    """A prior of tables in units of y.

    Attributes
    ----------
    prior : DensePrior
        Kernel and noise variance, in units of y squared.
    mean : float
        Constant mean of y.
    text : str
        The kernel in words.
    inputs : callable
        Maps rows (n, d) to those that the kernel takes.
    """

    prior: DensePrior
    mean: float
    text: str
    inputs: Inputs = as_given

    @classmethod
    def stationary(
        cls, kernel: str | Spectrum, lengthscale: ArrayLike, outputscale: float, noise: float,
        mean: float, n_columns: int, inputs: Inputs = as_given,
    ) -> StatedKernel:  # fmt: skip
        """`v kappa(|x - x'| / l)` with lengthscales l, one or (d,); variances in units of y."""
        spectrum = parse_spectrum(kernel, "kernel")
        scales = real_array(lengthscale, "lengthscale").reshape(-1)
        if scales.size not in (1, n_columns) or not (np.isfinite(scales) & (scales > 0)).all():
            raise wrong("lengthscale", f"one positive number, or {n_columns}", lengthscale)
        hyperparameters = Hyperparameters(
            np.broadcast_to(scales, n_columns).copy(),
            check_positive(outputscale, "outputscale"),
            check_positive(noise, "noise"),
        )
        lengths = np.array2string(scales, precision=4, separator=", ")
        text = (
            f"{kernel}, lengthscale={lengths}, outputscale={outputscale:.4g}, noise={noise:.4g}, "
            f"mean={mean:.4g}"
        )
        return cls(StationaryPrior(spectrum, hyperparameters), mean, text, inputs)

    @classmethod
    def function(
        cls, kernel: KernelFunction, noise: float, mean: float, text: str,
        inputs: Inputs = as_given,
    ) -> StatedKernel:  # fmt: skip
        """Covariances that a function computes, and a noise variance in units of y squared."""
        prior = FunctionPrior(kernel, NoiseOnly(check_positive(noise, "noise")))
        return cls(prior, mean, f"{text}, noise={noise:.4g}, mean={mean:.4g}", inputs)

    @classmethod
    def of(
        cls, kernel: Any, X: FloatArray, y: FloatArray, lengthscale: ArrayLike | None,
        outputscale: float | None, noise: float | None, mean: float | None,
    ) -> StatedKernel:  # fmt: skip
        """The kernel that arguments of `audit` state, of training rows (n, d) and targets (n,).

        Raises
        ------
        InvalidInputError
            A hyperparameter is missing or no number.
        """
        center = float(y.mean()) if mean is None else float(mean)
        if not np.isfinite(center):
            raise InvalidInputError(f"mean: expected a finite number, got {center}")
        is_function = callable(kernel) and not isinstance(kernel, Spectrum)
        given = {"lengthscale": lengthscale, "outputscale": outputscale, "noise": noise}
        needed = ["noise"] if is_function else list(given)
        if missing := [name for name in needed if given[name] is None]:
            raise InvalidInputError(
                f"{', '.join(missing)}: expected beside kernel={kernel!r}; or give a fitted model "
                "of this package as the kernel, such as ExactGPRegressor().fit(X, y)"
            )
        assert noise is not None
        if is_function:
            name = getattr(kernel, "__name__", type(kernel).__name__)
            return cls.function(kernel, noise, center, name)
        assert lengthscale is not None
        assert outputscale is not None
        return cls.stationary(kernel, lengthscale, outputscale, noise, center, X.shape[1])

    @property
    def noise(self) -> float:
        """Noise variance, in units of y squared."""
        return self.prior.noise

    @property
    def units(self) -> Units:
        """Units of y, which are those of the prior."""
        return Units(np.array([self.mean]), np.ones(1))

    def data(self, X: FloatArray, y: FloatArray) -> Data:
        """Training rows (n, d) and targets (n,) as the prior takes them."""
        return Data.of(np.ascontiguousarray(self.inputs(X)), y[:, None])

    def in_its_metric(self, X: FloatArray) -> FloatArray | None:
        """Rows (n, d) in units of the lengthscales; None for a kernel that is a function."""
        if not isinstance(self.prior, StationaryPrior):
            return None
        inputs = self.inputs(X)
        return in_lengthscales(inputs, self.prior.hyperparameters.lengthscale, inputs)

    def problem(self, X: FloatArray, y: FloatArray) -> Problem:
        """The exact process of training rows as equations to solve."""
        return self.prior.problem(self.data(X, y), self.units)

    def process(self, X: FloatArray, y: FloatArray) -> ExactGP:
        """The exact process of training rows, by dense algebra."""
        return ExactGP.given(self.prior, self.data(X, y), self.units, False)


class Rows(NamedTuple):
    """Rows (n, d) as numbers and as they were given, names of the columns, codes of categories."""

    X: FloatArray
    given: Any
    names: tuple[str, ...] = ()
    categories: tuple[IntArray, ...] = ()

    @classmethod
    def of(cls, X: Any, name: str, given: Any = None, names: Sequence[str] = ()) -> Rows:
        """Rows whose numbers are checked; arrays, data frames and tensors of the CPU.

        Raises
        ------
        InvalidInputError
            They are no finite numbers (n, d).
        """
        try:
            rows = real_array(X, name)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name}: expected numbers, {error}") from None
        if rows.ndim != 2 or not len(rows):
            raise wrong(name, "shape (n, d)", rows.shape)
        if not np.isfinite(rows).all():
            raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
        check_magnitude(rows, name)
        named = names or tuple(str(one) for one in getattr(X, "columns", ()))
        return cls(rows, X if given is None else given, tuple(named))


def both_rows(X_train: Any, X_test: Any) -> tuple[Rows, Rows]:
    """Training and test rows; categories, dates and missing values are encoded as for a fit.

    Raises
    ------
    InvalidInputError
        The columns of both differ, or see `Rows.of`.
    """
    if _is_plain(X_train) and _is_plain(X_test):
        train, test = Rows.of(X_train, "X_train"), Rows.of(X_test, "X_test")
    else:
        train, test = _encoded(X_train, X_test)
    if test.X.shape[1] != train.X.shape[1]:
        raise wrong("X_test", f"{train.X.shape[1]} columns", test.X.shape[1])
    return train, test


def _is_plain(X: Any) -> bool:
    """Whether rows are an array, or a table of numbers without missing ones."""
    if not hasattr(X, "columns"):
        return True
    return special_columns(X) is None and bool(np.isfinite(np.asarray(X, dtype=float)).all())


def _encoded(X_train: Any, X_test: Any) -> tuple[Rows, Rows]:
    """Rows of tables by the codes of the training columns, found by name."""
    learned, columns = arrow_columns(X_train), dict(arrow_columns(X_test))
    names = [str(name) for name, _ in learned]
    if missing := [name for name in names if name not in columns]:
        raise InvalidInputError(f"X_test: expected columns {', '.join(map(repr, missing))}")
    special = [column for _, column in learned]
    encoding = TableEncoding.learn(special, names, "indicator")
    encoded = encoding.encode([columns[name] for name in names])
    train = Rows.of(encoding.encode(special), "X_train", X_train, encoding.column_names)
    test = Rows.of(encoded, "X_test", X_test, encoding.column_names)
    kinds = encoding.categories
    return train._replace(categories=kinds), test._replace(categories=kinds)


def checked_column(y: Any, n_rows: int, name: str) -> FloatArray:
    """Finite targets (n,).

    Raises
    ------
    InvalidInputError
        They are no numbers, of several outputs, or not one a row.
    """
    try:
        found = real_array(y, name)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}: expected numbers, {error}; chances of classes are a mapping with 'chances' "
            "and 'classes'"
        ) from None
    if found.ndim == 2 and len(found) == n_rows and found.shape[1] > 1:
        raise InvalidInputError(
            f"{name}: expected one output, got {found.shape[1]}; audit the law of each output by "
            "itself"
        )
    found = found.reshape(-1) if found.shape == (n_rows, 1) else found
    if found.shape != (n_rows,):
        raise wrong(name, f"shape ({n_rows},)", found.shape)
    if not np.isfinite(found).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    check_magnitude(found, name)
    return found
