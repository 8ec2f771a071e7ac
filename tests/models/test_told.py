"""The sentences about the data that stand before kernels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp

RNG = np.random.default_rng(1)
X = pd.DataFrame(
    {"load": RNG.normal(size=80), "age": RNG.normal(size=80), "lot": RNG.normal(size=80)}
)
Y = (3 * X["load"] + np.sin(2 * X["age"]) + 0.2 * RNG.normal(size=80)).to_numpy()


def model(rows=X, **options):
    return cgp.ExactGPRegressor(random_state=0, **options).fit(rows, Y)


def test_the_error_is_that_of_rows_that_are_left_out():
    fitted = model()
    found = re.search(
        r"off by ([\d.]+) where one of 80 rows .* varies by ([\d.]+)", fitted.explain()
    )
    apart = [fitted.conditioned_on(X.drop(k), np.delete(Y, k)) for k in range(80)]
    error = [Y[k] - one.predict(X.loc[[k]])[0] for k, one in enumerate(apart)]
    assert float(found[1]) == pytest.approx(np.sqrt(np.mean(np.square(error))), rel=0.01)
    assert float(found[2]) == pytest.approx(Y.std(), rel=0.01)


def test_noise_of_a_mixture_is_that_of_all_members():
    fitted = model(hyperparameters="averaged")
    found = re.search(r"noise alone has a standard deviation of (\d*\.\d+)", fitted.explain())
    each = np.array([one.noise_ for one in fitted.members_])
    assert np.ptp(each) > 0.05 * each.mean()
    assert float(found[1]) == pytest.approx(np.sqrt(fitted.member_weights_ @ each), rel=0.005)


def test_columns_are_in_order_of_what_they_move():
    line = model().explain().splitlines()[1]
    assert re.findall(r"(load|age|lot) \(", line)[:2] == ["load", "age"]


def test_columns_that_look_like_identifiers_are_named():
    fitted = model(X.assign(patient=[f"p{k % 60}" for k in range(80)]), missing="indicator")
    (line,) = [one for one in fitted.explain().splitlines() if one.startswith("patient ")]
    assert line.startswith(
        "patient has 60 levels on 80 rows, as identifiers have: drop it, or group"
    )
    few = model(X.assign(site=[f"s{k % 5}" for k in range(80)]), missing="indicator")
    assert "identifiers" not in few.explain()


@pytest.mark.filterwarnings("ignore:X. column 'day'. text of dates")
def test_text_of_dates_is_no_identifier():
    fitted = model(X.assign(day=[f"2024-05-{1 + k % 28:02d}" for k in range(80)]))
    (line,) = [one for one in fitted.explain().splitlines() if one.startswith("day ")]
    assert line == (
        "day holds dates as text, taken as a category: pandas.to_datetime makes dates of it."
    )


def test_a_model_without_its_rows_tells_nothing_of_them(tmp_path):
    fitted = cgp.SparseSpectrumGPRegressor(n_frequencies=16, random_state=0).fit(X, Y)
    fitted.save(tmp_path / "model.safetensors")
    assert "typically off" in fitted.explain()
    assert "typically off" not in cgp.load_model(tmp_path / "model.safetensors").explain()


def test_many_rows_and_counts_have_no_error_but_their_spread(monkeypatch):
    monkeypatch.setattr("coupledgp.models.explained.MOST_CUBES", 80.0**2)
    assert model().explain().startswith("80 rows, over which y has a standard deviation of ")


def test_long_lists_of_hyperparameters_are_cut():
    wide = pd.DataFrame(RNG.normal(size=(80, 40)))
    text = cgp.ExactGPRegressor(random_state=0, optimizer=None).fit(wide.to_numpy(), Y).explain()
    (line,) = [one for one in text.splitlines() if one.startswith("lengthscale")]
    assert line.endswith(" and 16 more")


def test_lengthscales_are_told_with_their_columns():
    """One for each column, however many columns its code has, and one in all without `ard`."""
    rows = X.assign(site=[f"s{k % 5}" for k in range(80)])
    line = next(one for one in model(rows).explain().splitlines() if one.startswith("lengthscale"))
    assert re.findall(r"([a-z]+) [\d.e+]+", line) == ["load", "age", "lot", "site"]
    assert re.search(r"^lengthscale: [\d.e+]+$", model(rows, ard=False).explain(), re.MULTILINE)


def test_reports_name_encoded_columns():
    rows = X.assign(site=[f"s{k % 5}" for k in range(80)])[["site", "load", "age", "lot"]]
    fitted, far = model(rows), rows.assign(lot=rows["lot"] + 50)
    with pytest.warns(UserWarning, match="rows are extrapolations"):
        mean, std = fitted.predict(far, return_std=True)
    assert "most in column `lot`" in cgp.posterior_report(fitted, far, Y).verdict()
    assert "most in column `lot`" in cgp.audit((mean, std), rows, Y, far, Y).verdict()
