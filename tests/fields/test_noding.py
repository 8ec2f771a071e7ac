"""Lines cut where others end, roads that are the same, and places in other systems, by hand."""

import numpy as np
import pytest

pytest.importorskip("pyproj")

from coupledgp.fields.road_files import Polylines, noded, with_end_points
from coupledgp.fields.roads import Plane, same_roads


def polylines(*courses):
    """Lines of given points, with the lengths of their steps; none between lines."""
    places = [np.array(course, dtype=float) for course in courses]
    steps = [np.append(np.linalg.norm(np.diff(p, axis=0), axis=1), 0.0) for p in places]
    number = np.repeat(np.arange(len(places)), [len(p) for p in places])
    return Polylines(np.concatenate(places), number, np.concatenate(steps)[:-1])


def lengths(pieces):
    return np.sort(pieces.lengths)


def test_an_end_on_a_line_cuts_it_where_it_lies():
    """At a fifth of a step that is longer on the ground than in the plane."""
    lines = polylines([(0, 0), (10, 0)], [(2, 0), (2, 5)])
    stretched = Polylines(lines.places, lines.line, np.array([20.0, 0.0, 5.0]))
    cut = with_end_points(stretched, 1e-3)
    np.testing.assert_allclose(cut.steps, [4.0, 16.0, 0.0, 5.0])
    np.testing.assert_array_equal(cut.line, [0, 0, 0, 1, 1])
    np.testing.assert_allclose(lengths(noded(cut, 1e-3)), [4.0, 5.0, 16.0])


@pytest.mark.parametrize(("off", "cuts"), [(0.09, True), (0.11, False)])
def test_an_end_joins_a_line_within_the_tolerance(off, cuts):
    lines = polylines([(0, 0), (10, 0)], [(4, off), (4, 5)])
    assert (len(with_end_points(lines, 0.1).places) == 5) is cuts
    beyond = polylines([(0, 0), (10, 0)], [(-1.0, 0), (-1.0, 5)])
    assert len(with_end_points(beyond, 0.1).places) == 4


def test_two_lines_that_share_an_inner_point_meet_there():
    pieces = noded(polylines([(0, 0), (5, 5), (10, 10)], [(0, 10), (5, 5), (10, 0)]), 1e-3)
    assert len(pieces.lines) == 4
    np.testing.assert_allclose(pieces.lengths, np.sqrt(50))
    crossing = noded(polylines([(0, 0), (10, 10)], [(0, 10), (10, 0)]), 1e-3)
    assert len(crossing.lines) == 2, "a bridge shares no point"


@pytest.mark.parametrize(("size", "there"), [(0.009, False), (0.011, True)])
def test_a_loop_within_the_tolerance_is_a_point(size, there):
    """Its length is four times its size; twice the tolerance, 0.04, makes it a road."""
    ring = [(0, 0), (size, 0), (size, size), (0, size), (0, 0)]
    pieces = noded(polylines(ring, [(0, 0), (5, 0)]), 0.02)
    assert (len(pieces.lines) == 2) is there


def test_roads_between_the_same_nodes_are_one_if_lengths_and_middles_agree():
    ends, north, south = np.array([[0, 1], [1, 0]]), [5.0, 3.0], [5.0, -3.0]
    tens, longer = np.array([10.0, 10.0]), np.array([10.0, 12.0])
    assert same_roads(ends, tens, np.array([north, north]), 0.01).tolist() == [0, 0]
    assert same_roads(ends, tens, np.array([north, south]), 0.01).tolist() == [0, 1]
    for both in (longer, longer[::-1]):
        assert same_roads(ends, both, np.array([north, north]), 0.01).tolist() == [0, 1]


@pytest.mark.parametrize("latitude", [-33.0, 48.0])
def test_places_in_degrees_go_to_metres_and_back(latitude):
    """A zone of its own half of the earth, where northings count from the equator or the pole."""
    degrees = np.array([[151.0, latitude], [151.2, latitude + 0.1]])
    plane = Plane.fitting("EPSG:4326", degrees)
    places = plane.metres(degrees)
    np.testing.assert_allclose(plane.coordinates(places, "EPSG:4326"), degrees, atol=1e-9)
    assert plane.crs == ("EPSG:32756" if latitude < 0 else "EPSG:32656")


def test_places_go_back_to_a_system_in_feet():
    feet = np.array([[988_000.0, 200_000.0], [989_000.0, 201_000.0]])
    plane = Plane.fitting("EPSG:2263", feet)
    assert plane.unit == pytest.approx(0.3048, rel=1e-5)
    places = plane.metres(feet)
    np.testing.assert_allclose(places, 0.3048006096 * feet, rtol=1e-8)
    np.testing.assert_allclose(plane.coordinates(places, "EPSG:2263"), feet, rtol=1e-9)
