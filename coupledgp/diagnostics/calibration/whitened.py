"""Residuals whitened by the stated covariance: what a wrong joint law cannot pass off as chance.

Draws of a law of strong correlations are far from each other, so that hardly any coverage is beyond
them. Whitened residuals `w = L^-1 z`, with `L L' = R` the stated correlations of the standardised
residuals z at p points, are independent and standard normal instead, whatever R is. So

* the sum of their squares has the chi-square law of p degrees of freedom;
* their transforms are independent and uniform;
* `sum w_i w_j(i) / sum w^2` has mean zero, j(i) the earlier point that goes most with point i;
* the joint density at a scale that is free exceeds the product of the densities of single points by

      g = (z'z / w'w - 1) / 2 - log det R / (2 p)

  nats per point, and `z'z / w'w = sum l_k c_k / sum c_k` with the eigenvalues l of R and
  independent squares c of standard normal variables. It is too small where the correlations are not
  there, and too large where there are more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammainc, gammaincc, ndtr

from coupledgp.diagnostics.calibration.coverage import distances_from_uniform, two_sided
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray

# Draws of a right distribution.
N_DRAWS = 4000
# Largest correlation with an earlier point below which points count as independent.
INDEPENDENT = 0.02


@dataclass(frozen=True)
class Whitened:
    """Tests of residuals whitened by the stated covariance.

    Attributes
    ----------
    rescaling : float
        Root mean square of the whitened residuals, the best factor on all standard deviations.
    rescaling_gain : float
        Nats per point that it gains, `(s^2 - 1 - log s^2) / 2`.
    spread_p : float
        Two-sided, of the sum of squares.
    pit_distance, pit_p : float
        Largest distance of the distribution of their transforms from the uniform one, and the share
        of draws of a right law that are as far.
    joint_gain, expected_gain, gain_error : float
        Nats per point by which the joint density exceeds the product of those of single points at
        the best scale; its mean and standard deviation for a right law.
    joint_p : float
        Two-sided, of that gain.
    neighbour, neighbour_error, neighbour_p : float
        Correlation of whitened residuals of neighbours, its standard deviation for a right law, and
        the two-sided p-value; zero, one and one for points without correlations.
    """

    rescaling: float
    rescaling_gain: float
    spread_p: float
    pit_distance: float
    pit_p: float
    joint_gain: float
    expected_gain: float
    gain_error: float
    joint_p: float
    neighbour: float
    neighbour_error: float
    neighbour_p: float

    @classmethod
    def of(cls, residuals: FloatArray, correlation: FloatArray, n_train: int | None) -> Whitened:
        """Tests of standardised residuals (p,) or (p, k) of correlations (p, p) or (p, p, k).

        `n_train` is the number of rows that the scale and the correlations were fitted to, so that
        both are known up to relative errors of `(2 n_train)^-1/2`; None where they are known.

        Raises
        ------
        NumericalError
            Correlations are not positive definite.
        """
        z = residuals.reshape(len(residuals), -1)
        (p, k), rng = z.shape, np.random.default_rng(3)
        matrices = correlation.reshape(p, p, -1)
        error = 0.0 if n_train is None else (2 * n_train) ** -0.5
        parts = [
            _OneOutput.of(z[:, j], matrices[..., min(j, matrices.shape[2] - 1)], error, rng)
            for j in range(k)
        ]
        w = np.stack([one.white for one in parts])
        square = float(np.square(w).mean())
        drawn = np.mean([one.squares for one in parts], axis=0)
        gains = np.mean([one.gains for one in parts], axis=0)
        gain = float(np.mean([one.gain for one in parts]))
        near = [one.neighbour for one in parts]
        nears = np.mean([one.neighbours for one in parts], axis=0)
        spread = two_sided(square, drawn)
        if not error:
            half, total = 0.5 * w.size, 0.5 * w.size * square
            spread = float(min(1.0, 2 * min(gammainc(half, total), gammaincc(half, total))))
        distance = distances_from_uniform(ndtr(w.reshape(1, -1)))[0]
        uniform = _distances_of_uniform(w.size)
        return cls(
            rescaling=float(np.sqrt(square)),
            rescaling_gain=float(0.5 * (square - 1 - np.log(max(square, 1e-300)))),
            spread_p=spread,
            pit_distance=float(distance),
            pit_p=float((1 + (uniform >= distance).sum()) / (1 + len(uniform))),
            joint_gain=gain,
            expected_gain=float(gains.mean()),
            gain_error=float(gains.std(ddof=1)),
            joint_p=two_sided(gain, gains),
            neighbour=float(np.mean(near)),
            neighbour_error=float(nears.std(ddof=1)) or 1.0,
            neighbour_p=two_sided(float(np.mean(near)), nears),
        )


@dataclass(frozen=True, eq=False)
class _OneOutput:
    """Whitened residuals (p,) of one output, and what a right law gives, by draws (m,)."""

    white: FloatArray
    squares: FloatArray
    gain: float
    gains: FloatArray
    neighbour: float
    neighbours: FloatArray

    @classmethod
    def of(
        cls, z: FloatArray, matrix: FloatArray, error: float, rng: np.random.Generator
    ) -> _OneOutput:
        root = np.asarray(cholesky(matrix, "stated covariance"))
        white = solve_triangular(root, z, lower=True)
        square = max(float(white @ white), 1e-300)
        half_logdet = float(np.log(np.diagonal(root)).mean())
        values = np.maximum(np.linalg.eigvalsh(matrix), 1e-12)
        normal = rng.standard_normal((N_DRAWS, len(z)))
        neighbours, own = np.zeros(N_DRAWS), 0.0
        below = np.tril(np.abs(matrix), -1)
        rows = np.flatnonzero(below.max(axis=1) > INDEPENDENT)
        if rows.size:
            near = below.argmax(axis=1)[rows]
            own = float(white[rows] @ white[near] / square)
            together = np.einsum("mi,mi->m", normal[:, rows], normal[:, near])
            neighbours = together / np.square(normal).sum(axis=1)
        chi = np.square(normal)
        if error:
            logs = np.log(values)
            slope = (logs - logs.mean()) / max(float(logs.std()), 1e-12)
            chi *= np.exp(2 * error * rng.standard_normal((N_DRAWS, 1)))
            chi *= np.exp(2 * error * rng.standard_normal((N_DRAWS, 1)) * slope)
        total = chi.sum(axis=1)
        gains = 0.5 * (chi @ values / total - 1) - half_logdet
        gain = 0.5 * (float(z @ z) / square - 1) - half_logdet
        return cls(white, total / len(z), gain, gains, own, neighbours)


def _distances_of_uniform(n: int) -> FloatArray:
    """Distances (m,) from uniform of n independent uniform numbers."""
    return distances_from_uniform(np.random.default_rng(5).uniform(size=(N_DRAWS // 2, n)))
