"""Contracts of laws of walkers: of their lengths and of their steps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coupledgp.couplings import GeometricLaw, LengthLaw, Lengths, MatchedLaw, Steps
from coupledgp.ground.counter import LengthUniforms
from coupledgp.random import FloatArray, IntArray
from coupledgp.testing.checks import require, require_law


class LengthsContract:
    """Tests of a joint law of the lengths of one node's walkers.

    Attributes
    ----------
    lengths
        The joint law; it is prepared for a series, as the walks of a kernel do.
    laws
        Laws of a single length that every walker must keep.
    longest
        Length at which walks are cut.
    n_nodes, seed
        Number of independent draws in a statistical test, and their seed; the tests must pass for
        any seed.

    Examples
    --------
    >>> from coupledgp.couplings import IidLengths
    >>> from coupledgp.testing import LengthsContract
    >>> class Mixed(IidLengths):
    ...     def sample(self, law, max_length, uniforms):
    ...         return super().sample(law, max_length, uniforms)[::-1]  # nodes in another order
    >>> class TestMixed(LengthsContract):
    ...     lengths = Mixed()
    >>> TestMixed().test_nodes_are_apart()
    Traceback (most recent call last):
    AssertionError: geometric(0.1), 1 walkers: lengths depend on the other nodes
    """

    lengths: Lengths
    laws: ClassVar[tuple[LengthLaw, ...]] = (
        GeometricLaw(0.1),
        GeometricLaw(0.6),
        MatchedLaw([1.0, 0.5, 0.2, 0.4, 0.01]),
    )
    longest: ClassVar[int] = 9
    n_nodes: ClassVar[int] = 8000
    seed: int = 0

    def _draw(self, law: LengthLaw, nodes: list[int], n_walks: int) -> IntArray:
        """Lengths (n_nodes, n_walks) of the walkers of some nodes."""
        series: FloatArray = np.power(0.5, np.arange(self.longest + 1, dtype=np.float64))
        lengths = self.lengths.prepare(law, series, self.longest)
        uniforms = LengthUniforms(self.seed, np.array(nodes), n_walks)
        return lengths.sample(law, self.longest, uniforms)

    def test_each_walker_keeps_the_law(self) -> None:
        """The length of each walker alone has the law of a single length."""
        for law in self.laws:
            survival = np.append(law.survival(self.longest), 0.0)
            chances = survival[:-1] - survival[1:]
            for n_walks in (1, 4, 5):
                drawn = self._draw(law, list(range(self.n_nodes)), n_walks)
                require(
                    drawn.shape == (self.n_nodes, n_walks),
                    f"{law}: expected shape {(self.n_nodes, n_walks)}, got {drawn.shape}",
                )
                for walker in range(n_walks):
                    counts = np.bincount(drawn[:, walker], minlength=self.longest + 1)
                    require_law(counts, chances, f"walker {walker} of {n_walks}, {law}")

    def test_nodes_are_apart(self) -> None:
        """The lengths of a node depend on the seed and the node, on no other node."""
        for law in self.laws:
            for n_walks in (1, 4, 5):
                together = self._draw(law, [3, 0, 17, 9], n_walks)
                alone = np.concatenate([self._draw(law, [node], n_walks) for node in (3, 0, 17, 9)])
                require(
                    np.array_equal(together, alone),
                    f"{law}, {n_walks} walkers: lengths depend on the other nodes",
                )


class StepsContract:
    """Tests of a joint law of the moves of walkers that stand on one node.

    Attributes
    ----------
    steps
        The law.
    draws, seed
        Number of independent draws in a statistical test, and their seed; the tests must pass for
        any seed.

    Examples
    --------
    >>> from coupledgp.couplings import IndependentSteps
    >>> from coupledgp.testing import StepsContract
    >>> class Unweighted(IndependentSteps):
    ...     def choose(self, u, degree, weights):
    ...         return super().choose(u, degree, None)
    >>> class TestUnweighted(StepsContract):
    ...     steps = Unweighted()
    >>> TestUnweighted().test_each_walker_moves_as_one_alone()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: walker 0 of 1, weights [1.  3.  0.5]: not of its law, ...
    """

    steps: Steps
    draws: ClassVar[int] = 3000
    seed: int = 0

    def test_each_walker_moves_as_one_alone(self) -> None:
        """Walker i goes to neighbour j with chance `w_j / sum(w)`."""
        rng = np.random.default_rng(self.seed)
        for weights in (None, np.array([1.0, 3.0, 0.5])):
            chances = np.full(3, 1 / 3) if weights is None else weights / weights.sum()
            for k in (1, 2, 5):
                uniforms = rng.uniform(size=(self.draws, 2, k))
                chosen = np.stack([self.steps.choose(u, 3, weights) for u in uniforms])
                require(chosen.shape == (self.draws, k), f"k = {k}: got shape {chosen.shape[1:]}")
                for walker in range(k):
                    counts = np.bincount(chosen[:, walker], minlength=3)
                    require_law(counts, chances, f"walker {walker} of {k}, weights {weights}")

    def test_the_uniforms_decide(self) -> None:
        """The same uniforms give the same moves."""
        u = np.random.default_rng(self.seed).uniform(size=(2, 6))
        first, again = (self.steps.choose(u.copy(), 4, None) for _ in range(2))
        require(np.array_equal(first, again), "one draw of uniforms, two sets of moves")
