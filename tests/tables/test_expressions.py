"""Estimators of expressions of kernels: laws, files, tables with names, what is refused."""

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.kernels import Additive
from coupledgp.kernels.rows import Constant, Linear

RNG = np.random.default_rng(5)


def table(n):
    frame = pd.DataFrame(
        {
            "area": RNG.normal(50.0, 20.0, n),
            "age": RNG.uniform(0, 90, n),
            "kind": RNG.choice(["flat", "house", "barn"], n),
        }
    )
    y = np.sin(frame.area / 15) + (frame.kind == "house") + 0.02 * frame.age
    return frame, np.asarray(y + 0.05 * RNG.normal(size=n))


def test_additive_truth_is_found_and_kept_in_files(tmp_path):
    X = RNG.uniform(-2, 2, size=(160, 6))
    y = np.sin(2 * X).sum(axis=1) + 0.1 * RNG.normal(size=160)
    gp = cgp.ExactGPRegressor(kernel=Additive(1) + Constant(), random_state=0).fit(X[:90], y[:90])
    plain = cgp.ExactGPRegressor(kernel="matern-3/2", random_state=0).fit(X[:90], y[:90])
    errors = [np.square(m.predict(X[90:]) - y[90:]).mean() for m in (gp, plain)]
    assert errors[0] < 0.3 * errors[1]
    low, high = gp.predict_interval(X[90:])
    assert 0.8 < ((low < y[90:]) & (y[90:] < high)).mean() <= 1.0
    path = tmp_path / "model.safetensors"
    gp.save(path)
    again = cgp.load_model(path)
    np.testing.assert_array_equal(again.predict(X[90:]), gp.predict(X[90:]))
    assert str(again.process_.dense_prior.kernel) == "additive(1, matern-3/2) + constant"
    assert "variance of each column" in gp.explain()


def test_posterior_is_that_of_dense_algebra():
    X, y = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    gp = cgp.ExactGPRegressor(
        kernel='additive(2, gaussian) + linear["x1"]',
        optimizer=None,
        noise=0.2,
        options={"fixed": ("noise",)},
    ).fit(X, y, sample_weight=RNG.uniform(0.5, 2.0, 40))
    prior, data = gp.process_.dense_prior, gp.process_.data
    K = prior.covariance(X, X) + np.diag(0.2 * data.relative_noise)
    new = RNG.normal(size=(5, 3))
    cross = prior.covariance(new, X)
    center, scale = gp.process_.units.offset[0], gp.process_.units.scale[0]
    mean, std = gp.predict(new, return_std=True, latent=True)
    np.testing.assert_allclose(
        mean, center + scale * cross @ np.linalg.solve(K, (y - center) / scale), rtol=1e-9
    )
    variance = prior.variance(new) - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    np.testing.assert_allclose(std, scale * np.sqrt(variance), rtol=1e-7)
    more = gp.partial_fit(new, mean)
    assert len(more.process_.data) == 45


def test_names_of_columns_reach_kernels():
    X, y = table(60)
    gp = cgp.ExactGPRegressor(kernel='matern(2.5)["area"] * categorical["kind"] + linear["age"]')
    gp.fit(X, y)
    names = list(gp.process_.summary()["parameters"])
    assert names[1:3] == ["lengthscale of matern-5/2 in area", "lengthscale of categorical in kind"]
    columns = np.isfinite(gp.lengthscale_)
    assert dict(zip(gp.lengthscale_names_, columns, strict=True)) == {
        "area": True, "age": False, "kind": True,
    }  # fmt: skip
    with pytest.raises(
        InvalidInputError, match=r"expected columns among \['area', 'age', 'kind'\]"
    ):
        cgp.ExactGPRegressor(kernel="linear[7]").fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"ard": False}, "ard"), ({"lengthscale": 1.0}, "lengthscale"),
     ({"hyperparameters": "averaged"}, "hyperparameters"), ({"fixed": ("lengthscale",)}, "fixed")],
)  # fmt: skip
def test_scales_of_a_single_kernel_are_refused_beside_an_expression(parameters, name):
    with pytest.raises(InvalidInputError, match=f"{name}: expected its default beside"):
        cgp.ExactGPRegressor(
            **folded(cgp.ExactGPRegressor, dict(kernel=Linear() + Constant(), **parameters))
        ).fit([[0.0], [1.0]], [0, 1])


def test_constant_targets_and_comparisons():
    X = RNG.normal(size=(30, 2))
    with pytest.warns(UserWarning, match="expected targets that differ"):
        gp = cgp.ExactGPRegressor(kernel="additive(2)").fit(X, np.full(30, 2.0))
    assert gp.predict(X[:2]) == pytest.approx([2.0, 2.0])
    y = np.sin(X[:, 0]) + X[:, 1]
    gp = cgp.ExactGPRegressor(kernel="additive(2)").fit(X[:25], y[:25])
    report = cgp.report(gp, X[25:], y[25:], depth="scores")
    assert report.score("kl") == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(gp.process_.left_out(np.arange(25)).log_density(y[:25, None])).all()


def test_trends_end_one_range_beyond_the_rows(tmp_path):
    X = np.linspace(0, 1, 20)[:, None]
    gp = cgp.ExactGPRegressor(kernel="linear + constant", random_state=0).fit(X, 3 * X[:, 0])
    with pytest.warns(ExtrapolationWarning):
        mean, std = gp.predict(np.array([[1.5], [2.0], [3.0], [9.0]]), return_std=True)
    assert mean[:2] == pytest.approx([4.5, 6.0], rel=1e-2)
    assert mean[2] == pytest.approx(mean[1]) == pytest.approx(mean[3])
    assert std[3] > 5 * std[2] > 5 * std[0]
    gp.save(tmp_path / "model")
    with pytest.warns(ExtrapolationWarning):
        again = cgp.load_model(tmp_path / "model").predict([[9.0]])
    assert again == pytest.approx(mean[3:], rel=1e-12)


@pytest.mark.long
def test_additive_members_win_where_the_truth_is_additive(tmp_path):
    X = RNG.uniform(-2, 2, size=(140, 5))
    y = np.sin(2 * X).sum(axis=1) + 0.1 * RNG.normal(size=140)
    gp = cgp.GPRegressor(("exact", "additive"), random_state=0).fit(X[:70], y[:70])
    names = {m.name: m.weight for m in gp.choice_.members}
    additive = {name: weight for name, weight in names.items() if "additive(2" in name}
    assert len(additive) >= 3
    assert sum(additive.values()) > 0.9
    exact = cgp.GPRegressor("exact", random_state=0).fit(X[:70], y[:70])
    gain = (gp.log_density(X[70:], y[70:]) - exact.log_density(X[70:], y[70:])).mean()
    assert gain > 0.3
    gp.save(tmp_path / "model")
    np.testing.assert_array_equal(
        cgp.load_model(tmp_path / "model").predict(X[70:]), gp.predict(X[70:])
    )


@pytest.mark.long
def test_front_door_with_an_expression():
    X = RNG.uniform(-2, 2, size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    gp = cgp.GPRegressor(kernel='matern(2.5)["x0"] + linear["x1"]', random_state=0).fit(X, y)
    assert {name.split(", ")[1] for name in (m.name for m in gp.choice_.members)} == {
        "matern-5/2['x0'] + linear['x1']"
    }
    with pytest.raises(InvalidInputError, match="kernel: expected None beside model='local'"):
        cgp.GPRegressor("local", kernel="linear").fit(X, y)
