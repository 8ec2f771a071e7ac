"""A covariance of the sensors that is learned from their values, near the kernel's covariance.

By frequencies w > 0, series `x_w` (p,) of complete data have covariance
`C S_g(w) + D (S_n(w) + s)`. C has an inverse Wishart law about the kernel's gram K, whose weight nu
counts as that many frequencies. Expectation-maximisation takes
`C <- (nu K + sum_w E[f_w f_w'] / S_g(w)) / (nu + n - 1)`, where f is the part of the graph's terms
(Dempster, Laird and Rubin 1977). The weight is the one under which the values of each half of the
times are most likely, given C of the other half; or the kernel stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import rfft

from coupledgp.inference.space_time.gaps import time_covariance
from coupledgp.inference.space_time.whittle import SpaceTimeParameters, expected_periodogram
from coupledgp.random import FloatArray

# Weights of the kernel that are tried, in numbers of steps, and steps of a search.
WEIGHTS, N_STEPS = (4.0, 1.0, 0.25), 12
# Least gain, nats a value, for which the kernel's covariance is given up; fewest steps of a half.
LEAST_GAIN, FEWEST_STEPS = 0.001, 32


@dataclass(frozen=True, eq=False)
class Learned:
    """A learned covariance of the sensors.

    Attributes
    ----------
    covariance : FloatArray (p, p)
        C, of the trace of the kernel's gram.
    weight : float
        Weight nu of the kernel's gram over the number of steps.
    gain : float
        Nats by which values of a half of the times are more likely than under the kernel, given the
        other half; the mean of both.
    """

    covariance: FloatArray
    weight: float
    gain: float


class Spectra:
    """Frequencies of complete data, and spectra of the terms.

    Parameters
    ----------
    Z
        Complete data (m, p, n): draws of the gaps, over which expectations are means.
    step
        Time from one step to the next.
    parameters
        Terms, noise and scales.
    """

    def __init__(self, Z: FloatArray, step: float, parameters: SpaceTimeParameters) -> None:
        self.n = Z.shape[-1]
        lags = step * np.arange(self.n, dtype=np.float64)
        terms = parameters.terms
        self.graph = expected_periodogram(time_covariance(terms, "graph", lags))
        node = expected_periodogram(time_covariance(terms, "node", lags))
        self.node = node + parameters.noise
        self.counts = np.full(self.graph.size, 2.0)
        # Terms that are constant over time are the same draw in both halves, which predicts no
        # other draw.
        self.counts[0] = 0.0
        if self.n % 2 == 0:
            self.counts[-1] = 1.0
        self.roots = parameters.roots
        self.series = rfft(Z / self.roots[:, None]) / np.sqrt(self.n)

    def _rotated(self, C: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Eigenvalues (p,) and vectors U (p, p) of `D^-1/2 C D^-1/2`, and the data times U'."""
        values, U = np.linalg.eigh(C / self.roots[:, None] / self.roots)
        return np.maximum(values, 1e-12 * values[-1]), U, np.matmul(U.T, self.series)

    def loss(self, C: FloatArray) -> float:
        """Minus the log evidence of complete data, nats, but for a constant."""
        values, _, rotated = self._rotated(C)
        spectrum = values[:, None] * self.graph + self.node
        power = np.square(np.abs(rotated)).mean(axis=0)
        return 0.5 * float(((np.log(spectrum) + power / spectrum) @ self.counts).sum())

    def moment(self, C: FloatArray) -> FloatArray:
        """`sum_w E[f_w f_w'] / S_g(w)` (p, p) under C."""
        values, U, rotated = self._rotated(C)
        signal = values[:, None] * self.graph
        share = signal / (signal + self.node)
        weighed = rotated * share * np.sqrt(self.counts / self.graph)
        flat = np.moveaxis(weighed, 0, 1).reshape(len(values), -1)
        moment = (flat.real @ flat.real.T + flat.imag @ flat.imag.T) / len(self.series)
        moment += np.diag((values[:, None] * (1.0 - share)) @ self.counts)
        found: FloatArray = (U @ moment @ U.T) * self.roots[:, None] * self.roots
        return found

    def learned(self, gram: FloatArray, weight: float) -> FloatArray:
        """C for a weight of the kernel's gram (p, p), with its trace."""
        C, nu = gram, weight * self.n
        for _ in range(N_STEPS):
            C = (nu * gram + self.moment(C)) / (nu + self.counts.sum())
            C = C * (np.trace(gram) / np.trace(C))
        return C


def learned_covariance(
    Z: FloatArray, step: float, parameters: SpaceTimeParameters, gram: FloatArray
) -> Learned | None:
    """The covariance of sensors (p, p) from complete data (m, p, n); None where none is better."""
    half = Z.shape[-1] // 2
    if half < FEWEST_STEPS:
        return None
    first, second = (Spectra(part, step, parameters) for part in (Z[..., :half], Z[..., half:]))
    before = first.loss(gram) + second.loss(gram)
    gains = [
        before - second.loss(first.learned(gram, w)) - first.loss(second.learned(gram, w))
        for w in WEIGHTS
    ]
    best = int(np.argmax(gains))
    if not gains[best] > LEAST_GAIN * Z[0].size:
        return None
    whole = Spectra(Z, step, parameters)
    # The whole has twice the steps of a half: the kernel keeps its absolute weight.
    C = whole.learned(gram, 0.5 * WEIGHTS[best])
    return Learned(C, 0.5 * WEIGHTS[best], 0.5 * gains[best])
