"""Evidence of complete space-time data on a regular time axis, by frequencies.

With Z (p, n) complete, `z_w = rfft(D^-1/2 Z)_w / sqrt(n)` and `D^-1/2 K D^-1/2 = U diag(l) U'`,

    -log L = 1/2 sum_i sum_w m_w (log S_i(w) + |u_i' z_w|^2 / S_i(w)) + n/2 log|D| ,
    S_i(w) = l_i sum_graph v_c c_c(w) + sum_node v_c c_c(w) + s ,
    c_c(w) = 2 Re sum_t (1 - t/n) k_c(t) e^(-iwt) - k_c(0) ,

the debiased Whittle likelihood (Sykulski et al. 2019): `c_c` is the mean of the periodogram of a
series of n steps, and m_w counts a frequency and its mirror. It is O(p n) beside one rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import rfft

from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import time_covariance
from coupledgp.random import FloatArray

# Covariance (p, p) of the sensors at parameters of the kernel of sites.
Gram = Callable[[FloatArray], FloatArray]
# Step in logarithms of parameters for differences.
STEP = 1e-4
# Strength of the pull of each variable to where the search began, in nats.
RIDGE = 0.01
# Observations that a sensor's own scale is taken to have been seen in beforehand.
PRIOR_COUNT = 5.0


@dataclass(frozen=True, eq=False)
class SpaceTimeParameters:
    """Hyperparameters of a space-time model, variances in normalised units.

    Attributes
    ----------
    theta : FloatArray (k,)
        Logarithms of the parameters of the kernel of sites.
    terms : tuple of Term
        Variances and time kernels of the terms.
    noise : float
        Variance s of the noise of a sensor of scale one.
    roots : FloatArray (p,)
        Square roots of D, the relative variance of noise and own terms of each sensor.
    """

    theta: FloatArray
    terms: tuple[Term, ...]
    noise: float
    roots: FloatArray

    @property
    def variables(self) -> FloatArray:
        """Variables (q,): the logarithms of all hyperparameters except the sensors' scales."""
        parts = [self.theta]
        for term in self.terms:
            parts += [np.log([term.variance]), term.kernel.theta]
        return np.concatenate([*parts, np.log([self.noise])])

    def at(self, variables: FloatArray) -> SpaceTimeParameters:
        """The parameters at other values of the variables, in the order of `variables`."""
        place = self.theta.size
        terms = []
        for term in self.terms:
            end = place + 1 + term.kernel.theta.size
            kernel = term.kernel.with_theta(variables[place + 1 : end])
            terms.append(replace(term, variance=float(np.exp(variables[place])), kernel=kernel))
            place = end
        return replace(
            self, theta=variables[: self.theta.size].copy(), terms=tuple(terms),
            noise=float(np.exp(variables[-1])),
        )  # fmt: skip


def expected_periodogram(kernel_values: FloatArray) -> FloatArray:
    """Mean (n // 2 + 1,) of the periodogram of a series with covariances (n,) by lag."""
    n = kernel_values.size
    tapered = (1.0 - np.arange(n) / n) * kernel_values
    return np.asarray(2.0 * rfft(tapered).real - kernel_values[0])


class Whittle:
    """The evidence of complete data, and its gradient, as a function of the variables.

    Parameters
    ----------
    Z
        Complete data (m, p, n): m imputations, over which the evidence is averaged.
    step
        Time from one step to the next.
    gram
        Covariance of the sensors by theta.
    start
        Parameters at which the search begins; its variables pull weakly.
    """

    def __init__(self, Z: FloatArray, step: float, gram: Gram, start: SpaceTimeParameters) -> None:
        self.gram, self.start = gram, start
        self.m, self.p, self.n = Z.shape
        self.lags: FloatArray = step * np.arange(self.n, dtype=np.float64)
        self._spectra = np.asarray(rfft(Z) / np.sqrt(self.n))
        counts = np.full(self._spectra.shape[-1], 2.0)
        counts[0] = 1.0
        if self.n % 2 == 0:
            counts[-1] = 1.0
        self.counts = counts
        self._cache: tuple[FloatArray, FloatArray, Basis, FloatArray] | None = None

    def _rotated(self, theta: FloatArray, roots: FloatArray) -> tuple[Basis, FloatArray]:
        """Eigenvectors at theta, and the data's spectra (m, p, w) rotated by them; cached."""
        if self._cache is not None:
            same = np.array_equal(self._cache[0], theta) and np.array_equal(self._cache[1], roots)
            if same:
                return self._cache[2:]
        basis = Basis.of(self.gram(theta), roots, most=self.p)
        series = self._spectra / roots[:, None]
        rotated = np.matmul(basis.vectors.T, series.real) + 1j * np.matmul(
            basis.vectors.T, series.imag
        )
        self._cache = theta.copy(), roots.copy(), basis, rotated
        return basis, rotated

    def spectra(self, parameters: SpaceTimeParameters) -> tuple[FloatArray, FloatArray]:
        """Spectra (w,) of the graph's and of the sensors' own terms."""
        return (
            expected_periodogram(time_covariance(parameters.terms, "graph", self.lags)),
            expected_periodogram(time_covariance(parameters.terms, "node", self.lags)),
        )

    def value(self, parameters: SpaceTimeParameters) -> float:
        """Minus the evidence, in nats, without the constant."""
        return self._at(parameters)[0]

    def _at(self, parameters: SpaceTimeParameters) -> tuple[float, FloatArray, FloatArray]:
        """Minus the evidence, the powers (q, w) of the rotated data and inverse spectra (q, w)."""
        basis, rotated = self._rotated(parameters.theta, parameters.roots)
        graph, node = self.spectra(parameters)
        spectrum = basis.values[:, None] * graph + (node + parameters.noise)
        power = (np.abs(rotated) ** 2).mean(axis=0)
        inverse = 1.0 / spectrum
        value = 0.5 * float((np.log(spectrum) @ self.counts).sum())
        value += 0.5 * float(((power * inverse) @ self.counts).sum())
        value += self.n * float(np.log(parameters.roots).sum())
        return value, power, inverse

    def loss(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Minus the evidence with its pull, in nats, and its gradient."""
        parameters = self.start.at(variables)
        basis, rotated = self._rotated(parameters.theta, parameters.roots)
        graph, _node = self.spectra(parameters)
        value, power, inverse = self._at(parameters)
        slope = 0.5 * self.counts * (inverse - power * inverse**2)
        of_graph, of_node = basis.values @ slope, slope.sum(axis=0)
        weights = {"graph": of_graph, "node": of_node}
        parts = [
            self._slopes_of_sites(parameters, basis, rotated, inverse, graph),
            *(self._slopes_of_term(term, weights[term.where]) for term in parameters.terms),
            np.array([parameters.noise * of_node.sum()]),
        ]
        away = variables - self.start.variables
        gradient = np.concatenate(parts) + 2 * RIDGE * away
        return value + RIDGE * float(away @ away), gradient

    def _slopes_of_term(self, term: Term, weights: FloatArray) -> FloatArray:
        """Slopes (1 + n,) in the logarithm of the variance and in n parameters of a time kernel."""
        theta = term.kernel.theta

        def weighed(kernel: object) -> float:
            values = expected_periodogram(kernel.covariance(self.lags))  # type: ignore[attr-defined]
            return term.variance * float(weights @ values)

        slopes = [weighed(term.kernel)]
        for k in range(theta.size):
            away = STEP * np.eye(theta.size)[k]
            up, down = term.kernel.with_theta(theta + away), term.kernel.with_theta(theta - away)
            slopes.append((weighed(up) - weighed(down)) / (2 * STEP))
        return np.array(slopes)

    def _slopes_of_sites(
        self,
        parameters: SpaceTimeParameters,
        basis: Basis,
        rotated: FloatArray,
        inverse: FloatArray,
        graph: FloatArray,
    ) -> FloatArray:
        """Slopes (n_parameters,) in theta: `dA = dK S_g` at each frequency."""
        theta, roots = parameters.theta, parameters.roots
        weights = 0.5 * self.counts * graph
        solved = rotated * inverse
        slopes = []
        for k in range(theta.size):
            away = STEP * np.eye(theta.size)[k]
            change = (self.gram(theta + away) - self.gram(theta - away)) / (2 * STEP)
            change = basis.vectors.T @ (change / roots[:, None] / roots) @ basis.vectors
            trace = np.diagonal(change) @ inverse
            quad = np.zeros(weights.size)
            for part in (solved.real, solved.imag):
                quad += (part * np.matmul(change, part)).sum(axis=1).mean(axis=0)
            slopes.append(float(weights @ (trace - quad)))
        return np.array(slopes)

    def rescaled(self, parameters: SpaceTimeParameters, n_steps: int = 3) -> SpaceTimeParameters:
        """The parameters with the scales D of the sensors made more likely.

        A step multiplies `D_i` by the root of the ratio of the two halves of its slope, a
        minorise-maximise step for variance components (Zhou, Hu, Qiao, Cho and Zhou 2019), with
        `PRIOR_COUNT` observations at scale one; the mean of log D stays zero.
        """
        graph, node = self.spectra(parameters)
        own = (node + parameters.noise) * self.counts
        for _ in range(n_steps):
            roots = parameters.roots
            basis, rotated = self._rotated(parameters.theta, roots)
            inverse = 1.0 / (basis.values[:, None] * graph + node + parameters.noise)
            solved = rotated * inverse
            found = np.zeros(self.p)
            for part in (solved.real, solved.imag):
                found += (np.matmul(basis.vectors, part) ** 2).mean(axis=0) @ own
            expected = basis.vectors**2 @ (inverse @ own)
            ratio = (found + PRIOR_COUNT) / (expected + PRIOR_COUNT)
            new = roots * np.sqrt(np.sqrt(ratio))
            parameters = replace(parameters, roots=new / np.exp(np.log(new).mean()))
        return parameters


def box(
    parameters: SpaceTimeParameters,
    bounds_of_sites: Sequence[tuple[float, float]],
    step: float,
    span: float,
) -> list[tuple[float, float]]:
    """Bounds of the variables; variances are from 1e-6 to 1e2 in units of the data's variance."""
    bounds = list(bounds_of_sites)
    scale = (float(np.log(1e-6)), float(np.log(1e2)))
    for term in parameters.terms:
        bounds += [scale, *term.kernel.bounds(step, span)]
    return [*bounds, scale]
