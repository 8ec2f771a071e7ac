"""Series of graph kernels on a device have the products of the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.graphs import Graph
from coupledgp.ground.devices import parse_device
from coupledgp.kernels import SeriesOperator
from tests.pretend_device import DEVICE, pretend_device

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
RNG = np.random.default_rng(0)
EDGES = RNG.integers(0, 30, (2, 90))
GRAPH = Graph.from_edges(
    *EDGES[:, EDGES[0] != EDGES[1]], RNG.uniform(0.5, 2.0, 90)[: (EDGES[0] != EDGES[1]).sum()]
)
V = RNG.normal(size=(GRAPH.n_nodes, 3))


@pytest.fixture(params=["pretend", pytest.param("cuda", marks=NO_CUDA)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    pretend = request.param == "pretend"
    with pretend_device() if pretend else nullcontext():
        yield DEVICE if pretend else parse_device("cuda")


@pytest.mark.parametrize("rate", [0.0, 1e-9, 3.0], ids=["degree 0", "degree 1", "long"])
def test_products_are_those_of_the_cpu(rate: float, device: torch.device) -> None:
    here, there = (SeriesOperator(GRAPH, lambda x: np.exp(rate * x), 1e-10, device=where)
                   for where in (None, device))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(there @ V, here @ V, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(there @ V[:, 0], here @ V[:, 0], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(there.T @ V, here @ V, rtol=1e-11, atol=1e-12)


def test_columns_leave_once_for_each_product() -> None:
    with pretend_device() as device:
        operator = SeriesOperator(GRAPH, lambda x: np.exp(3 * x), device="cuda")
        assert operator.degree > 10
        operator @ V
        assert device.left == [V.shape]


def test_what_is_not_there_or_too_small_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"^device: .*cuda:99"):
        SeriesOperator(GRAPH, np.exp, device="cuda:99")
    with pretend_device(free=1e3), pytest.raises(MemoryLimitError, match=r"^graph: .*cuda:7"):
        SeriesOperator(GRAPH, np.exp, device="auto")
