"""Processes whose observations follow any likelihood; a likelihood of one's own is one class."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import special, stats

from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.diagnostics import report
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features import FourierFeatures
from coupledgp.ground.codec import decoded, encoded
from coupledgp.likelihoods import Bernoulli, Likelihood, register_likelihood
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.latent_kernels import one_row
from coupledgp.tables.weight_space import FeaturePrior
from coupledgp.testing import LikelihoodContract, ProcessContract
from tests.model_files import changed
from tests.registries import forgotten

RNG = np.random.default_rng(4)
X = RNG.normal(size=(40, 2))
CLASSES = (np.sin(2 * X[:, :1]) + X[:, 1:] + 0.5 * RNG.normal(size=(40, 1)) > 0).astype(float)
POINTS = RNG.normal(size=(6, 2))
HYPER = Hyperparameters(np.array([0.7, 1.3]), 4.0, 1.0)
EXACT = StationaryPrior(parse_spectrum("gaussian"), HYPER)
QUIET = StationaryPrior(parse_spectrum("gaussian"), replace(HYPER, outputscale=0.3))
FEATURES = FeaturePrior(FourierFeatures(2, 64, generator=0), np.zeros(2), HYPER)


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts of mean `exp(f)`, variance factor one: a likelihood of a user's own."""

    is_discrete = True

    def log_density(self, y, f):
        return y * f - np.exp(f) - special.gammaln(y + 1)

    def slope(self, y, f):
        return y - np.exp(f)

    def moments(self, f):
        return np.exp(f), np.exp(f)

    def cdf(self, y, f):
        return np.where(y < 0, 0.0, special.gammaincc(np.floor(np.maximum(y, 0)) + 1, np.exp(f)))

    def draw(self, f, rng):
        return rng.poisson(np.exp(f)).astype(float)

    def check_targets(self, y):
        if (y < 0).any() or (y != np.floor(y)).any():
            raise InvalidInputError("y: expected counts")
        return y


@dataclass(frozen=True)
class StudentT(Likelihood):
    """Heavy tails of a scale that is fitted."""

    scale: float = 1.0

    def log_density(self, y, f):
        return stats.t.logpdf(y, 5, f, self.scale)

    def slope(self, y, f):
        residual = (y - f) / self.scale
        return 6 * residual / (self.scale * (5 + residual**2))

    def moments(self, f):
        return f, np.full_like(f, self.scale**2 * 5 / 3)

    def cdf(self, y, f):
        return stats.t.cdf(y, 5, f, self.scale)

    def draw(self, f, rng):
        return f + self.scale * rng.standard_t(5, f.shape)


@pytest.fixture
def own_likelihoods():
    with forgotten(LIKELIHOODS):
        register_likelihood("counts", Poisson)
        register_likelihood("tails", StudentT)
        yield


def given(prior, likelihood, targets, offset=0.0):
    data = Data.of(X, targets)
    return LatentGP.given([one_row(prior, data, offset)], likelihood, data)


COUNTS = RNG.poisson(np.exp(0.5 * np.sin(2 * X[:, :1]) + 0.4)).astype(float)
NEW = Data.of(POINTS + 0.1, np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]))


class TestBernoulliByExactKernel(ProcessContract):
    left_out_tolerance = 0.06  # the other sites are kept
    process = given(EXACT, Bernoulli(), CLASSES)
    points, further = POINTS, NEW


class TestBernoulliByFeatures(ProcessContract):
    left_out_tolerance = 0.06  # the other sites are kept
    process = given(FEATURES, Bernoulli(), np.column_stack([CLASSES, CLASSES[::-1]]))
    points = POINTS
    further = Data.of(POINTS, np.column_stack([NEW.targets, 1 - NEW.targets]))
    coupling, size = "orthogonal", 32


@pytest.mark.usefixtures("own_likelihoods")
class TestCounts(ProcessContract):
    left_out_tolerance = 0.06  # the other sites are kept
    process = given(QUIET, Poisson(), COUNTS, offset=0.4)
    points, further = POINTS, NEW


@pytest.mark.usefixtures("own_likelihoods")
class TestHeavyTails(ProcessContract):
    left_out_tolerance = 0.06  # the other sites are kept
    process = given(EXACT, StudentT(0.3), np.sin(X[:, :1]))
    points = POINTS
    further = Data.of(POINTS, np.sin(POINTS[:, :1]))


class TestPoisson(LikelihoodContract):
    likelihood = Poisson()


class TestStudentT(LikelihoodContract):
    likelihood = StudentT(0.3)


def test_files_keep_likelihood_and_law(tmp_path, own_likelihoods):
    process = given(EXACT, StudentT(0.3), np.sin(X[:, :1]))
    restored = decoded(encoded(process), LatentGP)
    assert restored.likelihood == StudentT(0.3)
    assert restored.log_evidence == process.log_evidence
    for old, new in zip(
        process.law(POINTS, "covariance"), restored.law(POINTS, "covariance"), strict=True
    ):
        np.testing.assert_array_equal(old, new)
    (tmp_path / "m").write_bytes(encoded(process))
    changed(tmp_path / "m", "Likelihood", dict={"name": "of somebody", "parameters": {"dict": {}}})
    with pytest.raises(ModelFileError, match="likelihood"):
        decoded((tmp_path / "m").read_bytes())
    changed(tmp_path / "m", "Likelihood", dict={"name": "bernoulli", "parameters": {"dict": {}}})
    with pytest.raises(ModelFileError, match="expected classes 0 and 1"):
        decoded((tmp_path / "m").read_bytes())


def test_a_likelihood_without_a_name_is_not_stored():
    process = given(EXACT, StudentT(0.3), np.sin(X[:, :1]))
    with pytest.raises(InvalidInputError, match="register_likelihood"):
        encoded(process)


def test_a_process_of_classes_is_no_distance_from_itself():
    X = np.linspace(-2, 2, 30)[:, None]
    prior = StationaryPrior(parse_spectrum("gaussian"), Hyperparameters(np.ones(1), 2.0, 1.0))
    classes = (X > 0).astype(float)
    data = Data.of(X, classes)
    process = LatentGP.given([one_row(prior, data, 0.0)], Bernoulli(), data)
    found = report(process, X[:9], classes[:9], exact=process, depth="scores")
    assert found.score("kl") == pytest.approx(0.0, abs=1e-9)


def test_what_is_refused():
    data = Data.of(X, CLASSES, np.full(40, 2.0))
    with pytest.raises(InvalidInputError, match="none of single rows"):
        LatentGP.given([one_row(EXACT, data, 0.0)], Bernoulli(), data)
    with pytest.raises(InvalidInputError, match="expected classes"):
        given(EXACT, Bernoulli(), CLASSES + 1)
    with pytest.raises(InvalidInputError, match="left_out_law gives"):
        TestBernoulliByExactKernel.process.left_out(np.arange(40))
    with pytest.raises(InvalidInputError, match="no single system"):
        TestBernoulliByExactKernel.process.exact_problem()
