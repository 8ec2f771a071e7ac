"""Kernels and hyperparameters near those of a model, which differ from them in one thing each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from coupledgp.expressions import Kernel, Sum
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.kernel_prior import KernelPrior, covariance_of
from coupledgp.gp.state import text_of
from coupledgp.kernels.additive import BASES, Additive
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.kernels.rows import Linear
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, ProductLaplace, Spectrum

# Smoothness of kernels, and factors on lengthscales at which draws of them look most alike: rougher
# kernels have longer ones.
SMOOTHNESS = {0.5: 4.0, 1.5: 1.8, 2.5: 1.3, np.inf: 1.0}
# Most columns of an additive kernel, and shares of the variance of its columns, of its pairs and of
# the product over all columns.
MOST_COLUMNS, SHARES = 50, (0.6, 0.3, 0.1)
# Factors on the noise beside another kernel.
NOISES = ((1.0, ""), (0.25, ", a quarter of the noise"))


class Nearby(NamedTuple):
    """A prior near a model's: how it differs, its kernel if that is another one, and itself."""

    name: str
    kernel: str
    prior: DensePrior


def nearby(prior: DensePrior, rows: FloatArray | None = None) -> Iterator[Nearby]:
    """Priors near that of a stationary kernel or of an expression; none for others.

    A trend is over columns that are standardised by rows (n, d); None: there is none.
    """
    if isinstance(prior, StationaryPrior):
        yield from _of_stationary(prior)
        yield from _additive(prior)
        if rows is not None and np.ptp(rows, axis=0).all():
            yield _with_trend(prior, rows)
    elif isinstance(prior, KernelPrior):
        yield from _of_expression(prior)


def _of_stationary(prior: StationaryPrior) -> Iterator[Nearby]:
    hyper = prior.hyperparameters
    for name, factor in (("lengthscales twice as long", 2.0), ("lengthscales half as long", 0.5)):
        changed = replace(hyper, lengthscale=factor * hyper.lengthscale)
        yield Nearby(name, "", replace(prior, hyperparameters=changed))
    for factor in (25.0, 4.0, 0.25, 0.04):
        name = f"the noise variance times {factor:g}"
        changed = replace(hyper, noise=factor * hyper.noise)
        yield Nearby(name, "", replace(prior, hyperparameters=changed))
    for spectrum, factor in _others(prior.spectrum, hyper.lengthscale.size):
        for share, text in NOISES:
            changed = replace(
                hyper, lengthscale=factor * hyper.lengthscale, noise=share * hyper.noise
            )
            kernel = text_of(spectrum, "kernel")
            name = f"{kernel}, lengthscales times {factor:.2g}{text}"
            yield Nearby(name, kernel, replace(prior, spectrum=spectrum, hyperparameters=changed))


def _additive(prior: StationaryPrior) -> Iterator[Nearby]:
    """Additive kernels of columns and pairs, of the variance of a stationary one.

    A distance in d columns is that in one times `d^1/2`, so that lengthscales of single columns are
    tried as they are and shorter by this factor.
    """
    hyper, dim = prior.hyperparameters, prior.hyperparameters.lengthscale.size
    if not 1 < dim <= MOST_COLUMNS:
        return
    spectrum = prior.spectrum
    kernel = Additive(2, spectrum if spectrum in BASES else MaternSpectrum(1.5))
    columns, pairs, full = np.multiply(SHARES, hyper.outputscale)
    of_column, of_pair = columns / dim, pairs / (dim * (dim - 1) / 2)
    scales = np.log([of_column, of_pair / of_column**2, full])
    for factor in (1.0, dim**-0.5):
        lengths = np.log(factor * hyper.lengthscale)
        for share, text in NOISES:
            vector = np.concatenate([[np.log(share * hyper.noise)], lengths, scales])
            other = KernelPrior(
                kernel, vector, RowColumns.plain(dim), np.zeros(dim), np.ones(dim)
            )  # fmt: skip
            yield Nearby(f"{kernel}, lengthscales times {factor:.2g}{text}", str(kernel), other)


def _with_trend(prior: StationaryPrior, rows: FloatArray) -> Nearby:
    """A stationary kernel and a linear trend, of the variance at the mean of its prior."""
    hyper, dim = prior.hyperparameters, rows.shape[1]
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    kernel = Sum((prior.spectrum, Linear()))
    lengths = np.log(np.broadcast_to(hyper.lengthscale, dim) / spread)
    vector = np.concatenate(
        [np.log([hyper.noise, hyper.outputscale]), lengths, [Linear.variance_mean]]
    )
    other = KernelPrior(kernel, vector, RowColumns.plain(dim), center, spread)
    return Nearby("a linear trend", str(kernel), other)


def _of_expression(prior: KernelPrior) -> Iterator[Nearby]:
    """An expression with a further term, at the means of its priors, or without one of its own."""
    own = prior.kernel.terms if isinstance(prior.kernel, Sum) else (prior.kernel,)
    sizes = [_theta(prior, term).size for term in own]
    parts = np.split(prior.theta, np.cumsum(sizes)[:-1])
    has_pairs = any(isinstance(term, Additive) and term.order > 1 for term in own)
    lacking: list[Kernel] = [] if Linear() in own else [Linear()]
    if not has_pairs and 1 < len(prior.columns.labels) <= MOST_COLUMNS:
        lacking.insert(0, Additive(2))
    for further in lacking:
        terms, theta = (*own, further), [*parts, _theta(prior, further)]
        yield _changed(prior, terms, theta, f"a further term {further}")
    for place, term in enumerate(own if len(own) > 1 else ()):
        kept = own[:place] + own[place + 1 :]
        yield _changed(prior, kept, parts[:place] + parts[place + 1 :], f"no term {term}")


def _theta(prior: KernelPrior, term: Kernel) -> FloatArray:
    """Hyperparameters of a term of a sum, with its variance, at the means of their priors."""
    return covariance_of(term, prior.columns, prior.center, prior.spread).start


def _changed(
    prior: KernelPrior, terms: tuple[Kernel, ...], theta: list[FloatArray], name: str
) -> Nearby:
    kernel = terms[0] if len(terms) == 1 else Sum(terms)
    vector = np.concatenate([prior.vector[:1], *theta])
    return Nearby(name, str(kernel), replace(prior, kernel=kernel, vector=vector))


def _others(spectrum: Spectrum, dim: int) -> Iterator[tuple[Spectrum, float]]:
    """Kernels of another smoothness or metric, and factors on the d lengthscales that fit them."""
    if spectrum.smoothness is None:
        return
    own = _length(spectrum, dim)
    others: list[Spectrum] = [
        GaussianSpectrum() if np.isinf(nu) else MaternSpectrum(nu) for nu in SMOOTHNESS
    ]
    if dim > 1:  # of one column it is the Matern-1/2 kernel
        others.append(ProductLaplace())
    for other in others:
        if other != spectrum:
            yield other, _length(other, dim) / own


def _length(spectrum: Spectrum, dim: int) -> float:
    """Lengthscale at which draws of a kernel of d columns look most like those of the Gaussian one.

    Distances in the metric "l1" are longer than Euclidean ones by the mean of their ratio over
    all directions, `d Gamma(d/2) / (sqrt(pi) Gamma((d + 1)/2))`.
    """
    nu = spectrum.smoothness
    assert nu is not None
    if np.isinf(nu):
        return SMOOTHNESS[np.inf]
    length = float(np.interp(nu, list(SMOOTHNESS)[:3], list(SMOOTHNESS.values())[:3]))
    if spectrum.metric == Metric.L2:
        return length
    return float(length * dim * np.exp(gammaln(dim / 2) - gammaln((dim + 1) / 2)) / np.sqrt(np.pi))
