"""Public behaviour of the regressors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from coupledgp.core.column_moments import laplace_lengthscale
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.parameters import folded
from coupledgp.tables.weight_space import FeaturePrior

FITTED = [
    cgp.SparseSpectrumGPRegressor(n_frequencies=12, random_state=0),  # n > M
    cgp.SparseSpectrumGPRegressor(n_frequencies=80, random_state=0),  # n < M
    cgp.SparseSpectrumGPRegressor("matern-3/2", n_frequencies=30, random_state=0),
    cgp.SparseSpectrumGPRegressor(features="laplace", n_frequencies=20, random_state=0),
    cgp.ExactGPRegressor(random_state=0),
]
IDS = ["columns", "rows", "matern", "laplace", "exact"]


def table(n=90, k=1, seed=0):
    """Inputs with different scales and offsets, and noisy smooth targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1, 20, 0.05] + [0, 300, 7]
    f = np.sin(X[:, :1]) + 0.05 * (X[:, 1:2] - 300)
    y = 50 + 10 * (f * np.arange(1, k + 1) + 0.1 * rng.standard_normal((n, k)))
    return X, y[:, 0] if k == 1 else y


@pytest.fixture(params=range(len(FITTED)), ids=IDS, scope="module")
def gp(request):
    return clone(FITTED[request.param]).fit(*table())


def joint_law(gp, X, y, X_new):
    """Posterior of f at X_new and log evidence of y by plain n x n algebra."""
    both = np.concatenate([X, X_new])
    K = gp.prior_covariance(both)
    n, mean = len(X), y.mean()
    noisy = K[:n, :n] + gp.noise_ * np.eye(n)
    gain = np.linalg.solve(noisy, K[:n, n:]).T
    evidence = stats.multivariate_normal(np.full(n, mean), noisy).logpdf(y)
    return mean + gain @ (y - mean), K[n:, n:] - gain @ K[:n, n:], evidence


def test_predictions_and_evidence_equal_plain_algebra(gp):
    X, y = table()
    X_new = table(20, seed=1)[0]
    mean, cov, evidence = joint_law(gp, X, y, X_new)
    got_mean, got_cov = gp.predict(X_new, return_cov=True, latent=True)
    scale = np.abs(cov).max()
    np.testing.assert_allclose(got_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(got_cov, cov, atol=1e-8 * scale)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-9)


def test_std_is_exactly_the_root_of_the_diagonal(gp):
    X_new = np.concatenate([table()[0][:10], table(20, seed=1)[0]])
    for latent in (False, True):
        mean, std = gp.predict(X_new, return_std=True, latent=latent)
        mean_too, cov = gp.predict(X_new, return_cov=True, latent=latent)
        np.testing.assert_array_equal(std, np.sqrt(np.diagonal(cov)))
        np.testing.assert_array_equal(mean, mean_too)
        np.testing.assert_array_equal(mean, gp.predict(X_new))
        assert (std >= 0).all()


def test_observations_carry_the_noise(gp):
    X_new = table(5, seed=1)[0]
    cov_y = gp.predict(X_new, return_cov=True)[1]
    cov_f = gp.predict(X_new, return_cov=True, latent=True)[1]
    np.testing.assert_allclose(cov_y - cov_f, gp.noise_ * np.eye(5), atol=1e-10 * cov_y.max())


def test_samples_have_the_predictive_law(gp, seed):
    X_new, n = table(6, seed=1)[0], 4000
    mean, cov = gp.predict(X_new, return_cov=True)
    white = np.linalg.solve(np.linalg.cholesky(cov), gp.sample_y(X_new, n, seed) - mean[:, None])
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(n)
    # Entries of a sample covariance of white noise have variance 1/n, 2/n on the diagonal.
    assert np.abs(white @ white.T / n - np.eye(6)).max() < 5 * np.sqrt(2 / n)
    smooth = gp.sample_y(X_new, n, seed, latent=True)
    variance = gp.predict(X_new, return_std=True, latent=True)[1] ** 2
    assert np.abs(smooth.var(axis=1) / variance - 1).max() < 5 * np.sqrt(2 / n)


@pytest.mark.parametrize("model", FITTED[:4], ids=IDS[:4])
def test_samples_are_functions(model):
    gp = clone(model).fit(*table())
    X_new = table(9, seed=1)[0]
    whole = gp.sample_y(X_new, 4, random_state=3, latent=True)
    part = gp.sample_y(X_new[5:], 4, random_state=3, latent=True)
    np.testing.assert_allclose(whole[5:], part, rtol=1e-9)
    assert not np.allclose(whole, gp.sample_y(X_new, 4, random_state=4, latent=True))


def test_gradient_vanishes_at_the_fitted_hyperparameters(gp):
    """No small change of a hyperparameter raises the evidence."""
    X, y = table()
    best = gp.log_marginal_likelihood_value_
    variance = y.var()
    given = {
        "lengthscale": np.broadcast_to(gp.lengthscale_, 3),
        "outputscale": gp.outputscale_ / variance,
        "noise": gp.noise_ / variance,
    }
    laplace = getattr(gp, "features", "") == "laplace"
    for name in ["outputscale", "noise"] + ([] if laplace else ["lengthscale"]):
        for factor in (0.97, 1.03):
            moved = clone(gp).set_params(optimizer=None, **given | {name: given[name] * factor})
            assert moved.fit(X, y).log_marginal_likelihood_value_ < best + 1e-3


@pytest.mark.parametrize("model", FITTED, ids=IDS)
@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("size", [7, 40])
def test_partial_fit_equals_one_fit(model, normalize_y, size):
    X, y = table()
    given = {"lengthscale": [2.0, 40.0, 0.1], "noise": 0.02, "optimizer": None}
    if hasattr(model, "center"):
        given["options"] = {"center": X.mean(axis=0)}
    make = clone(model).set_params(normalize_y=normalize_y, **given)
    whole, parts = clone(make).fit(X, y), clone(make)
    for start in range(0, len(X), size):
        parts.partial_fit(X[start : start + size], y[start : start + size])
    X_new = table(20, seed=1)[0]
    for a, b in zip(
        whole.predict(X_new, return_cov=True), parts.predict(X_new, return_cov=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())
    assert parts.log_marginal_likelihood_value_ == pytest.approx(
        whole.log_marginal_likelihood_value_, rel=1e-9
    )
    np.testing.assert_array_equal(parts.X_train_, X)
    np.testing.assert_array_equal(parts.y_train_, y)


def test_several_outputs_are_independent_given_shared_hyperparameters():
    X, Y = table(k=3)
    X_new = table(4, seed=1)[0]
    for model in FITTED:
        gp = clone(model).fit(X, Y)
        mean, cov = gp.predict(X_new, return_cov=True)
        std = gp.predict(X_new, return_std=True)[1]
        assert mean.shape == std.shape == (4, 3)
        assert cov.shape == (4, 4, 3)
        assert gp.sample_y(X_new, 5).shape == (4, 3, 5)
        np.testing.assert_array_equal(std, np.sqrt(np.einsum("iik->ik", cov)))
        total = 0.0
        for j in range(3):
            one = clone(gp).set_params(
                optimizer=None,
                lengthscale=np.broadcast_to(gp.lengthscale_, 3),
                outputscale=gp.outputscale_[j] / Y[:, j].var(),
                noise=gp.noise_[j] / Y[:, j].var(),
            )
            one.fit(X, Y[:, j])
            np.testing.assert_allclose(one.predict(X_new), mean[:, j], rtol=1e-7)
            np.testing.assert_allclose(one.predict(X_new, return_std=True)[1], std[:, j], rtol=1e-7)
            total += one.log_marginal_likelihood_value_
        assert gp.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-8)


def test_exact_agrees_with_scikit_learn():
    X, y = table()
    X_new = table(20, seed=1)[0]
    for kernel, theirs in (
        ("gaussian", RBF([2.0, 40.0, 0.1])),
        ("matern-1/2", Matern([2.0, 40.0, 0.1], nu=0.5)),
        ("matern-5/2", Matern([2.0, 40.0, 0.1], nu=2.5)),
        ("matern-1.2", Matern([2.0, 40.0, 0.1], nu=1.2)),
    ):
        ours = cgp.ExactGPRegressor(
            kernel, lengthscale=[2.0, 40.0, 0.1], outputscale=1.3, noise=0.05, optimizer=None
        ).fit(X, y)
        peer = GaussianProcessRegressor(
            ConstantKernel(1.3) * theirs + WhiteKernel(0.05), optimizer=None, normalize_y=True
        ).fit(X, y)
        for a, b in zip(
            ours.predict(X_new, return_cov=True), peer.predict(X_new, return_cov=True), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * np.abs(b).max())


@pytest.mark.filterwarnings("ignore:The optimal value found")
def test_exact_fit_finds_at_least_scikit_learns_evidence():
    X, y = table()
    Z = StandardScaler().fit_transform(X)
    peer = GaussianProcessRegressor(
        ConstantKernel(1.0) * RBF(np.ones(3), (1e-2, 1e5)) + WhiteKernel(0.1), normalize_y=True
    ).fit(Z, y)
    jacobian = len(y) * np.log(y.std())
    ours = cgp.ExactGPRegressor(random_state=0).fit(Z, y)
    assert (
        ours.log_marginal_likelihood_value_ > peer.log_marginal_likelihood_value_ - jacobian - 0.1
    )


@pytest.mark.parametrize("model", FITTED[1:4], ids=IDS[1:4])
def test_many_features_approach_the_exact_twin(model):
    X, y = table()
    X_new = table(20, seed=1)[0]
    given = {"optimizer": None, "outputscale": 1.5, "noise": 0.05}
    if model.features == "fourier":
        given["lengthscale"] = [1.5, 40.0, 0.1]
    kl = []
    for m in (16, 4096):
        gp = clone(model).set_params(n_frequencies=m, **given).fit(X, y)
        kl.append(cgp.report(gp, X_new).score("kl"))
    assert kl[1] < kl[0] / 10  # the Monte Carlo rate of the kernel error squared is 1 / 256


def test_exact_twin_shares_data_hyperparameters_and_normalisation(gp):
    X, y = table()
    twin = gp.exact_twin()
    np.testing.assert_array_equal(twin.X_train_, X)
    np.testing.assert_array_equal(twin.lengthscale_, gp.lengthscale_)
    assert (twin.noise_, twin.outputscale_) == (gp.noise_, gp.outputscale_)
    again = clone(twin).fit(X, y)
    X_new = table(20, seed=1)[0]
    np.testing.assert_allclose(twin.predict(X_new), again.predict(X_new), rtol=1e-9)
    assert twin.log_marginal_likelihood_value_ == pytest.approx(
        again.log_marginal_likelihood_value_, rel=1e-9
    )


def test_conditioned_on_other_data_keeps_everything_else(gp):
    X, y = table()
    X_new = table(6, seed=1)[0]
    same = gp.conditioned_on(X, y)
    np.testing.assert_allclose(same.predict(X_new), gp.predict(X_new), rtol=1e-9)
    fewer = gp.conditioned_on(X[:30], y[:30])
    assert fewer.noise_ == gp.noise_
    wide, narrow = (m.predict(X_new, return_std=True, latent=True)[1] for m in (fewer, gp))
    assert (wide >= narrow * (1 - 1e-9)).all()
    assert len(gp.X_train_) == len(X)
    twin = fewer.exact_twin()
    assert twin.noise_ == gp.noise_
    assert len(twin.X_train_) == 30


@pytest.mark.long
def test_same_seed_same_bits_and_zero_is_a_seed():
    X, y = table()
    make = FITTED[0]
    first, second, other = (
        clone(make).set_params(random_state=s).fit(X, y).predict(X) for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_global_state_is_neither_read_nor_changed():
    X, y = table()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = clone(FITTED[0]).fit(X, y).predict(X)
    np.random.seed(5)  # noqa: NPY002
    np.testing.assert_array_equal(first, clone(FITTED[0]).fit(X, y).predict(X))
    np.random.set_state(("MT19937", before, 624, 0, 0.0))  # noqa: NPY002


@pytest.mark.filterwarnings("ignore::coupledgp.errors.ExtrapolationWarning")
@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
@pytest.mark.parametrize("model", FITTED[:2], ids=IDS[:2])
def test_awkward_tables(model):
    X, y = table(30)
    awkward = np.column_stack([X, X[:, 0], np.full(30, 3.0)])  # duplicate and constant columns
    assert np.isfinite(clone(model).fit(awkward, y).predict(awkward, return_std=True)).all()
    constant = clone(model).fit(X, np.full(30, 2.0))
    np.testing.assert_allclose(constant.predict(X), 2.0)
    few = clone(model).fit(X[:2], y[:2])  # fewer rows than columns
    assert np.isfinite(few.predict(X, return_std=True)).all()
    one = clone(model).fit(X[:1], y[:1])
    assert np.isfinite(one.predict(X, return_std=True)).all()
    duplicated = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.isfinite(duplicated.predict(X, return_std=True)).all()
    X.flags.writeable = y.flags.writeable = False
    clone(model).fit(X, y).predict(X)


BAD = [
    ({"kernel": "gausian"}, "kernel: expected one of .*'gaussian'"),
    (
        {"features": "wavelet"},
        "features: expected one of 'fourier', 'importance-laplace', 'laplace'; got 'wavelet'",
    ),
    ({"n_frequencies": 0}, "n_frequencies: expected an int >= 1, got 0"),
    ({"n_frequencies": 2.5}, "n_frequencies: expected an int >= 1, got 2.5"),
    ({"coupling": "orthogonal+pcn"}, "did you mean 'pnc'"),
    ({"lengthscale": [1.0, 2.0]}, r"lengthscale: expected a scalar or 3 values"),
    ({"lengthscale": -1.0}, "lengthscale: expected finite numbers > 0"),
    ({"noise": 0.0}, "noise: expected a finite number > 0"),
    ({"outputscale": np.nan}, "outputscale: expected a finite number > 0"),
    ({"optimizer": "adam"}, "optimizer: expected one of 'lbfgs'; got 'adam'"),
    ({"fixed": ("nois",)}, "fixed: expected one of .*did you mean 'noise'"),
    ({"frequencies": "learned"}, "frequencies: expected one of 'auto', 'fitted'"),
    ({"frequencies": "fitted", "features": "laplace"}, "only those of features='fourier'"),
    ({"frequencies": "fitted", "teacher_rows": 1}, "teacher_rows: expected an int >= 2, got 1"),
    ({"dtype": "float16"}, "dtype: expected one of"),
    ({"features": "laplace", "kernel": "matern-3/2"}, "LaplaceFeatures exist for 'gaussian' only"),
    ({"n_restarts": -1}, "n_restarts: expected an int >= 0, got -1"),
]


@pytest.mark.parametrize(("params", "message"), BAD, ids=lambda p: str(p)[:30])
def test_bad_parameters_are_named(params, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.SparseSpectrumGPRegressor(
            **folded(cgp.SparseSpectrumGPRegressor, {"n_frequencies": 4} | params)
        ).fit(*table(20))


def test_bad_data_is_named():
    gp = clone(FITTED[0])
    X, y = table(20)
    with pytest.raises(ValueError, match="NaN"):
        gp.fit(np.where(np.arange(20)[:, None] == 3, np.nan, X), y)
    with pytest.raises(ValueError, match="infinity"):
        gp.fit(X, np.where(np.arange(20) == 3, np.inf, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        gp.fit(X, y[:-1])
    gp.fit(X, y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        gp.predict(X[:, :2])
    with pytest.raises(InvalidInputError, match="y: expected 1 outputs"):
        gp.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(InvalidInputError, match="return_std, return_cov"):
        gp.predict(X, return_std=True, return_cov=True)


def test_a_failed_fit_leaves_a_fitted_model_as_it_was():
    X, y = table(20)
    gp = clone(FITTED[0]).fit(X, y)
    before = gp.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        gp.partial_fit(X * np.nan, y)
    np.testing.assert_array_equal(before, gp.predict(X))


def test_an_exact_model_that_cannot_fit_in_memory_is_refused():
    n = 10_000_000
    X = np.broadcast_to(np.zeros((1, 1)), (n, 1))
    gp = cgp.ExactGPRegressor()
    with pytest.raises(
        InvalidInputError, match=r"10000000 rows of the exact GP need about \d+ GiB"
    ):
        gp.fit(X, np.zeros(n))


def test_singular_posterior_names_the_remedy():
    X, y = table(20)
    gp = cgp.ExactGPRegressor(optimizer=None, noise=1e-70, lengthscale=1e6)
    with pytest.raises(NumericalError, match=r"condition number.*raise the noise"):
        gp.fit(X, y)


def test_laplace_rule():
    X = np.random.default_rng(0).standard_normal((40, 3))
    pairs = np.linalg.norm(X[:, None] + X[None], axis=2)
    rule = laplace_lengthscale(X, np.random.default_rng(0))
    assert rule == pytest.approx(2 * pairs.mean(), rel=1e-12)
    gp = cgp.SparseSpectrumGPRegressor(features="laplace", n_frequencies=8, ard=False)
    expected = laplace_lengthscale(X - X.mean(0), np.random.default_rng(0))
    assert gp.fit(X, X[:, 0]).lengthscale_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [60, 600])
def test_single_precision_is_close_to_double(n):
    X, y = table(n)
    given = {"optimizer": None, "lengthscale": [2.0, 40.0, 0.1], "noise": 0.01, "random_state": 0}
    single, double = (
        cgp.SparseSpectrumGPRegressor(
            **folded(
                cgp.SparseSpectrumGPRegressor, dict(n_frequencies=40, options={"dtype": t}, **given)
            )
        ).fit(X, y)
        for t in ("float32", "float64")
    )
    for a, b in zip(
        single.predict(X, return_std=True), double.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-3 * y.std())
    fitted = [clone(gp).set_params(optimizer="lbfgs").fit(X, y) for gp in (single, double)]
    values = [gp.log_marginal_likelihood_value_ for gp in fitted]
    assert abs(values[0] - values[1]) < 0.01 * n


def test_works_inside_scikit_learn():
    X, y = table(120)
    model = make_pipeline(StandardScaler(), clone(FITTED[0]))
    assert cross_val_score(model, X, y, cv=3).min() > 0.9


def test_column_names_are_checked():
    pd = pytest.importorskip("pandas")
    X, y = table(30)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    gp = clone(FITTED[0]).fit(frame, pd.Series(y))
    assert list(gp.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(frame[["b", "a", "c"]])


def test_a_fit_that_breaks_down_leaves_a_fitted_model_as_it_was(monkeypatch):
    X, y = table(20)
    gp = clone(FITTED[0]).fit(X, y)
    before = gp.predict(X)

    def fail(*arguments):
        raise NumericalError("broken")

    monkeypatch.setattr(FeaturePrior, "given", fail)
    with pytest.raises(NumericalError, match="broken"):
        gp.fit(X[:, :2], y)
    np.testing.assert_array_equal(before, gp.predict(X))


def test_nearly_degenerate_tables_are_fitted():
    """All rows alike but one: the optimum wants no noise, where the matrix is singular."""
    X = np.zeros((20_000, 2))
    X[-1] = 1.0
    y = X[:, 0].copy()
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=40, random_state=0, options={"n_restarts": 0})
    np.testing.assert_allclose(gp.fit(X, y).predict(X[-2:]), y[-2:], atol=0.01)


def test_a_fit_forgets_the_one_before(rng: np.random.Generator) -> None:
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies="auto", coupling="iid", options={"kl_target": 0.5}, random_state=0
    )
    gp.fit(X, y)
    assert gp.kl_per_point_ < 0.5
    gp.set_params(n_frequencies=8).fit(X[:, :2], y)
    assert not hasattr(gp, "kl_per_point_")
    assert not hasattr(gp, "selection_")
    fresh = cgp.SparseSpectrumGPRegressor(n_frequencies=8, coupling="iid", random_state=0)
    np.testing.assert_array_equal(gp.predict(X[:, :2]), fresh.fit(X[:, :2], y).predict(X[:, :2]))


def test_a_negative_seed_is_named() -> None:
    with pytest.raises(InvalidInputError, match="random_state: expected an int >= 0, got -1"):
        cgp.SparseSpectrumGPRegressor(random_state=-1).fit(np.ones((3, 1)), np.arange(3))
