"""Reports as groups of ArviZ, and tables as scoringrules takes them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics.scoring.arviz_groups import SCATTER
from coupledgp.errors import InvalidInputError, MissingLibraryError

RNG = np.random.default_rng(2)
X = RNG.uniform(-2, 2, (70, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=70)
TABLES = (X[:45], Y[:45], X[45:], Y[45:])
GP = cgp.SparseSpectrumGPRegressor(n_frequencies=12, random_state=0).fit(*TABLES[:2])
REPORT = cgp.audit(GP, *TABLES)
OTHER = cgp.audit((np.zeros(25), np.ones(25)), *TABLES)


def groups(report: Any, **options: Any) -> dict[str, Any]:
    """Data sets by group, whatever holds them."""
    found = report.to_arviz(**options)
    if isinstance(found, xr.DataTree):
        return {name: group.to_dataset() for name, group in found.children.items()}
    return {name: found[name] for name in found.groups()}


class TestGroups:
    def test_what_they_hold(self) -> None:
        found = groups(REPORT)
        y = found["posterior_predictive"]["y"]
        assert y.dims == ("chain", "draw", "point")
        assert y.shape == (4, 250, 25)
        np.testing.assert_array_equal(found["posterior"]["y"], y)
        np.testing.assert_array_equal(found["observed_data"]["y"], TABLES[3])
        np.testing.assert_array_equal(found["constant_data"]["X_test"], TABLES[2])
        for name in ("mean", "std", "reference_mean", "reference_std"):
            expected = getattr(REPORT.predictions, name)[:, 0]
            np.testing.assert_array_equal(found["constant_data"][name], expected)
        attributes = found["posterior_predictive"].attrs
        assert attributes["coupledgp_version"] == attributes["inference_library_version"]
        assert (attributes["joint"], attributes["seed"]) == (1, 0)
        assert "SparseSpectrumGPRegressor" in attributes["model"]

    def test_draws_have_the_joint_laws(self) -> None:
        found = groups(REPORT, n_chains=2, n_draws=4000)
        p = REPORT.predictions
        assert p.cov is not None
        assert p.reference_cov is not None
        for draws, mean, cov in (
            (found["posterior_predictive"]["y"], p.mean, p.cov),
            (found["predictions"]["reference"], p.reference_mean, p.reference_cov),
        ):
            rows = draws.to_numpy().reshape(8000, 25)
            root = np.linalg.cholesky(cov[..., 0])
            white = np.linalg.solve(root, (rows - mean[:, 0]).T)
            # Means and covariances of 8000 standard normal vectors, five standard errors.
            np.testing.assert_allclose(white.mean(axis=1), 0, atol=5 / np.sqrt(8000))
            np.testing.assert_allclose(np.cov(white), np.eye(25), atol=5 * np.sqrt(2 / 8000))

    def test_seeds(self) -> None:
        first, again, other = (groups(REPORT, seed=seed)["posterior"]["y"] for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert (first != other).all()

    def test_log_densities_are_those_of_the_law_in_every_draw(self) -> None:
        found = groups(REPORT, n_draws=3)["log_likelihood"]["y"].to_numpy()
        p = REPORT.predictions
        expected = stats.norm.logpdf(TABLES[3], p.mean[:, 0], p.std[:, 0])
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=2 * SCATTER)

    def test_without_reference_joint_law_or_targets(self) -> None:
        found = groups(OTHER, n_draws=500)
        assert "predictions" not in found
        assert found["posterior"].attrs["joint"] == 0
        white = found["posterior"]["y"].to_numpy().reshape(2000, 25)
        np.testing.assert_allclose(np.cov(white.T), np.eye(25), atol=5 * np.sqrt(2 / 2000))
        found = groups(cgp.diagnostics.compare(GP, TABLES[2]), n_draws=2)
        assert found.keys() == {"posterior", "posterior_predictive", "predictions", "constant_data"}

    def test_several_outputs(self) -> None:
        two = np.column_stack([Y, -2 * Y + X[:, 1]])
        gp = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X[:45], two[:45])
        found = groups(cgp.diagnostics.compare(gp, X[45:], two[45:]), n_draws=5)
        assert found["posterior"]["y"].dims == ("chain", "draw", "point", "output")
        assert found["log_likelihood"]["y"].shape == (4, 5, 25, 2)

    @pytest.mark.parametrize("option", ["n_chains", "n_draws"])
    def test_arguments(self, option: str) -> None:
        with pytest.raises(InvalidInputError, match=option):
            REPORT.to_arviz(**{option: 0})
        with pytest.raises(InvalidInputError, match="seed"):
            REPORT.to_arviz(seed=-1)

    def test_without_the_libraries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "arviz", None)
        assert isinstance(REPORT.to_arviz(n_draws=2), xr.DataTree)
        monkeypatch.setitem(sys.modules, "xarray", None)
        with pytest.raises(MissingLibraryError, match=r"coupledgp\[arviz\]"):
            REPORT.to_arviz()


@pytest.fixture(scope="module")
def arviz() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return pytest.importorskip("arviz")


class TestArviz:
    def test_loo_is_the_sum_of_the_held_out_log_densities(self, arviz: Any) -> None:
        found = arviz.loo(REPORT.to_arviz(), pointwise=True)
        elpd = found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd
        assert elpd == pytest.approx(-25 * REPORT.nlpd, abs=1e-6)
        assert abs(found.p_loo if hasattr(found, "p_loo") else found.p) < 1e-6
        assert float(found.pareto_k.max()) < 0.5

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_compare_has_the_paired_difference(self, arviz: Any) -> None:
        found = arviz.compare({"gp": REPORT.to_arviz(), "null": OTHER.to_arviz()})
        assert list(found.index) == ["gp", "null"]
        gap = 25 * (OTHER.nlpd - REPORT.nlpd)
        assert abs(float(found.loc["null", "elpd_diff"])) == pytest.approx(gap, rel=0.03)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_pictures_and_sizes(self, arviz: Any) -> None:
        found = REPORT.to_arviz()
        size = arviz.ess(found)["y"]
        assert float(size.min()) > 500
        if hasattr(arviz, "InferenceData"):
            import matplotlib as mpl

            mpl.use("Agg")
            arviz.plot_ppc(found, num_pp_samples=20)


class TestScoringrules:
    def test_the_table_is_theirs(self) -> None:
        table = REPORT.scoring_table()
        for prefix in ("", "reference_"):
            law = table["obs"], table[f"{prefix}mu"], table[f"{prefix}sigma"]
            np.testing.assert_allclose(
                table[f"{prefix}logs_normal"], -stats.norm.logpdf(*law), rtol=1e-10
            )

    @pytest.mark.long
    def test_beside_scoringrules(self) -> None:
        rules = pytest.importorskip("scoringrules")
        table = REPORT.scoring_table()
        for prefix in ("", "reference_"):
            law = table["obs"], table[f"{prefix}mu"], table[f"{prefix}sigma"]
            for name in ("crps_normal", "logs_normal"):
                np.testing.assert_allclose(
                    table[prefix + name], getattr(rules, name)(*law), rtol=0, atol=1e-10
                )

    def test_a_data_frame(self) -> None:
        frame = pd.DataFrame(REPORT.scoring_table())
        assert frame.shape == (25, 9)
        assert frame["crps_normal"].mean() == pytest.approx(REPORT.crps)
        assert frame["reference_logs_normal"].mean() == pytest.approx(REPORT.reference_nlpd)
