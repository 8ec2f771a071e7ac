"""The client: which ones are taken, reductions in trees, and errors of tasks."""

import doctest
import inspect

import pytest

from coupledgp import dask
from coupledgp.dask.cluster import Cluster
from coupledgp.errors import CoupledGPError, InvalidInputError


def test_a_tree_keeps_the_order_of_its_parts(client):
    cluster = Cluster(client)
    for count in (1, 2, 5, 17):
        parts = [cluster.submit(chr, 97 + k) for k in range(count)]
        text = cluster.result(cluster.merged(parts, _followed))
        assert text == "abcdefghijklmnopq"[:count]


def _followed(a, b):
    return a + b


def test_errors_of_tasks_keep_their_type(client):
    cluster = Cluster(client)
    with pytest.raises(InvalidInputError, match="this one"):
        cluster.result(cluster.submit(_fails))


def _fails():
    raise InvalidInputError("this one")


def test_clients_that_are_refused(client):
    import distributed

    with pytest.raises(InvalidInputError, match=r"client: expected a distributed\.Client, got 3"):
        Cluster(3)
    assert Cluster().client is client
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    cluster = Cluster(other)
    future = cluster.submit(chr, 97)
    other.close()
    for refused in (lambda: Cluster(other), lambda: cluster.submit(chr, 98)):
        with pytest.raises(InvalidInputError, match=r"expected one that is connected.*closed"):
            refused()
    with pytest.raises((InvalidInputError, CoupledGPError), match="client"):
        cluster.result(future)


def test_the_example_of_a_fit_runs(client):
    text = inspect.getdoc(dask.fit)
    test = doctest.DocTestParser().get_doctest(text, {"client": client}, "fit", None, 0)
    made = [one for one in test.examples if one.source.startswith("client = ")]
    test.examples = [one for one in test.examples if one not in made]
    told = []
    result = doctest.DocTestRunner().run(test, out=told.append)
    assert (len(made), result.failed) == (1, 0), "".join(told)
