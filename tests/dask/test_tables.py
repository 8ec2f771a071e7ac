"""Tables on a cluster: sums over partitions, what moves, one worker killed, lazy predictions."""

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.dask import front
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.tables import batched_evidence, out_of_core
from coupledgp.tables import lattice_regressor as lattice

N = 3000
NAMES = ["a", "b", "kind"]


@pytest.fixture(autouse=True)
def _few_rows_come_here(monkeypatch):
    monkeypatch.setattr(out_of_core, "KEPT_ROWS", 1500)
    monkeypatch.setattr(batched_evidence, "KEPT_ROWS", 1500)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    table["kind"] = rng.choice(["u", "v", "w"], N)
    table["y"] = np.sin(2 * table["a"]) + (table["kind"] == "u") + 0.1 * rng.normal(size=N)
    table["z"] = table["b"] ** 2
    table["weight"] = rng.integers(0, 3, N)
    return table


@pytest.fixture(scope="module")
def one(table):
    return model().fit(table[NAMES], table["y"])


def model(**settings):
    given = {"n_frequencies": 16, "random_state": 0, "lengthscale": 1.0, "fixed": ("lengthscale",)}
    settings = given | settings
    return cgp.SparseSpectrumGPRegressor(**folded(cgp.SparseSpectrumGPRegressor, settings))


def assert_same(many, one, points, tolerance=1e-5):
    mean, std = one.predict(points, return_std=True)
    found, spread = many.predict(points, return_std=True)
    np.testing.assert_allclose(found, mean, atol=tolerance * std.max())
    np.testing.assert_allclose(spread, std, rtol=tolerance)


@pytest.mark.filterwarnings("ignore:frequencies. expected a KL:coupledgp.errors.PrecisionWarning")
def test_frequencies_for_the_posterior_are_those_of_one_machine(client, table):
    one = model(frequencies="posterior", n_frequencies=32).fit(table[NAMES], table["y"])
    rows = dd.from_pandas(table[[*NAMES, "y"]], npartitions=3)
    many = cgp.dask.fit(model(frequencies="posterior", n_frequencies=32), rows, "y", client=client)
    assert many.drawn_.law == "posterior"
    assert_same(many, one, table[NAMES][:50], 1e-5)


@pytest.mark.parametrize("n_partitions", [1, 7])
def test_a_dataframe_in_any_number_of_partitions(client, table, one, n_partitions):
    rows = dd.from_pandas(table[[*NAMES, "y"]], npartitions=n_partitions)
    many = cgp.dask.fit(model(), rows, "y", client=client)
    assert_same(many, one, table[NAMES][:50], 1e-7)


def test_a_search_whose_last_rung_is_the_whole_table(client, table):
    settings = {"fixed": None, "max_iter": 4, "n_restarts": 0, "n_frequencies": 6}
    one = model(**settings).fit(table[["a", "b"]], table["y"])
    rows = dd.from_pandas(table[["a", "b", "y"]], npartitions=3)
    many = cgp.dask.fit(model(**settings), rows, "y", client=client)
    assert [rung.n_rows for rung in many.search_.rungs] == [1024, N]
    np.testing.assert_allclose(many.lengthscale_, one.lengthscale_, rtol=1e-3)
    assert_same(many, one, table[["a", "b"]][:50], 1e-3)  # as far as the search converges


def test_arrays_with_weights_and_two_outputs(client, table):
    X, y, w = (table[c].to_numpy() for c in (["a", "b"], ["y", "z"], "weight"))
    one = model().fit(X, y, sample_weight=w)
    parts = da.from_array(X, chunks=(700, 1)), da.from_array(y, chunks=(1300, 2))
    weights = da.from_array(w.astype(float), chunks=700)
    many = cgp.dask.fit(model(), *parts, sample_weight=weights, client=client)
    assert_same(many, one, X[:50])
    mean, std = cgp.dask.predict(many, parts[0], return_std=True)
    assert mean.chunks == (parts[0].chunks[0], (2,))
    found = dask.compute(mean, std)
    np.testing.assert_allclose(found, many.predict(X, return_std=True), rtol=1e-10, atol=1e-10)


def test_delayed_partitions_some_of_them_empty(client, table, one):
    rows = [table[:0], table[:2000], table[2000:2000], table[2000:]]
    parts = [dask.delayed(part[NAMES]) for part in rows]
    targets = [dask.delayed(part["y"]) for part in rows]
    assert_same(cgp.dask.fit(model(), parts, targets, client=client), one, table[NAMES][:50])
    pairs = [dask.delayed((part[NAMES], part["y"])) for part in rows]
    many = cgp.dask.fit(model(), pairs, client=client)
    assert_same(many, one, table[NAMES][:50])
    answers = dask.compute(*cgp.dask.predict(many, parts))
    assert [len(answer) for answer in answers] == [0, 2000, 0, N - 2000]


def test_predictions_keep_index_and_partitions(client, table, one):
    shuffled = table[NAMES].sample(frac=1, random_state=0)
    rows = dd.from_pandas(shuffled, npartitions=3, sort=False)
    mean, std = cgp.dask.predict(one, rows, return_std=True, latent=True)
    assert mean.npartitions == 3
    found, spread = dask.compute(mean, std)
    pd.testing.assert_index_equal(found.index, shuffled.index)
    expected = one.predict(shuffled, return_std=True, latent=True)
    # Products of partitions and of the whole round otherwise on some processors.
    np.testing.assert_allclose(found, expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(spread, expected[1], rtol=1e-10)
    second = mean.partitions[1].compute()
    np.testing.assert_array_equal(second, found.loc[second.index])


def test_a_killed_worker_changes_nothing(client, killing, table, monkeypatch):
    X, y = (da.from_array(table[c].to_numpy(), chunks=500) for c in (["a", "b"], "y"))
    whole = cgp.dask.fit(model(), X, y, client=client)
    cluster = killing(14)
    monkeypatch.setattr(front, "Cluster", lambda _: cluster)
    hurt = cgp.dask.fit(model(), X, y, client=client)
    assert cluster.n_tasks > 14
    points = table[["a", "b"]][:20].to_numpy()
    np.testing.assert_array_equal(hurt.predict(points), whole.predict(points))


def test_what_moves_does_not_grow_with_the_rows(client, bytes_sent):
    n_features, n_partitions, sent = 48, 8, []
    for n_rows in (6000, 24_000):
        rng = np.random.default_rng(0)
        rows = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "y"])
        held = dd.from_pandas(rows, npartitions=n_partitions).persist()
        distributed.wait(held)
        before = bytes_sent()
        cgp.dask.fit(model(n_frequencies=n_features // 2), held, "y", client=client)
        sent.append(bytes_sent() - before)
    square = 8 * n_features**2
    kept = 8 * 3 * 1500  # random rows, which come to the client
    assert max(sent) < 1.5 * n_partitions * square + 2 * kept + 50_000
    assert sent[1] < 24_000 * 3 * 8 / 2


def test_what_is_refused(client, table, one):
    own = model().fit(table[["a"]], table["y"])
    before = own.process_
    good = dd.from_pandas(table[["a", "b", "y"]], npartitions=3)
    array = da.from_array(table[["a", "b"]].to_numpy(), chunks=(1000, 2))
    y = da.from_array(table["y"].to_numpy(), chunks=1000)
    hole = table["y"].to_numpy().copy()
    hole[2500] = np.nan
    unknown = array[array[:, 0] > -9]
    others = [dask.delayed((table[["a", "b"]][:99], table["y"][:99])),
              dask.delayed((table[["a", "z"]][:99], table["y"][:99]))]  # fmt: skip
    cases = [
        ((good, "no"), "X: expected a column 'no'"),
        ((good, None), "y: expected targets, got None"),
        ((array, y[:-5]), "y: expected 3000 rows as X has, got 2995"),
        ((array, da.from_array(hole, chunks=1000)), "partition 2: .*NaN"),
        ((unknown, y[:2000]), "y: expected 3 partitions as X has, got 2"),
        ((unknown, y.rechunk(((500, 1000, 1500),))), r"partition \d: .*samples: \[1000, "),
        ((others,), "partition 1: X: expected the columns .*'b'.* got .*'z'"),
        (([dask.delayed(table[["a"]][:5])],), r"partition 0: X: expected a tuple \(X, y\)"),
        (([dask.delayed((table[["a"]][:0], table["y"][:0]))],), "X: expected rows, got empty"),
        ((table[["a"]], table["y"]), "X: expected a Dask DataFrame"),
        ((array, table["y"]), "y: expected a Dask collection in the partitions of X"),
    ]  # fmt: skip
    for arguments, text in cases:
        with pytest.raises(InvalidInputError, match=text):
            cgp.dask.fit(own, *arguments, client=client)
    for name, value in (("keep_rows", True), ("coupling", "auto"), ("frequencies", "fitted")):
        with pytest.raises(InvalidInputError, match=f"{name}: expected"):
            cgp.dask.fit(model(**{name: value}), array, y, client=client)
    with pytest.raises(InvalidInputError, match="X: expected a Dask DataFrame"):
        cgp.dask.predict(one, table[NAMES])
    assert own.process_ is before


def test_a_lattice_is_that_of_one_machine(client, monkeypatch):
    """Sums of waves are made where the rows lie, and add up."""
    monkeypatch.setattr(lattice, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr("coupledgp.tables.lattice_search.SAMPLE_ROWS", 1000)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (N, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=N)
    rows = pd.DataFrame(X, columns=["east", "north"]).assign(y=y)
    one = cgp.LatticeGPRegressor("gaussian", random_state=0).fit(rows[["east", "north"]], y)
    many = cgp.LatticeGPRegressor("gaussian", random_state=0)
    cgp.dask.fit(many, dd.from_pandas(rows, npartitions=4), "y", client=client)
    assert many.n_waves_ == one.n_waves_
    assert_same(many, one, rows[["east", "north"]].iloc[:20])
