"""Local models on a cluster: near rows in cells with halos, predictions from near rows alone."""

from functools import reduce
from typing import ClassVar

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import torch

import coupledgp as cgp
from coupledgp.dask import front, local
from coupledgp.dask.cells import CellTable, DaskCells
from coupledgp.dask.cluster import Cluster
from coupledgp.dask.neighbours import RankedRows
from coupledgp.errors import CoupledGPError, InvalidInputError

N = 1500


@pytest.fixture(autouse=True)
def _rows_stay_there(monkeypatch):
    monkeypatch.setattr(local, "KEPT_ROWS", 100)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    table["y"] = np.sin(3 * table["a"]) + np.abs(table["b"]) + 0.1 * rng.normal(size=N)
    return table


def model(**settings):
    settings = {"kernel": "matern-3/2", "n_frequencies": 4, "n_neighbors": 8} | settings
    return cgp.LocalGPRegressor(**settings, random_state=0)


@pytest.fixture(scope="module")
def one(table):
    return model().fit(table[["a", "b"]], table["y"])


class Here(Cluster):
    """Tasks are computed at once, by this process."""

    def __init__(self):
        pass

    addresses: ClassVar[list[str]] = []

    def submit(self, function, *arguments, home=None):
        return function(*arguments)

    def merged(self, parts, merge):
        return reduce(merge, parts)

    def result(self, future):
        return future


@pytest.mark.parametrize(("dim", "n_rows", "n_parts"), [(1, 1500, 5), (3, 1200, 7), (2, 90, 4)])
def test_sums_over_cells_are_those_of_one_machine(dim, n_rows, n_parts):
    rng = np.random.default_rng(dim)
    X = rng.normal(size=(n_rows, dim)) ** 3  # some rows far from all others
    fitted = model().fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n_rows)).process_
    whole = fitted.table
    parts = [
        RankedRows.of(ranks, whole.inputs[ranks], whole.columns[ranks])
        for ranks in np.array_split(rng.permutation(n_rows), n_parts)
    ]
    scale = fitted.local_prior.local_lengthscale
    cells = CellTable.of(Here(), parts, scale, 8)
    assert sum(len(cell.ranks) for cell in cells.cells) == n_rows
    found = cells.sums(fitted.local_prior)
    for mine, its in zip(fitted.sums, found, strict=True):
        np.testing.assert_allclose(its, mine, rtol=1e-9, atol=1e-9)


def test_cells_hold_each_row_once_and_equal_rows_together():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(500, 2))
    numbers = DaskCells.of(rows, 7).numbers(rows)
    assert (np.bincount(numbers, minlength=7) > 50).all()
    equal = np.zeros((20, 2))
    assert np.unique(DaskCells.of(equal, 4).numbers(equal)).size == 1


def test_a_fit_and_its_predictions(client, table, one):
    rows = dd.from_pandas(table, npartitions=3)
    many = cgp.dask.fit(model(), rows, "y", client=client)
    points = table[["a", "b"]][:30] + 0.01
    for its, mine in zip(
        many.predict(points, return_cov=True), one.predict(points, return_cov=True), strict=True
    ):
        np.testing.assert_allclose(its, mine, rtol=1e-5, atol=1e-5)
    assert many.n_evaluations_ == one.n_evaluations_
    assert many.log_marginal_likelihood_value_ == pytest.approx(one.log_marginal_likelihood_value_)
    assert many.sample_y(points, 2).shape == (30, 2)
    np.testing.assert_allclose(
        many.prior_covariance(points), one.prior_covariance(points), rtol=1e-2
    )
    lazy = cgp.dask.predict(many, rows[["a", "b"]], return_std=True)
    expected = one.predict(table[["a", "b"]], return_std=True)
    for its, mine in zip(dask.compute(*lazy), expected, strict=True):
        pd.testing.assert_index_equal(its.index, table.index)
        np.testing.assert_allclose(its, mine, rtol=1e-5, atol=1e-5)
    for needs_rows in (many.exact_twin, lambda: many.save("model"), lambda: many.X_train_):
        with pytest.raises(CoupledGPError, match=r"would need all 1500 rows on this machine"):
            needs_rows()
    again = many.conditioned_on(table[["a", "b"]], table["y"])
    np.testing.assert_allclose(again.predict(points), one.predict(points), rtol=1e-5, atol=1e-5)


def test_a_killed_worker_changes_nothing(client, killing, table, one, monkeypatch):
    X, y = (da.from_array(table[c].to_numpy(), chunks=900) for c in (["a", "b"], "y"))
    cluster = killing(60)
    monkeypatch.setattr(front, "Cluster", lambda _: cluster)
    hurt = cgp.dask.fit(model(), X, y, client=client)
    assert cluster.n_tasks > 60
    points = table[["a", "b"]][:20]
    np.testing.assert_allclose(hurt.predict(points.to_numpy()), one.predict(points), atol=1e-5)


def test_features_alone_and_what_is_refused(client, table, monkeypatch):
    X, y = (da.from_array(table[c].to_numpy(), chunks=900) for c in (["a", "b"], "y"))
    points = table[["a", "b"]].to_numpy()
    own = model(kernel=None)
    cgp.dask.fit(own, X, y, client=client)
    one = model(kernel=None).fit(points, table["y"])
    np.testing.assert_allclose(own.predict(points[:9]), one.predict(points[:9]), atol=1e-5)
    np.testing.assert_allclose(cgp.dask.predict(own, X).compute(), one.predict(points), atol=1e-5)
    before = own.process_
    with pytest.raises(InvalidInputError, match="sample_weight: expected None for a local model"):
        cgp.dask.fit(own, X, y, sample_weight=y**2, client=client)
    monkeypatch.setattr(front, "parse_device", lambda device: torch.device("cuda"))
    with pytest.raises(InvalidInputError, match="device: expected None on a cluster"):
        cgp.dask.fit(model(), X, y, client=client)
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="target_transform: expected None"):
        cgp.dask.fit(own.set_params(target_transform="log"), X, y, client=client)
    assert own.process_ is before
