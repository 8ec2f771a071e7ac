"""What a study says that couplings cannot gain: beside measured KLs, and where nothing is said."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.tables.coupling_search import select
from coupledgp.tables.gains import cannot_gain

COUPLINGS = ("iid", "orthogonal", "orthogonal+pnc")
LENGTHSCALE = 4.0


def fitted(X: np.ndarray, lengthscale: float = LENGTHSCALE, **options) -> tuple:
    """A model at given hyperparameters, which the rows need not be fitted for."""
    y = np.sin(X.sum(axis=1))
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=24, ard=False, lengthscale=lengthscale, outputscale=1.0, noise=0.1,
        optimizer=None, random_state=0, **options,
    )  # fmt: skip
    return model.fit(X, y), y


@pytest.fixture(scope="module")
def spread():
    """Rows in all directions alike: different differences are seldom parallel."""
    return np.random.default_rng(3).normal(size=(200, 5))


@pytest.fixture(scope="module")
def in_line():
    """Columns that are nearly one column: all differences are parallel."""
    rng = np.random.default_rng(4)
    return rng.normal(size=(200, 1)) + 0.05 * rng.normal(size=(200, 5))


def said(X, errors: float, size: int = 20, lengthscale: float = LENGTHSCALE, **options) -> str:
    model, _ = fitted(X, lengthscale, **options)
    couplings = {name: name for name in COUPLINGS}
    return cannot_gain(model, model.process_, couplings, dict.fromkeys(couplings, errors), size)


def test_directions_alike_gain_nothing_and_rows_in_a_line_do(spread, in_line) -> None:
    text = said(spread, 0.1)
    assert "Nothing that these draws could show" in text
    assert "orthogonal by " in text
    assert "orthogonal+pnc by " in text
    assert "the draws tell 28.3 %" in text
    assert said(in_line, 0.1) == ""
    # Draws that tell more leave less to say.
    assert said(spread, 1e-4) == ""


@pytest.mark.long
def test_the_study_measures_what_is_said(spread, in_line) -> None:
    """Orthogonal directions move the measured KL of rows in a line, and not of others."""
    ratios, texts = [], []
    for X in (spread, in_line):
        model, _ = fitted(X[:150])
        study = cgp.coupling_study(
            model, X[150:], couplings=COUPLINGS[:2], sizes=[10, 20], n_draws=24
        )
        means = study.draws[study.draws["size"] == 20].groupby("coupling").kl_per_point.mean()
        ratios.append(means["orthogonal"] / means["iid"])
        texts.append(study.verdict())
    assert "to second order the expected KL of independent frequencies changes" in texts[0]
    assert "Nothing that these draws" not in texts[1]
    assert 0.75 < ratios[0] < 1.25
    assert ratios[1] < 0.6


def test_a_search_says_it_too(spread) -> None:
    model, y = fitted(spread)
    found = select(model, spread, y, couplings=COUPLINGS, sizes=[96], n_draws=3)
    assert found.cannot_gain.startswith("Nothing that these draws could show")
    assert found.cannot_gain in found.explain()


@pytest.mark.long
def test_a_floor_of_norms_is_told_where_it_is_high(spread) -> None:
    """Beyond two lengthscales coupled norms of many columns gain little."""
    wide = np.random.default_rng(5).normal(size=(200, 12))
    text = said(wide, 10.0, size=480, lengthscale=1.6)
    assert "No coupling of the norms within a block lowers" in text
    assert "No coupling of the norms" not in said(spread, 10.0)


@pytest.mark.parametrize("rows", [20, 200])
def test_nothing_is_said_of_what_has_no_second_order(spread, rows: int) -> None:
    """Few rows, single frequencies, other features, and posteriors far from the exact one."""
    assert said(spread[:rows], 0.5, size=1) == ""
    if rows == 20:
        assert said(spread[:rows], 0.5) == ""
    assert said(spread, 0.5, features="laplace") == ""
    assert said(spread, 0.5, lengthscale=0.2) == ""
