"""Divergence of a law known by products only from a law known by its covariance, by random probes.

With `Sigma_q = L L'` and `B = L^-1 Sigma_p L^-T`, of eigenvalues `x`,

    KL(p || q) = 1/2 sum (x - 1 - log x) + 1/2 |L^-1 d|^2,
    KL(q || p) = 1/2 sum (1/x - 1 + log x) + 1/2 (L^-1 d)' B^-1 L^-1 d.

Both summands are never negative and zero where the laws agree, so that their variance over probes
`z' h(B) z` goes with the divergence itself; the quadratic forms come from Lanczos quadrature (Golub
and Meurant, 2010).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.errors import NumericalError
from coupledgp.inference.linalg.lanczos import Lanczos, gauss, with_node
from coupledgp.inference.linalg.system import LinearSystem
from coupledgp.progress import Progress
from coupledgp.random import FloatArray

MAX_STEPS = 100
# A quadrature is good enough if its gap is below this share of the probes' standard error.
GAP_SHARE = 0.2
GAP_FLOOR = 1e-6
# How much further a product is solved to see the error of the others.
FURTHER = 0.03


class RelativeCovariance:
    """`B = L^-1 Sigma_p L^-T`, one solve with the system of p a column.

    Parameters
    ----------
    system
        The exact law's system of equations.
    cross, prior
        Its covariances `K[rows, points]` (n, p) and `K[points, points]` (p, p).
    root
        L (p, p), lower, in the units of the system.
    tolerance
        Relative residual of its solves.
    report
        Told of each step.
    """

    def __init__(
        self,
        system: LinearSystem,
        cross: FloatArray,
        prior: FloatArray,
        root: FloatArray,
        tolerance: float,
        report: Progress,
    ) -> None:
        self.system, self.cross, self.prior, self.root = system, cross, prior, root
        self.tolerance, self.report = tolerance, report
        self.n_iterations = 0

    def product(self, V: FloatArray) -> FloatArray:
        """`B V`, (p, k)."""
        return self._product(V, self.tolerance)

    def product_error(self, V: FloatArray) -> float:
        """Largest error of a column of `B V`, relative to the column of V, as measured."""
        gap = self._product(V, self.tolerance) - self._product(V, FURTHER * self.tolerance)
        return float((np.linalg.norm(gap, axis=0) / np.linalg.norm(V, axis=0)).max())

    def _product(self, V: FloatArray, tolerance: float) -> FloatArray:
        U = solve_triangular(self.root, V, lower=True, trans="T")
        solved = self.system.solve(self.cross @ U, tolerance, self.report)
        self.n_iterations += solved.n_iterations
        W = self.prior @ U + self.system.noise * U - self.cross.T @ solved.values
        return solve_triangular(self.root, W, lower=True)


class QuadraticForms(NamedTuple):
    """`z' h(B) z` of each start z for h = log and h = 1/x: values and the other bound, (k,)."""

    trace: FloatArray
    log: FloatArray
    log_other: FloatArray
    inverse: FloatArray
    inverse_other: FloatArray


def quadratic_forms(lanczos: Lanczos, lower: float) -> QuadraticForms:
    """The forms by Gauss rules, and by Gauss-Radau rules with a node at `lower` < min x.

    For the logarithm Gauss is the upper bound, for the inverse the lower one.
    """
    parts = np.zeros((5, len(lanczos.norms)))
    for k in np.flatnonzero(lanczos.norms):
        d, e = lanczos.jacobi(int(k))
        nodes, weights = gauss(d, e[:-1])
        radau, others = gauss(*with_node(d, e, lower)) if e[-1] > 0 else (nodes, weights)
        square = lanczos.norms[k] ** 2
        parts[:, k] = [
            square * float(w @ values)
            for w, values in (
                (weights, nodes), (weights, np.log(nodes)), (others, np.log(radau)),
                (weights, 1 / nodes), (others, 1 / radau),
            )
        ]  # fmt: skip
    return QuadraticForms(*parts)


def spectral_range(lanczos: Lanczos) -> tuple[float, float]:
    """Least and largest Ritz value of all start vectors."""
    rules = [lanczos.jacobi(int(k)) for k in np.flatnonzero(lanczos.norms)]
    nodes = np.concatenate([gauss(d, e[:-1])[0] for d, e in rules])
    return float(nodes.min()), float(nodes.max())


class ProbeEstimate(NamedTuple):
    """A figure per point, the standard error of its probes, and how far below/above it may be."""

    value: float
    standard_error: float
    below: float
    above: float


def divergences(
    relative: RelativeCovariance,
    shift: FloatArray,
    others: FloatArray,
    n_probes: int,
    rng: np.random.Generator,
) -> tuple[ProbeEstimate, ProbeEstimate, ProbeEstimate, FloatArray]:
    """Both divergences, `logdet B`, all per point, and `u' B^-1 u` of further vectors.

    Parameters
    ----------
    relative
        B (p, p).
    shift
        `L^-1 d`, the whitened difference of the means (p,).
    others
        Further whitened vectors u (p, k).
    n_probes
        Random sign vectors.
    rng
        Of the probes.

    Raises
    ------
    NumericalError
        The products are too coarse for the least eigenvalue, as where there is next to no noise.
    """
    p = len(shift)
    probes = rng.choice([-1.0, 1.0], (p, n_probes))
    error = relative.product_error(probes[:, :2])
    lanczos = Lanczos(relative.product, np.column_stack([probes, shift, others]))
    # Sigma_p is not below its noise.
    top = float(np.linalg.norm(relative.root, 2)) ** 2
    lower = float(0.5 * relative.system.noise / top)
    while True:
        lanczos.step()
        low, high = spectral_range(lanczos)
        if low < lower:
            raise _too_coarse(low, 2 * lower, relative.tolerance)
        forms = quadratic_forms(lanczos, lower)
        terms = 0.5 * (forms.trace - p - forms.log)[:n_probes] / p
        back = 0.5 * (forms.inverse - p + forms.log)[:n_probes] / p
        gap = 0.5 * float((forms.log - forms.log_other)[:n_probes].mean()) / p
        far = 0.5 * (forms.inverse_other - forms.inverse) / p
        wide = float(far[:n_probes].mean() + far[n_probes])
        shares = [
            found / max(GAP_SHARE * standard_error(values), GAP_FLOOR)
            for found, values in ((gap, terms), (wide, back))
        ]
        relative.report(f"Lanczos step {lanczos.n_steps}, {max(shares):.1e} of the wanted gap")
        if max(shares) <= 1 or lanczos.n_steps >= min(MAX_STEPS, p):
            break
    spread = error * np.sqrt(lanczos.n_steps)
    slopes = max(abs(1 - 1 / low), abs(1 - 1 / high)), max(1 / low**2, 1 / high), 1 / low
    solver = [0.5 * slope * spread for slope in slopes]
    own = 0.5 * float(shift @ shift) / p
    turned = 0.5 * float(forms.inverse[n_probes]) / p
    logs = forms.log[:n_probes] / p
    estimates = [
        ProbeEstimate(float(terms.mean()) + own, standard_error(terms), solver[0], solver[0] + gap),
        ProbeEstimate(
            float(back.mean()) + turned, standard_error(back), solver[1] + gap, solver[1] + wide
        ),
        ProbeEstimate(
            float(logs.mean()), standard_error(logs), 2 * (solver[2] + gap), 2 * solver[2]
        ),
    ]
    return estimates[0], estimates[1], estimates[2], forms.inverse[n_probes + 1 :]


def _too_coarse(found: float, least: float, tolerance: float) -> NumericalError:
    """Products that are off by more than the least eigenvalue, which the noise gives."""
    return NumericalError(
        "options.tolerance: the exact covariance, relative to the model's, has no eigenvalue below "
        f"{least:.1e}, and {found:.1e} was found: its products, solved to a residual of "
        f"{tolerance:.0e}, are too coarse for so little noise. Take a smaller tolerance, or at "
        "most options.n_columns test points, which are solved for one by one"
    )


def standard_error(values: FloatArray) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(values.size))
