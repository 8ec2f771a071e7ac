"""Numbers of codes: spreads that are rounding, numbers of files, weights by distance."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.tables.summaries import KnownNumbers, NumberSummary


def test_a_spread_of_rounding_is_one():
    def spread(values):
        return KnownNumbers.of(values).spread

    assert spread(np.array([3.0, 3.0, 3.0])) == 1.0
    assert spread(np.array([1e9, 1e9 * (1 + 1e-15)])) == 1.0
    assert spread(np.array([1.0, 3.0])) == 1.0
    assert spread(np.array([1.0, 5.0])) == 2.0
    code = NumberSummary.of(np.array([4.0, np.nan, 4.0]), "X: column 1").code(fill=True)
    np.testing.assert_array_equal(
        code.encoded(np.array([np.nan, 4.0]), "X: column 1").values, [[4.0, 1.0], [4.0, 0.0]]
    )


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e3])
def test_weights_by_distance_do_not_depend_on_the_unit(unit):
    """Two vertices nearly at one place are linked by a thousand times the usual weight."""
    vertices = unit * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1e-7, 0, 0]])
    mesh = trimesh.Trimesh(vertices, [[0, 1, 2], [3, 1, 0]], process=False)
    graph = cgp.Graph.from_trimesh(mesh, nodes="vertices", weights="inverse-distance")
    found = graph.adjacency.toarray()
    lengths = np.linalg.norm(vertices[:, None] - vertices, axis=2)
    edges = np.triu(found > 0)
    mean = lengths[edges].mean()
    expected = mean / np.maximum(lengths[edges], 1e-3 * mean)
    np.testing.assert_allclose(found[edges], expected, rtol=1e-9)
    assert found.max() == pytest.approx(1e3)
