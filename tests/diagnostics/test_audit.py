"""Audits of real models of other packages, and of plain predictions, against known answers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import coupledgp as cgp
from coupledgp.diagnostics import (
    StochasticOptions,
    compare,
    gaussian_kl,
    residual_correlation,
)
from coupledgp.diagnostics.rivals.tables import table_baselines
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded

gpytorch = pytest.importorskip("gpytorch")
RNG = np.random.default_rng(11)
X = RNG.uniform(-2, 2, (90, 2))
Y = 3 + np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=90)
TABLES = (X[:60], Y[:60], X[60:], Y[60:])
HYPER = {"lengthscale": [0.8, 3.0], "outputscale": 1.2, "noise": 0.05, "mean": 2.5}


def exact_law(kernel: Any, mean: float = 2.5) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of observations, by plain formulas and a kernel of scikit-learn."""
    train, test = TABLES[0], TABLES[2]
    gram = kernel(train) + HYPER["noise"] * np.eye(60)
    weights = np.linalg.solve(gram, kernel(train, test)).T
    found = mean + weights @ (TABLES[1] - mean)
    return found, kernel(test) - weights @ kernel(train, test) + 0.05 * np.eye(30)


EXACT = exact_law(1.2 * RBF([0.8, 3.0]))


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(array, dtype=torch.float64)


class TestScikitLearn:
    @pytest.mark.parametrize("normalize", [False, True])
    @pytest.mark.parametrize(
        ("kernel", "name"),
        [
            (1.5 * RBF([0.7, 2.0]) + WhiteKernel(0.1), "gaussian"),
            (WhiteKernel(0.1) + Matern(0.7, nu=1.5) * 2.0, "matern-1.5"),
            (Matern([1.0, 2.0], nu=np.inf) + WhiteKernel(0.1), "gaussian"),
            (RBF(1.0) + 0.3 * DotProduct() + WhiteKernel(0.1), "RBF"),
        ],
    )
    def test_an_exact_model_is_no_distance_from_itself(
        self, kernel: Any, name: str, normalize: bool
    ) -> None:
        model = GaussianProcessRegressor(kernel, alpha=0.03, normalize_y=normalize, optimizer=None)
        report = cgp.audit(model.fit(*TABLES[:2]), *TABLES)
        assert report.kl_per_point < 1e-12
        assert report.reverse_kl_per_point < 1e-12
        assert f"exact GP of {name}" in report.reference
        assert report.joint

    def test_noise_that_cannot_be_read(self) -> None:
        model = GaussianProcessRegressor(
            2.0 * (RBF() + WhiteKernel(0.1)) * ConstantKernel(), optimizer=None
        ).fit(*TABLES[:2])
        report = cgp.audit(model, *TABLES)
        assert report.reference is None
        assert "no exact process beside it (kernel: expected it stated" in report.remarks[0]
        rows = GaussianProcessRegressor(RBF(), alpha=np.full(60, 0.1), optimizer=None)
        with pytest.raises(InvalidInputError, match="one alpha, got one for each row"):
            cgp.audit(rows.fit(*TABLES[:2]), *TABLES)


class Exact(gpytorch.models.ExactGP):  # type: ignore[misc,name-defined]
    def __init__(self, kernel: Any) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(tensor(TABLES[0]), tensor(TABLES[1]), likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Variational(gpytorch.models.ApproximateGP):  # type: ignore[misc,name-defined]
    def __init__(self, inducing: torch.Tensor) -> None:
        law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, law))
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    forward = Exact.forward


def svgp(n_inducing: int) -> tuple[Any, Any]:
    """A variational model with the stated hyperparameters and its best variational law."""
    model = Variational(tensor(TABLES[0][:n_inducing])).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model.mean_module.constant.data.fill_(2.5)
    model.covar_module.outputscale = 1.2
    model.covar_module.base_kernel.lengthscale = torch.tensor([[0.8, 3.0]])
    likelihood.noise = 0.05
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=60)
    free = list(model.variational_strategy._variational_distribution.parameters())
    optimizer = torch.optim.LBFGS(free, max_iter=200, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = -objective(model(tensor(TABLES[0])), tensor(TABLES[1]))
        loss.backward()
        return loss

    optimizer.step(step)
    return model, likelihood


class TestGpytorch:
    def test_a_variational_model_needs_its_likelihood(self) -> None:
        model = Variational(tensor(TABLES[0][:4])).double()
        with pytest.raises(InvalidInputError, match=r"expected the pair \(model, likelihood\)"):
            cgp.audit(model, *TABLES)

    @pytest.mark.parametrize(
        "kernel",
        [
            gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2)),
            gpytorch.kernels.RBFKernel(),
            gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel(),
        ],
    )
    def test_an_exact_model(self, kernel: Any) -> None:
        model = Exact(kernel).double()
        assert cgp.audit(model, *TABLES).kl_per_point < 1e-10
        assert model.training
        assert cgp.audit(model.eval(), *TABLES).kl_per_point < 1e-10

    @pytest.mark.parametrize("n_inducing", [6, 60])
    def test_a_variational_model(self, n_inducing: int) -> None:
        model, likelihood = svgp(n_inducing)
        report = cgp.audit((model, likelihood), *TABLES)
        law = likelihood.eval()(model.eval()(tensor(TABLES[2])))
        own = law.mean.detach().numpy(), law.covariance_matrix.detach().numpy()
        expected = gaussian_kl(*EXACT, *own) / 30
        assert report.kl_per_point == pytest.approx(expected, rel=1e-5, abs=1e-10)
        assert report.reverse_kl_per_point == pytest.approx(
            gaussian_kl(*own, *EXACT) / 30, rel=1e-5, abs=1e-10
        )
        assert (expected > 0.1) if n_inducing == 6 else (expected < 1e-4)
        assert "outputscale=1.2, noise=0.05, mean=2.5" in report.reference

    def test_single_precision(self) -> None:
        kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        single = Exact(kernel)
        single.set_train_data(*(part.float() for part in map(tensor, TABLES[:2])), strict=False)
        assert cgp.audit(single.float(), *TABLES).kl_per_point < 1e-5


# The law of the same kernel with mean zero.
EXACT_OF_ZERO = exact_law(1.2 * RBF([0.8, 3.0]), mean=0.0)


class TestPredictions:
    def test_a_joint_law(self) -> None:
        wide = (EXACT[0] + 0.1, 1.3 * EXACT[1])
        report = cgp.audit(wide, *TABLES, kernel="gaussian", **HYPER)
        assert report.kl_per_point == pytest.approx(gaussian_kl(*EXACT, *wide) / 30)
        function = cgp.audit(lambda rows: wide, *TABLES, kernel="gaussian", **HYPER)
        assert function.figures == report.figures
        parts = (torch.as_tensor(part) for part in wide)
        normal = torch.distributions.MultivariateNormal(*parts, validate_args=False)
        of_torch = cgp.audit(normal, *TABLES, kernel="gaussian", **HYPER)
        assert of_torch.kl_per_point == pytest.approx(report.kl_per_point, rel=1e-6)
        latent = (wide[0], wide[1] - 0.05 * np.eye(30))
        noisy = cgp.audit(latent, *TABLES, kernel="gaussian", latent=True, **HYPER)
        assert noisy.kl_per_point == pytest.approx(report.kl_per_point)

    def test_laws_of_single_points(self) -> None:
        mean, std = EXACT[0] + 0.1, 1.2 * np.sqrt(np.diagonal(EXACT[1]))
        report = cgp.audit((mean, std), *TABLES, kernel="gaussian", **HYPER)
        ratio = np.diagonal(EXACT[1]) / std**2
        expected = 0.5 * np.mean(ratio - 1 - np.log(ratio) + 0.01 / std**2)
        assert report.kl_per_point == pytest.approx(expected)
        assert report.nlpd_joint is None
        assert report.reference_nlpd_joint is None
        assert "Only the laws of single points are known" in report.remarks[0]
        assert json.loads(report.to_json())["joint"] is False

    def test_draws(self, rng: np.random.Generator) -> None:
        draws = rng.multivariate_normal(*EXACT, size=2000)
        report = cgp.audit(draws, *TABLES, kernel="gaussian", **HYPER)
        assert 0.2 / 2000 < report.kl_per_point < 3 / 2000
        assert "of 2000 draws, which alone give one of about 0.0005" in report.remarks[2]
        below, _ = report.accuracy.bounds["kl_per_point"]
        error = report.accuracy.standard_errors["kl_per_point"]
        assert abs(report.kl_per_point - below) < 5 * error
        assert report.verdicts[2].colour == "green"

    def test_a_kernel_that_is_a_function_and_a_fitted_one(self) -> None:
        kernel = 1.2 * RBF([0.8, 3.0])
        report = cgp.audit(EXACT, *TABLES, kernel=lambda a, b: kernel(a, b), noise=0.05, mean=2.5)
        assert report.kl_per_point < 1e-12
        gp = cgp.SparseSpectrumGPRegressor(n_frequencies=20, random_state=0).fit(*TABLES[:2])
        expected = compare(gp, *TABLES[2:])
        assert cgp.audit(gp, *TABLES).kl_per_point == pytest.approx(expected.kl_per_point)
        law = gp.predict(TABLES[2], return_cov=True)
        by_law = cgp.audit(law, *TABLES, kernel=gp)
        assert by_law.kl_per_point == pytest.approx(expected.kl_per_point)

    @pytest.mark.parametrize("joint", [True, False])
    @pytest.mark.parametrize("tolerance", [0.03, 1e-3])
    def test_bounds_of_solves(self, joint: bool, tolerance: float) -> None:
        law = (EXACT[0] + 0.1, 1.3 * EXACT[1] if joint else np.sqrt(1.3 * np.diagonal(EXACT[1])))
        stated = {"kernel": "gaussian", **HYPER}
        dense = cgp.audit(law, *TABLES, **stated)
        options = StochasticOptions(tolerance=tolerance, rank=10)
        report = cgp.audit(law, *TABLES, method="stochastic", options=options, **stated)
        assert report.accuracy.method == "stochastic"
        assert "kl_per_point" in report.accuracy.bounds
        for name, (below, above) in report.accuracy.bounds.items():
            if not isinstance(true := getattr(dense, name, None), float):
                continue
            value = getattr(report, name)
            assert value - below - 1e-9 <= true <= value + above + 1e-9, name
        assert report.kl_per_point == pytest.approx(dense.kl_per_point, rel=0.1)

    def test_many_points_are_compared_at_a_random_subset(self) -> None:
        report = cgp.audit(
            EXACT, *TABLES, kernel="gaussian", options=StochasticOptions(n_columns=10), **HYPER
        )
        assert (report.n_test, report.kl_per_point) == (10, pytest.approx(0, abs=1e-12))
        assert "Measured at 10 of 30 test points" in report.remarks[0]
        asked = []

        def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            asked.append(rows)
            return np.zeros(len(rows)), np.ones(len(rows))

        options = StochasticOptions(n_columns=10)
        cgp.audit(predict, *TABLES, kernel="gaussian", options=options, **HYPER)
        assert [rows.shape for rows in asked] == [(10, 2)]

    def test_rows_that_were_trained_on(self) -> None:
        tables = (*TABLES[:2], np.vstack([TABLES[2], X[:4]]), np.concatenate([TABLES[3], Y[:4]]))
        gp = cgp.ExactGPRegressor(optimizer=None).fit(*TABLES[:2])
        report = cgp.audit(gp, *tables)
        assert report.verdict().startswith("4 of 34 test rows are training rows")
        rest = cgp.audit(gp, *tables, leave_out_overlap=True)
        assert rest.figures == cgp.audit(gp, *TABLES).figures
        assert rest.baselines == cgp.audit(gp, *TABLES).baselines


def test_page_and_json_have_the_three_verdicts() -> None:
    narrow = (EXACT[0], 0.1 * np.sqrt(np.diagonal(EXACT[1])))
    report = cgp.audit(narrow, *TABLES, kernel="gaussian", title="Rival", **HYPER)
    worth, honest, close = report.verdicts
    assert worth.sentence.startswith("The nearest observation predicts better")
    assert honest.sentence.startswith("Its intervals are too narrow: ")
    assert close.sentence.startswith("The posterior is far from the reference, as if ")
    assert close.detail.startswith("KL ")
    assert [one.colour for one in report.verdicts] == ["red"] * 3
    page = report.to_html()
    for text in ("Rival", "What else could be used", "Are its intervals honest?", "the mean"):
        assert text in page
    found = json.loads(report.to_json())
    assert [one["name"] for one in found["baselines"]][:3] == ["mean", "nearest", "linear"]
    assert found["calibration"]["coverage"]["0.95"] == report.coverage[0.95]


class TestWithoutAKernel:
    @pytest.mark.parametrize("joint", [True, False])
    def test_figures_are_those_of_the_law_alone(self, joint: bool) -> None:
        law = EXACT if joint else (EXACT[0], np.sqrt(np.diagonal(EXACT[1])))
        found = cgp.audit(law, *TABLES)
        beside = cgp.audit(law, *TABLES, kernel="gaussian", **HYPER)
        for name in ("rmse", "nlpd", "nlpd_joint", "crps", "coverage", "pit", "standard_errors"):
            assert getattr(found, name) == getattr(beside, name), name
        assert (found.nlpd_joint is not None) is joint
        for one, other in zip(found.baselines, beside.baselines, strict=True):
            assert one.differences["nlpd"]["mean"] == other.differences["nlpd"]["mean"]
        assert (found.baselines == beside.baselines) is joint
        assert found.calibration.coverage == beside.calibration.coverage
        assert (found.calibration == beside.calibration) is joint
        for name in ("reference", "kl_per_point", "reference_rmse", "differences"):
            assert getattr(found, name) is None, name

    def test_its_page_has_no_reference(self) -> None:
        report = cgp.audit((EXACT[0], np.sqrt(np.diagonal(EXACT[1]))), *TABLES)
        assert len(report.conclusions()) == 2
        assert "distance" not in report.tables()
        assert all(len(row) == 2 for row in report.tables()["scores"].rows)
        page = report.to_html()
        assert "Reference: none." in page
        assert "No kernel is stated" in page
        assert '<th scope="col">reference</th>' not in page
        assert "None" not in page
        assert json.loads(report.to_json())["kl_per_point"] is None
        assert set(report.scoring_table()) == {"obs", "mu", "sigma", "crps_normal", "logs_normal"}
        assert "reference" not in report._repr_html_()

    def test_a_law_of_f_with_the_noise_beside_it(self) -> None:
        latent = (EXACT[0], EXACT[1] - 0.05 * np.eye(30))
        found = cgp.audit(latent, *TABLES, latent=True, noise=0.05)
        assert found.nlpd == pytest.approx(cgp.audit(EXACT, *TABLES).nlpd)

    def test_many_points(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coupledgp.diagnostics.auditing.MAX_ALONE", 12)
        report = cgp.audit(EXACT, *TABLES)
        assert report.n_test == 12
        assert "Measured at 12 of 30 test points" in report.remarks[-1]


class TestResidualsOfNeighbours:
    def test_in_the_metric_of_the_kernel(self) -> None:
        kernel = {"kernel": "gaussian", "lengthscale": [0.8, 3.0], "noise": 0.05}
        gp = cgp.ExactGPRegressor(
            **folded(cgp.ExactGPRegressor, dict(**kernel, optimizer=None))
        ).fit(*TABLES[:2])
        law = gp.predict(TABLES[2], return_cov=True)
        expected = residual_correlation(gp, *TABLES[2:])
        for predict in (gp, law, (law[0], np.sqrt(np.diagonal(law[1])))):
            found = cgp.audit(predict, *TABLES, kernel=gp).evidence.misfit
            assert found.value == pytest.approx(expected.value)
            assert found.expected == pytest.approx(expected.expected, abs=0.02)

    def test_without_a_kernel(self) -> None:
        """Rows are in unit variances, so that another unit of a column changes nothing."""
        scaled = (X[:60] * [1, 50], Y[:60], X[60:] * [1, 50], Y[60:])
        one, other = (cgp.audit(EXACT, *rows).evidence.misfit for rows in (TABLES, scaled))
        assert one == other
        places = TABLES[2] / TABLES[0].std(axis=0)
        gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + np.diag(np.full(30, np.inf))
        residual = (TABLES[3] - EXACT[0]) / np.sqrt(np.diagonal(EXACT[1]))
        expected = residual @ residual[gaps.argmin(axis=1)] / (residual @ residual)
        assert one.value == pytest.approx(expected)
        alone = cgp.audit((EXACT[0], np.sqrt(np.diagonal(EXACT[1]))), *TABLES)
        assert alone.evidence.misfit is None

    def test_a_function_that_is_missed(self) -> None:
        rng = np.random.default_rng(0)
        rows = rng.uniform(-2, 2, (300, 1))
        y = np.sin(6 * rows[:, 0]) + 0.1 * rng.normal(size=300)
        smooth = GaussianProcessRegressor(RBF(3.0), alpha=0.5, optimizer=None)
        report = cgp.audit(
            smooth.fit(rows[:100], y[:100]), rows[:100], y[:100], rows[100:], y[100:]
        )
        assert report.evidence.misfit.is_misfit
        assert report.verdicts[0].colour in ("amber", "red")


def test_advice_names_no_parameter_of_this_package_for_others() -> None:
    wide = EXACT[0] + 1.0, EXACT[1]
    report = cgp.audit(wide, *TABLES, kernel="gaussian", **HYPER)
    actions = " ".join(one.action for one in report.advice)
    assert "more inducing points, features or neighbours" in actions
    assert "exact_twin" not in actions
    gp = cgp.ExactGPRegressor(optimizer=None).fit(*TABLES[:2])
    assert cgp.audit(gp, *TABLES).evidence.is_own
    assert not report.evidence.is_own


class TestFormsOfPredictions:
    STD = np.sqrt(np.diagonal(EXACT[1]))

    def same(self, prediction: Any, expected: Any) -> None:
        found, known = (cgp.audit(one, *TABLES) for one in (prediction, expected))
        assert found.crps == pytest.approx(known.crps, rel=1e-12)
        assert found.rmse == pytest.approx(known.rmse, rel=1e-12)

    def test_columns_by_name(self) -> None:
        frame = pd.DataFrame({"std": self.STD, "row": np.arange(30), "mean": EXACT[0]})
        for form in (frame, frame.to_dict("list"), frame.to_xarray()):
            self.same(form, (EXACT[0], self.STD))
        self.same((frame["mean"], frame["std"]), (EXACT[0], self.STD))

    @pytest.mark.long
    def test_chains_of_draws(self, rng: np.random.Generator) -> None:
        draws = rng.multivariate_normal(*EXACT, size=(4, 50))
        flat = draws.reshape(200, 30)
        self.same(draws, flat)
        named = xr.DataArray(np.moveaxis(draws, 2, 0), dims=("row", "chain", "draw"))
        self.same(named, flat)
        self.same(named.stack(sample=("chain", "draw")), flat)
        group = xr.Dataset({"y": named})
        self.same(xr.DataTree.from_dict({"posterior_predictive": group, "posterior": group}), flat)
        self.same({"posterior_predictive": group}, flat)  # as the older InferenceData has it
        with pytest.raises(InvalidInputError, match=r"one variable in .*, got 'y', 'z'; give"):
            cgp.audit({"posterior_predictive": group.assign(z=named)}, *TABLES)
        assert "stated by 200 draws" in cgp.audit(draws, *TABLES).remarks[0]

    def test_an_ensemble(self, rng: np.random.Generator) -> None:
        means, stds = rng.normal(size=(5, 30)), rng.uniform(0.5, 1, size=(5, 30))
        report = cgp.audit((means, stds), *TABLES)
        second = np.mean(stds**2 + means**2, axis=0)
        np.testing.assert_allclose(report.predictions.mean[:, 0], means.mean(axis=0))
        np.testing.assert_allclose(
            report.predictions.std[:, 0] ** 2, second - means.mean(axis=0) ** 2
        )
        assert "mixture of 5 Gaussian laws" in report.remarks[0]
        with pytest.raises(InvalidInputError, match="got -1 among them"):
            cgp.audit((means, -np.ones((5, 30))), *TABLES)

    def test_tables_with_categories_and_missing_values(self) -> None:
        colour = np.where(X[:, 1] > 0, "red", "green")
        frame = pd.DataFrame({"a": X[:, 0], "colour": colour})
        frame.loc[3, "a"] = np.nan
        tables = (frame[:60], Y[:60], frame[60:][["colour", "a"]], Y[60:])
        report = cgp.audit(lambda rows: (rows["a"], np.ones(len(rows))), *tables)
        np.testing.assert_array_equal(report.predictions.mean[:, 0], X[60:, 0])
        assert [one.name for one in report.baselines] == [
            "mean", "nearest", "linear", "plain process", "additive kernel", "boosted trees"
        ]  # fmt: skip
        with pytest.raises(InvalidInputError, match="X_test: expected columns 'a'"):
            cgp.audit(EXACT, *tables[:2], frame[60:][["colour"]], Y[60:])

    def test_several_outputs(self) -> None:
        two = np.column_stack([Y, Y])
        with pytest.raises(InvalidInputError, match="y_test: expected one output, got 2; audit"):
            cgp.audit(EXACT, X[:60], two[:60], X[60:], two[60:])


class TestBaselines:
    def test_beside_scikit_learn(self) -> None:
        x, y, new, _ = TABLES
        mean, nearest, linear = table_baselines(x, y, new)[:3]
        np.testing.assert_allclose(mean.mean, y.mean())
        np.testing.assert_allclose(linear.mean, LinearRegression().fit(x, y).predict(new))
        scaled = (x - x.mean(0)) / x.std(0), (new - x.mean(0)) / x.std(0)
        expected = KNeighborsRegressor(1).fit(scaled[0], y).predict(scaled[1])
        np.testing.assert_allclose(nearest.mean, expected)

    def test_their_laws_are_honest(self) -> None:
        """On linear data least squares holds its intervals, and the mean those of white noise."""
        rng, inside = np.random.default_rng(0), []
        for _ in range(200):
            x, new = rng.normal(size=(12, 3)), rng.normal(size=(40, 3))
            weights = rng.normal(size=3)
            y, targets = x @ weights + rng.normal(size=12), new @ weights + rng.normal(size=40)
            linear = table_baselines(x, y, new)[2]
            inside.append(np.mean(np.square((targets - linear.mean) / linear.std)))
        # Student's law of 8 degrees of freedom has the variance 8 / 6.
        assert np.mean(inside) == pytest.approx(8 / 6, rel=0.15)

    @pytest.mark.parametrize(
        "x",
        [
            np.ones((5, 2)),
            np.column_stack([np.arange(5.0), 2 * np.arange(5.0)]),
            np.repeat([[1.0, 2.0], [3.0, 1.0]], [3, 2], axis=0),
            np.array([[1.0, 2.0]]),
        ],
    )
    def test_tables_with_little_in_them(self, x: np.ndarray) -> None:
        for y in (np.arange(float(len(x))), np.zeros(len(x))):
            for one in table_baselines(x, y, x + 0.1):
                assert np.isfinite(one.mean).all()
                assert (one.std > 0).all()


class TestCalibration:
    def test_by_hand(self) -> None:
        y = np.array([0.0, 0.6, 1.2, 1.9, 2.1])
        found = Calibration.of(y, np.zeros(5), np.ones(5))
        assert found.coverage == {0.5: 0.4, 0.8: 0.6, 0.95: 0.8}
        assert found.binomial_error[0.8] == pytest.approx(0.4 / math.sqrt(5))
        assert found.standard_error[0.8] == pytest.approx(0.4 / math.sqrt(5), rel=0.05)
        assert found.off(0.8) == pytest.approx(-0.2 / found.standard_error[0.8])
        distances = stats.ks_1samp(y, stats.norm.cdf)
        assert found.pit_distance == pytest.approx(distances.statistic)
        assert found.pit_p_value == pytest.approx(distances.pvalue, abs=0.03)

    def test_points_that_go_together(self) -> None:
        """Four copies of each point: chance is twice as large."""
        y = np.repeat(np.random.default_rng(0).normal(size=50), 4)
        copies = np.kron(np.eye(50), np.full((4, 4), 1 - 1e-6)) + 1e-6 * np.eye(200)
        alone = Calibration.of(y, np.zeros(200), np.ones(200))
        found = Calibration.of(y, np.zeros(200), np.ones(200), copies)
        for level in (0.5, 0.8, 0.95):
            assert found.standard_error[level] == pytest.approx(
                2 * found.binomial_error[level], rel=0.07
            )
        assert found.pit_p_value > alone.pit_p_value

    @pytest.mark.parametrize(
        ("shift", "factor", "said"),
        [(0.0, 0.6, "narrow"), (0.0, 1.8, "too wide"), (0.27, 1.0, "off in shape or place")],
    )
    def test_laws_that_are_off(self, shift: float, factor: float, said: str) -> None:
        rng = np.random.default_rng(3)
        verdicts = [
            Calibration.of(rng.normal(size=400), np.full(400, shift), np.full(400, factor))
            for _ in range(20)
        ]
        assert sum(said in honesty(one).sentence for one in verdicts) >= 18

    def test_false_alarms(self) -> None:
        rng = np.random.default_rng(4)
        laws = np.zeros(80), np.ones(80)
        found = [honesty(Calibration.of(rng.normal(size=80), *laws)) for _ in range(200)]
        assert sum(one.colour != "green" for one in found) <= 8


class TestErrors:
    @pytest.mark.parametrize(
        ("predict", "options", "message"),
        [
            (EXACT, {"latent": True}, "noise: expected beside latent=True"),
            (EXACT, {"latent": True, "noise": -1.0}, "noise: expected"),
            (EXACT, {"kernel": "gaussian"}, "lengthscale, outputscale, noise: expected beside"),
            (EXACT, {"noise": 0.1}, "noise: expected a kernel beside it"),
            (EXACT, {"kernel": "gauss", **HYPER}, "kernel"),
            (EXACT, {"kernel": "gaussian", **HYPER, "lengthscale": [1, 2, 3]}, "lengthscale: exp"),
            (EXACT, {"kernel": "gaussian", **HYPER, "noise": -1.0}, "noise"),
            (EXACT, {"kernel": "gaussian", **HYPER, "method": "exact"}, "method"),
            ((EXACT[0][:9], EXACT[1]), {"kernel": "gaussian", **HYPER}, "expected 30 means"),
            ((EXACT[0], -np.ones(30)), {"kernel": "gaussian", **HYPER}, "got -1 among them"),
            ((EXACT[0], np.linalg.cholesky(EXACT[1])), {}, "expected a symmetric covariance"),
            ((EXACT[0], np.full(30, np.nan)), {"kernel": "gaussian", **HYPER}, "NaN or inf"),
            (np.ones((4, 30)), {"kernel": "gaussian", **HYPER}, "at least 8 draws of 30 points"),
            (EXACT[0], {}, r"expected standard deviations \(30,\) beside the means"),
            ("model", {"kernel": "gaussian", **HYPER}, "predict: expected a fitted model"),
            (EXACT, {"kernel": lambda a, b: np.ones(3), "noise": 0.1}, "finite covariances of sha"),
        ],
    )
    def test_arguments(self, predict: Any, options: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            cgp.audit(predict, *TABLES, **options)

    def test_a_function_is_not_solved_for(self) -> None:
        with pytest.raises(InvalidInputError, match="iterative solves need a stationary kernel"):
            cgp.audit(EXACT, *TABLES, kernel=RBF(), noise=0.1, method="stochastic")

    @pytest.mark.parametrize(
        ("place", "value", "message"),
        [
            (0, np.full((60, 2), np.nan), "X_train, y_train: expected finite values"),
            (1, np.ones(7), r"expected shapes \(n, d\) and \(n,\)"),
            (2, np.ones((30, 3)), "X_test: expected 2 columns, got 3"),
            (2, [["a", "b"]] * 30, "X_test: expected numbers"),
            (2, np.ones((0, 2)), "expected shapes"),
            (3, ["fail"] * 30, "y_test: expected numbers, .*; chances of classes are a mapping"),
        ],
    )
    def test_tables(self, place: int, value: Any, message: str) -> None:
        tables = list(TABLES)
        tables[place] = value
        with pytest.raises(InvalidInputError, match=message):
            cgp.audit(EXACT, *tables, kernel="gaussian", **HYPER)


def test_predictions_in_other_units_are_remarked_on() -> None:
    std = np.ones(len(TABLES[3]))
    far = cgp.audit((np.asarray(TABLES[3]) + 2.5 * np.std(TABLES[1]), std), *TABLES)
    near = cgp.audit((np.asarray(TABLES[3]) + 1.5 * np.std(TABLES[1]), std), *TABLES)
    told = [[one for one in report.remarks if "units" in one] for report in (far, near)]
    assert [len(one) for one in told] == [1, 0]


def test_a_bias_is_told_as_one_and_in_the_unit_of_the_reader() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(400, 1))
    y = pd.Series(10 + np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=400), name="fuel [l]")
    law = 10 + np.sin(6 * X[200:, 0]), np.full(200, 0.2)
    fair, biased = (
        cgp.audit((law[0] + shift, law[1]), X[:200], y[:200], X[200:], y[200:])
        for shift in (0.0, 0.12)
    )
    assert "units of fuel [l]" in fair.verdict()
    assert "units of y" not in fair.verdict()
    assert "below the predictions on average" in biased.verdicts[1].sentence
    assert biased.advice[0].action.startswith("Look for how test rows differ")
    assert not biased.evidence.findings.found
