"""The exact evidence of all rows, beside the normal density and the neighbours' evidence."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from coupledgp.core.problem import RowWeights
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.local_evidence import BatchEvidence, OrderedRows
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.stationary_evidence import DenseEvidence

KERNELS = ("matern-1/2", "matern-3/2", "matern-5/2", "gaussian", "laplace")


def table(rng, n_outputs=1, weighted=False):
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(12, n_outputs))
    counts, noise = rng.integers(1, 4, 12).astype(float), rng.uniform(0.5, 2, 12)
    return OrderedRows.of(X, Y, RowWeights(noise, counts) if weighted else None)


def structure(kernel, trend="linear", groups=(0, 1, 0)):
    return Structure(3, parse_spectrum(kernel), 11, None, False, trend, np.array(groups))


@pytest.mark.parametrize("trend", ["none", "constant", "linear"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_normal_density(kernel, trend, rng):
    model, rows = structure(kernel, trend), table(rng, 2)
    vector = model.start() + 0.3 * rng.normal(size=len(model.start()))
    scales = {name: np.exp(value.numpy()) for name, value in model.named(vector).items()}
    order, inputs = model.spectrum.metric.order, rows.inputs / scales["lengthscale"][[0, 1, 0]]
    distances = cdist(inputs, inputs, "minkowski", p=order)
    K = scales["outputscale"] * model.spectrum.kernel(distances) + scales["noise"] * np.eye(12)
    if trend != "none":
        K += scales["trend"] * (1 + (trend == "linear") * rows.inputs @ rows.inputs.T)
    expected = multivariate_normal(cov=K).logpdf(rows.targets.T).sum()
    found, _ = DenseEvidence.of(model, rows).log_evidence(vector)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_with_all_rows_as_neighbours_both_evidences_agree(kernel, weighted, rng):
    model, rows = structure(kernel), table(rng, 2, weighted)
    vector = model.start() + 0.3 * rng.normal(size=len(model.start()))
    theirs = BatchEvidence.of(model, rows, np.arange(12), np.ones(3)).value_and_gradient(vector)
    value, gradient = DenseEvidence.of(model, rows).value_and_gradient(vector)
    # They differ by a constant: the determinant of the relative noise of repeated rows.
    other = vector + 0.1
    gap = value - theirs[0]
    theirs_there = BatchEvidence.of(model, rows, np.arange(12), np.ones(3)).value_and_gradient(
        other
    )[0]
    there = DenseEvidence.of(model, rows).value_and_gradient(other)[0] - theirs_there
    assert gap == pytest.approx(there, abs=1e-9)
    np.testing.assert_allclose(gradient, theirs[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_its_gradient_is_that_of_differences(weighted, rng):
    evidence = DenseEvidence.of(structure("matern-3/2"), table(rng, 1, weighted))
    vector = evidence.structure.start() + 0.3 * rng.normal(size=5)
    expected = approx_fprime(vector, lambda v: evidence.value_and_gradient(v)[0], 1e-7)
    np.testing.assert_allclose(
        evidence.value_and_gradient(vector)[1], expected, rtol=1e-4, atol=1e-6
    )


def test_a_covariance_that_is_not_positive_turns_the_search_back(rng):
    rows = table(rng)
    same = OrderedRows.of(np.zeros_like(rows.inputs), rows.targets)
    evidence = DenseEvidence.of(structure("gaussian", "none"), same)
    value, gradient = evidence.value_and_gradient(np.array([-90.0, 0.0, 0.0, 0.0]))
    assert value == 1e10
    assert not gradient.any()
