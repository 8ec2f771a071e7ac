"""Maps of models of tables over two places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.tables.place_maps import SIDE, PlacesOf

rng = np.random.default_rng(0)
N = 400
X = pd.DataFrame({"lat": rng.uniform(44, 48, N), "lon": rng.uniform(5, 11, N)})
Y = np.sin(X.lat) * np.cos(X.lon) + 0.1 * rng.normal(size=N)
GIVEN = {"optimizer": None, "ard": False, "noise": 0.05, "random_state": 0}


@pytest.fixture(scope="module")
def alps():
    return cgp.LatticeGPRegressor("gaussian", lengthscale=100.0, **GIVEN).fit(X, Y)


def test_the_map_is_the_law_at_its_places(alps):
    """North is upwards, though latitude is the first column."""
    own = PlacesOf.of(alps)
    found = own.map
    assert found.names == ("lon (km east)", "lat (km north)")
    globe = alps.encoding_.globe
    north, east = globe.coordinates(X.lat.to_numpy(), X.lon.to_numpy()).T
    np.testing.assert_allclose(found.axes[0][[0, -1]], [east.min(), east.max()])
    np.testing.assert_allclose(found.axes[1][[0, -1]], [north.min(), north.max()])
    row, column = 30, 71
    place = np.array([[found.axes[1][row], found.axes[0][column]]])
    mean, variance = alps.process_.law(place, "variance", latent=True)
    assert found.mean[row, column] == pytest.approx(mean[0, 0])
    assert found.std[row, column] == pytest.approx(np.sqrt(variance[0, 0]))
    number = int(np.argmin(np.abs(found.dots[0, 0] - east)))
    np.testing.assert_allclose(found.dots[0], [east[number], north[number]])
    assert found.values[0] == Y[number]


def test_other_models_have_none_and_space_has_degrees():
    one = cgp.LatticeGPRegressor("gaussian", lengthscale=1.0, **GIVEN).fit(X[["lon"]], Y)
    assert PlacesOf.of(one) is None
    assert PlacesOf.of(cgp.ExactGPRegressor(optimizer=None).fit(X, Y)) is None
    wide = X.assign(lon=rng.uniform(-180, 180, N))
    world = cgp.LatticeGPRegressor("gaussian", lengthscale=4000.0, **GIVEN).fit(wide, Y)
    found = PlacesOf.of(world).map
    assert found.names == ("longitude", "latitude")
    place = pd.DataFrame({"lat": [found.axes[1][7]], "lon": [found.axes[0][90]]})
    assert found.mean[7, 90] == pytest.approx(world.predict(place)[0], rel=1e-9)
    assert found.mean.shape == (SIDE, SIDE)
    np.testing.assert_allclose(found.axes[1][[0, -1]], [X.lat.min(), X.lat.max()])
    nearest = wide.lon[np.argmin(np.abs(wide.lon - found.dots[0, 0]))]
    assert nearest == pytest.approx(found.dots[0, 0])
    assert "measure there next" in found.picture().caption


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mixture", "transformed", "counts"])
def test_maps_of_other_models_are_laws_of_observations(kind):
    few = X[:150]
    model, y = {
        "mixture": (cgp.GPRegressor(random_state=0), Y),
        "transformed": (
            cgp.LatticeGPRegressor("gaussian", lengthscale=100.0, target_transform="log", **GIVEN),
            np.exp(Y),
        ),
        "counts": (
            cgp.GPRegressor(likelihood="poisson", random_state=0), rng.poisson(np.exp(1 + Y)),
        ),
    }[kind]  # fmt: skip
    model.fit(few, np.asarray(y)[:150])
    found = PlacesOf.of(model).map
    assert found.names == ("lon (km east)", "lat (km north)")
    north, east = model.encoding_.globe.coordinates(few.lat.to_numpy(), few.lon.to_numpy()).T
    np.testing.assert_allclose(found.axes[0][[0, -1]], [east.min(), east.max()])
    np.testing.assert_allclose(found.axes[1][[0, -1]], [north.min(), north.max()])
    row, column = 30, 41
    place = np.array([[found.axes[1][row], found.axes[0][column]]])
    latent = kind == "mixture"
    mean, variance = model.process_.law(place, "variance", latent=latent)[:2]
    assert found.mean[row, column] == pytest.approx(mean[0, 0])
    assert found.std[row, column] == pytest.approx(np.sqrt(variance[0, 0]))
    number = int(np.argmin(np.abs(found.dots[0, 0] - east)))
    assert found.values[0] == pytest.approx(np.asarray(y)[number])
