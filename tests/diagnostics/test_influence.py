"""Influence of rows against processes that are conditioned without them."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import cross_validate, row_influence
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (50, 2))
TEST = RNG.uniform(-2, 2, (20, 2))


def targets(seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=50)


MODELS = [
    cgp.ExactGPRegressor(random_state=0),
    cgp.ExactGPRegressor(random_state=0, normalize_y=False),
    cgp.SparseSpectrumGPRegressor(n_frequencies=40, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda one: type(one).__name__)
def test_it_is_what_leaving_out_a_row_changes(model) -> None:
    model.fit(X, targets())
    found, process = row_influence(model, TEST), model.process_
    s = float(process.units.spread(process.noise.variance)[0])
    points, y = process.data.points, process.data.targets
    std = np.sqrt(process.law(model.points(TEST), "variance", latent=True).spread[:, 0])
    for place in (0, 1, 25, 49):
        i = int(found.rows[place])
        keep = np.arange(50) != i
        other = process.conditioned(Data.of(points[keep], y[keep]))
        far = (
            process.law(model.points(TEST), "mean").mean
            - other.law(model.points(TEST), "mean").mean
        )
        assert found.change[place] == pytest.approx(np.abs(far[:, 0] / std).max(), rel=1e-6)
        moved = (process.law(points, "mean").mean - other.law(points, "mean").mean)[:, 0]
        distance = np.square(moved).sum() / s / found.n_effective
        assert found.cooks_distance[place] == pytest.approx(distance, rel=1e-6)
        own = moved[i] / np.sqrt(s * found.leverage[place])
        assert found.dffits[place] == pytest.approx(own, rel=1e-6)
        mean, variance = other.law(points[i : i + 1], "variance")
        r = (y[i, 0] - mean[0, 0]) / np.sqrt(variance[0, 0])
        assert found.studentized_residual[place] == pytest.approx(r, rel=1e-6)
    assert (np.diff(found.cooks_distance) <= 0).all()


def test_leverages_are_the_diagonal_of_the_hat_matrix() -> None:
    model = MODELS[0].fit(X, targets())
    found, process = row_influence(model), model.process_
    base = process.law(process.data.points, "mean").mean[:, 0]
    for place in (0, 10):
        i = int(found.rows[place])
        y = process.data.targets.copy()
        y[i] += 1.0
        raised = process.conditioned(Data.of(process.data.points, y))
        slope = raised.law(process.data.points, "mean").mean[i, 0] - base[i]
        assert found.leverage[place] == pytest.approx(slope, rel=1e-6)


def test_rows_of_less_noise_have_more_leverage() -> None:
    noise = np.where(np.arange(50) < 25, 0.01, 0.4)
    model = cgp.ExactGPRegressor(random_state=0).fit(X, targets(), sample_noise=noise)
    found, process = row_influence(model), model.process_
    leverage = found.leverage[np.argsort(found.rows)]
    assert leverage[:25].mean() > leverage[25:].mean() + 0.2
    i = int(found.rows[0])
    keep = np.arange(50) != i
    points, y = process.data.points, process.data.targets
    weights = process.data.weights
    kept = Data.of(points[keep], y[keep], weights.relative_noise[keep])
    moved = process.law(points, "mean").mean - process.conditioned(kept).law(points, "mean").mean
    s = process.noise.variance * weights.relative_noise * process.units.scale[0] ** 2
    distance = (np.square(moved[:, 0]) / s).sum() / found.n_effective
    assert found.cooks_distance[0] == pytest.approx(distance, rel=1e-6)


def test_an_outlier_is_named_and_right_rows_are_not() -> None:
    y = targets()
    model = cgp.ExactGPRegressor(lengthscale=1.0, outputscale=2.0, noise=0.04, optimizer=None)
    assert not row_influence(model.fit(X, y)).influential.size
    y[7] += 4.0
    found = row_influence(model.fit(X, y), TEST)
    assert 7 in found.influential
    assert "outliers that move predictions" in found.verdict()
    assert str(7) in found.notebook().cards[0].sentence
    assert found.to_frame().shape == (50, 6)
    report = cross_validate(model)
    assert 7 in report.influence.influential
    assert report.to_dict()["influence"]["rows"][0]["row"] == int(report.influence.rows[0])
    assert "Do single rows move the posterior?" in report.to_html()
    assert cross_validate(model, groups=np.arange(50) // 5).influence is None


def test_few_rows_can_be_asked_for() -> None:
    model = MODELS[0].fit(X, targets())
    every, few = row_influence(model), row_influence(model, max_rows=5)
    assert len(few.rows) == 5
    assert set(few.rows) == set(every.rows[np.argsort(-np.abs(every.dffits))[:5]])
    np.testing.assert_allclose(few.n_effective, every.n_effective)


def test_other_models_are_refused() -> None:
    averaged = cgp.ExactGPRegressor(
        hyperparameters="averaged", n_hyperparameter_draws=8, random_state=0
    ).fit(X, targets())
    with pytest.raises(InvalidInputError, match="one process, got a mixture"):
        row_influence(averaged)
    with pytest.raises(InvalidInputError, match="Gaussian noise and one output"):
        row_influence(cgp.ExactGPRegressor().fit(X, np.column_stack([targets(), targets(2)])))
    with pytest.raises(InvalidInputError, match="max_rows"):
        row_influence(MODELS[0].fit(X, targets()), max_rows=0)
