"""The classifier of tables that chooses its own kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.expressions import Kernel
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import check_number
from coupledgp.gp.units import Units
from coupledgp.ground.validation import check_positive_int
from coupledgp.inference.nodes.forecast import seconds_of
from coupledgp.likelihoods.bernoulli import Bernoulli
from coupledgp.models.classes import (
    ProcessClassifier,
    learn_classes,
    logits_of_shares,
    restored_class_weight,
    restored_classes,
)
from coupledgp.models.grids import ClassesOnGrids
from coupledgp.models.latent_tables import LatentTable, explained_table, fit_latent_table
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel, fitted_result
from coupledgp.models.table_estimator import TableEstimator
from coupledgp.models.table_rows import further_rows_with_targets, learn_rows
from coupledgp.selection.class_power import left_out_power
from coupledgp.selection.latent_kernels import KernelChoice


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
    inference
        Rule of the sites: `"variational"` or `"laplace"` (docs/likelihoods.md).

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
    inference: str = "variational"

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
        budget = seconds_of(self.budget)
        n_frequencies = check_positive_int(self.n_frequencies, "n_frequencies")
        classes, codes = learn_classes(y)
        points, _, columns = learn_rows(self, X, codes.astype(np.float64), self.missing)
        data = self._observed(points, y, codes, len(classes), sample_weight)
        units = Units(logits_of_shares(data.targets, data.counts), np.ones(data.targets.shape[1]))
        process, results = fit_latent_table(
            self,
            data,
            columns,
            LatentTable(Bernoulli(), units, n_frequencies, budget, self.inference),
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

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        results = self.fitted_.results
        own = {"choice": asdict(results["choice_"]), "forecast": results["forecast_"]}
        return {**header, **own}, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file."""
        model = super().from_state(header, arrays)
        model.class_weight = restored_class_weight(model.class_weight)
        record = model.fitted_
        results = {
            **record.results,
            "classes_": restored_classes(header, record.process.units.n_outputs),
            "power_": check_number(header.get("power", 1.0), "power", low=0.0),
            "choice_": KernelChoice.from_state(header.get("choice")),
            "forecast_": check_number(header.get("forecast"), "forecast", low=0.0),
        }
        return model.holding(replace(record, results=results))
