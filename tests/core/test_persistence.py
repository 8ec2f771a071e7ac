"""Saved models predict the same bits in a new process, and a file that is not one is refused."""

import copy
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy

import coupledgp as cgp
from coupledgp.couplings import (
    DirectionsAndNorms,
    FrequencyCoupling,
    OrthogonalDirections,
    register_coupling,
)
from coupledgp.couplings.frequencies.registry import COUPLINGS
from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError
from coupledgp.ground.parameters import folded
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum
from tests.core.few_steps import take_few_steps
from tests.model_files import changed, opened, signed
from tests.new_process import run_new
from tests.registries import forgotten

RNG = np.random.default_rng(20250)
X = RNG.normal(size=(90, 3))
Y = np.stack([np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90), X[:, 1] * X[:, 2] + 1000.0], axis=1)
X_TEST = RNG.normal(size=(40, 3))
TABLE = pa.table({name: X[:, i] for i, name in enumerate(["alpha", "beta", "gamma"])})


def sparse(**parameters):
    defaults = {"n_frequencies": 24, "optimizer": None, "random_state": 3}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (defaults | parameters))
    )


MODELS = {
    "moments": lambda: sparse().fit(X, Y[:, 0]),
    "rows": lambda: sparse(n_frequencies=128).fit(X, Y[:, 0]),
    "float32": lambda: sparse(dtype="float32", coupling="sobol").fit(X, Y[:, 0]),
    "outputs": lambda: sparse(kernel="matern-3/2", ard=False).fit(X, Y),
    "laplace": lambda: sparse(features="laplace", coupling="orthogonal+pnc+antithetic").fit(X, Y),
    "batches": lambda: sparse().fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:]),
    "mixture": lambda: sparse(
        hyperparameters="averaged", n_hyperparameter_draws=4, n_frequencies=6, optimizer="lbfgs"
    ).fit(X, Y[:, 0]),
    "posterior": lambda: sparse(frequencies="fitted", n_frequencies=4, teacher_rows=30).fit(X, Y),
    "exact": lambda: cgp.ExactGPRegressor(optimizer=None, random_state=0).fit(X, Y),
    "twin": lambda: sparse().fit(X, Y[:, 1]).exact_twin(),
    "local": lambda: cgp.LocalGPRegressor("matern-3/2", 4, random_state=0).fit(X, Y),
    "chosen": lambda: cgp.GPRegressor(("local", "exact"), random_state=0).fit(X, Y[:, 0]),
}


@pytest.fixture(scope="module")
def fitted():
    with pytest.MonkeyPatch.context() as patch:
        take_few_steps(patch)
        return {name: make() for name, make in MODELS.items()}


# Run twice, each time in a process of its own: "fit" makes the models, "load" reads them.
PREDICT = """
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "max_iter")  # one of the models stops its search
import numpy as np, coupledgp as cgp
from tests.core.test_persistence import MODELS, X_TEST, Y
from tests.core.few_steps import take_few_steps
import pytest
folder, stage = sys.argv[1:]
results = {}
take_few_steps(pytest.MonkeyPatch())
for name, make in MODELS.items():
    path = f"{folder}/{name}.model"
    if stage == "fit":
        model = make()
        cgp.save_model(model, path)
    else:
        model = cgp.load_model(path)
    results[name + "/mean"], results[name + "/std"] = model.predict(X_TEST, return_std=True)
    results[name + "/cov"] = model.predict(X_TEST, return_cov=True)[1]
    results[name + "/samples"] = model.sample_y(X_TEST, 3, random_state=5)
    results[name + "/prior"] = model.prior_covariance(X_TEST)
    y = Y[:20] + 0.5
    model.partial_fit(X_TEST[:20] + 0.1, y if model.predict(X_TEST).ndim == 2 else y[:, 0])
    results[name + "/updated"] = model.predict(X_TEST)
    results[name + "/evidence"] = model.log_marginal_likelihood_value_
np.savez(f"{folder}/{stage}.npz", **results)
"""


def test_a_new_process_predicts_the_same_bits(tmp_path):
    root = Path(__file__).parents[2]
    for stage in ("fit", "load"):
        run_new(PREDICT, tmp_path, stage, folder=root)
    fitted, loaded = (np.load(tmp_path / f"{stage}.npz") for stage in ("fit", "load"))
    assert sorted(fitted) == sorted(loaded)
    for key in fitted:
        if key.endswith(("updated", "evidence")):
            np.testing.assert_allclose(fitted[key], loaded[key], rtol=1e-12, err_msg=key)
        else:
            assert np.array_equal(fitted[key], loaded[key]), key
    for name in MODELS:  # the rows changed the posterior, in a loaded model too
        before, after = loaded[name + "/mean"], loaded[name + "/updated"]
        assert not np.allclose(before, after, rtol=1e-6), name


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_goes_on_as_if_never_saved(name, fitted, tmp_path):
    model = copy.copy(fitted[name])  # which partial_fit leaves as it is
    model.save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    y = Y[:30] + 0.5 if model.predict(X_TEST).ndim == 2 else Y[:30, 0] + 0.5
    for each in (model, loaded):
        each.partial_fit(X_TEST[:30], y)
    assert np.array_equal(loaded.predict(X_TEST), model.predict(X_TEST))
    assert loaded.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_


@pytest.mark.parametrize("name", MODELS)
def test_nothing_fitted_is_lost(name, fitted, tmp_path):
    model = fitted[name]
    model.save(tmp_path / "m", include_data=True)
    loaded = cgp.load_model(tmp_path / "m")
    assert type(loaded) is type(model)
    assert set(vars(loaded)) == set(vars(model))
    for attribute in ("lengthscale_", "outputscale_", "noise_", "X_train_", "y_train_"):
        assert np.array_equal(getattr(loaded, attribute), getattr(model, attribute)), attribute
    for attribute in ("n_evaluations_", "n_iter_", "converged_", "n_features_in_"):
        assert getattr(loaded, attribute, None) == getattr(model, attribute, None), attribute
    given = (getattr(gp, "lengthscale", None) for gp in (loaded, model))
    assert np.array_equal(*given)
    np.testing.assert_equal(
        {k: str(v) for k, v in loaded.get_params().items() if k != "lengthscale"},
        {k: str(v) for k, v in model.get_params().items() if k != "lengthscale"},
    )
    assert np.array_equal(loaded.exact_twin().predict(X_TEST), model.exact_twin().predict(X_TEST))


def test_column_names_are_kept(tmp_path):
    model = sparse().fit(TABLE, Y[:, 0])
    model.save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    assert list(loaded.feature_names_in_) == ["alpha", "beta", "gamma"]
    assert np.array_equal(loaded.predict(TABLE), model.predict(TABLE))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(TABLE.rename_columns(["a", "b", "c"]))


def test_without_data_there_is_no_twin_even_after_more_rows(fitted, tmp_path):
    fitted["moments"].save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    for _ in range(2):
        with pytest.raises(CoupledGPError, match="include_data=True"):
            loaded.exact_twin()
        with pytest.raises(CoupledGPError, match="include_data=True"):
            loaded.save(tmp_path / "again", include_data=True)
        loaded.partial_fit(X_TEST, X_TEST[:, 0])
    assert loaded.process_.rows is None, "rows that would never be used take memory"
    assert not (tmp_path / "again").exists()
    assert loaded.conditioned_on(X, Y[:, 0]).exact_twin().predict(X_TEST).shape == (40,)


def test_data_are_stored_only_if_asked_for(fitted, tmp_path):
    for name, include_data, expected in [
        ("moments", False, False),
        ("moments", True, True),
        ("exact", False, True),
    ]:
        cgp.save_model(fitted[name], tmp_path / "m", include_data=include_data)
        assert any(np.array_equal(a, X) for a in opened(tmp_path / "m")[1].values()) is expected
    assert len(cgp.load_model(tmp_path / "m").X_train_) == 90


def test_a_file_says_in_json_what_it_holds(fitted, tmp_path):
    fitted["moments"].save(tmp_path / "m")
    tree, _ = opened(tmp_path / "m")
    assert tree["SavedModel"]["kind"] == "SparseSpectrumGPRegressor"
    assert tree["SavedModel"]["parameters"]["dict"]["coupling"] is None


def test_seeds_that_are_no_ints_become_none(tmp_path):
    for seed, expected in [(np.int64(5), 5), (np.random.RandomState(5), None), (None, None)]:
        sparse(random_state=seed).fit(X, Y[:, 0]).save(tmp_path / "m")
        assert cgp.load_model(tmp_path / "m").random_state == expected


def test_objects_come_back_by_their_text(tmp_path):
    coupling = DirectionsAndNorms(OrthogonalDirections(), antithetic=True)
    sparse(coupling=coupling, kernel=MaternSpectrum(0.7)).fit(X, Y[:, 0]).save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    assert (loaded.coupling, loaded.kernel) == (coupling, MaternSpectrum(0.7))
    assert loaded.features_.coupling == coupling
    assert loaded.features_.spectrum == MaternSpectrum(0.7)


def test_fitted_objects_win_over_parameters_set_later(fitted, tmp_path):
    model = sparse().fit(X, Y[:, 0])
    model.set_params(kernel="matern-1/2", coupling="halton", features="laplace")
    model.set_params(options={"dtype": "float32"})
    model.save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    assert np.array_equal(loaded.predict(X_TEST), model.predict(X_TEST))
    assert loaded.features_.spectrum == GaussianSpectrum()
    assert str(loaded.features_.coupling) == "orthogonal+pnc"


class OwnCoupling(FrequencyCoupling):
    """A coupling with neither a text form nor equality."""

    def _sample(self, n_frequencies, dim, spectrum, rng):
        return rng.standard_normal((n_frequencies, dim))


@dataclass(frozen=True)
class OwnSpectrum(GaussianSpectrum):
    """A spectrum whose text form is inherited and names another spectrum."""


@pytest.mark.parametrize(
    ("name", "value"), [("coupling", OwnCoupling()), ("kernel", OwnSpectrum())]
)
def test_objects_without_a_text_form_are_refused(name, value, tmp_path):
    model = sparse(**{name: value}).fit(X, Y[:, 0])
    with pytest.raises(InvalidInputError, match=f"^{name}: expected an object with a text form"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_registered_coupling(tmp_path):
    with forgotten(COUPLINGS):
        register_coupling("own", OwnCoupling)
        model = sparse(coupling="own").fit(X, Y[:, 0])
        model.save(tmp_path / "m")
        assert np.array_equal(cgp.load_model(tmp_path / "m").predict(X_TEST), model.predict(X_TEST))
    with pytest.raises(ModelFileError, match=r"cannot restore.*coupling: expected one of.*'own'"):
        cgp.load_model(tmp_path / "m")


def test_other_classes_are_refused(tmp_path):
    class Child(cgp.SparseSpectrumGPRegressor):
        pass

    with pytest.raises(InvalidInputError, match=r"model: expected one of .*, got Child"):
        cgp.save_model(Child(n_frequencies=4, optimizer=None).fit(X, Y[:, 0]), tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        cgp.save_model(sparse(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def flip_last_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.write_bytes(b""), "got another or a part"),
        (lambda p: p.write_text("a,b\n1,2\n"), "got another or a part"),
        (lambda p: p.write_bytes(p.read_bytes()[:-9]), "cannot restore"),
        (lambda p: p.write_bytes(safetensors.numpy.save({"a": np.ones(3)})), "another kind"),
        (lambda p: p.write_bytes(signed(*opened(p), version=2)), "format version 3, got 2"),
        (flip_last_byte, "checksum"),
        (lambda p: changed(p, "SavedModel", kind="Child"), "class: expected one of"),
        (lambda p: changed(p, "SavedModel", parameters={"dict": {"x": 1}}), "unexpected keyword"),
        (lambda p: changed(p, "FittedModel", ndim=7), "ndim: expected 2"),
        (lambda p: changed(p, "FittedModel", target_names={"tuple": ["a"] * 3}), "target_names"),
        (lambda p: changed(p, "Columns", n_features=2), "columns: expected"),
        (lambda p: changed(p, "Seen", low=np.ones(3), high=np.zeros(3)), "seen.low"),
        (lambda p: changed(p, "Seen", columns=np.array([9])), "seen"),
        (lambda p: changed(p, "RowDigests", salt={"bytes": "00"}), "salt: expected 16 bytes"),
    ],
)  # fmt: skip
def test_files_that_are_no_models_are_named(damage, message, fitted, tmp_path):
    path = tmp_path / "broken.model"
    fitted["moments"].save(path)
    damage(path)
    with pytest.raises(ModelFileError, match=message) as caught:
        cgp.load_model(path)
    assert str(path) in str(caught.value)


def test_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.model"):
        cgp.load_model(tmp_path / "absent.model")


def test_a_failed_save_leaves_the_old_file(fitted, tmp_path, monkeypatch):
    path = tmp_path / "m"
    fitted["moments"].save(path)
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        fitted["rows"].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_readable_like_any_other(fitted, tmp_path):
    (tmp_path / "plain").touch()
    fitted["moments"].save(tmp_path / "m")
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("plain", "m")}
    assert len(modes) == 1


def test_unwritable_paths_are_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="no-folder"):
        fitted["moments"].save(tmp_path / "no-folder" / "m")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        fitted["moments"].save(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", [cgp.ExactGPRegressor, cgp.GPRegressor])
def test_files_of_exact_models_grow_with_their_rows_alone(kind, tmp_path):
    """No factor of their covariance is among them, and loading makes none."""
    rng = np.random.default_rng(3)
    X, path = rng.normal(size=(150, 3)), tmp_path / "m"
    own = {"optimizer": None} if kind is cgp.ExactGPRegressor else {"model": "exact"}
    model = kind(**own, random_state=0).fit(X, np.sin(X[:, 0]))
    model.save(path)
    assert path.stat().st_size < 20_000 + 4 * X.nbytes < 8 * len(X) ** 2
    loaded = cgp.load_model(path)
    members = getattr(loaded.process_, "members", (loaded.process_,))
    assert not any("factor" in vars(member) for member in members)
    for one, other in zip(
        loaded.predict(X[:9] + 1, return_std=True), model.predict(X[:9] + 1, return_std=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(one, other)
