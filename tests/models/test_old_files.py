"""Files that version 0.1.0 wrote are read, predict the same and are written again.

The files and `predictions.npz` are a selection of what `benchmarks/frozen_model_files.py --write`
left under that version: models of every kind, fitted to rows that only some of the files hold.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.errors import CoupledGPError

FOLDER = Path(__file__).parent / "files_of_0_1_0"
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
WITHOUT_ROWS = ("sparse", "sparse-mixture", "sparse-posterior-kl", "sparse-laplace")


@pytest.fixture(scope="module")
def stored():
    with np.load(FOLDER / "predictions.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def points_of(model, stored):
    """Points at which the model predicted when it was saved."""
    if hasattr(model, "graph"):
        graph = model.graph
        return list(range(graph.n_nodes) if graph.labels is None else graph.labels)[:12]
    X = stored["points/X"]
    if hasattr(model, "feature_names_in_"):
        return pa.table(dict(zip(model.feature_names_in_, X.T, strict=True)))
    return X


def assert_same(new, old, rounding=1e-10):
    np.testing.assert_allclose(new, old, rtol=rounding, atol=rounding * np.abs(old).max())


def test_there_are_files_of_every_kind(stored):
    assert {name.split("/")[0] for name in stored} == {*NAMES, "points"}
    classes = {str(stored[f"{name}/class"]) for name in NAMES}
    assert classes == {
        "SparseSpectrumGPRegressor",
        "ExactGPRegressor",
        "GraphGPRegressor",
        "ExactGraphGPRegressor",
    }


def rounding_of(name):
    """What predictions of a file may differ by between processors: features in single precision,
    and solves that end at a tolerance, have fewer digits than rounding leaves."""
    return 1e-5 if "float32" in name or "iterative" in name else 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_an_old_file_predicts_the_same(name, stored):
    model = cgp.load_model(FOLDER / f"{name}.safetensors")
    assert type(model).__name__ == stored[f"{name}/class"]
    mean, std = model.predict(points_of(model, stored), return_std=True)
    assert_same(mean, stored[f"{name}/mean"], rounding_of(name))
    assert_same(std, stored[f"{name}/std"], rounding_of(name))


@pytest.mark.parametrize("name", [n for n in NAMES if "graph" not in n])
def test_rows_are_added_to_a_model_of_an_old_file(name, stored):
    model = cgp.load_model(FOLDER / f"{name}.safetensors")
    points, Y = points_of(model, stored), stored["points/Y"]
    model.partial_fit(points, Y if stored[f"{name}/mean"].ndim == 2 else Y[:, 0])
    mean, std = model.predict(points, return_std=True)
    assert_same(mean, stored[f"{name}/later mean"], rounding_of(name))
    assert_same(std, stored[f"{name}/later std"], rounding_of(name))


@pytest.mark.parametrize("name", [n for n in NAMES if "graph" in n])
def test_a_model_on_a_graph_has_its_twin(name, stored):
    model = cgp.load_model(FOLDER / f"{name}.safetensors")
    twin = model.exact_twin()
    assert_same(
        twin.predict(points_of(model, stored)), stored[f"{name}/twin mean"], rounding_of(name)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_an_old_file_is_written_again(name, stored, tmp_path):
    model = cgp.load_model(FOLDER / f"{name}.safetensors")
    rows = name.endswith("with-data") or "exact" in name or "graph" in name
    model.save(tmp_path / "again.safetensors", include_data=rows)
    again = cgp.load_model(tmp_path / "again.safetensors")
    points = points_of(model, stored)
    np.testing.assert_array_equal(again.predict(points), model.predict(points))


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_rows_are_in_a_file_only_where_they_were_asked_for(name):
    model = cgp.load_model(FOLDER / f"{name}.safetensors")
    with pytest.raises(CoupledGPError, match="include_data=True"):
        model.exact_twin()
    with_rows = FOLDER / f"{name}-with-data.safetensors"
    if with_rows.exists():
        assert len(cgp.load_model(with_rows).X_train_) == 40
