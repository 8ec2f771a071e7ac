"""Processes under likelihoods on a small table, exact and by features."""

from functools import cache

import numpy as np

from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import Data
from coupledgp.features.registry import make_features
from coupledgp.likelihoods import Bernoulli, Poisson
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.latent_kernels import one_row
from coupledgp.tables.weight_space import FeaturePrior

SPECTRUM = parse_spectrum("gaussian")
HYPER = Hyperparameters(np.ones(2), 2.0, 1.0)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 2))
F = 2 * np.sin(X[:, 0]) + X[:, 1]
LABELS = (RNG.random(200) < 1 / (1 + np.exp(-F))).astype(int)
THREE = (F[:, None] + RNG.gumbel(size=(200, 3)) * 2 > np.array([-9.0, -1.0, 1.0])).sum(axis=1) - 1
EXPOSURE = RNG.uniform(0.5, 2.0, 200)
COUNTS = RNG.poisson(EXPOSURE * np.exp(0.5 * F)).astype(float)
TRAIN, TEST = slice(0, 120), slice(120, 200)


def prior(n_frequencies=None):
    """The exact prior, or one of features."""
    if n_frequencies is None:
        return StationaryPrior(SPECTRUM, HYPER)
    rng = np.random.default_rng(5)
    features = make_features("fourier", 2, n_frequencies, "orthogonal+pnc", SPECTRUM, rng)
    return FeaturePrior(features, np.zeros(2), HYPER)


def given(likelihood, targets, n_frequencies=None, exposure=None):
    """A process of each column of targets (n, k)."""
    weights = None if exposure is None else RowWeights.ones(len(targets), exposure=exposure)
    data = Data.of(X[: len(targets)], targets, weights=weights)
    own = one_row(prior(n_frequencies), data, 0.0)
    return LatentGP.given([own] * targets.shape[1], likelihood, data)


@cache
def classifier(n_frequencies=None):
    """A process of two classes."""
    return given(Bernoulli(), LABELS[TRAIN, None].astype(float), n_frequencies)


@cache
def three_classes():
    """A process of three classes, one against all others."""
    return given(Bernoulli(), np.eye(3)[THREE[TRAIN]])


@cache
def counts(n_frequencies=None):
    """A process of counts with exposures."""
    return given(Poisson(), COUNTS[TRAIN, None], n_frequencies, EXPOSURE[TRAIN])
