"""Fits of tables on a cluster by sums over its partitions."""

from __future__ import annotations

from coupledgp.dask.partitions import Partitions
from coupledgp.dask.passes import DaskPasses
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter
from coupledgp.models.batch_fits import FitInBatches


def fit_table(model: FitInBatches, partitions: Partitions) -> None:
    """Fit a model to all rows of partitions; the model's fit is replaced by one assignment.

    Raises
    ------
    InvalidInputError
        A parameter needs all rows on one machine, or the data are invalid.
    """
    if model.keep_rows:
        raise InvalidInputError(
            "keep_rows: expected None or False on a cluster, where rows stay in their partitions, "
            f"got {model.keep_rows!r}"
        )
    model.check_parameters()
    model.check_passes()
    with reporter("fit", model.progress) as report:
        passes = DaskPasses(model, partitions, model.missing, report)
        process, results = model.fit_passes(passes, report)
    model._warn_if_stopped(results)
    model.holding(passes.fitted(process, results))
