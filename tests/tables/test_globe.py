"""Latitude and longitude as kilometres, in encodings, fits, batches and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import decoded, encoded
from coupledgp.tables.codes import NumberCode
from coupledgp.tables.column_moves import dependences
from coupledgp.tables.encoding import TableEncoding
from coupledgp.tables.globe import (
    EARTH_KM,
    Globe,
    geographic_columns,
    narrower,
    turned,
    turned_ends,
)
from coupledgp.tables.summaries import KnownNumbers

rng = np.random.default_rng(0)
N = 300
ALPS = pd.DataFrame({"lon": rng.uniform(5, 11, N), "lat": rng.uniform(44, 48, N)})
WORLD = pd.DataFrame({
    "latitude": np.degrees(np.arcsin(rng.uniform(-1, 1, N))),
    "longitude": rng.uniform(-180, 180, N),
})  # fmt: skip


def arcs(one, other):
    """Kilometres of great circles, by the formula of haversines."""
    (phi, own), (psi, its) = np.radians(one).T, np.radians(other).T
    half = np.sin((psi - phi) / 2) ** 2
    half += np.cos(phi) * np.cos(psi) * np.sin((its - own) / 2) ** 2
    return 2 * EARTH_KM * np.arcsin(np.sqrt(half))


def test_the_plane_keeps_distances_as_it_says():
    globe = Globe.of_ends(np.array([44.0, 48.0]), np.array([5.0, 11.0]))
    assert globe.is_plane
    places = ALPS[["lat", "lon"]].to_numpy()
    found = globe.coordinates(*places.T)
    center = np.broadcast_to([globe.latitude, globe.longitude], places.shape)
    own = arcs(center, places)
    np.testing.assert_allclose(np.hypot(*found.T), own, rtol=1e-9)
    truth = arcs(places[:150], places[150:])
    ratio = np.linalg.norm(found[:150] - found[150:], axis=1) / truth
    limit = (own.max() / EARTH_KM) ** 2 / 6
    assert ratio.min() > 1 - 1e-9
    assert ratio.max() < 1 + limit
    assert ratio.max() > 1 + limit / 20  # the bound is no idle one
    north = globe.coordinates(np.array([globe.latitude + 1]), np.array([globe.longitude]))
    np.testing.assert_allclose(north, [[EARTH_KM * np.radians(1), 0.0]], atol=1e-9)
    at_center = globe.coordinates(np.array([globe.latitude]), np.array([globe.longitude]))
    np.testing.assert_array_equal(at_center, [[0.0, 0.0]])


def test_space_has_chords():
    globe = Globe.of_ends(np.array([-90.0, 90.0]), np.array([-180.0, 180.0]))
    assert not globe.is_plane
    places = WORLD.to_numpy()
    found = globe.coordinates(*places.T)
    chord = np.linalg.norm(found[:150] - found[150:], axis=1)
    truth = 2 * EARTH_KM * np.sin(arcs(places[:150], places[150:]) / (2 * EARTH_KM))
    np.testing.assert_allclose(chord, truth, rtol=1e-9)
    np.testing.assert_allclose(globe.degrees(found), places, atol=1e-9)
    wide = Globe.of_ends(np.array([40.0, 70.0]), np.array([-20.0, 40.0]))
    assert not wide.is_plane


def test_columns_are_recognised_or_named():
    ends = [np.array([5.0, 11.0]), None, np.array([44.0, 48.0])].__getitem__
    names = ["Lon", "kind", "LATITUDE"]
    assert geographic_columns("auto", names, 3, ends) == (2, 0)
    assert geographic_columns(None, names, 3, ends) is None
    assert geographic_columns("auto", ["a", "b", "lat"], 3, ends) is None
    assert geographic_columns("auto", None, 3, ends) is None
    assert geographic_columns((2, "Lon"), names, 3, ends) == (2, 0)
    metres = [np.array([5e5, 6e5]), None, np.array([4.4e6, 4.8e6])].__getitem__
    assert geographic_columns("auto", names, 3, metres) is None
    for asked, known, message in (
        ((2, 0), metres, "expected latitude from -90 to 90 degrees, got values from 4.4e"),
        (("Lon", "kind"), ends, "expected numbers of longitude, got a column of another kind"),
        (("Lon", "x"), ends, "expected columns among Lon, kind, LATITUDE, got 'x'"),
        (("Lon",), ends, "expected two columns"),
        ("yes", ends, "expected 'auto', None, or the columns"),
    ):
        with pytest.raises(InvalidInputError, match=f"geographic: {message}"):
            geographic_columns(asked, names, 3, known)


@pytest.mark.parametrize("table", [ALPS, WORLD])
def test_encodings_hold_both_columns(table):
    plain = TableEncoding((NumberCode(),) * 2, tuple(table), "raise")
    ends = [np.array([own.min(), own.max()]) for own in table.to_numpy().T].__getitem__
    own = plain.with_places("auto", ends)
    matrix = own.rows(table.to_numpy())
    globe = own.globe
    latitude, longitude = (table.iloc[:, j].to_numpy() for j in own.places)
    wanted = globe.coordinates(latitude, longitude)
    assert matrix.shape == wanted.shape == (N, globe.width)
    # North is where latitude stands in the table.
    order = [1, 0] if own.places == (1, 0) else slice(None)
    np.testing.assert_array_equal(matrix, wanted[:, order])
    again = decoded(encoded(own))
    np.testing.assert_array_equal(again.rows(table.to_numpy()), matrix)
    assert sorted(own.sources_of(np.arange(globe.width))) == [0, 1]
    with pytest.raises(InvalidInputError, match="row 2: expected degrees of"):
        own.rows(np.array([[0.0, 0.0], [500.0, 500.0]]))
    record = own.as_stored()
    del record.codes[0]
    with pytest.raises(InvalidInputError, match="expected one latitude and longitude"):
        record.read_back()


GIVEN = {"optimizer": None, "lengthscale": 4000.0, "noise": 0.02}


@pytest.mark.parametrize(("table", "options"), [(ALPS, {}), (WORLD, GIVEN)])
@pytest.mark.long
def test_fits_are_those_of_kilometres(table, options, tmp_path):
    def model(**further):
        own = {"ard": False, "random_state": 0, **options, **further}
        return cgp.LatticeGPRegressor("gaussian", **own)

    latitude, longitude = (table[name].to_numpy() for name in sorted(table))
    ends = [np.array([own.min(), own.max()]) for own in (latitude, longitude)]
    places = Globe.of_ends(*ends).coordinates(latitude, longitude)
    size = np.ptp(places, axis=0).max()
    y = np.sin(6 * places[:, 0] / size) * np.cos(6 * places[:, -1] / size)
    y += 0.1 * rng.normal(size=N)
    of_km = model().fit(places, y)
    own = model().fit(table, y)
    np.testing.assert_allclose(own.lengthscale_, of_km.lengthscale_, rtol=1e-6)
    known = of_km.predict(places[:9], return_std=True)
    np.testing.assert_allclose(own.predict(table[:9], return_std=True), known, rtol=1e-6)
    batches = model().fit_batches([(table[:120], y[:120]), (table[120:], y[120:])])
    np.testing.assert_allclose(batches.predict(table[:9]), known[0], rtol=1e-6)
    own.save(tmp_path / "own.gp")
    loaded = cgp.load_model(tmp_path / "own.gp")
    np.testing.assert_array_equal(loaded.predict(table[:9]), own.predict(table[:9]))
    grid = own.predict_grid({name: table[name][:3].to_numpy() for name in table})
    np.testing.assert_allclose(np.diag(grid["mean"]), own.predict(table[:3]), rtol=1e-9)
    plain = model(geographic=None).fit(table, y)
    assert not hasattr(plain, "encoding_")


def written(longitudes, way):
    """Longitudes from -180, or from 0 degrees."""
    return np.where(longitudes > 180, longitudes - 360, longitudes) if way else longitudes


@pytest.mark.parametrize("middle", [180.0, 0.0, 90.0, 175.5])
@pytest.mark.parametrize("way", [False, True])
def test_ends_of_turned_longitudes_are_those_of_the_circle(middle, way):
    own = np.random.default_rng(1).uniform(middle - 6, middle + 6, 200) % 360
    lon = written(own, way)
    assert np.ptp(narrower(lon)) < 12
    np.testing.assert_allclose(np.cos(np.radians(turned(lon))), np.cos(np.radians(lon)))
    whole = KnownNumbers.of(lon)
    parts = [KnownNumbers.of(part) for part in np.split(np.sort(lon), 8)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    for known in (whole, merged):
        assert np.ptp(known.ends, axis=1).min() == pytest.approx(np.ptp(narrower(lon)))
    globes = [Globe.of_ends(np.array([-20.0, -14.0]), known.ends) for known in (whole, merged)]
    assert globes[0] == globes[1]
    assert globes[0].is_plane
    gap = np.abs(globes[0].longitude - middle) % 360
    assert min(gap, 360 - gap) < 0.5
    all_round = KnownNumbers.of(written(np.linspace(0, 350, 36), way))
    assert not Globe.of_ends(np.array([-20.0, -14.0]), all_round.ends).is_plane
    assert turned_ends(np.array([-900.0, 4.0]), -900.0, 4.0) == (-900.0, 4.0)


@pytest.mark.long
def test_tables_across_the_180th_meridian_have_a_plane(tmp_path):
    """Fiji: the fit is that of the same table 150 degrees further west, in memory and in parts."""
    own = np.random.default_rng(2)
    west = pd.DataFrame({"lat": own.uniform(-20, -15, 400), "lon": own.uniform(26, 33, 400)})
    fiji = west.assign(lon=written(west.lon + 150.0, True))
    assert fiji.lon.min() < -179
    y = np.sin(west.lat) * np.cos(west.lon) + 0.1 * own.normal(size=400)

    def model():
        return cgp.LatticeGPRegressor("gaussian", ard=False, random_state=0)

    there, here = model().fit(west, y), model().fit(fiji, y)
    assert here.encoding_.globe.is_plane
    np.testing.assert_allclose(here.lengthscale_, there.lengthscale_, rtol=1e-6)
    wanted = there.predict(west[:40], return_std=True)
    np.testing.assert_allclose(here.predict(fiji[:40], return_std=True), wanted, rtol=1e-6)
    other = fiji.assign(lon=fiji.lon % 360)
    np.testing.assert_allclose(here.predict(other[:40]), wanted[0], rtol=1e-6)
    order = np.argsort(fiji.lon.to_numpy())
    batches = model().fit_batches([(fiji.iloc[part], y.iloc[part]) for part in np.split(order, 4)])
    assert batches.encoding_.globe == here.encoding_.globe
    np.testing.assert_allclose(batches.predict(other[:40]), wanted[0], rtol=1e-6)
    here.save(tmp_path / "fiji.gp")
    np.testing.assert_array_equal(
        cgp.load_model(tmp_path / "fiji.gp").predict(fiji[:9]), here.predict(fiji[:9])
    )
    general = cgp.GPRegressor(kernel="matern-5/2", random_state=0).fit(fiji, y)
    assert len(general.lengthscale_names_) == 2


def test_places_are_both_or_none():
    y = rng.normal(size=N)
    with pytest.raises(InvalidInputError, match="expected both latitude and longitude or none"):
        cgp.LatticeGPRegressor("gaussian", places=["lat"]).fit(ALPS, y)
    table = WORLD.assign(depth=rng.uniform(size=N))
    with pytest.raises(InvalidInputError, match="at most 3 coordinates, got 4"):
        cgp.LatticeGPRegressor("gaussian", places=["latitude", "longitude", "depth"]).fit(table, y)
    model = cgp.LatticeGPRegressor("gaussian", **GIVEN, random_state=0).fit(WORLD, y)
    with pytest.raises(InvalidInputError, match="within 1000 km"):
        model.predict_blocks(WORLD[:2], 10.0)


@pytest.mark.long
def test_other_models_take_them_too():
    """Places in space share one lengthscale; effects of the part are labelled by degrees."""
    y = np.sin(np.radians(3 * WORLD.latitude)) + 0.05 * rng.normal(size=N)
    model = cgp.GPRegressor(kernel="matern-3/2", random_state=0).fit(WORLD, y)
    assert model.lengthscale_names_ == ["latitude (with longitude, km)"]
    across = pd.DataFrame({"latitude": [10.0, 10.0], "longitude": [179.9, -179.9]})
    mean = model.predict(across)
    assert mean[0] == pytest.approx(mean[1], abs=0.01)
    columns = model.fitted_.columns
    (found,) = dependences(model.process_, columns, columns.part_names)
    assert ", " in found.labels[0]
