"""Saved models on graphs: the same predictions, also in a new process."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.couplings import SigmaLengths, WalkerCoupling
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.parameters import folded
from coupledgp.kernels import GraphMaternKernel
from tests.new_process import run_new

GRID = cgp.Graph.from_networkx(nx.grid_2d_graph(6, 7))
TRAIN = [label for k, label in enumerate(GRID.labels or ()) if k % 3]
VALUES = np.sin(np.arange(len(TRAIN)) / 5.0)
PREDICT = """
import sys, numpy as np, coupledgp as cgp
gp = cgp.load_model(sys.argv[1])
np.savez(sys.argv[2], *gp.predict(return_cov=True), gp.sample_y(n_samples=3, random_state=1))
"""


def models() -> list[cgp.GraphGPRegressor | cgp.ExactGraphGPRegressor]:
    papers = {"coupling": "sigma", "length_law": "geometric", "exact_hops": 0, "n_walks": 4}
    return [
        cgp.GraphGPRegressor(GRID, "heat", random_state=0),
        cgp.GraphGPRegressor(
            GRID,
            GraphMaternKernel(3.0, 1.7),
            **folded(cgp.GraphGPRegressor, dict(random_state=0, **papers)),
        ),
        cgp.GraphGPRegressor(GRID, "learned", n_walks=4, exact_hops=1, random_state=3),
        cgp.ExactGraphGPRegressor(GRID, "matern", solver="iterative", random_state=0),
    ]


@pytest.mark.filterwarnings("ignore:noise.*conjugate gradients resolve")
@pytest.mark.parametrize("model", models(), ids=lambda m: f"{type(m).__name__}-{m.kernel}")
def test_a_loaded_model_predicts_the_same(model, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model.fit(TRAIN, VALUES)
    model.save(tmp_path / "model")
    again = cgp.load_model(tmp_path / "model")
    for ours, theirs in zip(
        model.predict(return_cov=True), again.predict(return_cov=True), strict=True
    ):
        np.testing.assert_array_equal(theirs, ours)
    assert again.kernel_ == model.kernel_
    assert again.noise_ == model.noise_
    assert again.outputscale_ == model.outputscale_
    assert again.nodes_ == TRAIN
    assert again.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    assert repr(again) == repr(model) or again.kernel == model.kernel
    np.testing.assert_array_equal(again.y_train_, VALUES)
    np.testing.assert_array_equal(
        again.sample_y(n_samples=2, random_state=5), model.sample_y(n_samples=2, random_state=5)
    )
    np.testing.assert_allclose(
        again.exact_twin().predict(), model.exact_twin().predict(), rtol=1e-12
    )


def test_a_new_process_predicts_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    Y = np.column_stack([VALUES, VALUES**2])
    model = cgp.GraphGPRegressor(GRID, "heat", n_walks=4, exact_hops=1, random_state=0)
    model.fit(TRAIN, Y).save(tmp_path / "model")
    run_new(PREDICT, tmp_path / "model", tmp_path / "out.npz")
    there = np.load(tmp_path / "out.npz")
    here = [*model.predict(return_cov=True), model.sample_y(n_samples=3, random_state=1)]
    for name, ours in zip(there.files, here, strict=True):
        np.testing.assert_allclose(there[name], ours, rtol=1e-9, atol=1e-12)


def test_what_a_file_cannot_hold_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "model"
    with pytest.raises(InvalidInputError, match="coupling"):
        cgp.GraphGPRegressor(
            GRID, "heat", 2, WalkerCoupling(SigmaLengths(order=12)), optimizer=None, random_state=0
        ).fit(TRAIN, VALUES).save(path)
    odd = cgp.Graph.from_edges([Fraction(1, 2)], [Fraction(1, 3)])
    gp = cgp.ExactGraphGPRegressor(odd, "heat", optimizer=None).fit([Fraction(1, 2)], [1.0])
    with pytest.raises(InvalidInputError, match="labels"):
        gp.save(path)
    assert not path.exists()
    gp = cgp.ExactGraphGPRegressor(GRID, "heat", optimizer=None).fit(TRAIN, VALUES)
    gp.save(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        cgp.load_model(path)
