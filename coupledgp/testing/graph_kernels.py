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

    Examples
    --------
    >>> from coupledgp.kernels import HeatKernel
    >>> from coupledgp.testing import GraphKernelContract
    >>> class Warm(HeatKernel):
    ...     def modulation(self, n_terms):
    ...         return 2 * super().modulation(n_terms)
    >>> class TestWarm(GraphKernelContract):
    ...     kernel = Warm(time=2.0)
    >>> TestWarm().test_series()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: the series and the root: differ by ...
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
        """`with_theta` at the kernel's own parameters gives the same kernel, within its bounds."""
        kernel = self.kernel
        again = kernel.with_theta(kernel.theta)
        require_close(again.theta, kernel.theta, 1e-12, "theta")
        self._require_same(again, "with_theta at its own theta")
        count = len(kernel.bounds)
        require(count == kernel.theta.size, f"bounds: expected {kernel.theta.size}, got {count}")

    def test_changes_keep_the_class(self) -> None:
        """Other parameters, scales and starting points are kernels of the same class, and back."""
        kernel = self.kernel
        low, high = np.array(kernel.bounds).reshape(-1, 2).T
        other = kernel.with_theta(np.clip(kernel.theta + 0.1, low, high))
        self._require_same(other.with_theta(kernel.theta), "with_theta there and back")
        scaled = kernel.scaled(2.0)
        self._require_same(scaled.scaled(0.5), "scaled by 2 and by 1/2")
        starts = kernel.scan()
        require(len(starts) > 0, "scan: expected at least one starting point")
        for changed in (other, scaled, *starts):
            require(
                type(changed) is type(kernel),
                f"expected a {type(kernel).__name__}, got a {type(changed).__name__}",
            )
            self._require_same(changed.with_theta(kernel.theta), "with_theta of another kernel")

    def test_constructor_round_trip(self) -> None:
        """`parameters` are arguments of the constructor that make an equal kernel."""
        again = type(self.kernel)(**self.kernel.parameters())
        self._require_same(again, "parameters")
        require(again == self.kernel, f"expected {self.kernel!r} made anew to be equal to it")

    def _require_same(self, other: GraphKernel, what: str) -> None:
        """Require the class and the functions of another kernel to be this one's."""
        kernel, x = self.kernel, self._eigenvalues
        name = type(other).__name__
        require(type(other) is type(kernel), f"{what}: got a {name}, another class")
        require_close(other.spectral(x), kernel.spectral(x), 1e-10, f"{what}: the kernel")
        require_close(other.root(x), kernel.root(x), 1e-10, f"{what}: the root")
        terms = other.modulation(30), kernel.modulation(30)
        require_close(*terms, 1e-10, f"{what}: the coefficients")
