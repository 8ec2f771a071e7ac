"""Norm couplings learned by gradient descent on a loss of the frequencies (MATH 3).

"Variance-reducing couplings for random features", appendix A.5: the optimal transport problem over
joint laws of the norms, within Gaussian copulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.spatial.distance import cdist

from coupledgp.couplings import (
    CouplingLike,
    DirectionsAndNorms,
    GaussianCopulaNorms,
    IndependentNorms,
    SimplexPlusDirections,
    parse_coupling,
)
from coupledgp.couplings.frequencies.registry import norms_from_uniforms
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features.base import FeatureMap
from coupledgp.features.registry import FeaturesLike, make_features, parse_features
from coupledgp.ground.descent import constant, descend
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.ground.validation import check_positive, check_positive_int, wrong
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.spectra import Spectrum, SpectrumLike, parse_spectrum

FrequencyLoss: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LearnedCopula:
    """A learned coupling and the record of its fit.

    Parameters
    ----------
    coupling
        The learned coupling. It has a text form and can be used and saved like any other.
    start_loss, loss
        Mean loss of the independent norms and of the coupling, over the same held-out draws.
    losses
        Mean loss over the draws of each step, shape (n_steps,).
    stopped_early
        Whether the held-out loss had stopped falling before the last step.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import learn_copula
    >>> X = np.random.default_rng(0).uniform(-0.3, 0.3, size=(6, 2))
    >>> learned = learn_copula(X, n_steps=10, batch_size=8, n_held_out=32, generator=1)
    >>> learned.losses.shape, learned.stopped_early
    ((10,), False)
    >>> learned.coupling.sample(4, 2, generator=0).shape
    (4, 2)
    """

    coupling: DirectionsAndNorms
    start_loss: float
    loss: float
    losses: FloatArray
    stopped_early: bool


def gram_loss(
    X: ArrayLike, features: FeaturesLike = "fourier", spectrum: SpectrumLike = "gaussian"
) -> GramLoss:
    """Loss `frequencies (m, d) -> mean squared error of the Gram matrix` of inputs.

    Parameters
    ----------
    X
        Inputs (n, d), n > 1, divided by the lengthscales.
    features
        As in `parse_features`.
    spectrum
        Kernel that the features estimate.

    Returns
    -------
    callable
        Differentiable loss of frequencies (m, d); the mean is over the pairs of different inputs.

    Examples
    --------
    >>> import torch
    >>> import coupledgp as cgp
    >>> X = torch.linspace(0, 1, 8, dtype=torch.float64)[:, None]
    >>> loss = cgp.gram_loss(X)
    >>> bool(loss(torch.ones(4, 1, dtype=torch.float64)) > 0)
    True
    """
    parse_features(features)
    parsed = parse_spectrum(spectrum)
    inputs = torch.tensor(np.asarray(X, dtype=np.float64))
    if inputs.ndim != 2 or len(inputs) < 2 or not torch.isfinite(inputs).all():
        raise InvalidInputError(
            "X: expected at least two rows (n, d) of finite values, got shape "
            f"{tuple(inputs.shape)}"
        )
    return GramLoss(inputs, features, parsed)


class GramLoss:
    """Loss `frequencies -> mean squared error of the Gram matrix`; see `gram_loss`."""

    def __init__(self, inputs: Tensor, features: FeaturesLike, spectrum: Spectrum) -> None:
        self.inputs, self.features, self.spectrum = inputs, features, spectrum
        self.exact = torch.as_tensor(spectrum.kernel(cdist(inputs.numpy(), inputs.numpy())))
        self.same = torch.eye(len(inputs), dtype=torch.bool)
        self._map: FeatureMap | None = None

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.inputs.shape[1]

    def __call__(self, frequencies: Tensor) -> Tensor:
        """Mean squared error, differentiable in the frequencies (m, d)."""
        m = len(frequencies)
        if self._map is None or self._map.n_frequencies != m:
            self._map = make_features(self.features, self.dim, m, "iid", self.spectrum, 0)
        self._map.frequencies = frequencies
        phi = self._map(self.inputs)
        # Masked, not indexed: picking the pairs out would take longer than all the rest.
        error = (phi @ phi.T - self.exact).masked_fill(self.same, 0.0)
        n = len(self.inputs)
        return error.square().sum() / (n * (n - 1))


def learn_copula(
    objective: ArrayLike | FrequencyLoss,
    coupling: CouplingLike = "orthogonal",
    n_frequencies: int | None = None,
    dim: int | None = None,
    spectrum: SpectrumLike = "gaussian",
    generator: Seed = None,
    *,
    n_steps: int = 400,
    batch_size: int = 16,
    n_held_out: int = 128,
    learning_rate: float = 0.05,
    patience: int = 8,
    progress: bool | None = None,
) -> LearnedCopula:
    """Fit the correlations of a Gaussian copula of norms by stochastic gradient descent (Adam).

    Norms are `F^-1(Phi(g))`, `g = L e`, `e ~ N(0, I)`: differentiable in the rows
    `L_ij = theta_ij / |theta_i|`, `j <= i`, of a Cholesky factor, whose parameters are free. The
    gradient of `F^-1` is one over the density.

    Parameters
    ----------
    objective
        Loss that the coupling minimises: any differentiable function of frequencies (m, d) in
        float64 that returns a scalar. Losses in `coupledgp`:

        * `gram_loss(X)`: mean squared error of the kernel between inputs;
        * `posterior_kl_loss(X, y, queries, ...)`: KL from the exact GP's predictive law;
        * `evidence_loss(X, y, ...)`: minus the log evidence;
        * `attention_loss(queries, keys)`: mean squared error of linear attention.

        Inputs (n, d), divided by the lengthscales, stand for their `gram_loss`.
    coupling
        Directions of the frequencies, and whether negatives are appended; independent norms, which
        the learned ones replace.
    n_frequencies
        Number of frequencies m; d if None. Every block of d has the same correlations.
    dim
        Input dimension d, needed for a loss of your own that has no attribute `dim`.
    spectrum
        Law of the frequencies.
    generator
        Seed or generator.
    n_steps, batch_size, learning_rate
        Number of steps of Adam, number of draws of the frequencies in each, and step size.
    n_held_out, patience
        Every ten steps the mean loss of `n_held_out` other draws, always the same, is taken; after
        `patience` such checks without improvement the fit stops. The best correlations are kept.
    progress
        As in `coupledgp.ground.progress.reporter`.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or directions depend on the norms (simplex-plus).
    NumericalError
        The loss is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import learn_copula
    >>> X = np.random.default_rng(0).uniform(-0.3, 0.3, size=(6, 2))
    >>> learned = learn_copula(X, n_steps=20, batch_size=8, n_held_out=32, generator=1)
    >>> learned.loss < learned.start_loss
    True
    >>> learned.coupling.norms.correlation[0][1] < 0  # one long, one short, as pairwise norms do
    True
    """
    parsed = parse_spectrum(spectrum)
    loss = objective if callable(objective) else gram_loss(objective, "fourier", parsed)
    size = check_positive_int(getattr(loss, "dim", dim), "dim")
    if dim not in (None, size):
        raise wrong("dim", f"{size} as the objective's inputs have", dim)
    m = size if n_frequencies is None else check_positive_int(n_frequencies, "n_frequencies")
    rng = as_rng(generator)
    ensembles = _Ensembles(_checked(coupling), m, size, parsed, loss)
    schedule = _Schedule(
        check_positive_int(n_steps, "n_steps"),
        check_positive_int(batch_size, "batch_size"),
        check_positive_int(n_held_out, "n_held_out"),
        check_positive(learning_rate, "learning_rate"),
        check_positive_int(patience, "patience"),
    )
    with reporter("learn copula", progress):
        return _descend(ensembles, schedule, rng)


@dataclass(frozen=True)
class _Schedule:
    n_steps: int
    batch_size: int
    n_held_out: int
    learning_rate: float
    patience: int


@dataclass(frozen=True)
class _Ensembles:
    """Draws of frequencies as functions of the factor L of the correlations."""

    coupling: DirectionsAndNorms
    n_frequencies: int
    dim: int
    spectrum: Spectrum
    loss: FrequencyLoss

    @property
    def order(self) -> int:
        """Number of norms in a block."""
        return self.coupling.directions.ambient_dim(self.dim)

    @property
    def n_drawn(self) -> int:
        """Number of frequencies that are drawn, without their negatives."""
        m = self.n_frequencies
        return -(-m // 2) if self.coupling.antithetic else m

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Normals (n, blocks, order) and unit vectors (n, drawn, d)."""
        n_blocks = -(-self.n_drawn // self.order)
        normals = rng.standard_normal((n, n_blocks, self.order))
        ones = np.ones(self.n_drawn)
        sample = self.coupling.directions.sample
        units = np.stack([sample(ones, self.order, rng)[:, : self.dim] for _ in range(n)])
        return torch.as_tensor(normals), torch.as_tensor(units)

    def mean_loss(self, factor: Tensor, draws: tuple[Tensor, Tensor]) -> Tensor:
        """Mean of the loss over the draws."""
        normals, units = draws
        g = (normals @ factor.T).flatten(1)[:, : self.n_drawn]
        norms: Tensor = _CopulaNorms.apply(g, self.order, self.spectrum)
        frequencies = norms[:, :, None] * units
        if self.coupling.antithetic:
            frequencies = torch.cat([frequencies, -frequencies], dim=1)[:, : self.n_frequencies]
        # One draw at a time, so that the loss need not accept batches; at 256 rows a batch would be
        # no faster.
        return torch.stack([self.loss(each) for each in frequencies]).mean()


def _descend(
    ensembles: _Ensembles,
    schedule: _Schedule,
    rng: np.random.Generator,
) -> LearnedCopula:
    """Descend in theta, with held-out draws that decide when to stop and which state to keep."""
    theta = torch.eye(ensembles.order, dtype=torch.float64)
    held_out = ensembles.draw(schedule.n_held_out, rng)

    def loss() -> Tensor:
        draws = ensembles.draw(schedule.batch_size, rng)
        value = ensembles.mean_loss(cholesky_factor(theta), draws)
        _finite(value)
        return value

    found = descend(
        [theta],
        loss,
        lambda: _finite(ensembles.mean_loss(cholesky_factor(theta), held_out)),
        schedule.n_steps,
        constant(schedule.learning_rate),
        patience=schedule.patience,
        on_check=lambda check: tell(
            f"step {check.step}, loss {check.score:.4g}, independent norms {check.start_score:.4g}"
        ),
    )
    factor = cholesky_factor(found.best[0]).numpy()
    coupling = replace(ensembles.coupling, norms=GaussianCopulaNorms(factor @ factor.T))
    losses = np.array(found.losses)
    return LearnedCopula(coupling, found.start_score, found.score, losses, found.stopped_early)


def cholesky_factor(theta: Tensor) -> Tensor:
    """Lower factor `L_ij = theta_ij / sqrt(sum_{k <= i} theta_ik^2)` of theta, both (n, n).

    The rows of L have length one.
    """
    lower = theta.tril()
    return lower / lower.norm(dim=1, keepdim=True)


class _CopulaNorms(Differentiable):
    """`F^-1(Phi(g))`, whose derivative is the normal density over the density of the norm."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, dim: int, spectrum: Spectrum) -> Tensor:
        u = np.clip(special.ndtr(g.numpy()), 2.0**-53, 1 - 2.0**-53)
        norms = norms_from_uniforms(u, dim, spectrum)
        density = spectrum.norm_pdf(norms, dim)
        normal = np.exp(-0.5 * np.square(g.numpy())) / np.sqrt(2 * np.pi)
        slope = np.divide(normal, density, out=np.zeros_like(normal), where=density > 0)
        ctx.save_for_backward(torch.as_tensor(slope))
        return torch.as_tensor(norms)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return upstream[0] * slope, None, None


def _checked(coupling: CouplingLike) -> DirectionsAndNorms:
    parsed = parse_coupling(coupling)
    if not isinstance(parsed, DirectionsAndNorms) or parsed.norms != IndependentNorms():
        raise InvalidInputError(
            "coupling: expected directions with independent norms, such as 'orthogonal' or "
            f"'simplex+antithetic', got {str(parsed)!r}"
        )
    if isinstance(parsed.directions, SimplexPlusDirections):
        raise InvalidInputError(
            "coupling: expected directions that do not depend on the norms, got 'simplex-plus'; "
            "use 'simplex'"
        )
    return parsed


def _finite(loss: Tensor) -> float:
    value = float(loss.detach())
    if not np.isfinite(value):
        raise NumericalError(
            f"learn_copula: the loss is {value}; it must be finite for all frequencies, so scale "
            "the inputs or bound the loss"
        )
    return value
