"""Every figure of `compare` against a plain recomputation, for models of any library."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge

from coupledgp import ExactGPRegressor, SparseSpectrumGPRegressor
from coupledgp.diagnostics import compare
from coupledgp.errors import InvalidInputError, NumericalError

HYPER: dict[str, Any] = {
    "lengthscale": [1.0, 2.0], "outputscale": 1.3, "noise": 0.2, "optimizer": None,
}  # fmt: skip


def table(n: int, n_outputs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    y = np.sin(X @ rng.normal(size=(2, max(n_outputs, 1)))) * [5.0, 0.1, 2.0][: max(n_outputs, 1)]
    y = 3 + y + 0.3 * rng.normal(size=y.shape)
    return X, y[:, 0] if n_outputs == 0 else y


def sparse(**options: Any) -> SparseSpectrumGPRegressor:
    return SparseSpectrumGPRegressor(**{"n_frequencies": 12, "random_state": 0, **HYPER, **options})


def plain_kl(mp: np.ndarray, cp: np.ndarray, mq: np.ndarray, cq: np.ndarray) -> float:
    difference = mq - mp
    return 0.5 * float(
        np.trace(np.linalg.solve(cq, cp))
        - len(mp)
        + difference @ np.linalg.solve(cq, difference)
        + np.linalg.slogdet(cq)[1]
        - np.linalg.slogdet(cp)[1]
    )


def quadrature_crps(y: float, mean: float, std: float) -> float:
    """`int (F(t) - [t >= y])^2 dt` by quadrature."""
    law = stats.norm(mean, std)
    left = integrate.quad(lambda t: law.cdf(t) ** 2, mean - 12 * std, y, points=[mean])[0]
    right = integrate.quad(lambda t: law.sf(t) ** 2, y, mean + 12 * std, points=[mean])[0]
    return left + right


def plain_figures(model: Any, reference: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """All figures from the definitions of MATH 7, output by output, then averaged."""
    p, outputs = len(X), y.shape[1] if y.ndim == 2 else 1
    laws = {}
    for name, estimator in (("model", model), ("reference", reference)):
        mean, cov = estimator.predict(X, return_cov=True)
        prior = estimator.prior_covariance(X)
        laws[name] = (
            mean.reshape(p, outputs), cov.reshape(p, p, outputs), prior.reshape(p, p, outputs),
            np.atleast_1d(estimator.noise_),
        )  # fmt: skip
    y = y.reshape(p, outputs)
    parts: list[dict[str, Any]] = []
    for k in range(outputs):
        (m, c, g, s), (rm, rc, rg, rs) = (
            (mean[:, k], cov[..., k], prior[..., k], noise[k])
            for mean, cov, prior, noise in (laws["model"], laws["reference"])
        )
        zero, eye = np.zeros(p), np.eye(p)
        part = {
            "kl_per_point": plain_kl(rm, rc, m, c) / p,
            "reverse_kl_per_point": plain_kl(m, c, rm, rc) / p,
            "prior_kl_per_point": plain_kl(zero, rg + rs * eye, zero, g + s * eye) / p,
            "kernel_rmse": np.sqrt(((g - rg) ** 2).mean()),
            "kernel_relative_error": np.sqrt(((g - rg) ** 2).sum() / (rg**2).sum()),
        }
        for prefix, mean, cov in (("", m, c), ("reference_", rm, rc)):
            std = np.sqrt(np.diag(cov))
            part[f"{prefix}mse"] = ((y[:, k] - mean) ** 2).mean()
            part[f"{prefix}nlpd"] = -stats.norm(mean, std).logpdf(y[:, k]).mean()
            part[f"{prefix}mae"] = np.abs(y[:, k] - mean).mean()
            part[f"{prefix}crps"] = np.mean(
                [quadrature_crps(*point) for point in zip(y[:, k], mean, std, strict=True)]
            )
            part[f"{prefix}variance"] = (std**2).mean()
            transforms = stats.norm(mean, std).cdf(y[:, k])
            for bin_ in range(10):
                inside = (bin_ / 10 <= transforms) & (transforms < (bin_ + 1) / 10)
                part[f"{prefix}pit{bin_}"] = inside.mean()
            part[f"{prefix}nlpd_joint"] = -stats.multivariate_normal(mean, cov).logpdf(y[:, k]) / p
            for level in (0.5, 0.8, 0.95):
                low, high = stats.norm(mean, std).interval(level)
                part[f"{prefix}width{level}"] = (high - low).mean()
                part[f"{prefix}{level}"] = ((low <= y[:, k]) & (y[:, k] <= high)).mean()
        parts.append(part)
    figures: dict[str, Any] = {key: np.mean([part[key] for part in parts]) for key in parts[0]}
    for prefix in ("", "reference_"):
        figures[f"{prefix}rmse"] = np.sqrt(figures.pop(f"{prefix}mse"))
        figures[f"{prefix}sharpness"] = np.sqrt(figures.pop(f"{prefix}variance"))
        figures[f"{prefix}pit"] = pytest.approx(
            tuple(figures.pop(f"{prefix}pit{bin_}") for bin_ in range(10))
        )
        for name, key in (("coverage", ""), ("interval_width", "width")):
            figures[f"{prefix}{name}"] = {
                level: pytest.approx(figures.pop(f"{prefix}{key}{level}"))
                for level in (0.5, 0.8, 0.95)
            }
    return figures


@pytest.mark.parametrize(("features", "n_outputs"), [("fourier", 3), ("laplace", 0)])
def test_every_figure(features: str, n_outputs: int, rng: np.random.Generator) -> None:
    X, y = table(60, n_outputs, rng)
    gp = sparse(features=features, lengthscale=[2.0, 3.0]).fit(X[:40], y[:40])
    report = compare(gp, X[40:], y[40:])
    figures = vars(report.figures)
    assert figures.pop("n_test") == 20
    assert figures.pop("n_outputs") == max(n_outputs, 1)
    gaps = figures.pop("differences")
    for prefix in ("", "reference_"):
        errors = figures.pop(f"{prefix}standard_errors")
        assert set(errors) == {"rmse", "mae", "nlpd", "crps"}
        assert min(errors.values()) > 0
    assert figures.pop("n_scored") is None
    expected = plain_figures(gp, gp.exact_twin(), X[40:], y[40:])
    for name, key, power in (
        ("squared_error", "rmse", 2), ("absolute_error", "mae", 1), ("nlpd", "nlpd", 1),
        ("crps", "crps", 1),
    ):  # fmt: skip
        gap = expected[key] ** power - expected[f"reference_{key}"] ** power
        assert gaps[name]["mean"] == pytest.approx(gap, rel=1e-6, abs=1e-10)
        assert gaps[name]["standard_error"] > 0
    assert set(figures) == set(expected)
    for name, value in expected.items():
        if name.endswith(("coverage", "interval_width", "pit")):
            assert figures[name] == value, name
        else:
            assert figures[name] == pytest.approx(value, rel=1e-7, abs=1e-12), name
    assert figures["kl_per_point"] > 0
    assert figures["kl_per_point"] != pytest.approx(figures["reverse_kl_per_point"], rel=1e-6)


def test_predictions_of_the_report(rng: np.random.Generator) -> None:
    X, y = table(50, 3, rng)
    gp = sparse().fit(X[:40], y[:40])
    predictions = compare(gp, X[40:], y[40:]).predictions
    for estimator, mean, std in (
        (gp, predictions.mean, predictions.std),
        (gp.exact_twin(), predictions.reference_mean, predictions.reference_std),
    ):
        expected = estimator.predict(X[40:], return_std=True)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-10)
        np.testing.assert_allclose(std, expected[1], rtol=1e-10)
    np.testing.assert_array_equal(predictions.y, y[40:])


def test_without_targets_no_score(rng: np.random.Generator) -> None:
    X, y = table(40, 0, rng)
    gp = sparse().fit(X[:30], y[:30])
    with_targets, without = compare(gp, X[30:], y[30:]), compare(gp, X[30:])
    for name in ("kl_per_point", "reverse_kl_per_point", "prior_kl_per_point", "kernel_rmse"):
        assert getattr(without, name) == getattr(with_targets, name)
    for name in ("rmse", "nlpd", "nlpd_joint", "coverage"):
        assert getattr(without, name) is None
        assert getattr(without, f"reference_{name}") is None
        assert getattr(with_targets, name) is not None
    assert without.predictions.y is None


def test_a_model_is_no_distance_from_itself(rng: np.random.Generator) -> None:
    X, y = table(40, 0, rng)
    exact = ExactGPRegressor(**HYPER).fit(X, y)
    report = compare(exact, X[:15], y[:15])
    assert 0 <= report.kl_per_point < 1e-12
    assert report.kernel_rmse == 0
    assert report.rmse == report.reference_rmse


def test_more_frequencies_come_closer(rng: np.random.Generator) -> None:
    X, y = table(80, 0, rng)
    means = []
    for m in (4, 32, 256):
        models = [sparse(n_frequencies=m, random_state=state) for state in range(8)]
        reports = [compare(gp.fit(X[:60], y[:60]), X[60:]) for gp in models]
        means.append(np.mean([np.log(report.kl_per_point) for report in reports]))
    assert means[0] > means[1] + 0.5 > means[2] + 1


def their_gp() -> GaussianProcessRegressor:
    """scikit-learn's model with its noise as a part of the kernel, hence of `predict`."""
    kernel = ConstantKernel(1.3) * RBF([1.0, 2.0]) + WhiteKernel(0.2)
    return GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True, alpha=0.0)


@pytest.mark.parametrize("n_outputs", [0, 3])
def test_models_of_another_library(n_outputs: int, rng: np.random.Generator) -> None:
    X, y = table(50, n_outputs, rng)
    theirs, ours = their_gp().fit(X[:40], y[:40]), ExactGPRegressor(**HYPER).fit(X[:40], y[:40])
    report = compare(theirs, X[40:], y[40:], reference=ours)
    assert 0 <= report.kl_per_point < 1e-10
    assert report.nlpd == pytest.approx(report.reference_nlpd, rel=1e-7)
    assert report.nlpd_joint == pytest.approx(report.reference_nlpd_joint, rel=1e-7)
    for name in ("prior_kl_per_point", "kernel_rmse", "kernel_relative_error"):
        assert getattr(report, name) is None
    assert "GaussianProcessRegressor" in report.model
    back = compare(ours, X[40:], y[40:], reference=theirs)
    assert back.kl_per_point < 1e-10


def test_a_foreign_model_against_a_sparse_one(rng: np.random.Generator) -> None:
    X, y = table(50, 0, rng)
    gp, theirs = sparse().fit(X[:40], y[:40]), their_gp().fit(X[:40], y[:40])
    own = compare(gp, X[40:], y[40:])
    foreign = compare(gp, X[40:], y[40:], reference=theirs)
    assert foreign.kl_per_point == pytest.approx(own.kl_per_point, rel=1e-6)
    assert foreign.reverse_kl_per_point == pytest.approx(own.reverse_kl_per_point, rel=1e-6)


def test_one_point_tells_no_better_from_worse(rng: np.random.Generator) -> None:
    X, y = table(30, 0, rng)
    gp = sparse().fit(X, y)
    assert "One point does not say" in compare(gp, X[:1], y[:1] + 4).verdict()
    assert "One point" not in compare(gp, X[:2], y[:2]).verdict()


class TestErrors:
    @pytest.fixture
    def gp(self, rng: np.random.Generator) -> SparseSpectrumGPRegressor:
        return sparse().fit(*table(30, 0, rng))

    def test_no_reference(self, rng: np.random.Generator) -> None:
        X, y = table(20, 0, rng)
        message = r"reference: GaussianProcessRegressor has no exact_twin\(\); give a fitted"
        with pytest.raises(InvalidInputError, match=message):
            compare(their_gp().fit(X, y), X)

    def test_no_covariance(self, gp: Any, rng: np.random.Generator) -> None:
        X, y = table(20, 0, rng)
        ridge = BayesianRidge().fit(X, y)
        message = r"expected an estimator with predict\(X, return_cov=True\), got BayesianRidge"
        with pytest.raises(InvalidInputError, match=f"model: {message}"):
            compare(ridge, X, reference=gp)
        with pytest.raises(InvalidInputError, match=f"reference: {message}"):
            compare(gp, X, reference=ridge)

    @pytest.mark.parametrize("shape", [(4,), (6,), (5, 2), (1, 5)])
    def test_targets_of_another_shape(self, gp: Any, shape: tuple[int, ...]) -> None:
        with pytest.raises(InvalidInputError, match=r"y_test: expected shape \(5, 1\) or \(5,\)"):
            compare(gp, np.zeros((5, 2)) + np.arange(5)[:, None], np.zeros(shape))

    def test_flat_targets_of_several_outputs(self, rng: np.random.Generator) -> None:
        X, y = table(30, 3, rng)
        with pytest.raises(InvalidInputError, match=r"y_test: expected shape \(10, 3\)"):
            compare(sparse().fit(X, y), X[:10], y[:10, 0])

    def test_targets_that_are_not_finite(self, gp: Any) -> None:
        with pytest.raises(InvalidInputError, match="y_test: expected finite values"):
            compare(gp, np.eye(2), [0.0, np.nan])

    def test_targets_that_are_no_numbers(self, gp: Any) -> None:
        with pytest.raises(InvalidInputError, match=r"y_test: expected numbers, .*'a'"):
            compare(gp, np.zeros((3, 2)), ["a", "b", "c"])

    def test_no_points(self, gp: Any) -> None:
        with pytest.raises(InvalidInputError, match="X_test: expected at least one point"):
            compare(gp, np.zeros((0, 2)))

    def test_another_number_of_outputs(self, gp: Any, rng: np.random.Generator) -> None:
        other = sparse().fit(*table(30, 3, rng))
        message = r"reference: predicts shape \(2, 3\), model predicts \(2, 1\)"
        with pytest.raises(InvalidInputError, match=message):
            compare(gp, np.eye(2), reference=other)

    def test_a_covariance_of_another_shape(self, gp: Any) -> None:
        class Diagonal:
            def predict(self, X: np.ndarray, return_cov: bool) -> tuple[np.ndarray, np.ndarray]:
                return np.zeros(len(X)), np.ones(len(X))

        message = r"model: expected a covariance of shape \(2, 2\), got \(2,\)"
        with pytest.raises(InvalidInputError, match=message):
            compare(Diagonal(), np.eye(2), reference=gp)

    def test_a_singular_law(self, gp: Any) -> None:
        class Latent:
            def predict(self, X: np.ndarray, return_cov: bool) -> tuple[np.ndarray, np.ndarray]:
                return np.zeros(len(X)), np.ones((len(X), len(X))) - 1e-9 * np.eye(len(X))

        with pytest.raises(NumericalError, match="cov_q is not positive definite"):
            compare(Latent(), np.eye(2), reference=gp)


def test_data_without_noise(rng):
    """Next to nothing is left of the exact covariance; its rounding must not stop a comparison."""
    X = rng.normal(size=(60, 2))
    gp = SparseSpectrumGPRegressor(n_frequencies=64, random_state=0).fit(X, X[:, 0])
    assert 0 <= compare(gp, X[:20]).kl_per_point < 0.1
