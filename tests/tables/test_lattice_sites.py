"""Likelihoods of places on a lattice of frequencies, beside dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.sites import DenseRows
from coupledgp.core.units import Units
from coupledgp.likelihoods import Poisson
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import latent_kernels
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.latent_kernels import LatentSize
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_process import LatticeGP
from coupledgp.tables.lattice_system import LatticeSystem

RNG = np.random.default_rng(5)
N = 240
PLACES = RNG.uniform(size=(N, 2))
F = np.sin(4 * PLACES[:, 0]) + np.cos(3 * PLACES[:, 1])
COUNTS = RNG.poisson(np.exp(F)).astype(float)
SCALES = Hyperparameters(np.array([0.4, 0.5]), 1.2, 1e-3)  # little noise: nothing is left out
UNITS = Units(np.array([0.3]), np.ones(1))
SPECTRUM = parse_spectrum("gaussian")
NEW = RNG.uniform(size=(30, 2))


def carrier(scales: Hyperparameters = SCALES) -> LatticeGP:
    """A process on a lattice that carries the prior."""
    row = Data.of(PLACES[:1], UNITS.offset[None])
    trend = TrendColumns.of(np.arange(2), False, PLACES, None)
    return LatticeGP.given(SPECTRUM, scales, trend, row, UNITS, False)


def dense() -> Any:
    row = Data.of(PLACES[:1], UNITS.offset[None])
    return ExactGP.given(StationaryPrior(SPECTRUM, SCALES), row, UNITS, False, warns=False)


def test_posteriors_given_sites_are_dense_ones() -> None:
    sites = carrier().site_prior(PLACES)
    covariance = StationaryPrior(SPECTRUM, SCALES).covariance(PLACES, PLACES)
    exact = DenseRows(covariance)
    precision, shift = RNG.uniform(0.2, 3.0, size=N), RNG.normal(size=N)
    pairs = zip(sites.posterior(precision, shift), exact.posterior(precision, shift), strict=True)
    for own, other in pairs:
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


def test_processes_are_those_of_an_exact_prior() -> None:
    data = Data.of(PLACES, COUNTS[:, None])
    ours, exact = (LatentGP.given([f], Poisson(), data) for f in (carrier(), dense()))
    laws = [process.law(NEW, "variance", latent=True) for process in (ours, exact)]
    for own, other in zip(*laws, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(ours.log_evidence, exact.log_evidence, atol=0.02)


@pytest.mark.long
def test_many_waves_have_the_same_posterior_up_to_their_draws(monkeypatch: Any) -> None:
    """Blocks that do not hold all waves: variances by draws, determinants by probes."""
    data = Data.of(PLACES, COUNTS[:, None])
    exact = LatentGP.given([carrier()], Poisson(), data)
    whole = LatticeSystem.of

    def small(*arguments: Any) -> LatticeSystem:
        return whole(*arguments, most_waves=60)

    monkeypatch.setattr(LatticeSystem, "of", staticmethod(small))
    drawn = LatentGP.given([carrier()], Poisson(), data)
    own, other = (p.law(NEW, "variance", latent=True) for p in (drawn, exact))
    deviation = np.sqrt(other.spread)
    # Variances by 32 draws have a relative error of 1/4; means follow them to second order.
    assert np.abs(own.mean - other.mean).max() < 0.3 * deviation.max()
    assert abs(np.log(own.spread / other.spread).mean()) < 0.5


@pytest.mark.long
def test_tables_of_few_columns_choose_their_kernel_by_the_evidence(monkeypatch: Any) -> None:
    monkeypatch.setattr(latent_kernels, "EXACT_LATENT_ROWS", 100)
    model = cgp.GPRegressor(likelihood="poisson", random_state=0).fit(PLACES, COUNTS)
    (function,) = model.process_.functions
    assert isinstance(function, LatticeGP)
    best = min(model.choice_.kernels, key=lambda each: each.log_loss)
    assert best.is_chosen
    assert best.log_loss == pytest.approx(-model.process_.log_evidence / N)
    assert "Minus the log evidence of each of 240 observations" in model.choice_.explain()
    mean = model.predict(NEW)
    truth = np.exp(np.sin(4 * NEW[:, 0]) + np.cos(3 * NEW[:, 1]))
    assert np.corrcoef(mean, truth)[0, 1] > 0.8


def test_forecasts_of_lattices_grow_with_rows_and_kernels() -> None:
    small, large = (LatentSize(n, 2, 1, 512) for n in (10_000, 110_000))
    assert small.has_lattice
    assert not LatentSize(10_000, 4, 1, 512).has_lattice
    assert not LatentSize(100, 2, 1, 512).has_lattice
    per_row = latent_kernels.LATTICE_STEPS * latent_kernels.LATTICE_ROW_SECONDS
    grown = large.forecast(2) - small.forecast(2)
    assert grown == pytest.approx(2 * per_row * 100_000)
