"""One class of a sum over a table runs in one process, batch by batch, and on workers."""

import dask.dataframe as dd
import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.core.passes import BatchSource
from coupledgp.dask.cluster import Cluster
from coupledgp.dask.passes import DaskPasses, partitions_of
from coupledgp.tables.batch_passes import BatchPasses
from coupledgp.tables.table_passes import MomentsPass, Pass

TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=["a", "b", "y"])


class Products(Pass):
    """`X' y` and the number of rows, a sum of a user's own."""

    name = "products"

    def start(self):
        return np.zeros(2), 0

    def add(self, found, data):
        return found[0] + data.points.T @ data.targets[:, 0], found[1] + len(data)

    @staticmethod
    def merge(one, other):
        return one[0] + other[0], one[1] + other[1]


def test_a_sum_of_ones_own_runs_everywhere(client):
    model = cgp.SparseSpectrumGPRegressor()
    X, y = TABLE[["a", "b"]].to_numpy(), TABLE["y"].to_numpy()
    batches = [(X[k : k + 70], y[k : k + 70]) for k in range(0, 500, 70)]
    rows = dd.from_pandas(TABLE, npartitions=4)
    passes = {
        "batches": BatchPasses(model, BatchSource(batches), "raise"),
        "workers": DaskPasses(model, partitions_of(Cluster(client), rows, "y"), "raise"),
    }
    for name, own in passes.items():
        products, count = own.total(Products())
        np.testing.assert_allclose(products, X.T @ y, rtol=1e-12, err_msg=name)
        assert count == 500
        moments = own.total(MomentsPass())
        np.testing.assert_allclose(moments.variance, X.var(axis=0), rtol=1e-12, err_msg=name)
        assert moments.n_rows == own.summary.n_rows == 500
