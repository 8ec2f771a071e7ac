"""Points of geopandas as inputs of models of tables: columns, coordinate systems, refusals."""

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(0)
N = 60
LON, LAT = RNG.uniform(7, 9, N), RNG.uniform(46, 47, N)
VALUES = np.sin(3 * LON) + LAT
POINTS = gpd.GeoDataFrame(
    geometry=gpd.points_from_xy(LON, LAT), crs="EPSG:4326", index=RNG.permutation(N)
)
PLANE = POINTS.to_crs("EPSG:32632")
LATTICE = cgp.LatticeGPRegressor("gaussian", ard=False, random_state=0)
EXACT = cgp.ExactGPRegressor(optimizer=None, lengthscale=3e4)


def test_degrees_are_longitude_and_latitude_of_wgs_84():
    plain = pd.DataFrame({"longitude": LON, "latitude": LAT})
    expected = LATTICE.fit(plain, VALUES).predict(plain)
    model = LATTICE.fit(POINTS.to_crs("EPSG:4258"), VALUES)
    assert list(model.feature_names_in_) == ["longitude", "latitude"]
    np.testing.assert_allclose(model.predict(POINTS), expected, rtol=1e-6)
    np.testing.assert_allclose(model.predict(PLANE), expected, rtol=1e-6)
    grid = model.predict_grid({"longitude": [7.5, 8.0], "latitude": [46.5]})
    np.testing.assert_allclose(
        np.ravel(grid["mean"]),
        model.predict(gpd.GeoSeries.from_xy([7.5, 8.0], [46.5, 46.5], crs=4326), latent=True),
    )


@pytest.mark.parametrize("points", [PLANE, PLANE.geometry])
def test_points_of_a_plane_are_x_and_y_of_the_fit(points, tmp_path):
    columns = np.column_stack([PLANE.geometry.x, PLANE.geometry.y])
    expected = EXACT.fit(columns, VALUES).predict(columns)
    model = cgp.ExactGPRegressor(optimizer=None, lengthscale=3e4).fit(points, VALUES)
    assert list(model.feature_names_in_) == ["x", "y"]
    np.testing.assert_array_equal(model.predict(points), expected)
    model.save(tmp_path / "m")
    for one in (model, cgp.load_model(tmp_path / "m")):
        np.testing.assert_allclose(one.predict(POINTS), expected, rtol=1e-6)
        np.testing.assert_allclose(one.predict(PLANE.to_crs(3035)), expected, rtol=1e-6)
        with pytest.raises(InvalidInputError, match=r"EPSG:32632, as in the fit.* set_crs"):
            one.predict(PLANE.set_crs(None, allow_override=True))
    np.testing.assert_array_equal(model.predict_frame(PLANE).index, PLANE.index)


def test_heights_and_other_columns_are_inputs_too():
    high = gpd.GeoDataFrame(
        {"soil": ["a", "b"] * (N // 2)}, geometry=gpd.points_from_xy(LON, LAT, VALUES)
    )
    model = cgp.ExactGPRegressor(optimizer=None).fit(high, VALUES)
    assert list(model.feature_names_in_) == ["x", "y", "z", "soil"]


def test_what_models_of_tables_do_not_take_is_named():
    for X, message in (
        (POINTS, r"units of length for ExactGPRegressor, got degrees; X\.to_crs"),
        (PLANE.buffer(5), "expected points, got POLYGON .* in row 0 .60 such rows"),
        (PLANE.assign(level=VALUES), "besides the targets, got 'level'.*drop"),
    ):
        with pytest.raises(InvalidInputError, match=f"X: .*{message}"):
            EXACT.fit(X, VALUES)
    with pytest.raises(InvalidInputError, match="more than one 'x'"):
        EXACT.fit(PLANE.assign(x=1.0), VALUES)
