"""Any bytes as a model file end in a model or in a ModelFileError, in little time and memory."""

import json

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import ModelFileError
from tests.formats.fuzz_models import OLD_FILES, opened, outcome, run, signed

COUNT, SEED = 300, 20


def test_mutants_are_models_or_refused():
    results = run(COUNT, SEED)
    assert len(results) == COUNT
    failed = [result[:4] for result in results if result[2].startswith("FAILED")]
    assert failed == []
    loaded = sum(result[2].startswith("model") for result in results)
    assert loaded > COUNT / 10, "mutants that are refused at once test little"


def header_of(**changes):
    return lambda header, arrays: header.update(changes)


def parameters_of(**changes):
    return lambda header, arrays: header["parameters"].update(changes)


def without_kernel_coefficients(header, arrays):
    header["kernel"] = {"class": "LearnedKernel", "n_terms": 10**9}


def indices_beyond_the_graph(header, arrays):
    arrays["indices"][3] = 10**6


def one_direction(header, arrays):
    arrays["edge_weights"][0] *= 2


def falling_columns(header, arrays):
    start, stop = arrays["indptr"][1:3]
    arrays["indices"][start:stop] = arrays["indices"][start:stop][::-1].copy()


def pointers_beyond_the_entries(header, arrays):
    arrays["indptr"][-1] = 2**40


def nan_posterior(header, arrays):
    arrays["posterior.mean"][0] = np.nan


def mean_in_the_header(header, arrays):
    header["posterior"]["mean"] = 3.0
    del arrays["posterior.mean"]


def not_transposed(header, arrays):
    header["transposed"] = ["posterior.factor", "y_mean"]


ATTACKS = {
    "frequencies": ("sparse", header_of(n_frequencies=10**9), "expected shape"),
    "copula": (
        "sparse",
        header_of(coupling="orthogonal+copula:[" + "[]," * 20_000 + "[]]"),
        "copula",
    ),
    "members": ("sparse-mixture", header_of(members=[{}] * 10**6), "fewer values"),
    "hyperparameters": ("sparse", header_of(hyperparameters=[1]), "expected dict"),
    "parameters": ("sparse", parameters_of(predict=1), "expected no 'predict'"),
    "NaN": ("sparse", nan_posterior, "finite"),
    "shadows": ("sparse", mean_in_the_header, "posterior.mean"),
    "transposed": ("sparse", not_transposed, "transposed"),
    "no terms": ("graph", without_kernel_coefficients, "expected coefficients"),
    "indices": ("graph", indices_beyond_the_graph, "indices: expected integers from 0 to"),
    "pointers": ("graph", pointers_beyond_the_entries, "indices: expected pointers"),
    "direction": ("graph", one_direction, "symmetric"),
    "order": ("graph", falling_columns, "rising order"),
    "nodes": ("graph", lambda h, a: a.update(nodes=a["nodes"] + 10**6), "nodes: expected int"),
    "scale": ("graph", lambda h, a: a.update(y_scale=-a["y_scale"]), "y_scale: expected numbers"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_by_name(name, tmp_path):
    base, edit, message = ATTACKS[name]
    metadata, arrays = opened(OLD_FILES / f"{base}.safetensors")
    header = json.loads(metadata["model"])
    edit(header, arrays)
    path = tmp_path / "attack.model"
    path.write_bytes(signed(metadata, json.dumps(header), arrays))
    result, reason, *_ = outcome(path)
    assert result == "refused", reason
    assert message in reason


@pytest.mark.parametrize(
    "text", ["[" * 10**5, "[]", '{"class": 1e999}', '{"class": NaN}', "1" * 5000, '{"a":' * 40]
)
def test_texts_that_are_no_headers(text, tmp_path):
    metadata, arrays = opened(OLD_FILES / "sparse.safetensors")
    path = tmp_path / "attack.model"
    path.write_bytes(signed(metadata, text, arrays))
    with pytest.raises(ModelFileError, match=r"attack\.model: header: expected"):
        cgp.load_model(path)


def test_frequencies_are_not_drawn_again(tmp_path):
    """A rotation of a wide table's frequencies is far larger than what the file holds of them."""
    rng = np.random.default_rng(0)
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=2, coupling="iid", optimizer=None)
    gp.fit(rng.normal(size=(4, 20_000)), [1.0, 2.0, 3.0, 4.0]).save(tmp_path / "wide")
    metadata, arrays = opened(tmp_path / "wide")
    header = {**json.loads(metadata["model"]), "coupling": "orthogonal"}
    path = tmp_path / "attack.model"
    path.write_bytes(signed(metadata, json.dumps(header), arrays))
    result, reason, *_ = outcome(path)
    assert result == "model", reason
