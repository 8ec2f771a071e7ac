"""Statistics, evidence and posterior live where the features live; results alone leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.posterior_kl import Teacher, posterior_kl_loss
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.starts import SearchSpace
from coupledgp.core.units import Units
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.ground.codec import decoded, encoded
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.spectrum_descent import KLSettings, QueryPoints, fit_posterior_kl
from coupledgp.tables.spectrum_evidence import evidence_loss
from coupledgp.tables.weight_space import FeaturePrior, WeightSpaceGP
from tests.pretend_device import DEVICE, PretendDevice, on_device, pretend_device

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(40, 1))
POINTS = RNG.normal(size=(7, 2))
MAPS = {"fourier": FourierFeatures, "laplace": LaplaceFeatures}
HYPER = Hyperparameters(np.array([1.5, 2.0]), 1.2, 0.1)


@pytest.fixture
def device() -> Iterator[PretendDevice]:
    with pretend_device() as mode:
        yield mode


def feature_map(kind: str, m: int, where: torch.device | str) -> FeatureMap:
    return MAPS[kind](2, m, generator=0, device=where)


def process(kind: str, m: int, n: int, where: torch.device | str) -> WeightSpaceGP:
    prior = FeaturePrior(feature_map(kind, m, where), X.mean(axis=0), HYPER)
    data = Data.of(X[:n], Y[:n])
    return prior.given(data, Units.of(data.targets, True), True)


def results_of(gp: WeightSpaceGP) -> dict[str, FloatArray]:
    mean, covariance = gp.latent_law(POINTS, "covariance")
    assert covariance is not None
    return {
        "mean": mean,
        "covariance": covariance,
        "variance": np.asarray(gp.latent_law(POINTS, "variance")[1]),
        "samples": gp.latent_samples(POINTS, 3, np.random.default_rng(1)),
        "prior": gp.latent_prior(POINTS),
        "evidence": np.array([gp.log_evidence]),
    }


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize(("m", "n"), [(6, 25), (30, 25)], ids=["more rows", "more features"])
def test_a_process_lives_where_its_features_live(
    kind: str, m: int, n: int, device: PretendDevice
) -> None:
    here, there = (process(kind, m, n, where) for where in ("cpu", DEVICE))
    assert device.left == []
    statistics, posterior = there.statistics, there.posterior
    assert {statistics.offset.device, posterior.mean.device, posterior.factor.device} == {DEVICE}
    if statistics.moments is None:
        assert {tensor.device for chunk in statistics.rows for tensor in chunk} == {DEVICE}
    else:
        assert statistics.moments.gram.device == DEVICE
    for gp, other in ((here, there), (here.updated(DATA), there.updated(DATA))):
        device.left.clear()
        expected, found = results_of(gp), results_of(other)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-13, err_msg=name)
        # Four means, two variances or covariances, draws, their weights and a prior: only results.
        n_weights = len(other.posterior.mean)
        shapes = {(7, 1), (7,), (7, 7), (7, 1, 3), (7, 3), (n_weights, 3)}
        assert set(device.left) <= shapes, device.left


DATA = Data.of(X[25:], Y[25:])


def test_statistics_merge_where_they_are(device: PretendDevice) -> None:
    parts = [process("fourier", 6, n, DEVICE).statistics for n in (8, 25)]
    merged = parts[0].merge(parts[0]).merge(process("fourier", 6, 8, DEVICE).statistics)
    assert merged.n_rows == 24
    assert merged.offset.device == DEVICE
    assert device.left == []


def test_states_leave_as_files_need_them(device: PretendDevice, tmp_path) -> None:
    gp = process("fourier", 6, 25, DEVICE)
    restored = decoded(encoded(gp), WeightSpaceGP)
    for name, value in results_of(gp).items():
        np.testing.assert_allclose(results_of(restored)[name], value, rtol=1e-12, atol=1e-13)


def problem(kind: str, m: int, where: torch.device | str) -> FeatureEvidence:
    stream = FeatureStream(feature_map(kind, m, where), X, X.mean(axis=0), np.ones(2))
    return FeatureEvidence(stream, Y)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("m", [6, 30])
def test_the_evidence_is_computed_where_the_features_are(
    kind: str, m: int, device: PretendDevice
) -> None:
    here, there = (problem(kind, m, where).at(np.array([1.5, 2.0])) for where in ("cpu", DEVICE))
    assert there.value(1.2, 0.1) == pytest.approx(here.value(1.2, 0.1), rel=1e-12)
    assert device.left == []
    for spectral_first in (False, True):
        if spectral_first:
            value = float(there.spectral().value(1.2, 0.1))
            assert value == pytest.approx(here.value(1.2, 0.1), rel=1e-9)
            here.spectral()
            r = min(2 * m if kind == "fourier" else m, 40)
            assert device.left == [(r,)] * 2  # eigenvalues and energies, for the profile
            device.left.clear()
        a, b = here.evaluate(1.2, 0.1), there.evaluate(1.2, 0.1)
        np.testing.assert_allclose(b.lengthscale, a.lengthscale, rtol=1e-10)
        assert (b.value, b.outputscale, b.noise) == pytest.approx(
            (a.value, a.outputscale, a.noise), rel=1e-10
        )
        assert device.left[-1] == (2,)  # the gradient
        assert spectral_first or len(device.left) == 1
        device.left.clear()


@pytest.mark.long
def test_a_search_runs_on_the_device(device: PretendDevice) -> None:
    space = SearchSpace(np.ones(2), ard=True)
    found = [
        maximise_evidence(
            problem("fourier", 6, where), space, rng=np.random.default_rng(0), max_iterations=5
        )
        for where in ("cpu", DEVICE)
    ]
    assert found[1].log_evidence == pytest.approx(found[0].log_evidence, rel=1e-9)
    assert max(len(shape) for shape in device.left) == 1


def test_spectra_are_fitted_to_a_posterior_on_the_device(device: PretendDevice) -> None:
    found = {}
    for where in (torch.device("cpu"), DEVICE):
        teacher = Teacher(X, Y, GaussianSpectrum(), HYPER, where)
        rng = np.random.default_rng(0)
        fit = fit_posterior_kl(
            teacher, QueryPoints(X, X[:0], rng),
            lambda where=where, rng=rng: FourierFeatures(2, 5, generator=rng, device=where),
            KLSettings(n_steps=10, n_queries=8, n_starts=2),
        )  # fmt: skip
        assert fit.frequencies.device == where
        found[where] = fit.frequencies.cpu().numpy()
    np.testing.assert_allclose(*found.values(), rtol=1e-8)
    assert device.left == [(5, 2)]  # the test's own


@pytest.mark.parametrize("make", [
    lambda hyper: posterior_kl_loss(X, Y, POINTS, **hyper),
    lambda hyper: evidence_loss(X, Y, **hyper),
], ids=["posterior", "evidence"])  # fmt: skip
def test_losses_are_taken_where_the_frequencies_are(make, device: PretendDevice) -> None:
    loss = make({"lengthscale": HYPER.lengthscale, "outputscale": 1.2, "noise": 0.1})
    frequencies = RNG.normal(size=(5, 2))
    here, there = torch.as_tensor(frequencies), on_device(frequencies)
    value = loss(there.requires_grad_())
    (gradient,) = torch.autograd.grad(value, there)
    assert gradient.device == value.device == DEVICE
    assert device.left == []
    assert float(value.detach()) == pytest.approx(float(loss(here)), rel=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize(("m", "n"), [(6, 25), (30, 25)])
def test_a_process_on_cuda(kind: str, m: int, n: int) -> None:
    here, there = (process(kind, m, n, where) for where in ("cpu", "cuda"))
    assert there.posterior.mean.is_cuda
    assert there.statistics.offset.is_cuda
    expected, found = results_of(here.updated(DATA)), results_of(there.updated(DATA))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("m", [6, 30])
def test_the_evidence_on_cuda(m: int) -> None:
    here, there = (problem("fourier", m, where).at(np.ones(2)) for where in ("cpu", "cuda"))
    a, b = here.evaluate(1.2, 0.1), there.evaluate(1.2, 0.1)
    assert b.value == pytest.approx(a.value, rel=1e-8)
    np.testing.assert_allclose(b.lengthscale, a.lengthscale, rtol=1e-6)
