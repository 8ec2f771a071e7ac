"""Residuals whitened by the stated covariance: what a wrong joint law cannot pass off as chance.

Draws of a law of strong correlations are far from each other, so that hardly any coverage is beyond
them. WhitenedResiduals residuals `w = L^-1 z`, with `L L' = R` the stated correlations of the standardised
residuals z at p points, are independent and standard normal instead, whatever R is. So

* the sum of their squares has the chi-square law of p degrees of freedom;
* their transforms are independent and uniform;
* `sum w_i w_j(i) / sum w^2` has mean zero, j(i) the earlier point that goes most with point i;
* the joint density at a scale that is free exceeds the product of the densities of single points by

      g = (z'z / w'w - 1) / 2 - log det R / (2 p)

  nats per point, and `z'z / w'w = sum l_k c_k / sum c_k` with the eigenvalues l of R and independent
  squares c of standard normal variables. It is too small where the correlations are not there, and
  too large where there are more.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammainc, gammaincc, ndtr

from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.random import FloatArray

# Draws of a right law, and the shares of right laws that each test calls off.
N_DRAWS = 4000
SURE, SURE_OF_DETAIL = 0.004, 0.0015
# Largest correlation with an earlier point below which points count as independent.
INDEPENDENT = 0.02


@dataclass(frozen=True)
class WhitenedResiduals:
    """Tests of residuals whitened by the stated covariance.

    Attributes
    ----------
    rescaling : float
        Root mean square of the whitened residuals, the best factor on all standard deviations.
    rescaling_gain : float
        Nats per point that it gains, `(s^2 - 1 - log s^2) / 2`.
    spread_p_value : float
        Two-sided, of the sum of squares.
    pit_distance, pit_p_value : float
        Largest distance of the distribution of their transforms from the uniform one, and the share
        of draws of a right law that are as far.
    joint_gain, expected_gain, gain_error : float
        Nats per point by which the joint density exceeds the product of those of single points at
        the best scale; its mean and standard deviation for a right law.
    joint_p_value : float
        Two-sided, of that gain.
    neighbour, neighbour_error, neighbour_p_value : float
        Correlation of whitened residuals of neighbours, its standard deviation for a right law, and
        the two-sided p-value; zero, one and one for points without correlations.
    """

    rescaling: float
    rescaling_gain: float
    spread_p_value: float
    pit_distance: float
    pit_p_value: float
    joint_gain: float
    expected_gain: float
    gain_error: float
    joint_p_value: float
    neighbour: float
    neighbour_error: float
    neighbour_p_value: float

    @classmethod
    def of(
        cls, residuals: FloatArray, correlation: FloatArray, n_train: int | None
    ) -> WhitenedResiduals:
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
            spread_p_value=spread,
            pit_distance=float(distance),
            pit_p_value=float((1 + (uniform >= distance).sum()) / (1 + len(uniform))),
            joint_gain=gain,
            expected_gain=float(gains.mean()),
            gain_error=float(gains.std(ddof=1)),
            joint_p_value=two_sided(gain, gains),
            neighbour=float(np.mean(near)),
            neighbour_error=float(nears.std(ddof=1)) or 1.0,
            neighbour_p_value=two_sided(float(np.mean(near)), nears),
        )

    def fault(self, matters: float) -> str:
        """What is off beyond chance, by nats per point that matter, in words; empty: nothing."""
        if self.spread_p_value <= SURE and self.rescaling_gain > matters:
            size = "small" if self.rescaling > 1 else "large"
            return (
                f"its joint covariance is too {size}: residuals whitened by it have a root mean "
                f"square of {self.rescaling:.2g} in place of 1 (p = {self.spread_p_value:.1g})"
            )
        far = abs(self.joint_gain - self.expected_gain)
        if self.joint_p_value <= SURE_OF_DETAIL and far > matters:
            strong = "strong" if self.joint_gain < self.expected_gain else "weak"
            return (
                f"its correlations are too {strong}: the joint density exceeds that of independent "
                f"points by {self.joint_gain:.2g} nats per point, that of a right law by "
                f"{self.expected_gain:.2g} ± {self.gain_error:.1g}"
            )
        shared = -0.5 * np.log1p(-min(self.neighbour**2, 0.99))
        if self.neighbour_p_value <= SURE_OF_DETAIL and shared > matters:
            return (
                f"errors of neighbours correlate by {self.neighbour:+.2g} beyond what it states "
                f"(chance ± {self.neighbour_error:.1g})"
            )
        if self.pit_p_value <= SURE_OF_DETAIL:
            return (
                f"residuals whitened by its covariance are not normal: their transforms are "
                f"{self.pit_distance:.2g} from uniform (p = {self.pit_p_value:.1g})"
            )
        return ""


@dataclass(frozen=True, eq=False)
class _OneOutput:
    """WhitenedResiduals residuals (p,) of one output, and what a right law gives, by draws (m,)."""

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
        root = covariance_root(matrix, "stated covariance")
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


def two_sided(value: float, draws: FloatArray) -> float:
    """Twice the share of draws that are as large, or as small; the value counts as one."""
    size = 1e-9 * abs(value)
    above, below = (draws >= value - size).sum(), (draws <= value + size).sum()
    return float(min(1.0, 2 * (1 + min(above, below)) / (1 + len(draws))))


def _distances_of_uniform(n: int) -> FloatArray:
    """Distances (m,) from uniform of n independent uniform numbers."""
    return distances_from_uniform(np.random.default_rng(5).uniform(size=(N_DRAWS // 2, n)))


def distances_from_uniform(transforms: FloatArray) -> FloatArray:
    """Largest distances (m,) of distributions of rows (m, n) from the uniform one."""
    ordered = np.sort(transforms, axis=1)
    n = ordered.shape[1]
    above, below = np.arange(1, n + 1) / n - ordered, ordered - np.arange(n) / n
    largest: FloatArray = np.maximum(above.max(axis=1), below.max(axis=1))
    return largest
