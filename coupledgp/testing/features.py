"""Contract of feature maps of Euclidean inputs."""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray
from coupledgp.testing.checks import require, require_close, require_mean


class FeatureMapContract:
    """Tests of a feature map.

    Attributes
    ----------
    feature_map
        The class of feature maps.
    options
        Further arguments of its constructor, such as the coupling.
    sizes
        Pairs (m, d) of frequencies and dimensions that it must serve.
    repetitions, seed
        Number of independent maps in a statistical test, and the seed for all draws; the tests must
        pass for any seed.

    Examples
    --------
    >>> from coupledgp.features import LaplaceFeatures
    >>> from coupledgp.testing import FeatureMapContract
    >>> class Steep(LaplaceFeatures):
    ...     def pullback(self, inputs, features, upstream):
    ...         return 2 * super().pullback(inputs, features, upstream)
    >>> class TestSteep(FeatureMapContract):
    ...     feature_map = Steep
    >>> TestSteep().test_pullback()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: pullback, m = 1, d = 1: differ by ...
    """

    feature_map: type[FeatureMap]
    options: ClassVar[dict[str, Any]] = {}
    sizes: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1), (3, 1), (2, 3), (5, 3), (7, 2))
    repetitions: ClassVar[int] = 500
    seed: int = 0

    def make(self, m: int, dim: int, seed: int | None = None, **kwargs: Any) -> FeatureMap:
        """Make a map of m frequencies in `dim` dimensions."""
        generator = self.seed if seed is None else seed
        return self.feature_map(dim, m, generator=generator, **{**self.options, **kwargs})

    def kernel(self, feature_map: FeatureMap, X: FloatArray) -> FloatArray:
        """Kernel matrix (n, n) whose entries the products of features estimate without bias.

        It is the kernel of the map's spectrum; override it for another one.

        Parameters
        ----------
        feature_map
            One of the maps.
        X
            Inputs (n, d).
        """
        distances = np.linalg.norm(X[:, None] - X[None], axis=-1)
        return feature_map.spectrum.kernel(distances)

    def _inputs(self, *shape: int) -> Tensor:
        """Gaussian inputs of the given shape, short enough that estimates have light tails."""
        rng = np.random.default_rng([self.seed, *shape])
        return torch.as_tensor(rng.normal(size=shape)) / 3

    def test_shapes(self) -> None:
        """Inputs (..., n, d) give features (..., n, M), and each row depends on its input alone."""
        for m, dim in self.sizes:
            feature_map = self.make(m, dim)
            inputs = self._inputs(2, 4, dim)
            features = feature_map(inputs)
            expected = (2, 4, feature_map.n_features)
            require(features.shape == expected, f"expected {expected}, got {tuple(features.shape)}")
            require(torch.isfinite(features).all(), f"m = {m}, d = {dim}: NaN or inf")
            alone = feature_map(inputs[1, 2:3])[0]
            require_close(features[1, 2], alone, 1e-12, "a row alone and in company")
            none = feature_map(inputs[0, :0])
            require(none.shape == (0, feature_map.n_features), "no rows")

    def test_same_seed_same_bits(self) -> None:
        """A seed fixes the features, and different seeds give different ones."""
        inputs = self._inputs(4, 3)
        first, again = (self.make(5, 3)(inputs) for _ in range(2))
        require(torch.equal(first, again), "one seed, two maps")
        if self.make(5, 3).weights is None:
            other = self.make(5, 3, self.seed + 1)(inputs)
            require(not torch.equal(first, other), "the seed has no effect")

    def test_unbiased(self) -> None:
        """The mean of `phi(x) . phi(y)` over draws is the kernel."""
        inputs = self._inputs(4, 3)
        seeds = range(self.seed, self.seed + self.repetitions)
        maps = [self.make(5, 3, seed) for seed in seeds]
        if maps[0].weights is not None:
            return  # a rule with weights promises accuracy at many frequencies, not a mean
        features = [feature_map(inputs) for feature_map in maps]
        grams = np.stack([(phi @ phi.T).detach().numpy() for phi in features])
        above = np.triu_indices(4)
        exact = self.kernel(maps[0], inputs.numpy())
        require_mean(grams[:, above[0], above[1]], exact[above], "phi(x) . phi(y)")

    def test_gradient(self) -> None:
        """Automatic differentiation agrees with finite differences."""
        for m, dim in self.sizes:
            inputs = self._inputs(2, dim).requires_grad_()
            try:
                torch.autograd.gradcheck(self.make(m, dim), (inputs,))
            except RuntimeError as error:
                require(False, f"m = {m}, d = {dim}: {error}")

    def test_pullback(self) -> None:
        """`pullback` is the gradient that automatic differentiation gives."""
        for m, dim in self.sizes:
            feature_map = self.make(m, dim)
            inputs = self._inputs(3, dim).requires_grad_()
            features = feature_map(inputs)
            upstream = self._inputs(*features.shape)
            (expected,) = torch.autograd.grad(features, inputs, upstream)
            actual = feature_map.pullback(inputs.detach(), features.detach(), upstream.clone())
            require_close(actual, expected, 1e-10, f"pullback, m = {m}, d = {dim}")

    def test_out(self) -> None:
        """Features are written into `out` if it is given."""
        feature_map = self.make(5, 3)
        inputs = self._inputs(4, 3)
        out = torch.full((4, feature_map.n_features), torch.nan, dtype=torch.float64)
        result = feature_map(inputs, out=out)
        require(result.data_ptr() == out.data_ptr(), "out: the result lies elsewhere")
        require_close(out, feature_map(inputs), 1e-12, "out")

    def test_save_and_load(self) -> None:
        """The state of one map makes another the same map, to the bit."""
        source, target = self.make(5, 3), self.make(5, 3, self.seed + 1)
        stored = io.BytesIO()
        torch.save(source.state_dict(), stored)
        stored.seek(0)
        target.load_state_dict(torch.load(stored, weights_only=True))
        inputs = self._inputs(4, 3)
        require(torch.equal(source(inputs), target(inputs)), "the loaded map has other features")

    def test_single_precision(self) -> None:
        """Features in float32 are the features in float64, rounded."""
        inputs = self._inputs(4, 3)
        single = self.make(5, 3, dtype=torch.float32)(inputs)
        require(single.dtype == torch.float32, f"expected float32, got {single.dtype}")
        require_close(single.detach(), self.make(5, 3)(inputs).detach(), 1e-4, "float32")

    def test_inputs_are_checked(self) -> None:
        """Inputs of another dimension are refused by an error that names them."""
        try:
            self.make(5, 3)(torch.zeros(4, 2))
        except InvalidInputError as error:
            require("X" in str(error), "inputs of another dimension: the error does not name X")
        else:
            require(False, "inputs of another dimension were accepted")
