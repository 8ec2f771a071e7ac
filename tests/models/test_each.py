"""Several quantities of a Dataset, each fitted by itself."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError

xr = pytest.importorskip("xarray")
ROAD = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])


def dataset() -> "xr.Dataset":
    times = np.datetime64("2024-05-06") + np.arange(40) * np.timedelta64(1, "h")
    wave = np.sin(np.arange(40) / 5) + 0.1 * np.random.default_rng(0).normal(size=(4, 40))
    wave[2, 5:9] = np.nan
    return xr.Dataset(
        {
            "speed": (("node", "time"), 50 + 5 * wave, {"units": "km/h"}),
            "flow": (("time", "node"), 900 - 90 * wave.T, {"units": "1/h"}),
        },
        {"node": range(4), "time": times},
    )


def test_each_quantity_is_fitted_as_if_it_were_alone() -> None:
    data, model = dataset(), cgp.GraphTimeGPRegressor(ROAD, random_state=0, progress=False)
    models = cgp.fit_each(model, data)
    assert list(models) == ["speed", "flow"]
    assert not hasattr(model, "process_")
    for name, fitted in models.items():
        alone = cgp.GraphTimeGPRegressor(ROAD, random_state=0, progress=False).fit(data[name])
        xr.testing.assert_identical(fitted.predict(), alone.predict())
        assert fitted.predict().name == name
        assert fitted.predict().attrs == data[name].attrs
        assert fitted.predict().dims == data[name].dims


def test_what_cannot_be_fitted_is_named() -> None:
    model = cgp.GraphTimeGPRegressor(ROAD)
    with pytest.raises(InvalidInputError, match=r"expected an xarray\.Dataset, got DataArray"):
        cgp.fit_each(model, dataset()["speed"])
    with pytest.raises(InvalidInputError, match="at least one variable"):
        cgp.fit_each(model, xr.Dataset())
    bad = dataset().assign(depth=("node", np.zeros(4)))[["depth"]]
    with pytest.raises(InvalidInputError, match="variable 'depth': data: expected a DataArray"):
        cgp.fit_each(model, bad)
