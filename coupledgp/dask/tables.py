"""Fits of tables on a cluster: features and their products."""

from __future__ import annotations

from coupledgp.dask.partitions import Partitions
from coupledgp.dask.passes import DaskPasses
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter
from coupledgp.models.out_of_core import check_options, fit_passes
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor


def fit_table(model: SparseSpectrumGPRegressor, partitions: Partitions) -> None:
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
    check_options(model)
    with reporter("fit", model.progress) as report:
        passes = DaskPasses(model, partitions, model.missing, report)
        process, results = fit_passes(model, passes, report)
    model._warn_if_stopped(results)
    model.holding(passes.fitted(process, results))
