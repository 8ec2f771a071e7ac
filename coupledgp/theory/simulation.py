"""Simulated errors of kernel estimates, for couplings and features without a closed form.

An estimate is `(c/m) sum_i g(w_i)` (see `closed_forms`). Each draw of an ensemble gives one squared
error; their mean converges to the mean squared error at the rate of the standard error beside it.
Two things make the error smaller than that of plain draws:

* where the joint law of the frequencies is the same under every rotation, as for directions iid,
  orthogonal, simplex and simplex-plus, the error depends on the inputs through `t` alone, and each
  ensemble serves many arguments of that length;
* every coupling keeps the law of a single frequency, so that the means of `g(w)`, `g(w)^2` and
  `g(w)^3` over the ensemble have known expectations: they are control variates, whose coefficients
  come from least squares on the draws.

Owen, "Monte Carlo theory, methods and examples" (2013), chapter 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import (
    CouplingLike,
    DirectionsAndNorms,
    FrequencyCoupling,
    IidDirections,
    OrthogonalDirections,
    SimplexDirections,
    SimplexPlusDirections,
    parse_coupling,
)
from coupledgp.errors import InvalidInputError
from coupledgp.features.registry import FeaturesLike, features_class, make_features
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, Seed, as_rng
from coupledgp.spectra import Spectrum, SpectrumLike, parse_spectrum
from coupledgp.theory.closed_forms import check_distance, check_pair, reduced

# Directions whose joint law is the same under every rotation.
_ROTATION_INVARIANT = (
    IidDirections, OrthogonalDirections, SimplexDirections, SimplexPlusDirections,
)  # fmt: skip
# Arguments of one length that each ensemble serves: products with so many cost about as much as
# the ensemble itself.
N_ARGUMENTS = 32
# Draws for which least squares over the control variates have degrees of freedom to spare.
MIN_DRAWS = 8


@dataclass(frozen=True)
class SimulatedError:
    """A simulated mean squared error.

    Attributes
    ----------
    value : float
        Mean squared error of the kernel estimate.
    standard_error : float
        Standard error of the value; zero for a deterministic rule, whose value is exact.
    n_draws : int
        Number of ensembles that were drawn.

    Examples
    --------
    >>> from coupledgp.theory import simulated_mse
    >>> x, y = [0.4, -0.1, 0.3], [0.0, 0.2, -0.5]
    >>> found = simulated_mse("fourier", "orthogonal+pnc", 3, x, y, n_draws=200)
    >>> print(found)
    0.02149 ± 0.0006
    """

    value: float
    standard_error: float
    n_draws: int

    def __str__(self) -> str:
        """Return the value and its standard error."""
        return f"{self.value:.4g} ± {self.standard_error:.1g}"


def simulated_mse(
    features: FeaturesLike,
    coupling: CouplingLike,
    n_frequencies: int,
    x: ArrayLike,
    y: ArrayLike,
    *,
    spectrum: SpectrumLike = "gaussian",
    n_draws: int = 1000,
    generator: Seed = 0,
) -> SimulatedError:
    """Mean squared error of the estimate of the kernel `k(x, y)`, by simulation.

    It is what `expected_mse` computes where a closed form is known, for every coupling, feature map
    and spectrum, registered or not.

    Parameters
    ----------
    features, coupling, n_frequencies, x, y
        As in `expected_mse`; the features may be of any kind, and the coupling any.
    spectrum
        Kernel whose spectral measure the frequencies follow, of unit lengthscale.
    n_draws
        Number of ensembles, 8 or more.
    generator
        Seed or generator; the same seed gives the same bits.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or the coupling or the features cannot serve this size, dimension
        or spectrum.

    Examples
    --------
    >>> from coupledgp.theory import expected_mse, simulated_mse
    >>> x, y = [0.4, -0.1, 0.3], [0.0, 0.2, -0.5]
    >>> found = simulated_mse("fourier", "orthogonal", 3, x, y, n_draws=200)
    >>> exact = expected_mse("fourier", "orthogonal", 3, x, y)
    >>> abs(found.value - exact) < 4 * found.standard_error
    True
    """
    first, second = check_pair(x, y)
    sign = features_class(features).product_sign
    simulation = _Simulation.of(coupling, n_frequencies, first.size, spectrum, n_draws, generator)
    if sign is None:
        return simulation.of_maps(features, first, second)
    simulation.check_served_by(features)
    factor, argument = reduced(sign, first, second)
    t = float(np.linalg.norm(argument))
    fixed = None if simulation.is_rotation_invariant else argument[None]
    found = simulation.of_products(sign, t, fixed)
    return SimulatedError(factor * found.value, factor * found.standard_error, found.n_draws)


def simulated_distance_mse(
    features: FeaturesLike,
    coupling: CouplingLike,
    n_frequencies: int,
    dim: int,
    t: float,
    *,
    spectrum: SpectrumLike = "gaussian",
    n_draws: int = 1000,
    generator: Seed = 0,
) -> SimulatedError:
    """Mean squared error divided by `c^2`, by simulation: `distance_mse` for every coupling.

    For a coupling whose law is not the same under every rotation, as that of `"halton"`, it is the
    mean over all directions of an argument of length `t`.

    Parameters
    ----------
    features, coupling, n_frequencies, dim, t
        As in `distance_mse`; the features have a `product_sign`, the coupling may be any.
    spectrum, n_draws, generator
        As in `simulated_mse`.

    Examples
    --------
    >>> from coupledgp.theory import distance_mse, simulated_distance_mse
    >>> found = simulated_distance_mse("fourier", "orthogonal", 8, dim=4, t=1.0, n_draws=100)
    >>> exact = distance_mse("fourier", "orthogonal", 8, dim=4, t=1.0)
    >>> abs(found.value - exact) < 4 * found.standard_error
    True
    """
    sign = features_class(features).product_sign
    if sign is None:
        raise InvalidInputError(
            "features: expected features whose products depend on x - y or x + y alone, 'fourier' "
            f"or 'laplace', got {features!r}; simulated_mse takes the inputs themselves"
        )
    length = check_distance(t)
    simulation = _Simulation.of(coupling, n_frequencies, dim, spectrum, n_draws, generator)
    simulation.check_served_by(features)
    return simulation.of_products(sign, length, None)


@dataclass(frozen=True)
class _Simulation:
    """Draws of one coupling at one size."""

    coupling: FrequencyCoupling
    n_frequencies: int
    dim: int
    spectrum: Spectrum
    n_draws: int
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        coupling: CouplingLike,
        n_frequencies: int,
        dim: int,
        spectrum: SpectrumLike,
        n_draws: int,
        generator: Seed,
    ) -> _Simulation:
        return cls(
            parse_coupling(coupling),
            check_positive_int(n_frequencies, "n_frequencies"),
            check_positive_int(dim, "dim"),
            parse_spectrum(spectrum),
            check_positive_int(n_draws, "n_draws", minimum=MIN_DRAWS),
            as_rng(generator),
        )

    def check_served_by(self, features: FeaturesLike) -> None:
        """Refuse a spectrum or a coupling that features with products refuse."""
        make_features(features, self.dim, self.n_frequencies, self.coupling, self.spectrum, 0)

    @property
    def is_rotation_invariant(self) -> bool:
        """Whether the joint law of the frequencies is known to be the same under rotations."""
        coupling = self.coupling
        return (
            isinstance(coupling, DirectionsAndNorms)
            and type(coupling.directions) in _ROTATION_INVARIANT
        )

    def of_products(self, sign: float, t: float, arguments: FloatArray | None) -> SimulatedError:
        """Error of `sum_i a_i g(w_i)` for `arguments` (k, d) of length t; None: random ones."""
        weights = self.coupling.weights(self.n_frequencies, self.dim, self.spectrum)
        if weights is not None:
            return self._of_rule(sign, t, weights, arguments)
        powers, exact = self._powers(sign, t)
        rows = np.empty((self.n_draws, 1 + len(exact)))
        for draw in range(self.n_draws):
            w = self.coupling.sample(self.n_frequencies, self.dim, self.spectrum, self.rng)
            at = self._arguments(t) if arguments is None else arguments
            g = powers(w @ at.T)  # (number of powers, m, k)
            means = g.mean(axis=1)
            rows[draw, 0] = np.square(means[0] - exact[0]).mean()
            rows[draw, 1:] = means.mean(axis=1) - exact
        return _adjusted(rows[:, 0], rows[:, 1:])

    def of_maps(self, features: FeaturesLike, x: FloatArray, y: FloatArray) -> SimulatedError:
        """Error of `phi(x) . phi(y)` of whole feature maps, of any kind."""
        exact = float(self.spectrum.kernel(np.linalg.norm(x - y)))
        points, errors = np.stack([x, y]), np.empty(self.n_draws)
        for draw in range(self.n_draws):
            phi = make_features(
                features, self.dim, self.n_frequencies, self.coupling, self.spectrum, self.rng
            )(points).numpy()
            errors[draw] = (phi[0] @ phi[1] - exact) ** 2
        return _adjusted(errors, np.empty((self.n_draws, 0)))

    def _of_rule(
        self, sign: float, t: float, weights: FloatArray, arguments: FloatArray | None
    ) -> SimulatedError:
        """Error of a deterministic rule, which one ensemble gives."""
        w = self.coupling.sample(self.n_frequencies, self.dim, self.spectrum, self.rng)
        powers, exact = self._powers(sign, t)
        if arguments is not None:
            error = weights @ powers(w @ arguments.T)[0] - exact[0]
            return SimulatedError(float(np.square(error).mean()), 0.0, 1)
        at = np.concatenate([self._arguments(t) for _ in range(-(-self.n_draws // N_ARGUMENTS))])
        squares = np.square(weights @ powers(w @ at.T)[0] - exact[0])
        return _adjusted(squares, np.empty((squares.size, 0)))

    def _arguments(self, t: float) -> FloatArray:
        """Random vectors (k, d) of length t, uniform in direction."""
        vectors = self.rng.standard_normal((N_ARGUMENTS, self.dim))
        return t * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _powers(
        self, sign: float, t: float
    ) -> tuple[Callable[[FloatArray], FloatArray], FloatArray]:
        """Functions of `w . v`, of which the first is g, and their expectations.

        For cosines these are `cos(w . v)`, `cos(2 w . v)` and `cos(3 w . v)`, of which the powers
        of g are sums; for exponentials `exp(w . v)` and `exp(2 w . v)`, whose cube has too heavy
        a tail.
        """
        if sign < 0:
            orders = np.arange(1, 4)
            return (
                lambda p: np.cos(np.multiply.outer(orders, p)),
                self.spectrum.kernel(orders * t),
            )
        orders = np.arange(1, 3)
        return lambda p: np.exp(np.multiply.outer(orders, p)), np.exp((orders * t) ** 2 / 2)


def _adjusted(errors: FloatArray, variates: FloatArray) -> SimulatedError:
    """Mean of errors (n,), by least squares on control variates (n, p) of expectation zero.

    The mean is the intercept of the regression, and its variance that of the intercept. Where the
    variates leave nothing over, as for a single frequency, the rounding of the errors remains.
    """
    n = errors.size
    design = np.column_stack([np.ones(n), variates])
    coefficients, _, rank, _ = np.linalg.lstsq(design, errors, rcond=None)
    residual = errors - design @ coefficients
    variance = residual @ residual / (n - rank)
    spread = np.linalg.pinv(design.T @ design)[0, 0]
    rounding = np.finfo(np.float64).eps * float(errors.max())
    return SimulatedError(
        float(coefficients[0]), float(max(np.sqrt(variance * spread), rounding)), n
    )
