"""Gradients and drawn functions of models of tables.

What a fit means for a reader: its error, the columns that it hangs on, and identifiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.drawn_functions import DrawnFunctions
from coupledgp.core.process import GaussianProcess
from coupledgp.core.stored import FittedModel
from coupledgp.core.wrapped import has_data
from coupledgp.errors import PrecisionWarning
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.validation import check_positive_int
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray, draw_seed
from coupledgp.tables.codes import CategoryCode, NumberCode
from coupledgp.tables.column_moves import ColumnMoves
from coupledgp.tables.samplers import Columns, FittedToTable

# Relative error of the deviations of drawn functions from which a warning is given.
LARGEST_ERROR = 0.1


class ModelFunctions:
    """Functions drawn from the posterior of a model, each the same at every call.

    Attributes
    ----------
    functions : DrawnFunctions
        The functions of encoded rows.
    """

    def __init__(self, model: Any, functions: DrawnFunctions) -> None:
        self._model, self.functions = model, functions

    @property
    def deviation_error(self) -> float:
        """Error of the functions' deviations; see `DrawnFunctions`. Zero where they are exact."""
        return self.functions.deviation_error

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Values (p, n), or (p, k, n) for targets of two dimensions, at rows X (p, d)."""
        with named_exhaustion("sample"):
            values = self.functions(self._model.points(X))
        found: FloatArray = self._model.fitted_.shaped(values, 1)
        return found


class Explained(FittedToTable[FittedModel]):
    """Gradients and drawn functions of models of tables."""

    def predict_gradient(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Gradient of the mean with respect to the columns of X, and deviations of f's derivatives.

        Exact models of one stationary kernel have closed forms; others take central differences
        in double precision, whose error `coupledgp.core.drawn_functions` states. At a row of a
        model of Matern-1/2, where the mean has a kink, the gradient is the average of both sides.

        Parameters
        ----------
        X
            Inputs (p, d).
        return_std
            Also return standard deviations of the partial derivatives of f.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Gradient (p, d), or (p, d, k) for targets of two dimensions, in units of y per unit of a
            column, and deviations of the same shape. NaN for columns that are no numbers.

        Raises
        ------
        InvalidInputError
            Deviations are asked for, and functions of the kernel have no derivatives, or the model
            is one of transformed targets.

        Examples
        --------
        >>> import numpy as np
        >>> from coupledgp import ExactGPRegressor
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> model = ExactGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
        >>> bool(abs(model.predict_gradient([[1.0]])[0, 0] - np.cos(1.0)) < 1e-2)
        True
        """
        model: Any = self
        with named_exhaustion("predict"):
            points = model.points(X)
            mean, variance = self.fitted_.process.gradient(points, return_std)
        own = self._number_columns()
        known, places = own >= 0, np.maximum(own, 0)

        def of_columns(values: FloatArray) -> FloatArray:
            chosen = np.where(known[:, None], values[:, places], np.nan)
            return self.fitted_.shaped(chosen, 2)

        if variance is None:
            return of_columns(mean)
        return of_columns(mean), np.sqrt(of_columns(variance))

    def _number_columns(self) -> IntArray:
        """Encoded column (d,) of each column of X that holds plain numbers; -1 for others."""
        encoding = self._columns.encoding
        if encoding is None:
            return np.arange(self._columns.n_features)
        widths = np.array([sum(width for _, width in code.parts) for code in encoding.codes])
        plain = [
            isinstance(code, NumberCode) and code.kind == "number" and not code.empty
            for code in encoding.codes
        ]
        return np.where(plain, np.cumsum(widths) - widths, -1)

    def sample_functions(
        self, n: int = 1, random_state: Any = 0, *, exact: bool = False
    ) -> ModelFunctions:
        """Draw functions f from the posterior as callables: the same functions at every call.

        Models of features draw their weights, which is exact. Others draw a function of the prior
        by Fourier features, and correct it by the exact equations of the rows (Matheron's rule);
        `deviation_error` states how far deviations between the rows are off. Models without a
        spectrum, and those with `exact`, condition every new call on all earlier values, at a cost
        of m^3 for m different points. A mixture draws a member for each function.

        Parameters
        ----------
        n
            Number of functions.
        random_state
            Seed.
        exact
            Use joint laws throughout, for a model of one Gaussian law.

        Returns
        -------
        ModelFunctions
            Callable of X (p, d): values (p, n), or (p, k, n), in units of y, without noise.

        Warns
        -----
        PrecisionWarning
            Deviations of the functions are off by more than a tenth.

        Raises
        ------
        InvalidInputError
            `exact` is asked of a model whose law is no single Gaussian one.

        Examples
        --------
        >>> import numpy as np
        >>> from coupledgp import ExactGPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> model = ExactGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
        >>> draw = model.sample_functions(5)
        >>> bool(np.array_equal(draw(X)[:4], draw(X[:4])))
        True
        """
        number = check_positive_int(n, "n")
        rng = np.random.default_rng(draw_seed(random_state))
        with named_exhaustion("sample"):
            process = self.fitted_.process
            draw = GaussianProcess.draw_functions if exact else type(process).draw_functions
            functions = draw(process, number, rng)
        if functions.deviation_error > LARGEST_ERROR:
            warn(
                f"sample_functions: deviations of the functions are off by "
                f"{functions.deviation_error:.0%} between the rows, since the prior's variance is "
                "much larger than the posterior's; exact=True, or sample_y at given points, have "
                "no such error",
                PrecisionWarning,
            )
        return ModelFunctions(self, functions)


# Fewest levels, and most rows of each on average, from which a category looks like an identifier.
LEAST_LEVELS, MOST_ROWS = 50, 20


def column_sentence(process: GaussianProcess, columns: Columns) -> str:
    """Say which columns predictions hang on: how far values of other rows move them."""
    if not has_data(process) or columns.n_features < 2:
        return ""
    return ColumnMoves.of(process, columns).text()


def identifier_sentences(columns: Columns, n_rows: int) -> Iterator[str]:
    """Say which columns look like identifiers, which tell nothing of rows with new ones."""
    for place, code in enumerate(() if columns.encoding is None else columns.encoding.codes):
        n_levels = code.n_levels if isinstance(code, CategoryCode) else 0
        if isinstance(code, CategoryCode) and code.of_dates:
            yield (
                f"{columns.name(place)} holds dates as text, taken as a category: "
                "pandas.to_datetime makes dates of it."
            )
        elif n_levels >= LEAST_LEVELS and n_rows <= MOST_ROWS * n_levels:
            yield (
                f"{columns.name(place)} has {n_levels} levels on {n_rows} rows, as identifiers "
                "have: drop it, or group by it, cross_validate(gp, groups=...)."
            )
