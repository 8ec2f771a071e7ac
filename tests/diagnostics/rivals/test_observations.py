"""Observations put together by site, ways between sites, a model beside a baseline, by hand."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coupledgp.diagnostics.rivals.beside import BesideBaseline
from coupledgp.diagnostics.rivals.nearest import WayFinder
from coupledgp.diagnostics.rivals.observations import Observations
from coupledgp.diagnostics.rivals.prediction import BaselinePrediction
from coupledgp.diagnostics.rivals.tables import TableRivals
from coupledgp.inference.search.rows import RowWeights

RNG = np.random.default_rng(7)
SITE = np.array([0, 0, 0, 1, 1, 2, 0, 1])
GROUP = np.array([0, 0, 1, 1, 2, 2, 2, 0])
Y = RNG.normal(size=(8, 2))
NOISE, COUNTS = RNG.uniform(0.2, 3.0, 8), np.array([1.0, 2, 1, 1, 3, 1, 1, 2])
DATA = Observations.of(Y, SITE, RowWeights(NOISE, COUNTS))


def test_units_are_weighted_means_of_site_and_group():
    units = DATA.units(GROUP)
    weights = COUNTS / NOISE
    for unit in range(len(units)):
        rows = (units.site[unit] == SITE) & (units.group[unit] == GROUP)
        assert units.weights[unit] == pytest.approx(weights[rows].sum())
        mean = np.average(Y[rows], axis=0, weights=weights[rows])
        np.testing.assert_allclose(units.means[unit], mean, rtol=1e-12)
        np.testing.assert_array_equal(units.number[rows], unit)
    for site in range(3):
        mean = np.average(Y[site == SITE], axis=0, weights=weights[site == SITE])
        np.testing.assert_allclose(DATA.site_means[site], mean)


def test_means_of_a_site_without_a_group():
    units, weights = DATA.units(GROUP), COUNTS / NOISE
    pairs = [
        (site, group) for site in range(3) for group in range(3)
        if ((site == SITE) & (group != GROUP)).any()
    ]  # fmt: skip
    chosen = np.array([int(np.flatnonzero(units.site == site)[0]) for site, _ in pairs])
    found = units.means_without(np.array([group for _, group in pairs]), chosen)
    for mean, (site, group) in zip(found, pairs, strict=True):
        rows = (site == SITE) & (group != GROUP)
        np.testing.assert_allclose(mean, np.average(Y[rows], axis=0, weights=weights[rows]))


def test_means_of_other_groups_are_over_their_weights():
    weights = COUNTS / NOISE
    for group, mean in enumerate(DATA.others_mean(GROUP)):
        rows = group != GROUP
        np.testing.assert_allclose(mean, np.average(Y[rows], axis=0, weights=weights[rows]))


def test_the_nearest_other_site_along_edges():
    """Against the shortest ways between all sites, by networkx."""
    for seed in range(6):
        graph = nx.gnm_random_graph(40, 55, seed=seed)
        rng = np.random.default_rng(seed)
        for a, b in graph.edges:
            graph[a][b]["length"] = rng.uniform(0.1, 5.0)
        sites = rng.choice(40, 9, replace=False)
        matrix = sparse.csr_array(nx.to_scipy_sparse_array(graph, weight="length"))
        found = WayFinder(matrix, sites).nearest_other(np.arange(9))
        for site, other in enumerate(found):
            ways = nx.single_source_dijkstra_path_length(graph, int(sites[site]), weight="length")
            lengths = {k: ways[int(v)] for k, v in enumerate(sites) if k != site and v in ways}
            assert other == (min(lengths, key=lengths.__getitem__) if lengths else -1)


def test_an_advantage_is_a_smaller_loss():
    rival = BaselinePrediction("mean", np.zeros(30), np.ones(30))
    y = RNG.normal(size=30)
    near = BesideBaseline.of(y, 0.9 * y, np.full(30, 0.3), rival)
    gap = near.differences["nlpd"]
    assert gap["mean"] < 0
    assert near.advantage() == pytest.approx(-gap["mean"] / gap["standard_error"])
    assert near.advantage() > 3


@pytest.mark.parametrize(("n_rows", "there"), [(3, False), (4, True)])
def test_a_linear_model_needs_more_rows_than_coefficients(n_rows, there):
    """Two columns and a constant: three rows leave no residual."""
    X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [5.0, 1.0]])[:n_rows]
    found = TableRivals.of(X, np.arange(float(n_rows))[:, None]).predict(X)
    assert ("linear" in {one.name for one in found}) is there
    assert ("linear" in found.left_out) is not there
