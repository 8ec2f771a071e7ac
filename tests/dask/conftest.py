"""One cluster of two processes for the tests of this folder: to start one takes a second.

Tests that kill a worker have clusters of their own, since a worker need not come back.
"""

import os
import signal
from contextlib import contextmanager
from functools import partial

import pytest

from coupledgp.dask.cluster import Cluster
from tests.new_process import LIBRARIES


@contextmanager
def two_workers():
    """A client of a new cluster, whose workers are forked with libraries in place."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    options["preload"] = ["tests.dask.one_thread"]
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        libraries = [*LIBRARIES, "distributed", "dask.array", "dask.dataframe"]
        distributed.utils.get_mp_context().set_forkserver_preload(libraries)
        with (
            distributed.LocalCluster(n_workers=2, **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="package")  # its event loops would run beside all later tests
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def bytes_sent(client):
    """Function that says how many bytes the workers have sent so far."""

    def read():
        sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return sum(sent.values())

    return read


class Killing(Cluster):
    """A cluster one of whose workers is killed when it is given the task of a number."""

    def __init__(self, client, at):
        super().__init__(client)
        self.at, self.n_tasks = at, 0

    def submit(self, function, *arguments, **options):
        future = super().submit(function, *arguments, **options)
        self._count(1)
        return future

    def compute(self, tasks, home=None):
        futures = super().compute(tasks, home)
        self._count(len(tasks))
        return futures

    def _count(self, more):
        before, self.n_tasks = self.n_tasks, self.n_tasks + more
        if before < self.at <= self.n_tasks:
            # The one that holds most results, whose loss costs most.
            held = self.client.run(lambda dask_worker: (len(dask_worker.data), os.getpid()))
            os.kill(max(held.values())[1], signal.SIGKILL)


@pytest.fixture
def killing():
    """Function of the number of a task at which a worker is killed, that makes the cluster."""
    with two_workers() as client:
        yield partial(Killing, client)
