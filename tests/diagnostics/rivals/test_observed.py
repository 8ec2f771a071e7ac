"""Observations put together by site, ways between sites, a model beside a baseline, by hand."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.near import WayFinder
from coupledgp.diagnostics.rivals.observed import Observations
from coupledgp.diagnostics.rivals.rows import LinearFit, table_kind
from tests.diagnostics.rivals.cases import left_out, predicted

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


@pytest.mark.parametrize(("n_rows", "there"), [(3, False), (4, True)])
def test_a_linear_model_needs_more_rows_than_coefficients(n_rows, there):
    """Two columns and a constant: three rows leave no residual."""
    X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [5.0, 1.0]])[:n_rows]
    assert ("linear" in predicted(table_kind(X, np.arange(float(n_rows))[:, None]), X)) is there


def weighted_fit(X, y, weights):
    """Coefficients, and `(X' W X)^-1`, of weighted least squares with a constant."""
    design = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
    return inverse @ design.T @ (weights[:, None] * y), inverse, design


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_of_a_linear_model_are_those_of_least_squares(weighted):
    """`s^2 (1 + x' (X' W X)^-1 x)`, `s^2 = sum c e^2 / (sum c - 3)`."""
    X, y, queries = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 2)), RNG.normal(size=(4, 2))
    noise, counts = np.ones(12), np.ones(12)
    if weighted:
        noise, counts = RNG.uniform(0.2, 4.0, 12), RNG.integers(1, 4, 12).astype(float)
    found = predicted(table_kind(X, y, RowWeights(noise, counts)), queries)["linear"]
    b, inverse, design = weighted_fit(X, y, counts / noise)
    variance = counts @ np.square(y - design @ b) / (counts.sum() - 3)
    rows = np.column_stack([np.ones(4), queries])
    leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    np.testing.assert_allclose(found.mean, rows @ b, rtol=1e-9)
    np.testing.assert_allclose(found.std, np.sqrt(np.outer(1 + leverage, variance)), rtol=1e-9)


@pytest.mark.parametrize("groups", [np.arange(12), np.arange(12) % 5])
def test_rows_of_any_weight_are_left_out_as_by_refits(groups):
    X, y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 1))
    noise = np.geomspace(0.05, 20.0, 12)
    mean = left_out(table_kind(X, y, RowWeights(noise, np.ones(12))), groups)["linear"].mean
    for i in range(12):
        rest = groups != groups[i]
        b, _, _ = weighted_fit(X[rest], y[rest], 1 / noise[rest])
        np.testing.assert_allclose(mean[i], np.r_[1.0, X[i]] @ b, rtol=1e-7)


def test_a_direction_that_one_group_alone_tells_is_left_out_with_it():
    rows = RNG.normal(size=(20, 3))
    rows[:, 2] = 0.0
    rows[:2, 2] = [1.0, 2.0]
    y = RNG.normal(size=(20, 1)) + 5 * rows[:, 2:]
    groups = np.r_[0, 0, np.arange(1, 19)]
    fit = LinearFit(rows, Observations.of(y, np.arange(20)))
    alone = LinearFit(rows[2:], Observations.of(y[2:], np.arange(18))).predict(rows[:2])
    np.testing.assert_allclose(fit.left_out(groups).mean[:2], alone.mean, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_about_the_mean(weighted):
    """`s^2 (1 + sum w^2 / c / (sum w)^2)`, which for equal rows is `s^2 (1 + 1 / n)`."""
    y = RNG.normal(size=(6, 1))
    noise, counts = np.ones(6), np.ones(6)
    if weighted:
        noise, counts = RNG.uniform(0.5, 2.0, 6), RNG.integers(1, 4, 6).astype(float)
    data, w = Observations.of(y, np.arange(6), RowWeights(noise, counts)), counts / noise
    mean = np.average(y, axis=0, weights=w)
    variance = counts @ np.square(y - mean) / (counts.sum() - 1)
    expected = np.sqrt(variance * (1 + (w**2 / counts).sum() / w.sum() ** 2))
    found = data.predicted_by_mean(2)
    np.testing.assert_allclose(found.std, np.tile(expected, (2, 1)), rtol=1e-12)
    np.testing.assert_allclose(found.mean, np.tile(mean, (2, 1)))
