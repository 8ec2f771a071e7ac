"""Bounds and errors of the evidence by products, in closed form and beside rules that are exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from coupledgp.graphs.evidence import DenseEvidence, IterativeEvidence, SpectralMeasures
from coupledgp.graphs.priors import SpectralPrior
from coupledgp.kernels import HeatKernel
from tests.graph_cases import karate

NODES = np.arange(34)
PRIOR = SpectralPrior(karate(), HeatKernel(3.0))


@pytest.mark.parametrize("n_steps", [2, 3])
def test_few_steps_bound_the_evidence_from_below(n_steps: int) -> None:
    """The probes are the same, so that the only difference is what Lanczos has not resolved."""
    y = np.random.default_rng(2).standard_normal((34, 2))
    few = IterativeEvidence(PRIOR, NODES, y, n_probes=3, n_steps=n_steps, max_steps=n_steps)
    all_of_them = IterativeEvidence(PRIOR, NODES, y, n_probes=3, n_steps=34, max_steps=34)
    _, upper = few._measure(n_steps)
    for v, s in ((1.0, 0.2), (3.0, 0.01), (0.2, 1.0)):
        low, exact, high = (
            measures.log_evidence(v, s) for measures in (few.measures, all_of_them.measures, upper)
        )
        assert low < exact - 1e-9
        assert high > exact + 1e-9


def test_the_error_is_that_of_the_mean_of_the_log_determinants() -> None:
    """Three probes of a matrix of two rows, and two outputs."""
    values = np.array([[0.5, 2.0], [1.0, 1.5], [0.1, 3.0]])
    weights = np.array([[1.2, 0.8], [0.5, 1.5], [1.0, 1.0]])
    measures = SpectralMeasures(np.ones(2), np.ones(2), values, weights, n_outputs=2)
    logs = (weights * np.log(1.7 * values + 0.3)).sum(axis=1)
    spread = np.sqrt(((logs - logs.mean()) ** 2).sum() / 2)
    error = measures.log_evidence_error(1.7, 0.3)
    student = stats.t.ppf(stats.norm.cdf(2.0), 2) / 2.0
    assert error == pytest.approx(student * 2 * 0.5 * spread / np.sqrt(3), rel=1e-12)


@pytest.mark.parametrize("n_probes", [2, 8])
def test_two_standard_errors_hold_the_evidence_with_few_probes(n_probes: int) -> None:
    """As often as two of many probes: 95.4 per cent, and not 70 or 91."""
    y = np.random.default_rng(3).standard_normal((34, 1))
    exact = DenseEvidence(PRIOR, NODES, y).measures.log_evidence(1.0, 0.1)
    many = IterativeEvidence(PRIOR, NODES, y, 150 * n_probes, n_steps=34, max_steps=34).measures
    outside = []
    for part in np.split(np.arange(150 * n_probes), 150):
        few = replace(
            many,
            trace_eigenvalues=many.trace_eigenvalues[part],
            trace_weights=many.trace_weights[part],
        )
        gap = few.log_evidence(1.0, 0.1) - exact
        outside.append(abs(gap) > 2 * few.log_evidence_error(1.0, 0.1))
    assert np.mean(outside) < 0.0455 + 2.5 * np.sqrt(0.0455 / 150)
