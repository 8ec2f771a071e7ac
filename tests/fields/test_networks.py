"""Networks: pieces, their matrices against plain sums, loops, parallel edges, labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.locations import location_positions, location_rows
from tests.fields.shapes import town


def reference(elements, lengths, n):
    """S and M, element by element."""
    S, M = np.zeros((n, n)), np.zeros(n)
    for (i, j), length in zip(elements, lengths, strict=True):
        S[[i, j], [j, i]] -= 1 / length
        S[[i, j], [i, j]] += 1 / length
        M[[i, j]] += length / 2
    return S, M


@pytest.mark.parametrize("max_edge", [None, 0.7, "auto"])
def test_matrices_of_a_town(max_edge):
    sources, targets, lengths, positions = town()
    operator = cgp.LaplaceOperator.from_edges(
        sources, targets, lengths, positions=positions, max_edge=max_edge
    )
    S, M = reference(operator.elements, operator.element_lengths, operator.n_vertices)
    np.testing.assert_allclose(operator.stiffness.toarray(), S, atol=1e-9 * S.max())
    np.testing.assert_allclose(operator.mass, M)
    assert operator.measure == pytest.approx(lengths.sum())
    np.testing.assert_allclose(np.bincount(operator.parents, operator.element_lengths), lengths)
    if max_edge == 0.7:
        assert operator.element_lengths.max() <= 0.7
        assert operator.elements.shape[0] == np.ceil(lengths / 0.7).sum()
    # Each edge is a chain from its source to its target.
    for edge in range(lengths.size):
        chain = operator.elements[operator.parents == edge]
        assert chain[0, 0] == sources[edge]
        assert chain[-1, 1] == targets[edge]
        np.testing.assert_array_equal(chain[1:, 0], chain[:-1, 1])


def test_cutting_edges_leaves_the_energy_of_linear_functions():
    whole = cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [2.0, 3.0])
    cut = cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [2.0, 3.0], max_edge=0.4)
    f, g = np.array([1.0, -2.0, 0.5]), np.empty(cut.n_vertices)
    order = np.concatenate([np.arange(5) * 0.4, np.arange(8) * 0.375])
    places = whole.at_edges(cut.parents, order)
    g[cut.elements[:, 0]] = location_rows(places.points, 3) @ f
    g[2] = f[2]
    assert g @ cut.stiffness @ g == pytest.approx(f @ whole.stiffness @ f, rel=1e-12)


def test_a_circle_has_the_eigenvalues_of_a_circle():
    circle = cgp.LaplaceOperator.from_edges([0], [0], [2 * np.pi], max_edge=0.05)
    root = np.sqrt(circle.mass)
    found = linalg.eigvalsh(circle.stiffness.toarray() / np.outer(root, root))[:5]
    np.testing.assert_allclose(found, [0, 1, 1, 4, 4], rtol=1e-3, atol=1e-10)


def test_loops_are_cut_and_parallel_edges_stay():
    sources, targets, lengths, _ = town()
    operator = cgp.LaplaceOperator.from_edges(sources, targets, lengths)
    assert (operator.elements[:, 0] != operator.elements[:, 1]).all()
    assert operator.n_vertices == 5 + 2
    assert operator.stiffness[0, 1] == pytest.approx(-(1 / 3 + 1 / 5))
    places = operator.at_edges([0, 4], [1.5, 2.5])
    np.testing.assert_allclose(places.points, [[0, 1, 0.5, 0.5]] * 2)


def test_places_on_edges():
    sources, targets, lengths, positions = town()
    operator = cgp.LaplaceOperator.from_edges(
        sources, targets, lengths, positions=positions, max_edge=0.7
    )
    share = np.random.default_rng(0).random((50, 1))
    edges = np.arange(50) % 6
    places = operator.at_edges(edges, share[:, 0] * lengths[edges])
    expected = (1 - share) * positions[sources[edges]] + share * positions[targets[edges]]
    np.testing.assert_allclose(
        location_positions(places.points, operator.positions), expected, atol=1e-12
    )
    assert (places.points[:, 2:] >= 0).all()
    np.testing.assert_allclose(places.points[:, 2:].sum(axis=1), 1.0)
    ends = operator.at_edges([1, 1], [0.0, 4.0 * (1 + 1e-12)])
    rows = location_rows(ends.points, operator.n_vertices).toarray()
    np.testing.assert_allclose(rows[[0, 1], [1, 2]], 1.0)
    for edges, offsets, message in (
        ([7], [0.0], "edges: expected numbers from 0 to 6"),
        ([0.5], [0.0], "edges: expected integers"),
        ([0], [3.1], "offsets: .* got 3.1 on edge 0 of length 3.0"),
        ([0], [-0.1], "offsets: "),
        ([0], [np.nan], "offsets: "),
        ([0, 1], [0.1], "offsets: expected shape"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            operator.at_edges(edges, offsets)
    with pytest.raises(InvalidInputError, match="a mesh's faces"):
        operator.at_faces()


def test_labels_and_nodes_without_edges():
    labels = ["far", "a", ("b", 1), "c"]
    operator = cgp.LaplaceOperator.from_edges(
        ["a", ("b", 1)], [("b", 1), "c"], [1.0, 2.0],
        labels=labels, positions=np.arange(8.0).reshape(4, 2), max_edge=0.5,
    )  # fmt: skip
    assert operator.n_given == 4
    rows = location_rows(operator.at_vertices(["c", "a"]).points, operator.n_vertices)
    places = location_positions(operator.at_vertices(["c", "a"]).points, operator.positions)
    np.testing.assert_array_equal(places, [[6, 7], [2, 3]])
    assert rows.shape == (2, operator.n_vertices)
    with pytest.raises(InvalidInputError, match="expected nodes of edges, got 'far'"):
        operator.at_vertices(["a", "far"])
    with pytest.raises(InvalidInputError, match="unknown: 'd'"):
        operator.at_vertices(["d"])
    with pytest.raises(InvalidInputError, match="labels: expected the nodes' labels"):
        cgp.LaplaceOperator.from_edges(["a"], ["b"], [1.0], positions=np.eye(2))


def test_the_diameter_goes_along_the_network():
    path = cgp.LaplaceOperator.from_edges([3, 1, 0], [1, 0, 2], [5.0, 1.0, 2.0], max_edge=0.3)
    assert path.diameter == pytest.approx(8.0)
    apart = cgp.LaplaceOperator.from_edges([0, 2, 2], [1, 3, 3], [1.0, 4.0, 3.0])
    assert apart.components()[0] == 2
    assert apart.diameter == pytest.approx(3.0)


def test_auto_bounds_the_number_of_pieces():
    rng = np.random.default_rng(0)
    lengths = np.exp(3 * rng.standard_normal(3000))
    operator = cgp.LaplaceOperator.from_edges(
        np.arange(3000), np.arange(1, 3001), lengths, max_edge="auto"
    )
    assert operator.elements.shape[0] <= 5 * 3000 + 2000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": [1.0, 0.0]}, "lengths: .*edge 1-2 has 0.0"),
        ({"lengths": [1.0, np.nan]}, "lengths: "),
        ({"lengths": [1.0]}, r"lengths: expected shape \(2,\)"),
        ({"lengths": ["x", 1]}, "lengths: expected numbers"),
        ({"sources": [], "targets": [], "lengths": []}, "sources: expected at least one edge"),
        ({"targets": [1]}, "targets: expected 2 ends"),
        ({"targets": [1, -2]}, "targets: expected node numbers"),
        ({"n_nodes": 2}, "targets: .*n_nodes = 2"),
        ({"positions": [["a", "b"]] * 3}, "positions: expected an array of numbers"),
        ({"positions": np.eye(2)}, r"positions: expected shape \(3, 2 or 3\)"),
        ({"positions": [[0, 0], [1, 1], [np.nan, 0]]}, "positions: expected finite .* node 2"),
        ({"max_edge": 0}, "max_edge: expected a finite number > 0"),
        ({"max_edge": True}, "max_edge: expected a number > 0, got True"),
        ({"max_edge": "best"}, "max_edge: expected one of 'auto'"),
        ({"max_edge": 1e-9}, "max_edge: .*at most 2000000 pieces"),
    ],
)
def test_bad_networks_are_refused(changes, message):
    given = {"sources": [0, 1], "targets": [1, 2], "lengths": [1.0, 2.0]} | changes
    with pytest.raises(InvalidInputError, match=message):
        cgp.LaplaceOperator.from_edges(**given)
