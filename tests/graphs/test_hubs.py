"""Networks with hubs: small noise beside a wide kernel, by conjugate gradients."""

import networkx as nx
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coupledgp as cgp
from coupledgp.graphs import fitter, posterior
from coupledgp.graphs.posterior import IterativePosterior
from coupledgp.kernels import HeatKernel, SeriesOperator

GRAPH = cgp.Graph.from_networkx(nx.barabasi_albert_graph(300, 3, seed=0))
KERNEL = HeatKernel(8.0)
SEEN = np.arange(0, 300, 2)
VALUES = np.exp(
    20 * (SeriesOperator(GRAPH, KERNEL) @ np.random.default_rng(0).standard_normal(300))[SEEN]
)


def model(**settings):
    settings = {"solver": "iterative", "method": "series", "random_state": 0, **settings}
    return cgp.ExactGraphGPRegressor(GRAPH, KERNEL, progress=False, **settings)


def test_what_does_not_converge_is_used_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = {"optimizer": None, "outputscale": 1.0, "noise": 1e-2}
    exact = model(**scales).fit(SEEN, VALUES).predict()
    monkeypatch.setattr(posterior, "MOST_STEPS", 12)
    with pytest.warns(ConvergenceWarning, match="ended at a relative residual"):
        found = model(**scales).fit(SEEN, VALUES).predict()
    assert np.abs(found - exact).max() < 0.05 * VALUES.std()
    assert not np.array_equal(found, exact)


def test_searched_noise_is_as_large_as_the_solver_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitter, "LEAST_HELD", 0.5)
    settings = {"hyperparameters": "maximum", "options": {"fixed": ("kernel",)}}
    with pytest.warns(ConvergenceWarning, match="resolve beside the outputscale"):
        fitted = model(**settings).fit(SEEN, VALUES)
    assert isinstance(fitted.process_.posterior, IterativePosterior)
    assert fitted.noise_ == pytest.approx(0.5 * fitted.outputscale_)  # the greatest eigenvalue is v
    with pytest.warns(ConvergenceWarning, match="resolve beside the outputscale"):
        fitted.fit(SEEN, VALUES)
    dense = model(**{**settings, "solver": "dense"}).fit(SEEN, VALUES)
    assert dense.noise_ < fitted.noise_
