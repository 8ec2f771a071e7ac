"""Lines cut where others end, roads that are the same, and places in other systems, by hand."""

import numpy as np
import pytest

from coupledgp.formats.noding import Polylines, RoadPieces, distinct, inserted, noded

pytest.importorskip("pyproj")


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
    cut = inserted(stretched, 1e-3)
    np.testing.assert_allclose(cut.steps, [4.0, 16.0, 0.0, 5.0])
    np.testing.assert_array_equal(cut.line, [0, 0, 0, 1, 1])
    np.testing.assert_allclose(lengths(noded(cut, 1e-3)), [4.0, 5.0, 16.0])


@pytest.mark.parametrize(("off", "cuts"), [(0.09, True), (0.11, False)])
def test_an_end_joins_a_line_within_the_tolerance(off, cuts):
    lines = polylines([(0, 0), (10, 0)], [(4, off), (4, 5)])
    assert (len(inserted(lines, 0.1).places) == 5) is cuts
    beyond = polylines([(0, 0), (10, 0)], [(-1.0, 0), (-1.0, 5)])
    assert len(inserted(beyond, 0.1).places) == 4


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


def roads(*courses, lengths=(10.0, 10.0)):
    """Numbers of the distinct ones of roads between the same two nodes."""
    lines = [np.array(course, dtype=float) for course in courses]
    ends = np.tile([0, 1], (len(lines), 1))
    positions, rows = np.array([[0.0, 0.0], [10.0, 0.0]]), np.arange(len(lines))
    return distinct(RoadPieces(positions, ends, lines, np.array(lengths), rows), 0.01).tolist()


def test_roads_of_equal_length_with_other_courses_are_two():
    north, south = [(0, 0), (5, 3), (10, 0)], [(0, 0), (5, -3), (10, 0)]
    assert roads(north, south) == [0, 1]
    assert roads(north, north[::-1]) == [0]


@pytest.mark.parametrize("lengths", [(10.0, 12.0), (12.0, 10.0)])
def test_roads_of_other_lengths_are_two_whichever_is_longer(lengths):
    straight = [(0, 0), (5, 0), (10, 0)]
    assert roads(straight, straight, lengths=lengths) == [0, 1]
    assert roads(straight, straight) == [0]


@pytest.mark.parametrize("latitude", [-33.0, 48.0])
def test_places_in_degrees_go_to_metres_and_back(latitude):
    """A zone of its own half of the earth, where northings count from the equator or the pole."""
    from coupledgp.formats.projection import Plane

    degrees = np.array([[151.0, latitude], [151.2, latitude + 0.1]])
    plane = Plane.fitting("EPSG:4326", degrees)
    places = plane.metres(degrees)
    np.testing.assert_allclose(plane.coordinates(places, "EPSG:4326"), degrees, atol=1e-9)
    assert plane.crs == ("EPSG:32756" if latitude < 0 else "EPSG:32656")


def test_places_go_back_to_a_system_in_feet():
    from coupledgp.formats.projection import Plane

    feet = np.array([[988_000.0, 200_000.0], [989_000.0, 201_000.0]])
    plane = Plane.fitting("EPSG:2263", feet)
    assert plane.unit == pytest.approx(0.3048, rel=1e-5)
    places = plane.metres(feet)
    np.testing.assert_allclose(places, 0.3048006096 * feet, rtol=1e-8)
    np.testing.assert_allclose(plane.coordinates(places, "EPSG:2263"), feet, rtol=1e-9)
