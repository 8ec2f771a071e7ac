"""Simplex directions, those adapted to their norms, and fast rotations."""

import numpy as np
import pytest
from scipy.linalg import hadamard as hadamard_matrix

from coupledgp.couplings import FastDirections, SimplexPlusDirections, parse_coupling
from coupledgp.couplings.frequencies.directions import settle, simplex_product
from coupledgp.couplings.frequencies.hadamard import (
    HadamardRotations,
    StructuredFrequencies,
    multiplication_signs,
    product,
    unit_matrices,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum
from tests.theory import assert_mean

DIMS = [1, 2, 3, 4, 7, 16]


def simplex_rows(dim: int) -> np.ndarray:
    """The matrix S (d, d) of MATH 3, entry by entry."""
    rows = np.zeros((dim, dim))
    for i in range(dim - 1):
        rows[i, i] = np.sqrt(dim / (dim - 1))
        rows[i, : dim - 1] -= (np.sqrt(dim) + 1) / (dim - 1) ** 1.5
    rows[-1, : dim - 1] = 1 / np.sqrt(dim - 1)
    return rows


def cosines(frequencies: np.ndarray) -> np.ndarray:
    units = frequencies / np.linalg.norm(frequencies, axis=1, keepdims=True)
    return (units @ units.T)[~np.eye(len(units), dtype=bool)]


class TestSimplex:
    @pytest.mark.parametrize("dim", DIMS[1:])
    def test_product_is_that_of_the_matrix(self, dim: int, rng: np.random.Generator) -> None:
        S, Y = simplex_rows(dim), rng.normal(size=(dim, 5))
        np.testing.assert_allclose(simplex_product(Y), S @ Y, atol=1e-13)
        expected = np.full((dim, dim), -1 / (dim - 1))
        np.fill_diagonal(expected, 1.0)
        np.testing.assert_allclose(S @ S.T, expected, atol=1e-13)

    @pytest.mark.parametrize("text", ["simplex", "simplex+pnc", "simplex-fast", "simplex-fast+pnc"])
    @pytest.mark.parametrize("dim", [2, 4, 16])
    def test_every_pair_of_a_block_is_at_the_obtuse_angle(
        self, text: str, dim: int, seed: int
    ) -> None:
        w = parse_coupling(text).sample(2 * dim - 1, dim, MaternSpectrum(1.5), seed)
        for block in (w[:dim], w[dim:]):
            np.testing.assert_allclose(cosines(block), -1 / (dim - 1), atol=1e-12)
        if dim > 2:
            assert np.ptp(w[:dim] @ w[dim:].T) > 0.01

    def test_norms_follow_the_norm_law(self, seed: int) -> None:
        """Equal norms of a block stay equal: the directions have length one."""
        w = parse_coupling("simplex-plus+monotone").sample(6, 3, generator=seed)
        norms = np.linalg.norm(w, axis=1).reshape(2, 3)
        np.testing.assert_allclose(norms, norms[:, :1].repeat(3, axis=1), rtol=1e-12)


class TestSimplexPlus:
    @pytest.mark.parametrize("spectrum", [GaussianSpectrum(), MaternSpectrum(0.5)], ids=str)
    @pytest.mark.parametrize(("m", "dim"), [(3, 3), (5, 5), (2, 6), (8, 8), (64, 64)])
    def test_every_frequency_opposes_the_others(
        self, spectrum: GaussianSpectrum | MaternSpectrum, m: int, dim: int, seed: int
    ) -> None:
        w = parse_coupling("simplex-plus").sample(m, dim, spectrum, seed)
        others = w.sum(axis=0) - w
        sizes, norms = np.linalg.norm(others, axis=1), np.linalg.norm(w, axis=1)
        away = sizes > 1e-9 * norms.sum()
        cosine = (others * w).sum(axis=1)[away] / (sizes * norms)[away]
        np.testing.assert_allclose(cosine, -1, atol=1e-6)

    @pytest.mark.parametrize("dim", [2, 4, 9])
    def test_the_sum_is_as_short_as_norms_allow(self, dim: int, rng: np.random.Generator) -> None:
        """Zero if no norm exceeds the sum of the others, else what is left of the longest."""
        simplex = simplex_product(np.eye(dim))
        for norms in (rng.uniform(1, 1.2, dim), rng.uniform(size=dim), np.geomspace(1, 99, dim)):
            settled, _ = settle(simplex, norms, 1e-9, 100_000)
            least = max(0.0, 2 * norms.max() - norms.sum())
            # One sweep suffices, in two dimensions, for vectors that stay on one line.
            reached = np.linalg.norm(norms @ settled)
            assert reached == pytest.approx(least, abs=1e-5 * norms.sum())
            assert reached <= np.linalg.norm(norms @ simplex) + 1e-12

    def test_equal_norms_keep_the_simplex(self) -> None:
        simplex = simplex_product(np.eye(5))
        settled, sweeps = settle(simplex, np.full(5, 2.0), 1e-9, 10)
        assert sweeps == 1
        np.testing.assert_allclose(settled, simplex, atol=1e-12)

    def test_norms_of_very_different_size_settle(self) -> None:
        settled, _ = settle(simplex_product(np.eye(4)), np.array([1e15, 1, 2, 3]), 1e-9, 100)
        np.testing.assert_allclose(settled[1:] @ settled[0], -1, rtol=1e-12)

    @pytest.mark.parametrize("tolerance", [0.03, 1e-3, 1e-6])
    def test_sweeps_end_when_no_direction_moves(
        self, tolerance: float, rng: np.random.Generator
    ) -> None:
        """Beside plain sweeps, which count those that move any unit vector by more."""
        start, norms = simplex_product(np.eye(5)), np.array([1.0, 3.0, 1.5, 2.0, 0.4])
        units, moves = start.copy(), [np.inf]
        while moves[-1] > tolerance:
            moves.append(0.0)
            for i in range(5):
                others = norms @ units - norms[i] * units[i]
                turned = -others / np.linalg.norm(others)
                moves[-1] = max(moves[-1], np.linalg.norm(turned - units[i]))
                units[i] = turned
        settled, sweeps = settle(start, norms, tolerance, 1000)
        assert sweeps == len(moves) - 1
        np.testing.assert_allclose(settled, units, atol=1e-9)

    def test_directions_are_kept_only_where_the_others_cancel_to_rounding(self) -> None:
        """A sum of one part in 10^8 has a direction, a sum of rounding has none."""
        start = np.array([[1.0, 0, 0], [0, 1, 0], [0, -1, 0]])
        turned, _ = settle(start, np.array([1.0, 1.0, 1.0 + 1e-8]), 10.0, 1)
        np.testing.assert_allclose(turned[0], [0, 1, 0], atol=1e-7)
        kept, _ = settle(start, np.array([1.0, 1.0, 1.0 + 1e-15]), 10.0, 1)
        np.testing.assert_allclose(kept[0], [1, 0, 0])

    def test_no_convergence_is_an_error(self) -> None:
        directions = SimplexPlusDirections(tolerance=1e-12, max_sweeps=1)
        with pytest.raises(NumericalError, match=r"still move by .* after 1 sweeps.*max_sweeps"):
            directions.sample(np.array([1.0, 2.0, 2.5]), 3, np.random.default_rng(0))

    @pytest.mark.parametrize("name", ["tolerance", "max_sweeps"])
    def test_wrong_arguments(self, name: str) -> None:
        with pytest.raises(InvalidInputError, match=f"{name}: expected"):
            SimplexPlusDirections(**{name: 0})


class TestFastRotations:
    @pytest.mark.parametrize("size", [1, 2, 4, 8])
    def test_multiplication_by_a_unit_is_orthogonal_in_both_factors(
        self, size: int, rng: np.random.Generator
    ) -> None:
        """`|x y| = |x| |y|`, bilinear: what makes a vector times a uniform unit uniform."""
        x, y = rng.normal(size=(2, size))
        signs = multiplication_signs(size)
        left = np.zeros((size, size))  # e_b -> x e_b
        right = np.zeros((size, size))  # e_a -> e_a y
        for a in range(size):
            for b in range(size):
                left[a ^ b, b] += signs[a, b] * x[a]
                right[a ^ b, a] += signs[a, b] * y[b]
        np.testing.assert_allclose(left @ y, right @ x)
        np.testing.assert_allclose(left.T @ left, (x @ x) * np.eye(size), atol=1e-12)
        np.testing.assert_allclose(right.T @ right, (y @ y) * np.eye(size), atol=1e-12)
        np.testing.assert_allclose(unit_matrices(x[None], False)[0, :, :size], left)
        np.testing.assert_allclose(unit_matrices(x[None], True)[0, :, :size], left.T)

    @pytest.mark.parametrize("simplex", [False, True])
    @pytest.mark.parametrize("dim", [1, 2, 4, 8, 16, 64])
    def test_definition(self, dim: int, simplex: bool, rng: np.random.Generator) -> None:
        """The product of the factors, written as matrices."""
        rotations = HadamardRotations.draw(1, dim, rng)
        size, H = min(dim, 8), hadamard_matrix(dim) / np.sqrt(dim)
        Q = np.zeros((dim, dim))
        for start in range(0, dim, size):
            run = slice(start, start + size)
            Q[run, run] = unit_matrices(rotations.units[:, run], False)[0, :, :size]
        second, third = (np.diag(signs) for signs in rotations.signs[0])
        R = H @ third @ H @ second @ H @ Q
        np.testing.assert_allclose(R @ R.T, np.eye(dim), atol=1e-12)
        norms = rng.uniform(1, 2, dim)
        expected = norms[:, None] * (simplex_product(R) if simplex else R)
        built = StructuredFrequencies(dim, dim, norms, rotations, simplex, False).dense()
        np.testing.assert_allclose(built, expected, atol=1e-12)

    @pytest.mark.parametrize("text", ["orthogonal-fast+pnc", "simplex-fast+antithetic"])
    @pytest.mark.parametrize(("m", "dim"), [(1, 1), (5, 1), (3, 5), (20, 6), (33, 16)])
    def test_structured_and_formed_frequencies_are_the_same(
        self, text: str, m: int, dim: int, seed: int
    ) -> None:
        coupling = parse_coupling(text)
        structured = coupling.structured(m, dim, "matern-3/2", seed)
        assert structured is not None
        formed = coupling.sample(m, dim, "matern-3/2", seed)
        np.testing.assert_allclose(structured.dense(), formed, rtol=1e-12, atol=1e-13)
        p = FastDirections().ambient_dim(dim)
        assert p >= dim > p // 2
        drawn = structured.norms.size
        n_numbers = drawn + structured.rotations.units.size + structured.rotations.signs.size
        assert n_numbers <= drawn + 3 * (drawn + p)

    def test_couplings_without_fast_products_draw_nothing(self) -> None:
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        for text in ("sobol", "orthogonal+pnc"):
            assert parse_coupling(text).structured(4, 3, "gaussian", rng) is None
        assert rng.bit_generator.state == before

    def test_padded_frequencies_have_the_law_of_p_dimensions(self, seed: int) -> None:
        """Orthogonal there, in d dimensions in the mean only."""
        coupling = parse_coupling("orthogonal-fast")
        w = coupling.sample(4, 3, generator=seed)
        assert np.abs(cosines(w)).max() > 1e-3
        rng = np.random.default_rng(seed)
        draws = np.stack([coupling.sample(4, 3, generator=rng) for _ in range(3000)])
        assert_mean(draws @ draws.transpose(0, 2, 1), 3 * np.eye(4))

    @pytest.mark.parametrize("dim", [16, 32])
    def test_entries_beyond_eight_dimensions_have_the_moments_of_haar(
        self, dim: int, rng: np.random.Generator
    ) -> None:
        """Not exact there: the fourth moment is checked to the test's own precision."""
        directions = FastDirections()
        ones = np.ones(dim)
        u = np.stack([directions.sample(ones, dim, rng) for _ in range(3000)])
        axes = np.zeros((2, dim))
        axes[0, 0], axes[1, :2] = 1.0, np.sqrt(0.5)
        for axis in axes:
            projection = (u @ axis)[:, [0, 3, dim - 1]]
            assert_mean(projection**2, 1 / dim)
            assert_mean(projection**4, 3 / (dim * (dim + 2)))

    def test_other_dimensions_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="dim: expected a power of two, got 6"):
            FastDirections().sample(np.ones(6), 6, np.random.default_rng(0))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("n", [1, 15, 16, 40, 5000])
    def test_products_of_any_number_of_rows(
        self, n: int, dtype: type, rng: np.random.Generator
    ) -> None:
        """Tiles cut and whole, few rows in one thread and many in several."""
        structured = parse_coupling("simplex-fast").structured(37, 13, "gaussian", 0)
        assert structured is not None
        W, rotations = structured.dense(), structured.rotations
        X, G = rng.normal(size=(n, 13)), rng.normal(size=(n, 37))
        for inputs, transposed, expected in ((X, False, X @ W.T), (G, True, G @ W)):
            out = np.full(expected.shape, np.nan, dtype)
            norms, units = structured.norms.astype(dtype), rotations.units.astype(dtype)
            product(inputs.astype(dtype), norms, units, rotations.signs, True, transposed, out)
            tolerance = 1e-11 if dtype is np.float64 else 2e-4
            np.testing.assert_allclose(out, expected, atol=tolerance)
