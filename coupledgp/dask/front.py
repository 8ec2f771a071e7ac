"""Fits on a cluster, for the estimators that there are."""

from __future__ import annotations

from typing import Any, TypeVar

from coupledgp.dask.cluster import Cluster
from coupledgp.dask.nodes import fit_nodes
from coupledgp.errors import InvalidInputError
from coupledgp.memory import named_exhaustion
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.node_estimator import NodeRegressor

Model = TypeVar("Model", bound=ProcessRegressor)


def fit(model: Model, X: Any, y: Any, *, client: Any = None) -> Model:
    """Fit a model on the workers of a Dask cluster; the result is that of one machine.

    Parameters
    ----------
    model
        A `GraphGPRegressor` or `ExactGraphGPRegressor`: walks are sampled in shards of nodes on the
        workers, and products with features and with `W~` are computed there, by shards and row
        blocks; conjugate gradients run here.
    X
        Labels of n nodes.
    y
        Targets (n,) or (n, k).
    client
        A connected `distributed.Client`; None: the last one of this process.

    Returns
    -------
    ProcessRegressor
        The model, whose fit was replaced at the end by one assignment. A model of nodes asks the
        cluster for predictions too.

    Raises
    ------
    InvalidInputError
        A parameter of the model, the data or the client is invalid.
    CoupledGPError
        Workers died again and again while they computed the same task, or the scheduler was lost.
    MissingLibraryError
        Dask is not installed.
    """
    cluster = Cluster(client)
    with named_exhaustion("fit"):
        if isinstance(model, NodeRegressor):
            fit_nodes(model, X, y, cluster)
            return model
    raise InvalidInputError(
        f"model: expected a GraphGPRegressor or an ExactGraphGPRegressor, got {model!r:.80}"
    )
