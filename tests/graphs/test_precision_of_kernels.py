"""Exact, local and graph posteriors against sixty digits: within .01 deviations, or a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from coupledgp import ExactGPRegressor, ExactGraphGPRegressor, SparseSpectrumGPRegressor
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import PrecisionWarning
from coupledgp.linalg.low_rank import LIMIT, dense_error, warn_of_evidence
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_process import LocalGP
from tests.graph_cases import karate
from tests.reference import DIGITS, dense_law, errors

UNITS = Units(np.zeros(1), np.ones(1))


def warned(make: Callable[[], Any]) -> tuple[Any, bool]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrecisionWarning)
        made = make()
    return made, any(issubclass(w.category, PrecisionWarning) for w in caught)


def kernel_matrix(a: np.ndarray, b: np.ndarray, v: float, scale: np.ndarray) -> Any:
    """Gaussian kernel in sixty digits."""
    with mpmath.workdps(DIGITS):
        lengths = [mpmath.mpf(float(u)) for u in scale]

        def entry(x: np.ndarray, z: np.ndarray) -> Any:
            gaps = [
                (mpmath.mpf(float(p)) - float(q)) / u for p, q, u in zip(x, z, lengths, strict=True)
            ]
            return mpmath.mpf(v) * mpmath.exp(-mpmath.fdot(gaps, gaps) / 2)

        return mpmath.matrix([[entry(x, z) for z in b] for x in a])


def table(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(30, 2))
    if kind == "duplicates":
        X[15:] = X[:15]
    y = np.sin(X @ [1, 2])[:, None]
    if kind != "smooth":
        y += 0.1 * rng.normal(size=y.shape)
    return X, y, np.concatenate([X[:2], X[2:4] + 0.2, 4 * X[4:5]])


@pytest.mark.parametrize("kind", ["smooth", "noisy", "duplicates"])
def test_exact_processes(kind: str, rng: np.random.Generator) -> None:
    X, y, points = table(kind, rng)
    scale = np.array([1.5, 2.0])
    grams = [kernel_matrix(a, X, 2.0, scale) for a in (X, points)]
    for ratio in (1e-6, 1e-9, 1e-12, 1e-14):
        hyper = Hyperparameters(scale, 2.0, 2.0 * ratio)
        prior = StationaryPrior(parse_spectrum("gaussian"), hyper)
        gp, told = warned(lambda prior=prior: ExactGP.given(prior, Data.of(X, y), UNITS, False))
        mean, variance = gp.latent_law(points, "variance")
        means, variances = dense_law(*grams, [mpmath.mpf(2.0)] * 5, y, 2.0 * ratio)
        found = errors(mean, np.sqrt(variance), means, variances, [1.0])
        assert told or max(found) <= LIMIT, (ratio, found)
        assert not (told and ratio >= 1e-6)
        assert told or ratio > 1e-14


@pytest.mark.parametrize("kind", ["smooth", "noisy"])
def test_local_processes(kind: str, rng: np.random.Generator) -> None:
    X, y, points = table(kind, rng)
    points = points[:4].clip(X.min(0), X.max(0))
    structure = Structure(2, parse_spectrum("gaussian"), 100, None, False, "none", np.arange(2))
    for ratio in (1e-6, 1e-9, 1e-14):
        named = dict(structure.named(torch.as_tensor(structure.start())))
        logs = {"outputscale": 0.0, "noise": np.log(ratio)}
        named |= {name: torch.full_like(named[name], value) for name, value in logs.items()}
        vector = structure.pack({name: value.numpy() for name, value in named.items()})
        prior = LocalPrior(structure, vector, np.zeros(2), np.ones(2))
        gp, told = warned(lambda prior=prior: LocalGP.given(prior, Data.of(X, y), UNITS, False))
        assert prior.noise == pytest.approx(ratio)
        v, scale = prior.local_outputscale, prior.local_lengthscale
        mean, variance = gp.latent_law(points, "variance")
        grams = [kernel_matrix(a, X, v, scale) for a in (X, points)]
        means, variances = dense_law(*grams, [mpmath.mpf(v)] * 4, y, prior.noise)
        found = errors(mean, np.sqrt(variance), means, variances, [1.0])
        assert told or max(found) <= LIMIT, (ratio, found)
        assert told == (ratio < 1e-12)


def test_processes_on_graphs() -> None:
    nodes = np.arange(0, 34, 2)
    y = np.sin(nodes / 3.0)
    for ratio in (1e-6, 1e-15):
        model = ExactGraphGPRegressor(karate(), optimizer=None, outputscale=1.0, noise=ratio)
        _, told = warned(lambda model=model: model.fit(nodes, y))
        assert told == (ratio < 1e-10)


def test_ordinary_tables_give_no_warning() -> None:
    rng = np.random.default_rng(1)
    for trial in range(30):
        n, d = int(rng.integers(2, 300)), int(rng.integers(1, 5))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, d)
        y = rng.normal(size=n) * 10.0 ** rng.integers(-5, 6) + 100.0
        ExactGPRegressor(
            ["gaussian", "matern-3/2"][trial % 2], lengthscale=X.std(axis=0), outputscale=1.0,
            noise=10.0 ** rng.uniform(-6, 0), optimizer=None,
        ).fit(X, y)  # fmt: skip


def test_the_estimate_of_dense_equations_is_that_of_their_residual() -> None:
    """A solution that is off by a known step, in a covariance whose rounding is nothing beside."""
    C = torch.diag(torch.tensor([2.0, 3.0]).double())
    exact = torch.tensor([[1.0], [2.0]]).double()
    step = torch.tensor([[1e-6], [0.0]]).double()
    assert dense_error(C, exact + step, C @ exact, 0.25) == pytest.approx(2e-6 / 0.5)


def test_the_search_says_where_it_ended_among_rounding() -> None:
    warnings.simplefilter("error", PrecisionWarning)
    warn_of_evidence(6.9, 100)
    with pytest.warns(PrecisionWarning, match=r"ended where .* by about 1e\+01 nats"):
        warn_of_evidence(7.2 + 3, 100)
    X = np.linspace(0, 1, 60)[:, None]
    y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    options = {"n_frequencies": 10, "random_state": 0, "outputscale": 1.0, "lengthscale": 3.0}
    with pytest.warns(PrecisionWarning, match="the search ended where rounding"):
        SparseSpectrumGPRegressor(
            noise=1e-12, options={"fixed": ("noise", "outputscale")}, **options
        ).fit(X, y)
    SparseSpectrumGPRegressor(
        noise=1e-6, options={"fixed": ("noise", "outputscale")}, **options
    ).fit(X, y)
