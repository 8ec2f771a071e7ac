"""What estimators say of the search for their hyperparameters."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coupledgp as cgp
from coupledgp.core import ladder as ladder_module
from coupledgp.core.minimise import OPTIMIZERS, Minimum
from coupledgp.ground.parameters import folded


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)


def sparse(**options: Any) -> cgp.SparseSpectrumGPRegressor:
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, dict(n_frequencies=16, random_state=0, **options))
    )


@pytest.mark.parametrize(
    "make",
    [
        sparse,
        lambda **k: cgp.ExactGPRegressor(**folded(cgp.ExactGPRegressor, dict(random_state=0, **k))),
    ],
)
def test_a_search_that_stops_at_its_limit_warns(make: Any) -> None:
    X, y = table(60)
    with pytest.warns(ConvergenceWarning, match="max_iter: .* stopped after 2 iterations") as seen:
        model = make(max_iter=2).fit(X, y)
    assert seen[0].filename == __file__
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(max_iter=500).fit(X, y).converged_
        assert make(max_iter=1, optimizer=None).fit(X, y).converged_


def test_the_rows_of_the_search_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(600)
    assert "the table was searched whole" in sparse().fit(X, y).search_.explain()
    assert "kept" in sparse(optimizer=None).fit(X, y).search_.explain()
    monkeypatch.setattr(ladder_module, "FIRST_ROWS", 64)
    model = sparse().fit(X, y)
    sizes = [rung.n_rows for rung in model.search_.rungs]
    assert sizes[:2] == [64, 256]
    assert model.search_.n_held_out == 75
    assert model.search_.explain().startswith("Lengthscales from ")
    on_rungs = sum(rung.n_evaluations for rung in model.search_.rungs)
    assert on_rungs < model.n_evaluations_ <= on_rungs + 1 + len(sizes)  # comparisons, and the end
    assert model.partial_fit(X[:5], y[:5]).search_.rungs[0].n_rows == 64


def test_variances_come_from_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the chosen lengthscales on the whole table, as without a search for the latter."""
    monkeypatch.setattr(ladder_module, "FIRST_ROWS", 64)
    X, y = table(600)
    model = sparse().fit(X, y)
    again = sparse(lengthscale=model.lengthscale_, fixed=("lengthscale",)).fit(X, y)
    assert model.noise_ == pytest.approx(again.noise_, rel=1e-6)
    assert model.outputscale_ == pytest.approx(again.outputscale_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X[:9]), again.predict(X[:9]), rtol=1e-6)


def test_a_search_that_ends_in_the_middle_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: Any, start: Any, box: Any, stopping: Any) -> Minimum:
        return Minimum(start, function(start)[0], 3, False)

    monkeypatch.setitem(OPTIMIZERS, "broken", broken)
    X, y = table(60)
    with pytest.warns(ConvergenceWarning, match="optimizer: .* ended after 3 iterations") as seen:
        model = sparse(optimizer="broken").fit(X, y)
    assert seen[0].filename == __file__
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match="optimizer: .* ended after 3 iterations"):
        sparse(optimizer="broken").fit_batches([(X, y)])
