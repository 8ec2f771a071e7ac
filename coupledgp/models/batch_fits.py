"""Fits to tables of any number of rows, in passes over batches of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from typing import Any, Self

from numpy.typing import ArrayLike

from coupledgp.batches import BatchSource
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.table_passes import TablePasses
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import Progress, reporter
from coupledgp.inference.nodes.forecast import seconds_of
from coupledgp.models.batch_passes import BatchPasses
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel, fitted_result
from coupledgp.models.spectrum_options import check_keeping
from coupledgp.models.tables import TableRegressor
from coupledgp.selection.protocol import with_parameters


@estimator
class FitInBatches(TableRegressor):
    """Part of an estimator whose fit needs sums over the rows, and not the rows themselves.

    Parameters
    ----------
    keep_rows
        Whether the model holds the training rows, which the exact twin, left-out laws, further
        draws of the frequencies and `X_train_` need. None: `fit` and its `partial_fit` keep them,
        `fit_batches` does not. Without them memory does not grow with the rows of `partial_fit`.
    """

    _: KW_ONLY
    keep_rows: bool | None = None

    forecast_ = fitted_result("forecast_", "Forecast of a fit in passes, seconds of one core.")

    def check_parameters(self) -> None:
        super().check_parameters()
        check_keeping(self.keep_rows)

    @abstractmethod
    def check_passes(self) -> None:
        """Refuse parameters for which all rows have to be in memory.

        Raises
        ------
        InvalidInputError
            A parameter has a value that a fit in passes does not take.
        """

    @abstractmethod
    def fit_passes(
        self, passes: TablePasses, report: Progress, budget: float | None = None
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit to a table in passes; return the process, without rows, and further results.

        Parameters
        ----------
        passes
            The table.
        report
            Called with a line of progress.
        budget
            Most seconds that the fit may take by its forecast; None for any number.

        Raises
        ------
        InvalidInputError
            A parameter is invalid, or the forecast is above the budget.
        """

    def _fit(self, X: ArrayLike, y: ArrayLike, *weights: Any, **further: Any) -> FittedModel:
        if self.keep_rows is not False:
            return super()._fit(X, y, *weights, **further)
        keeping = with_parameters(self, keep_rows=True)
        record: FittedModel = keeping.fit(X, y, *weights, **further).fitted_
        return replace(record, process=record.process.without_data(), seen=record.extent)

    def fit_batches(self, batches: Any, *, budget: float | str | None = None) -> Self:
        """Fit to a table of any number of rows, in passes over batches of it.

        The result is that of `fit` to all rows, to rounding, whatever the size of the batches. With
        features lengthscales come from random rows of the whole table, on a ladder that ends where
        more rows do not pay; variances and posterior come from all rows. On a lattice all
        hyperparameters come from sums over all rows, a pass for each lattice. Memory is that of a
        batch, of some random rows (128 MiB at most, unless 65536 rows take more) and of what the
        fit needs whatever the number of rows. The rows are not kept unless `keep_rows` is True.

        Parameters
        ----------
        batches
            A function that returns an iterable of tuples `(X, y)` or `(X, y, sample_weight)` with
            X (b, d), y (b,) or (b, k), or an iterable of them that can be started again, such as a
            list. Every pass has to give the same rows in the same order.
        budget
            Most seconds of one core, or a text such as `"5min"`, that the fit may take by its
            forecast, which is made from the speed of the first pass and of products on this machine
            (`forecast_`); None for any number.

        Raises
        ------
        InvalidInputError
            A batch holds what `fit` refuses or does not fit the other batches, whose number the
            message gives; the passes differ; an iterable ends after one pass; or a parameter needs
            all rows in memory: fitted frequencies, averaged hyperparameters, `"auto"` and
            transforms of the targets; or the forecast is above the budget.
        MemoryLimitError
            Matrices of the features' order do not fit into memory.
        """
        self.check_parameters()
        self.check_passes()
        if budget is not None:
            budget = seconds_of(budget)
        source = BatchSource(batches)
        with named_exhaustion("fit_batches"), reporter("fit", self.progress) as report:
            passes = BatchPasses(self, source, self.missing, report)
            process, results = self.fit_passes(passes, report, budget)
            if self.keep_rows:
                kept: Any = process
                process = replace(kept, rows=passes.all_rows())
        self._warn_if_stopped(results)
        return self.holding(passes.fitted(process, results))
