"""Spectral measures: inverse CDFs to the tails, kernels, slopes, and that the two belong together.

References are closed forms and arbitrary-precision arithmetic, never the formulas of the package.
"""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.gaussian_process.kernels import RBF, Matern

from coupledgp.couplings import DirectionsAndNorms
from coupledgp.errors import InvalidInputError
from coupledgp.random import open_uniforms
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum, parse_spectrum
from tests.theory import assert_mean

GAUSSIAN = GaussianSpectrum()
TAIL = np.array([1e-300, 1e-100, 1e-30, 1e-16, 2.0**-53, 1e-10, 1e-5, 0.01, 0.1, 0.3, 0.499])
SPECTRA = [GAUSSIAN, *map(MaternSpectrum, (0.1, 0.5, 0.7, 1.0, 1.5, 2.5, 7.3, 100.0))]
DIMS = [1, 2, 3, 8, 65]


def mp_tails(spectrum: Spectrum, norm: float, dim: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """CDF and survival function of the norm, to 40 digits."""
    r = mpmath.mpf(float(norm))
    if isinstance(spectrum, GaussianSpectrum):
        a, x = mpmath.mpf(dim) / 2, r**2 / 2
        lower = mpmath.gammainc(a, 0, x, regularized=True)
        return lower, mpmath.gammainc(a, x, mpmath.inf, regularized=True)
    a, b = mpmath.mpf(dim) / 2, mpmath.mpf(spectrum.nu)
    total = r**2 + 2 * b
    lower = mpmath.betainc(a, b, 0, r**2 / total, regularized=True)
    return lower, mpmath.betainc(b, a, 0, 2 * b / total, regularized=True)


def mp_norm_error(spectrum: Spectrum, norm: float, dim: int, tail: float, upper: bool) -> float:
    """Relative error of a norm for a given tail probability, as residual over slope."""
    with mpmath.workdps(40):
        probability = mp_tails(spectrum, norm, dim)[int(upper)]
        step = mpmath.mpf("1e-12")
        moved = mp_tails(spectrum, float(norm) * (1 + float(step)), dim)[int(upper)]
        actual_step = mpmath.mpf(float(norm) * (1 + float(step))) / mpmath.mpf(float(norm)) - 1
        slope = (mpmath.log(moved) - mpmath.log(probability)) / actual_step
        return abs(float((mpmath.log(probability) - mpmath.log(mpmath.mpf(tail))) / slope))


class TestNormLaw:
    def test_gaussian_in_two_dimensions_is_rayleigh(self) -> None:
        np.testing.assert_allclose(
            GAUSSIAN.norm_ppf(TAIL, 2), np.sqrt(-2 * np.log1p(-TAIL)), rtol=1e-14
        )
        np.testing.assert_allclose(
            GAUSSIAN.norm_isf(TAIL, 2), np.sqrt(-2 * np.log(TAIL)), rtol=1e-14
        )

    def test_matern_half_in_one_dimension_is_half_cauchy(self) -> None:
        cauchy = MaternSpectrum(0.5)
        tail = TAIL[TAIL > 1e-150]  # beyond, the square of the norm leaves float64
        np.testing.assert_allclose(cauchy.norm_ppf(tail, 1), np.tan(np.pi / 2 * tail), rtol=1e-13)
        np.testing.assert_allclose(cauchy.norm_isf(tail, 1), 1 / np.tan(np.pi / 2 * tail), 1e-13)

    def test_gaussian_in_one_dimension_is_half_normal(self) -> None:
        np.testing.assert_allclose(GAUSSIAN.norm_isf(TAIL, 1), -special.ndtri(TAIL / 2), rtol=1e-13)

    @pytest.mark.parametrize("dim", DIMS)
    @pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
    def test_both_tails_against_many_digits(self, spectrum: Spectrum, dim: int) -> None:
        for tail in (1e-30, 2.0**-53, 1e-5, 0.2, 0.499):
            lower = float(spectrum.norm_ppf(tail, dim))
            assert mp_norm_error(spectrum, lower, dim, tail, upper=False) < 1e-13, tail
            if isinstance(spectrum, MaternSpectrum) and tail ** (1 / spectrum.nu) < 1e-290:
                continue  # the square of the norm is beyond float64
            upper = float(spectrum.norm_isf(tail, dim))
            assert mp_norm_error(spectrum, upper, dim, tail, upper=True) < 1e-13, tail

    @pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
    def test_every_uniform_that_is_drawn_gives_a_finite_positive_norm(
        self, spectrum: Spectrum
    ) -> None:
        extremes = np.array([2.0**-53, 0.5, 1 - 2.0**-53])
        for dim in DIMS:
            for norms in (spectrum.norm_ppf(extremes, dim), spectrum.norm_isf(extremes, dim)):
                assert np.isfinite(norms).all()
                assert (norms > 0).all()

    def test_ends_of_the_interval(self) -> None:
        for spectrum in SPECTRA:
            np.testing.assert_array_equal(spectrum.norm_ppf([0.0, 1.0], 3), [0.0, np.inf])
            np.testing.assert_array_equal(spectrum.norm_isf([0.0, 1.0], 3), [np.inf, 0.0])
            np.testing.assert_array_equal(spectrum.norm_cdf([0.0, np.inf], 3), [0.0, 1.0])

    @given(
        u=st.floats(1e-12, 1 - 1e-12),
        dim=st.integers(1, 70),
        nu=st.none() | st.floats(0.1, 100),
    )
    @example(u=0.999, dim=3, nu=0.1)
    def test_round_trip(self, u: float, dim: int, nu: float | None) -> None:
        spectrum = GAUSSIAN if nu is None else MaternSpectrum(nu)
        norm = spectrum.norm_ppf(u, dim)
        assert float(spectrum.norm_cdf(norm, dim)) == pytest.approx(u, rel=1e-10)
        # 1 - u rounds by half an ulp of one, which the upper tail magnifies.
        complement = 1 - u
        assert 1 - float(spectrum.norm_cdf(spectrum.norm_isf(complement, dim), dim)) == (
            pytest.approx(complement, rel=1e-9, abs=1e-14)
        )
        assert float(spectrum.norm_isf(complement, dim)) == pytest.approx(float(norm), rel=1e-3)

    @given(u=st.floats(1e-6, 1 - 1e-6), v=st.floats(1e-6, 1 - 1e-6), nu=st.floats(0.1, 100))
    def test_monotone(self, u: float, v: float, nu: float) -> None:
        low, high = sorted((u, v))
        for spectrum in (GAUSSIAN, MaternSpectrum(nu)):
            assert spectrum.norm_ppf(low, 3) <= spectrum.norm_ppf(high, 3) * (1 + 1e-14)

    @pytest.mark.parametrize("dim", DIMS)
    def test_matern_is_the_f_law_of_math_1(self, dim: int) -> None:
        u = np.linspace(0.01, 0.99, 25)
        for nu in (0.5, 1.3, 2.5, 20.0):
            expected = np.sqrt(dim * stats.f.ppf(u, dim, 2 * nu))
            np.testing.assert_allclose(MaternSpectrum(nu).norm_ppf(u, dim), expected, rtol=1e-9)

    def test_smooth_matern_tends_to_the_gaussian(self) -> None:
        u = np.linspace(0.05, 0.95, 10)
        ratio = MaternSpectrum(100.0).norm_ppf(u, 3) / GAUSSIAN.norm_ppf(u, 3)
        np.testing.assert_allclose(ratio, 1.0, atol=0.02)

    @pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
    def test_from_uniforms_follows_the_norm_law(
        self, spectrum: Spectrum, rng: np.random.Generator
    ) -> None:
        for dim in (1, 4):
            cube = open_uniforms(rng, (20_000, spectrum.n_uniforms(dim)))
            norms = np.linalg.norm(spectrum.from_uniforms(cube), axis=1)
            assert stats.kstest(spectrum.norm_cdf(norms, dim), "uniform").pvalue > 1e-7


R = np.array([0.0, 1e-160, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])


def mp_kernel(nu: float, r: float) -> mpmath.mpf:
    """Matern kernel by its definition."""
    if r == 0:
        return mpmath.mpf(1)
    nu_, s = mpmath.mpf(nu), mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(r)
    return 2 ** (1 - nu_) / mpmath.gamma(nu_) * s**nu_ * mpmath.besselk(nu_, s)


def mp_slope(nu: float, r: float) -> mpmath.mpf:
    """`-kappa'(r) / r` by a difference of the definition, to many digits."""
    step = mpmath.mpf(r) * mpmath.mpf("1e-15")
    difference = mp_kernel(nu, mpmath.mpf(r) + step) - mp_kernel(nu, mpmath.mpf(r) - step)
    return -difference / (2 * step) / mpmath.mpf(r)


NUS = [0.1, 0.3, 0.5, 0.7, 1.0, 1.01, 1.5, 2.0, 2.5, 3.5, 5.0, 10.2, 40.0, 100.0]


class TestKernel:
    @pytest.mark.parametrize("nu", NUS)
    def test_matern_against_many_digits(self, nu: float) -> None:
        with mpmath.workdps(60):
            expected = [float(mp_kernel(nu, r)) for r in R]
        np.testing.assert_allclose(MaternSpectrum(nu).kernel(R), expected, rtol=5e-13)

    @pytest.mark.parametrize("nu", NUS)
    def test_matern_slope_by_differences(self, nu: float) -> None:
        r = R[(R > 0) & (R > 1e-13)]
        with mpmath.workdps(80):
            expected = [float(mp_slope(nu, x)) for x in r]
        np.testing.assert_allclose(MaternSpectrum(nu).kernel_slope(r), expected, rtol=5e-13)

    def test_gaussian_slope_by_differences(self) -> None:
        r, step = R[R > 1e-4], 1e-6
        difference = GAUSSIAN.kernel(r * (1 + step)) - GAUSSIAN.kernel(r * (1 - step))
        np.testing.assert_allclose(
            GAUSSIAN.kernel_slope(r), -difference / (2 * step * r**2), rtol=1e-4, atol=1e-30
        )

    @pytest.mark.parametrize("nu", NUS)
    def test_slope_times_squared_distance_is_finite(self, nu: float) -> None:
        """The factor that gradients use, also where the slope itself has no finite limit."""
        r = np.array([0.0, 1e-150, 1e-100, 1e-16, 1e-8])
        slope = MaternSpectrum(nu).kernel_slope(r)
        assert np.isfinite(slope).all()
        assert np.isfinite(r * r * slope).all()

    @pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
    def test_closed_forms_agree_with_their_neighbours(self, nu: float) -> None:
        near = MaternSpectrum(nu * (1 + 1e-9))
        np.testing.assert_allclose(MaternSpectrum(nu).kernel(R), near.kernel(R), rtol=1e-7)

    def test_unit_at_zero_and_decreasing(self) -> None:
        r = np.linspace(0, 12, 400)
        for spectrum in SPECTRA:
            kernel = spectrum.kernel(r)
            assert kernel[0] == 1.0
            assert (np.diff(kernel) < 0).all()

    def test_against_scikit_learn(self, rng: np.random.Generator) -> None:
        X, lengthscale = rng.normal(size=(9, 3)), np.array([0.5, 1.0, 3.0])
        r = np.linalg.norm((X[:, None] - X) / lengthscale, axis=2)
        np.testing.assert_allclose(GAUSSIAN.kernel(r), RBF(lengthscale)(X), atol=1e-14)
        for nu in (0.5, 0.8, 1.5, 2.5, 4.2):
            theirs = Matern(lengthscale, nu=nu)(X)
            np.testing.assert_allclose(MaternSpectrum(nu).kernel(r), theirs, atol=1e-13)

    def test_against_gpytorch(self, rng: np.random.Generator) -> None:
        kernels = pytest.importorskip("gpytorch.kernels")
        X = torch.as_tensor(rng.normal(size=(9, 2)))
        r = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist").numpy() / 0.7
        pairs = [(GAUSSIAN, kernels.RBFKernel())]
        pairs += [(MaternSpectrum(nu), kernels.MaternKernel(nu)) for nu in (0.5, 1.5, 2.5)]
        for spectrum, kernel in pairs:
            kernel = kernel.double()
            kernel.lengthscale = 0.7
            theirs = kernel(X).to_dense().detach().numpy()
            # It shifts the diagonal of a Matern kernel away from one by a clamp of 1e-15.
            np.testing.assert_allclose(spectrum.kernel(r), theirs, atol=1e-7)

    @pytest.mark.parametrize("dim", [1, 2, 5])
    @pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
    def test_kernel_is_the_characteristic_function(
        self, spectrum: Spectrum, dim: int, rng: np.random.Generator
    ) -> None:
        w = DirectionsAndNorms().sample(30_000, dim, spectrum, rng)
        directions = rng.normal(size=(6, dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        r = np.array([0.05, 0.3, 0.7, 1.0, 1.8, 4.0])
        assert_mean(np.cos(w @ (r[:, None] * directions).T), spectrum.kernel(r))


class TestParse:
    @pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
    def test_text_form_round_trip(self, spectrum: Spectrum) -> None:
        assert parse_spectrum(str(spectrum)) == spectrum

    @given(nu=st.floats(0.1, 100))
    def test_text_form_of_any_smoothness(self, nu: float) -> None:
        assert parse_spectrum(str(MaternSpectrum(nu))) == MaternSpectrum(nu)

    @pytest.mark.parametrize(
        ("text", "spectrum"),
        [
            ("rbf", GAUSSIAN),
            ("matern12", MaternSpectrum(0.5)),
            ("matern32", MaternSpectrum(1.5)),
            ("matern-5/2", MaternSpectrum(2.5)),
            ("matern-.7", MaternSpectrum(0.7)),
            ("matern-4", MaternSpectrum(4)),
        ],
    )
    def test_names(self, text: str, spectrum: Spectrum) -> None:
        assert parse_spectrum(text) == spectrum
        assert parse_spectrum(spectrum) is spectrum

    @pytest.mark.parametrize(
        "text",
        ["gauss", "matern", "matern-", "matern-x", "matern-1/0", "matern--1", "", "Matern12"],
    )
    def test_unknown_names_list_the_choices(self, text: str) -> None:
        message = rf"kernel: expected one of 'gaussian', 'laplace', .*'matern-NU'; got {text!r}"
        with pytest.raises(InvalidInputError, match=message):
            parse_spectrum(text, "kernel")

    @pytest.mark.parametrize("value", [None, 3, GaussianSpectrum])
    def test_other_types(self, value: object) -> None:
        message = "spectrum: expected a name such as 'gaussian' or a Spectrum"
        with pytest.raises(InvalidInputError, match=message):
            parse_spectrum(value)  # type: ignore[arg-type]

    @pytest.mark.parametrize("nu", [0.09, 101, 0, -1, np.nan, np.inf, "smooth", None])
    def test_smoothness_out_of_range(self, nu: object) -> None:
        with pytest.raises(InvalidInputError, match="nu: expected a "):
            MaternSpectrum(nu)  # type: ignore[arg-type]
        if isinstance(nu, float | int) and 0 < nu < np.inf:
            with pytest.raises(InvalidInputError, match=r"from 0.1 to 100"):
                parse_spectrum(f"matern-{nu}")
