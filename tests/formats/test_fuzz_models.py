"""Any bytes as a model file end in a model or in a ModelFileError, in little time and memory."""

import json

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import ModelFileError, NumericalError
from coupledgp.gp import container
from tests.formats.fuzz_models import OLD_FILES, outcome, run
from tests.formats.mutations import grown, more_members, opened, signed

COUNT, SEED = 300, 20


def test_mutants_are_models_or_refused():
    results = run(COUNT, SEED)
    assert len(results) == COUNT
    failed = [result[:4] for result in results if result[2].startswith("FAILED")]
    assert failed == []
    loaded = sum(result[2].startswith("model") for result in results)
    assert loaded > COUNT / 10, "mutants that are refused at once test little"
    grew = [result[2] for result in results if "grown" in result[1]]
    assert sum(result.startswith("model") for result in grew) > len(grew) / 3, "so do these"
    assert sum("spoiled" in result[1] for result in results) > COUNT / 20


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


@pytest.fixture(scope="module")
def over_time(tmp_path_factory):
    """A file of values over time, with gaps."""
    values = np.where(
        np.arange(30).reshape(3, 10) % 4, np.sin(np.arange(30)).reshape(3, 10), np.nan
    )
    model = cgp.GraphTimeGPRegressor(cgp.Graph.from_edges([*"abc"], [*"bca"]), progress=False)
    stamps = np.datetime64("2024-01-01") + np.arange(10) * np.timedelta64(1, "h")
    path = tmp_path_factory.mktemp("models") / "over-time"
    model.fit([*"abc"], values, times=stamps).save(path)
    return path


def attacked(path, base, edit):
    """What becomes of a base whose header and arrays a function has changed."""
    metadata, arrays = opened(base)
    header, arrays = edit(json.loads(metadata["model"]), arrays)
    path.write_bytes(signed(metadata, json.dumps(header), arrays))
    return outcome(path, "grown")


def test_a_grid_of_gaps_takes_no_room(over_time, tmp_path):
    """1.2 million cells, 960 of them observed."""

    def wide(header, arrays):
        return grown(*grown(header, arrays, 3, 40), 10, 1000)

    result, reason, _, memory = attacked(tmp_path / "attack.model", over_time, wide)
    assert result == "model, not asked", reason
    assert memory < 20e6


@pytest.mark.parametrize(
    ("origin", "message"),
    [("9999-01-01", "origin: expected a time of 1678 to 2261"), ("2262-05-01", "1678 to 2261"),
     ("NaT", "1678 to 2261"), ("1e9", "cannot restore"), (5, "origin: expected str")],
)  # fmt: skip
def test_times_that_no_clock_shows_are_refused(origin, message, over_time, tmp_path):
    def moved(header, arrays):
        header["axis"]["origin"] = origin
        return header, arrays

    result, reason, *_ = attacked(tmp_path / "attack.model", over_time, moved)
    assert result == "refused"
    assert message in reason


def test_nodes_of_hops_that_overflow_are_a_numerical_error(tmp_path):
    def many(header, arrays):
        header["plan"]["nodes"] = np.cos(np.pi * (np.arange(2048) + 0.5) / 2048).tolist()
        return header, arrays

    with np.errstate(all="ignore"):
        attacked(tmp_path / "m", OLD_FILES / "graph.safetensors", many)
        model = cgp.load_model(tmp_path / "m")
        with pytest.raises(NumericalError, match="predictive mean"):
            model.predict(range(3))


def test_many_members_share_what_they_have_in_common(tmp_path):
    result, reason, _, memory = attacked(
        tmp_path / "attack.model", OLD_FILES / "sparse-mixture.safetensors",
        lambda header, arrays: more_members(header, arrays, 500),
    )  # fmt: skip
    assert result == "model, not asked", reason
    assert memory < 100e6


OWN = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
DESCRIPTIONS = {
    "many arrays": ({}, 600_000, "expected fewer values"),
    "more arrays than any file": ({}, container.MOST_ARRAYS, "expected at most"),
    "dimensions": ({"y_mean": {**OWN, "shape": [1] * 65}}, 0, "at most 8 dimensions, got 65"),
    "bytes": ({"y_mean": {**OWN, "shape": [2]}}, 0, "expected bytes"),
    "far away": ({"y_mean": {**OWN, "data_offsets": [2**50, 2**50 + 8]}}, 0, "gap at byte"),
    "twice": ({"again": OWN}, 0, "gap at byte"),
    "negative": ({"y_mean": {**OWN, "shape": [-1]}}, 0, "from 0 to"),
    "type": ({"y_mean": {**OWN, "dtype": "BF16"}}, 0, "expected one of F64"),
    "of none": ({"e": {**OWN, "shape": [0, 2**61], "data_offsets": [0, 0]}}, 0, "expected bytes"),
    "texts": ({"y_mean": "F64"}, 0, "expected dict"),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_arrays_are_described_before_they_are_read(name, tmp_path):
    described, padding, message = DESCRIPTIONS[name]
    metadata, arrays = opened(OLD_FILES / "exact.safetensors")
    path = tmp_path / "attack.model"
    path.write_bytes(signed(metadata, metadata["model"], arrays, described, padding))
    result, reason, _, memory = outcome(path)
    assert result == "refused", reason
    assert message in reason
    assert memory < 30e6 + 3 * path.stat().st_size


def test_long_texts_of_wide_characters_are_refused(tmp_path, monkeypatch):
    """An escape makes every character of its text take four bytes."""
    metadata, arrays = opened(OLD_FILES / "exact.safetensors")
    header = {**json.loads(metadata["model"]), "note": "x" * 5 * 10**6 + "\U0001f600"}
    path = tmp_path / "attack.model"
    path.write_bytes(signed(metadata, json.dumps(header), arrays))
    cgp.load_model(path)
    monkeypatch.setattr(container, "FREE_BYTES", 0)
    with pytest.raises(ModelFileError, match="header: expected fewer values"):
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
