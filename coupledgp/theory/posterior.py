"""Expected distance of a random-feature posterior from the exact one, before anything is drawn.

To second order in the error of the kernel, and over targets of the exact GP's own law, the KL of
the two posteriors is a quadratic form Q of that error, the same in both directions (see
`inference.spectra.posterior_form`). For m frequencies `w_i` of weight 1/m, each of the kernel's own
law, the rank-c parts `A_i` of the kernel are unbiased, whence

    E Q(K^ - K) = V / m + (m - 1) / m C ,   V = E Q(A_w - K),   C = E B(A_i - K, A_j - K), i != j.

C is a mean over pairs, and zero for independent frequencies. The mean V is taken over scrambled
Halton frequencies, and C of a coupling over draws of it. The KL of the priors and the excess of the
mean's squared error are forms of the same kind.

Orthogonal directions change a posterior little: their covariance between kernel errors at
differences delta and delta' has the mean zero over directions of delta' (docs/posterior_draws.md).
The variance of a kernel estimate has delta = delta' and always gains; the posterior mixes different
differences, and gains only where inputs lie near a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.posterior_draw import MOST_KL, POOL
from coupledgp.core.posterior_form import FACTORS, Atoms, PosteriorForm
from coupledgp.core.posterior_kl import check_hyperparameters, check_matrix
from coupledgp.couplings import (
    CouplingLike,
    DirectionsAndNorms,
    FrequencyCoupling,
    parse_coupling,
)
from coupledgp.couplings.frequencies.directions import IidDirections
from coupledgp.couplings.frequencies.norms import IndependentNorms
from coupledgp.errors import PrecisionWarning
from coupledgp.features.registry import FeaturesLike, features_class
from coupledgp.ground.validation import check_positive, check_positive_int, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.spectra import SpectrumLike, parse_spectrum

# Scrambles of the pool whose spread gives the standard error, and frequencies of each.
SCRAMBLES, POOL_SIZE = 8, 1024
# Draws of a coupling, and those of them whose errors are computed beyond the second order.
N_DRAWS, CHECKED = 64, 32


@dataclass(frozen=True)
class ExpectedError:
    """An expected error per query, and its standard error.

    Attributes
    ----------
    value : float
        For m frequencies, in nats per query, or in units of y squared.
    standard_error : float
        Of the means over the pool and over draws of the coupling, and what the second order leaves
        out: its mean over 32 draws, of a KL in the direction in which it is larger.
    independent : float
        The value for as many independent frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.theory import posterior_errors
    >>> X, queries = np.linspace(0, 3, 6)[:, None], np.linspace(0, 3, 3)[:, None]
    >>> hyper = {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.1}
    >>> kl = posterior_errors(X, queries, 64, coupling="halton", n_draws=4, **hyper).kl
    >>> kl.value < kl.independent / 2
    True
    """

    value: float
    standard_error: float
    independent: float


@dataclass(frozen=True)
class ExpectedChange:
    """What a coupling adds to the expected KL, as a part of that of independent frequencies.

    Attributes
    ----------
    value : float
        Below zero where the coupling gains.
    standard_error : float
        Of the mean over draws of the coupling.

    Examples
    --------
    >>> from coupledgp.theory import ExpectedChange
    >>> change = ExpectedChange(value=-0.25, standard_error=0.02)
    >>> print(change)
    -25.0 ± 2.0 %
    """

    value: float
    standard_error: float

    def __str__(self) -> str:
        """Return both in percent."""
        return f"{100 * self.value:+.1f} ± {100 * self.standard_error:.1f} %"


@dataclass(frozen=True)
class PosteriorErrors:
    """Expected errors of a posterior by m random frequencies.

    Attributes
    ----------
    n_frequencies : int
        Number of frequencies m.
    coupling : str
        Their joint law.
    kl : ExpectedError
        KL from the exact posterior of observations to the approximate one, and back, nats per
        query; both agree to second order.
    prior_kl : ExpectedError
        The same of the priors.
    squared_error : ExpectedError
        Excess of the mean's expected squared error over that of the exact mean, in units of y
        squared; over twice the RMSE it is the excess of the RMSE.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.theory import posterior_errors
    >>> X, queries = np.linspace(0, 3, 6)[:, None], np.linspace(0, 3, 3)[:, None]
    >>> found = posterior_errors(X, queries, 64, lengthscale=1.0, outputscale=1.0, noise=0.1)
    >>> found.coupling, found.n_frequencies
    ('iid', 64)
    >>> found.frequencies_for(found.kl.value / 2) >= 2 * 64  # the KL falls like 1/m
    True
    """

    n_frequencies: int
    coupling: str
    kl: ExpectedError
    prior_kl: ExpectedError
    squared_error: ExpectedError

    def frequencies_for(self, kl_target: float) -> int:
        """Least number of independent frequencies whose expected KL is `kl_target`, nats per query.

        `m KL(m)` does not depend on m for independent frequencies.

        Raises
        ------
        InvalidInputError
            The target is not positive.
        """
        target = check_positive(kl_target, "kl_target")
        return max(1, int(np.ceil(self.kl.independent * self.n_frequencies / target)))


def posterior_errors(
    X: ArrayLike,
    queries: ArrayLike,
    n_frequencies: int,
    *,
    lengthscale: ArrayLike,
    outputscale: float,
    noise: float,
    kernel: SpectrumLike = "gaussian",
    features: FeaturesLike = "fourier",
    coupling: CouplingLike = "iid",
    n_draws: int = N_DRAWS,
    random_state: Seed = 0,
) -> PosteriorErrors:
    """Expected KL and squared error of a random-feature posterior, without targets.

    They are of second order, and their standard errors hold what it leaves out; above a KL of some
    .1 nats per query it may be most. O((n + q)^3 + m^2 (n + q)) for
    n rows, q queries and each draw of a coupling.

    Parameters
    ----------
    X
        Rows (n, d) that both posteriors are given.
    queries
        Points (q, d) at which their joint laws are compared.
    n_frequencies
        Number of frequencies m.
    lengthscale, outputscale, noise
        Hyperparameters; the variances in units of y squared.
    kernel, features
        Exact kernel, and the kind of features.
    coupling
        Joint law of the frequencies.
    n_draws
        Draws of a coupling whose frequencies are not independent.
    random_state
        Seed of pool and draws.

    Raises
    ------
    InvalidInputError
        An array is empty, not finite or of a shape that does not fit; a hyperparameter is not
        positive.

    Warns
    -----
    PrecisionWarning
        The expected KL is above .1 nats per query, where the second order does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.theory import posterior_errors
    >>> X, queries = np.linspace(0, 3, 6)[:, None], np.linspace(0, 3, 3)[:, None]
    >>> found = posterior_errors(X, queries, 64, lengthscale=1.0, outputscale=1.0, noise=0.1)
    >>> round(found.kl.value, 3)  # nats per query
    0.003
    >>> found.frequencies_for(0.001)
    181
    """
    rows, points = check_matrix(X, "X"), check_matrix(queries, "queries")
    if points.shape[1] != rows.shape[1]:
        raise wrong("queries", f"{rows.shape[1]} columns as X has", points.shape[1])
    dim, m = rows.shape[1], check_positive_int(n_frequencies, "n_frequencies")
    hyper = check_hyperparameters(dim, lengthscale, outputscale, noise)
    spectrum, law = parse_spectrum(kernel, "kernel"), parse_coupling(coupling)
    rng, made = as_rng(random_state), features_class(features)
    forms = {
        name: PosteriorForm(rows, points, spectrum, hyper, features=made, measure=name)
        for name in FACTORS
    }
    pools = [POOL.sample(POOL_SIZE, dim, spectrum, rng) for _ in range(SCRAMBLES)]
    coupled = m > 1 and not is_independent(law)
    draws = [law.sample(m, dim, spectrum, rng) for _ in range(n_draws if coupled else CHECKED)]
    found = {name: _expected(form, pools, draws, coupled) for name, form in forms.items()}
    if found["kl"].value > MOST_KL:
        warn(
            f"n_frequencies: the expected KL of {found['kl'].value:.2g} nats per query is above "
            f"{MOST_KL:g}, beyond which the second order does not hold and the KL may be far more",
            PrecisionWarning,
        )
    return PosteriorErrors(m, str(law), found["kl"], found["prior"], found["squared error"])


def is_independent(coupling: object) -> bool:
    """Whether the frequencies of a coupling are known to be independent."""
    return (
        isinstance(coupling, DirectionsAndNorms)
        and isinstance(coupling.directions, IidDirections)
        and isinstance(coupling.norms, IndependentNorms)
        and not coupling.antithetic
    )


def expected_changes(
    form: PosteriorForm,
    couplings: Mapping[str, FrequencyCoupling],
    n_frequencies: int,
    dim: int,
    *,
    n_draws: int = N_DRAWS,
    random_state: Seed = 0,
) -> tuple[float, dict[str, ExpectedChange]]:
    """Changes `(m - 1) C / V` of the expected KL by couplings, which share the seed of their draws.

    Parameters
    ----------
    form
        The posterior's form.
    couplings
        Joint laws of frequencies of equal weight, by name.
    n_frequencies, dim
        Number of frequencies m and their dimension d.
    n_draws
        Draws of each coupling.
    random_state
        Seed of the pool and of the draws.

    Returns
    -------
    float and dict of ExpectedChange
        Expected KL of independent frequencies, nats per query, and the changes by name.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import parse_coupling
    >>> from coupledgp.core.problem import Hyperparameters
    >>> from coupledgp.core.posterior_form import PosteriorForm
    >>> from coupledgp.spectra import parse_spectrum
    >>> from coupledgp.theory import expected_changes
    >>> X, queries = np.linspace(0, 3, 6)[:, None], np.linspace(0, 3, 3)[:, None]
    >>> hyper = Hyperparameters(np.ones(1), outputscale=1.0, noise=0.1)
    >>> form = PosteriorForm(X, queries, parse_spectrum("gaussian"), hyper)
    >>> laws = {"halton": parse_coupling("halton")}
    >>> independent, changes = expected_changes(form, laws, 64, dim=1, n_draws=8)
    >>> changes["halton"].value < -0.5  # more than half of the KL goes
    True
    """
    m, spectrum = check_positive_int(n_frequencies, "n_frequencies"), form.spectrum
    pool_seed, draw_seed = as_rng(random_state).integers(2**32, size=2)
    rng = as_rng(int(pool_seed))
    pools = [POOL.sample(POOL_SIZE, dim, spectrum, rng) for _ in range(SCRAMBLES)]
    independent, _ = _independent(form, pools, m)
    changes = {}
    for name, coupling in couplings.items():
        rng = as_rng(int(draw_seed))
        draws = [coupling.sample(m, dim, spectrum, rng) for _ in range(n_draws)]
        pairs = np.array([_centred_pairs(form, form.atoms(draw)) for draw in draws])
        pairs /= form.n_queries * independent
        error = float(pairs.std(ddof=1) / np.sqrt(n_draws))
        changes[name] = ExpectedChange(float(pairs.mean()), error)
    return independent, changes


def _independent(form: PosteriorForm, pools: list[FloatArray], m: int) -> tuple[float, float]:
    """Expected form of m independent frequencies per query, and the variance of its estimate."""
    means = np.array([form.diagonal(form.atoms(pool)).mean() for pool in pools]) - form.of_kernel
    scale = 1 / m / form.n_queries
    return float(means.mean()) * scale, float(means.var(ddof=1)) / len(means) * scale**2


def _expected(
    form: PosteriorForm, pools: list[FloatArray], draws: list[FloatArray], coupled: bool
) -> ExpectedError:
    q = form.n_queries
    independent, variance = _independent(form, pools, len(draws[0]))
    beyond = np.array([form.beyond(draw) for draw in draws[:CHECKED]]) / q
    square = np.square(beyond.mean(axis=0)) + beyond.var(axis=0, ddof=1) / len(beyond)
    variance += float(square.max())
    if not coupled:
        return ExpectedError(independent, float(np.sqrt(variance)), independent)
    pairs = np.array([_centred_pairs(form, form.atoms(draw)) for draw in draws]) / q
    error = np.sqrt(variance + pairs.var(ddof=1) / pairs.size)
    return ExpectedError(independent + float(pairs.mean()), float(error), independent)


def _centred_pairs(form: PosteriorForm, atoms: Atoms) -> float:
    """`sum_{i != j} B(A_i - K, A_j - K) / m^2` of one draw."""
    m, beside = len(atoms), form.beside_kernel(atoms)
    whole = form.value(atoms, np.full(m, 1 / m))
    own = form.diagonal(atoms) - 2 * beside + form.of_kernel
    return whole - float(own.sum()) / m**2
