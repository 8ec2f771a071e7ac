"""Contract of graph kernels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coupledgp.kernels import GraphKernel
from coupledgp.testing.checks import require, require_close


class GraphKernelContract:
    """Tests of a graph kernel `K = F(W~)^2`.

    Attributes
    ----------
    kernel
        The kernel, at parameters for which its series converges within `n_terms`.
    n_terms
        Number of terms of the series that are summed.
    radius
        Largest absolute value of the eigenvalues in the tests, inside the disc of convergence.
    scale_tolerance
        Largest distance from one of the kernel where the Laplacian vanishes.
    """

    kernel: GraphKernel
    n_terms: ClassVar[int] = 400
    radius: ClassVar[float] = 0.9
    scale_tolerance: ClassVar[float] = 1e-4

    @property
    def _eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the adjacency at which the kernel is tested, shape (13,)."""
        return np.linspace(-self.radius, self.radius, 13)

    def _slope(self, values: list[np.ndarray], step: float) -> np.ndarray:
        """Central difference of values (n,) after a step forward and a step back."""
        return (values[0] - values[1]) / (2 * step)

    def test_scaled_to_one(self) -> None:
        """The kernel is scaled to `g(1) = 1`, where the Laplacian vanishes."""
        require_close(self.kernel.spectral(np.ones(1)), [1.0], self.scale_tolerance, "g(1)")

    def test_series(self) -> None:
        """The modulation coefficients sum to the root, and the root squared is the kernel."""
        x = self._eigenvalues
        series = np.polynomial.polynomial.polyval(x, self.kernel.modulation(self.n_terms))
        root = self.kernel.root(x)
        require_close(series, root, 1e-8, "the series and the root")
        require_close(self.kernel.spectral(x), root**2, 1e-12, "the kernel and its root")

    def test_gradients(self) -> None:
        """Gradients in theta agree with central differences."""
        x, step = self._eigenvalues, 1e-5
        # A parameter on its bound cannot be moved both ways.
        low, high = np.array(self.kernel.bounds).reshape(-1, 2).T
        kernel, inner = self.kernel, np.clip(self.kernel.theta, low + 0.1, high - 0.1)
        if not np.array_equal(inner, kernel.theta):
            kernel = kernel.with_theta(inner)
        for j, unit in enumerate(np.eye(kernel.theta.size)):
            moved = [kernel.with_theta(kernel.theta + s * step * unit) for s in (1, -1)]
            root = self._slope([k.root(x) for k in moved], step)
            require_close(kernel.root_gradient(x)[j], root, 1e-6, f"root_gradient, theta {j}")
            terms = self._slope([k.modulation(30) for k in moved], step)
            ours = kernel.modulation_gradient(30)[j]
            require_close(ours, terms, 1e-6, f"modulation_gradient, theta {j}")

    def test_parameters_round_trip(self) -> None:
        """`with_theta` at the kernel's own parameters gives an equal kernel, within its bounds."""
        kernel = self.kernel
        require_close(kernel.with_theta(kernel.theta).theta, kernel.theta, 1e-12, "theta")
        count = len(kernel.bounds)
        require(count == kernel.theta.size, f"bounds: expected {kernel.theta.size}, got {count}")
