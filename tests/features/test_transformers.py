"""The feature maps as scikit-learn transformers, where `RBFSampler` stands today."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierSampler, LaplaceSampler
from coupledgp.tables.samplers import seed_from_random_state

SAMPLERS = [FourierSampler, LaplaceSampler]
both = pytest.mark.parametrize("kind", SAMPLERS, ids=lambda kind: kind.__name__)
FEWEST_CHECKS = 46  # those of the oldest scikit-learn that is allowed


@both
# Some checks warn on purpose of what they feed in.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_check_estimator(kind: type) -> None:
    results = check_estimator(kind(n_frequencies=8), on_fail=None)
    troubles = {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"}
    assert not troubles
    assert not any(r["expected_to_fail"] for r in results)
    assert len(results) >= FEWEST_CHECKS


@both
def test_features_are_those_of_the_map(kind: type, rng: np.random.Generator) -> None:
    X = rng.normal(size=(9, 3))
    lengthscale = np.array([0.5, 1.0, 4.0])
    sampler = kind(lengthscale, n_frequencies=6, random_state=3).fit(X)
    expected = kind._feature_map(3, 6, sampler.coupling, "gaussian", 3)(X / lengthscale)
    np.testing.assert_array_equal(sampler.transform(X), expected.numpy())
    np.testing.assert_array_equal(sampler.lengthscale_, lengthscale)


def test_kernel_and_coupling_reach_the_map() -> None:
    sampler = FourierSampler(coupling="iid+stratified", kernel="matern-3/2", random_state=0)
    sampler.fit(np.ones((2, 2)))
    assert str(sampler.features_.coupling) == "iid+stratified"
    assert str(sampler.features_.spectrum) == "matern-3/2"


def test_approximates_the_kernel_that_rbf_sampler_approximates(rng: np.random.Generator) -> None:
    gamma, X = 0.4, rng.normal(size=(30, 3))
    exact = np.exp(-gamma * np.square(X[:, None] - X).sum(axis=2))
    ours = FourierSampler((2 * gamma) ** -0.5, 2000, random_state=0).fit_transform(X)
    theirs = RBFSampler(gamma=gamma, n_components=4000, random_state=0).fit_transform(X)
    assert ours.shape == theirs.shape
    # Five standard errors of an average of 2000 independent cosines.
    assert np.abs(ours @ ours.T - exact).max() < 5 / np.sqrt(2000)
    assert np.linalg.norm(ours @ ours.T - exact) < np.linalg.norm(theirs @ theirs.T - exact)


@pytest.mark.parametrize("sampler", [RBFSampler(), FourierSampler(), LaplaceSampler()], ids=repr)
class TestInterfaceOfRBFSampler:
    """The methods and attributes that code written for `RBFSampler` uses."""

    def test_fit_transform(self, sampler: Any, rng: np.random.Generator) -> None:
        X = rng.normal(size=(8, 3))
        sampler = clone(sampler).set_params(random_state=0)
        assert sampler.fit(X, np.arange(8)) is sampler
        np.testing.assert_array_equal(sampler.transform(X), sampler.fit_transform(X, np.arange(8)))
        assert sampler.n_features_in_ == 3
        assert sampler.transform(X).shape == (8, 100)
        with pytest.raises(ValueError, match=r"2 features, but .* expecting 3"):
            sampler.transform(X[:, :2])

    def test_feature_names_out(self, sampler: Any, rng: np.random.Generator) -> None:
        sampler = clone(sampler).fit(rng.normal(size=(4, 2)))
        names = sampler.get_feature_names_out()
        prefix = type(sampler).__name__.lower()
        assert list(names[:2]) == [f"{prefix}0", f"{prefix}1"]
        assert len(names) == 100

    def test_data_frames(self, sampler: Any, rng: np.random.Generator) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(rng.normal(size=(6, 2)), columns=["a", "b"])
        sampler = clone(sampler).set_params(random_state=0).set_output(transform="pandas")
        result = sampler.fit_transform(frame)
        assert list(sampler.feature_names_in_) == ["a", "b"]
        assert list(result.columns) == list(sampler.get_feature_names_out())

    def test_random_state(self, sampler: Any) -> None:
        X = np.linspace(0, 1, 6)[:, None]

        def features(random_state: Any) -> np.ndarray:
            return clone(sampler).set_params(random_state=random_state).fit_transform(X)

        np.testing.assert_array_equal(features(0), features(0))
        assert (features(0) != features(1)).any()
        first, second = (np.random.RandomState(5) for _ in range(2))
        np.testing.assert_array_equal(features(first), features(second))
        assert (features(first) != features(np.random.RandomState(5))).any()
        assert (features(None) != features(None)).any()

    def test_in_a_pipeline_and_a_grid(self, sampler: Any, rng: np.random.Generator) -> None:
        X = rng.normal(size=(60, 2))
        y = np.sin(X[:, 0]) + X[:, 1]
        pipeline = make_pipeline(StandardScaler(), clone(sampler), Ridge(1e-3))
        name = type(sampler).__name__.lower()
        grid = {f"{name}__random_state": [0, 1]}
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
        assert np.isfinite(search.best_score_)
        assert search.predict(X).shape == (60,)


@both
def test_parameters_are_not_changed_by_fit(kind: type) -> None:
    lengthscale = [1.0, 2.0]
    sampler = kind(lengthscale, random_state=0)
    before = sampler.get_params()
    sampler.fit(np.ones((3, 2)))
    assert sampler.get_params() == before
    assert sampler.lengthscale is lengthscale


@both
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lengthscale": -1.0}, "lengthscale: expected finite numbers > 0"),
        ({"lengthscale": [1.0, 2.0, 3.0]}, r"lengthscale: expected a scalar or 2 values"),
        ({"lengthscale": "long"}, "lengthscale: expected numbers > 0, got 'long'"),
        ({"n_frequencies": 0}, "n_frequencies: expected an int >= 1"),
        ({"coupling": "ortho"}, "coupling: expected one of"),
    ],
)
def test_errors(kind: type, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        kind(**parameters).fit(np.ones((3, 2)))


def test_unknown_kernel() -> None:
    with pytest.raises(InvalidInputError, match="expected one of 'gaussian', 'laplace'"):
        FourierSampler(kernel="gauss").fit(np.ones((3, 2)))


def test_seed_from_random_state() -> None:
    assert seed_from_random_state(0) == 0
    assert seed_from_random_state(np.int64(7)) == 7
    state = np.random.RandomState(1)
    assert seed_from_random_state(state) != seed_from_random_state(state)
