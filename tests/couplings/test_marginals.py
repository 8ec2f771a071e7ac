"""Each frequency of each coupling follows the spectrum, alone: the promise couplings rest on.

Kolmogorov-Smirnov holds for independent observations, so every test sees one frequency of each of
many independent ensembles. The contracts of `coupledgp.testing` say the same of every coupling and
law of norms; here are more sizes and spectra, and twice the sharpness, for the laws of the package.
"""

import numpy as np
import pytest
from scipy import stats

from coupledgp.couplings import FrequencyCoupling, available_couplings, parse_coupling
from coupledgp.couplings.frequencies.quadrature import QuasiMonteCarlo
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum, parse_spectrum

REPETITIONS = 800
FEWER = 300  # of scrambled sequences, whose draws are slow
# More than a thousand tests in all.
P_VALUE = 1e-8
# Part of a block, whole blocks, and whole ones with a part; one dimension; an odd number of pairs.
SIZES = [(3, 1), (7, 2)]
HEADS = ("simplex", "simplex-plus", "orthogonal-fast", "simplex-fast")
# Every law of directions and every law of norms; not every pair of them.
TESTED = [
    text
    for text in available_couplings()
    if text.split("+")[0] not in (*HEADS, "quadrature")
    or (text.split("+")[0] in HEADS and text.split("+")[1:] in ([], ["pnc"]))
]
# At every size, and with a spectrum that is no half-integer; the others at the size that has both
# whole blocks and a part.
THOROUGH = ("iid", "orthogonal+pnc", "simplex", "orthogonal-fast", "halton")


def projection_law(spectrum: Spectrum) -> stats.rv_continuous:
    """Law of `a . w` for a unit vector a: normal, or Student's t."""
    if isinstance(spectrum, GaussianSpectrum):
        return stats.norm()
    assert isinstance(spectrum, MaternSpectrum)
    return stats.t(2 * spectrum.nu)


def assert_marginals(
    coupling: FrequencyCoupling, m: int, dim: int, spectrum: Spectrum, rng: np.random.Generator
) -> None:
    repetitions = FEWER if isinstance(coupling, QuasiMonteCarlo) else REPETITIONS
    ensembles = np.stack([coupling.sample(m, dim, spectrum, rng) for _ in range(repetitions)])
    axis = rng.normal(size=dim)
    axis /= np.linalg.norm(axis)
    for i in range(m):
        w = ensembles[:, i]
        uniforms = spectrum.norm_cdf(np.linalg.norm(w, axis=1), dim)
        assert stats.kstest(uniforms, "uniform").pvalue > P_VALUE, f"norm of frequency {i}"
        projections = projection_law(spectrum).cdf(w @ axis)
        assert stats.kstest(projections, "uniform").pvalue > P_VALUE, f"projection of {i}"
        first = stats.kstest(projection_law(spectrum).cdf(w[:, 0]), "uniform").pvalue
        assert first > P_VALUE, f"first coordinate of {i}"


@pytest.mark.parametrize(
    ("text", "m", "dim"),
    [(text, *size) for text in TESTED for size in (SIZES if text in THOROUGH else SIZES[-1:])],
)
def test_gaussian_marginals(text: str, m: int, dim: int, rng: np.random.Generator) -> None:
    assert_marginals(parse_coupling(text), m, dim, GaussianSpectrum(), rng)


@pytest.mark.parametrize("text", THOROUGH)
def test_matern_marginals(text: str, rng: np.random.Generator) -> None:
    assert_marginals(parse_coupling(text), 4, 3, parse_spectrum("matern-0.7"), rng)


def test_the_test_sees_a_wrong_law(rng: np.random.Generator) -> None:
    """Norms of half the dimension, or a direction that favours an axis, are found out."""
    gaussian = GaussianSpectrum()

    class WrongNorm(FrequencyCoupling):
        def _sample(self, n_frequencies, dim, spectrum, rng):  # type: ignore[no-untyped-def]
            return 0.85 * rng.standard_normal((n_frequencies, dim))

    class WrongDirection(FrequencyCoupling):
        def _sample(self, n_frequencies, dim, spectrum, rng):  # type: ignore[no-untyped-def]
            w = rng.standard_normal((n_frequencies, dim))
            w[:, 0] = np.abs(w[:, 0])
            return w

    for coupling in (WrongNorm(), WrongDirection()):
        with pytest.raises(AssertionError):
            assert_marginals(coupling, 3, 2, gaussian, rng)
