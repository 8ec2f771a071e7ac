"""Gaussian copulas of norms: their limits, text form and life in models; learning them."""

import numpy as np
import pytest
import torch
from scipy import stats

from coupledgp import SparseSpectrumGPRegressor, load_model
from coupledgp.couplings import (
    DirectionsAndNorms,
    GaussianCopulaNorms,
    MonotoneNorms,
    OrthogonalDirections,
    PairwiseNorms,
    parse_coupling,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import gram_loss, learn_copula
from coupledgp.features.learned_copula import _CopulaNorms, cholesky_factor
from coupledgp.features.registry import features_class
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum

PAIRS = np.array([[1.0, -1, 0], [-1, 1, 0], [0, 0, 1]])
SOME = np.array([[1.0, -0.5, 0.3], [-0.5, 1, 0], [0.3, 0, 1]])


class TestLaw:
    def test_every_uniform_is_uniform(self, rng: np.random.Generator) -> None:
        u = np.stack([GaussianCopulaNorms(SOME).sample(5, 3, rng) for _ in range(3000)])
        for i in range(5):
            assert stats.kstest(u[:, i], "uniform").pvalue > 1e-8

    def test_scores_have_the_correlation_and_blocks_are_independent(
        self, rng: np.random.Generator
    ) -> None:
        g = stats.norm.ppf(
            np.stack([GaussianCopulaNorms(SOME).sample(5, 3, rng) for _ in range(8000)])
        )
        expected = np.eye(5)
        expected[:3, :3], expected[3:, 3:] = SOME, SOME[:2, :2]
        assert np.abs(g.T @ g / 8000 - expected).max() < 6 * np.sqrt(2 / 8000)

    def test_pairwise_and_monotone_norms_are_its_limits(self, rng: np.random.Generator) -> None:
        for _ in range(50):
            u = GaussianCopulaNorms(PAIRS).sample(6, 3, rng)
            np.testing.assert_allclose(u[[1, 4]], 1 - u[[0, 3]], atol=1e-12)
            equal = GaussianCopulaNorms(np.ones((3, 3))).sample(6, 3, rng)
            np.testing.assert_allclose(equal, np.repeat(equal[[0, 3]], 3), atol=1e-12)
        for limit in (PairwiseNorms(), MonotoneNorms()):
            u = np.stack([limit.sample(3, 3, rng) for _ in range(4000)])
            g = stats.norm.ppf(u)
            target = PAIRS if isinstance(limit, PairwiseNorms) else np.ones((3, 3))
            assert np.abs(np.corrcoef(g.T) - target).max() < 6 / np.sqrt(4000)

    def test_other_dimensions_are_refused(self) -> None:
        norms = GaussianCopulaNorms(SOME)
        with pytest.raises(InvalidInputError, match=r"correlation: expected order 4, .*got 3"):
            DirectionsAndNorms(OrthogonalDirections(), norms).sample(4, 4, generator=0)
        fast = parse_coupling(f"orthogonal-fast+{GaussianCopulaNorms(np.eye(4))}")
        assert fast.sample(7, 3, generator=0).shape == (7, 3)

    @pytest.mark.parametrize(
        ("correlation", "message"),
        [
            ([1.0], r"square matrix, got shape \(1,\)"),
            ([[1.0, 0.2], [0.3, 1.0]], "symmetric"),
            ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
            ([[2.0, 0.0], [0.0, 1.0]], "ones on the diagonal"),
            (np.full((3, 3), -0.9) + 1.9 * np.eye(3), "least eigenvalue is -0.8"),
        ],
    )
    def test_wrong_correlations(self, correlation: object, message: str) -> None:
        with pytest.raises(InvalidInputError, match=f"correlation: expected .*{message}"):
            GaussianCopulaNorms(correlation)  # type: ignore[arg-type]


class TestText:
    @pytest.mark.parametrize("correlation", [[[1.0]], SOME, PAIRS, np.eye(2) + 1e-17])
    def test_round_trip(self, correlation: np.ndarray) -> None:
        norms = GaussianCopulaNorms(correlation)
        coupling = DirectionsAndNorms(OrthogonalDirections(), norms, antithetic=True)
        text = str(coupling)
        assert " " not in text
        assert parse_coupling(text) == coupling
        assert hash(parse_coupling(text)) == hash(coupling)

    @pytest.mark.parametrize(
        "text", ["copula", "copula:", "copula:[[0,1]]", "copula:[1]", "copula:{}x"]
    )
    def test_parameters_are_needed(self, text: str) -> None:
        with pytest.raises(
            InvalidInputError, match=r"'copula' expects the correlations.*learn_cop"
        ):
            parse_coupling(f"orthogonal+{text}")
        with pytest.raises(InvalidInputError, match="after 'orthogonal': expected one of"):
            parse_coupling("orthogonal+pnc:[]")

    def test_models_with_a_copula_are_saved(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        X = np.random.default_rng(0).normal(size=(30, 3))
        coupling = DirectionsAndNorms(OrthogonalDirections(), GaussianCopulaNorms(SOME))
        gp = SparseSpectrumGPRegressor(
            n_frequencies=6, coupling=coupling, random_state=0, options={"max_iter": 5}
        ).fit(X, X[:, 0])
        gp.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert loaded.features_.coupling == coupling
        np.testing.assert_array_equal(loaded.predict(X), gp.predict(X))


class TestLearning:
    def test_norms_are_differentiated_exactly(self) -> None:
        g = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
        for spectrum in (GaussianSpectrum(), MaternSpectrum(1.5)):
            assert torch.autograd.gradcheck(lambda x, s=spectrum: _CopulaNorms.apply(x, 5, s), (g,))

    def test_factor_has_rows_of_length_one(self, rng: np.random.Generator) -> None:
        factor = cholesky_factor(torch.as_tensor(rng.normal(size=(4, 4))))
        torch.testing.assert_close((factor @ factor.T).diagonal(), torch.ones(4).double())
        assert (factor.triu(1) == 0).all()

    @pytest.mark.parametrize("features", ["fourier", "laplace"])
    def test_gram_loss_is_the_mean_over_pairs(
        self, features: str, rng: np.random.Generator
    ) -> None:
        """The diagonal, where Laplace features err most, does not count."""
        X, frequencies = rng.normal(size=(9, 3)), torch.as_tensor(rng.normal(size=(4, 3)))
        kind = features_class(features)
        phi = kind.from_frequencies(frequencies, "iid", "gaussian")(torch.as_tensor(X))
        squares = [
            (float(phi[i] @ phi[j]) - np.exp(-np.square(X[i] - X[j]).sum() / 2)) ** 2
            for i in range(9)
            for j in range(i)
        ]
        loss = gram_loss(X, features)
        assert float(loss(frequencies)) == pytest.approx(np.mean(squares), rel=1e-10)
        assert torch.autograd.gradcheck(loss, (frequencies.requires_grad_(),))

    @pytest.mark.long
    def test_two_frequencies_learn_pairwise_norms(self, seed: int) -> None:
        """The optimum for two orthogonal frequencies at small distances is C = -1."""
        X = np.random.default_rng(0).normal(size=(12, 2)) / 3
        learned = learn_copula(X, generator=seed, n_steps=150, batch_size=32)
        correlation = learned.coupling.norms.correlation[0][1]  # type: ignore[attr-defined]
        assert correlation < -0.9
        assert learned.loss < 0.85 * learned.start_loss

    def test_a_loss_of_ones_own(self) -> None:
        """Norms whose sum must vary most are equal."""

        def loss(frequencies: torch.Tensor) -> torch.Tensor:
            return -(frequencies.norm(dim=1).sum() - 3.76).square()

        learned = learn_copula(loss, dim=3, generator=0, n_steps=200)
        off = np.array(learned.coupling.norms.correlation)[np.triu_indices(3, 1)]  # type: ignore[attr-defined]
        assert (off > 0.9).all()
        assert learned.losses.size <= 200

    def test_same_seed_same_bits_and_early_stop(self) -> None:
        def loss(frequencies: torch.Tensor) -> torch.Tensor:
            return frequencies.square().sum()  # its mean depends on no coupling

        runs = [learn_copula(loss, dim=2, generator=4, patience=2) for _ in range(2)]
        assert runs[0].coupling == runs[1].coupling
        assert runs[0].stopped_early
        assert runs[0].losses.size < 400

    def test_wrong_arguments(self) -> None:
        X = np.zeros((3, 2))
        with pytest.raises(InvalidInputError, match=r"independent norms.*got 'orthogonal.pnc'"):
            learn_copula(X, "orthogonal+pnc")
        with pytest.raises(InvalidInputError, match="do not depend on the norms"):
            learn_copula(X, "simplex-plus")
        with pytest.raises(InvalidInputError, match="dim: expected an int >= 1, got None"):
            learn_copula(lambda w: w.sum())
        with pytest.raises(InvalidInputError, match="dim: expected 2 as the objective's inputs"):
            learn_copula(X, dim=3)
        with pytest.raises(InvalidInputError, match="X: expected at least two rows"):
            gram_loss(np.zeros((1, 2)))
        with pytest.raises(NumericalError, match="learn_copula: the loss is nan"):
            learn_copula(lambda w: w.sum() * torch.nan, dim=2)
