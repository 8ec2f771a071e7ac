"""Placement of sensors that report at all times, against dense space-time covariances."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.graphs import Graph
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.placement.objectives import CRITERIA
from coupledgp.inference.space_time import placement
from coupledgp.inference.space_time.placement import PlacementSpectra, stationary_placement
from coupledgp.inference.space_time.sites import sites_of
from coupledgp.kernels import GraphMaternKernel
from tests.graph_cases import weighted_graph

N_TIMES = 16


def circulant(values: np.ndarray) -> np.ndarray:
    return np.array([np.roll(values, shift) for shift in range(values.size)])


def kernels() -> tuple[np.ndarray, np.ndarray]:
    """Periodic covariances in time (n, n), whose spectra are exact: of the graph and of a node."""
    lag = np.minimum(np.arange(N_TIMES), N_TIMES - np.arange(N_TIMES))
    return 1.7 * circulant(np.exp(-lag / 3.0)), 0.3 * circulant(np.exp(-lag / 1.5))


def spectra(noise: float) -> PlacementSpectra:
    shared, own = kernels()
    both = [np.fft.rfft(k[0]).real for k in (shared, own)]
    weights = np.full(both[0].size, 2.0)
    weights[[0, -1]] = 1.0
    return PlacementSpectra(both[0], both[1] + noise, weights)


def logdet(M: np.ndarray) -> float:
    return float(np.linalg.slogdet(M)[1])


@pytest.fixture
def exact_groups(monkeypatch):
    """A group for each frequency."""
    plain = PlacementSpectra.groups
    monkeypatch.setattr(PlacementSpectra, "groups", lambda self: plain(self, 10_000))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("sensors", [[], [2, 9, 5]])
def test_gains_are_those_of_the_dense_law_of_all_cells(criterion, sensors, exact_groups):
    sites = sites_of(weighted_graph(), GraphMaternKernel(3.0, 1.5))
    noise, k = 0.2, 3
    candidates = np.setdiff1d(np.arange(14), sensors)[::2]
    interest = np.array([0, 1, 7, 13])
    found = stationary_placement(
        sites, np.array(sensors, dtype=int), k, spectra(noise), criterion, candidates, interest
    )
    K, (shared, own) = sites.gram(np.arange(14)), kernels()
    F = np.kron(K, shared)
    Y = F + np.kron(np.eye(14), own) + noise * np.eye(14 * N_TIMES)

    def cells(places):
        places = np.asarray(places, dtype=int)
        return (places[:, None] * N_TIMES + np.arange(N_TIMES)).ravel()

    def part(places):
        rows = cells(places)
        return logdet(Y[np.ix_(rows, rows)])

    def left(places):
        rows, wanted = cells(places), cells(interest)
        cross = F[np.ix_(wanted, rows)]
        explained = np.linalg.solve(Y[np.ix_(rows, rows)], cross.T)
        return float(np.trace(F[np.ix_(wanted, wanted)]) - np.einsum("ij,ji->", cross, explained))

    everything = np.union1d(candidates, interest)
    V = np.setdiff1d(everything, sensors)

    def value(A):
        A = list(A)
        if criterion == "variance":
            alone = own + noise * np.eye(N_TIMES)
            return 0.5 * (part([*sensors, *A]) - len(A) * logdet(alone)) / N_TIMES
        if criterion == "mutual-information":
            rest = [v for v in V if v not in A]
            return 0.5 * (part([*sensors, *A]) + part([*sensors, *rest])) / N_TIMES
        return -left([*sensors, *A]) / N_TIMES

    A: list[int] = []
    for site, gain in zip(found.nodes, found.gains, strict=True):
        worth = {int(c): value([*A, int(c)]) - value(A) for c in candidates if c not in A}
        assert gain == pytest.approx(worth[int(site)], abs=1e-8)
        assert gain >= max(worth.values()) - 1e-8
        A.append(int(site))
        assert found.variance[len(A)] == pytest.approx(
            left([*sensors, *A]) / N_TIMES / len(interest), abs=1e-9
        )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_groups_of_frequencies_are_as_good_as_all(criterion):
    graph = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 8)))
    sites = sites_of(graph, GraphMaternKernel(3.0, 1.5))
    w = np.pi * np.arange(257) / 256
    law = PlacementSpectra(
        1 / (1.02 - np.cos(w)), 0.05 + 0.2 / (1.5 - np.cos(w)), np.full(257, 2.0)
    )
    few = stationary_placement(sites, np.arange(0, 48, 9), 4, law, criterion)
    plain = PlacementSpectra.groups
    PlacementSpectra.groups = lambda self: plain(self, 10_000)
    try:
        every = stationary_placement(sites, np.arange(0, 48, 9), 4, law, criterion)
    finally:
        PlacementSpectra.groups = plain
    np.testing.assert_allclose(few.gains, every.gains, rtol=0.02)
    np.testing.assert_allclose(few.variance, every.variance, rtol=0.02)
    assert few.nodes[0] == every.nodes[0]


def test_white_series_are_a_model_without_time():
    sites = sites_of(weighted_graph(), "heat")
    ones = np.ones(9)
    found = stationary_placement(
        sites, np.array([3]), 4, PlacementSpectra(2 * ones, 0.3 * ones, ones)
    )
    static = stationary_placement(
        sites,
        np.array([3]),
        4,
        PlacementSpectra(np.array([2.0]), np.array([0.3]), np.ones(1)),
        lazy=False,
    )
    assert np.array_equal(found.nodes, static.nodes)
    np.testing.assert_allclose(found.gains, static.gains)
    assert found.n_evaluations <= static.n_evaluations


def test_frequencies_without_signal_add_nothing():
    sites = sites_of(weighted_graph(), "heat")
    with_signal = PlacementSpectra(np.array([2.0, 0.0]), np.array([0.3, 0.3]), np.ones(2))
    alone = PlacementSpectra(np.array([2.0]), np.array([0.3]), np.ones(1))
    found, half = (stationary_placement(sites, np.array([3]), 3, s) for s in (with_signal, alone))
    np.testing.assert_allclose(2 * found.gains, half.gains, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": np.array([3])}, "candidates: expected sites without a sensor"),
        ({"candidates": np.array([99])}, "sites: expected numbers"),
        ({"candidates": np.array([4, 4])}, "candidates: expected distinct"),
        ({"interest": np.empty(0, dtype=int)}, "interest: expected at least one"),
        ({"k": 14}, "k: expected at most 13"),
        ({"criterion": "best"}, "criterion"),
        ({"budget": Budget(1e-9)}, "budget: expected at least"),
    ],
)
def test_hostile_arguments_are_named(change, message):
    sites = sites_of(weighted_graph(), "heat")
    law = PlacementSpectra(np.ones(2), np.ones(2), np.ones(2))
    arguments = {"sites": sites, "sensors": np.array([3]), "k": 2, "spectra": law} | change
    with pytest.raises(InvalidInputError, match=message):
        stationary_placement(**arguments)


@pytest.mark.parametrize(
    "parts",
    [
        ([1.0], [0.0], [1.0]),
        ([1.0, 2.0], [1.0], [1.0]),
        ([0.0], [1.0], [1.0]),
        ([np.nan], [1.0], [1.0]),
        ([-1.0], [1.0], [1.0]),
        ([], [], []),
    ],
)
def test_spectra_are_checked(parts):
    with pytest.raises(InvalidInputError, match="spectra: expected"):
        PlacementSpectra(*(np.array(part) for part in parts))


def test_memory_is_forecast(monkeypatch):
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1e3)
    law = PlacementSpectra(np.ones(2), np.ones(2), np.ones(2))
    with pytest.raises(MemoryLimitError, match="covariances of 14 places"):
        stationary_placement(sites_of(weighted_graph(), "heat"), np.array([3]), 2, law)
    assert placement.N_GROUPS >= 8
