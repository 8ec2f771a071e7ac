"""Joint laws of the lengths of a node's walkers; each length alone follows its law (MATH 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from coupledgp.couplings.walkers.length_laws import LengthLaw
from coupledgp.couplings.walkers.sigma import (
    check_permutation,
    solved_permutation,
    solved_permutations,
)
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, IntArray

UniformSource: TypeAlias = Callable[[int], FloatArray]


class Lengths(ABC):
    """A joint law of the lengths of the m walkers of one node; nodes are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import GeometricLaw, Lengths
    >>> class AllEqual(Lengths):  # the walkers of a node are equally long
    ...     def sample(self, law, max_length, uniforms):
    ...         u = uniforms(0)
    ...         return law.lengths(np.repeat(u[:, :1], u.shape[1], axis=1), max_length)
    >>> quantiles = np.array([[0.1, 0.9], [0.6, 0.2]])  # two nodes with two walkers each
    >>> AllEqual().sample(GeometricLaw(0.5), 10, lambda k: quantiles).tolist()
    [[0, 0], [1, 1]]
    """

    @abstractmethod
    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        """Draw lengths, each of which alone follows `law` cut at `max_length`.

        All rows must be treated in the same way and separately, so that the lengths of a node do
        not depend on the other nodes.

        Parameters
        ----------
        law
            Law of a single length.
        max_length
            Longest length.
        uniforms
            Source of randomness: `uniforms(k)` is the k-th independent draw of uniforms, shape
            (n_nodes, m). Arrays are read only: a law changes none of them.

        Returns
        -------
        IntArray
            Lengths, shape (n_nodes, m).
        """

    def prepare(self, law: LengthLaw, modulation: FloatArray, max_length: int) -> Lengths:
        """Return this law, tuned to a series where the law has something to tune.

        Parameters
        ----------
        law
            Law of a single length.
        modulation
            Coefficients of the series that the walkers carry, shape (n_terms,).
        max_length
            Longest length.
        """
        return self


@dataclass(frozen=True)
class IidLengths(Lengths):
    """Independent lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import GeometricLaw, IidLengths
    >>> quantiles = np.array([[0.1, 0.4, 0.6, 0.9]])  # four walkers of one node
    >>> IidLengths().sample(GeometricLaw(0.5), 10, lambda k: quantiles).tolist()
    [[0, 0, 1, 3]]
    """

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        return law.lengths(uniforms(0), max_length)


@dataclass(frozen=True)
class AntitheticLengths(Lengths):
    """Antithetic termination: pairs of walkers, which toss opposite coins before every step.

    Before each step `t_1 ~ U(0,1)` and `t_2 = t_1 + 1/2 mod 1` are drawn; a walker halts if its t
    is below the chance of halting. Reid et al. (2023); the baseline of "Variance-reducing
    couplings". The last walker of an odd number is independent.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import AntitheticLengths, GeometricLaw
    >>> draws = np.random.default_rng(0).random((100, 1, 2))  # coins of two walkers
    >>> lengths = AntitheticLengths().sample(GeometricLaw(0.5), 100, lambda k: draws[k])
    >>> int(lengths.min()), int(lengths.max()) > 0  # at p = 1/2 one of a pair halts at once
    (0, True)
    """

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        lengths = np.zeros(uniforms(0).shape, dtype=np.int64)
        alive = np.ones(lengths.shape, dtype=bool)
        for step, hazard in enumerate(law.hazards(max_length)):
            coins = uniforms(step).copy()
            half = coins.shape[1] // 2 * 2
            coins[:, 1:half:2] = (coins[:, 0:half:2] + 0.5) % 1.0
            alive &= coins >= hazard
            if not alive.any():
                break
            lengths += alive
        return lengths


@dataclass(frozen=True)
class StratifiedLengths(Lengths):
    """Stratified lengths: one of the m lengths from each of m equal strata, in random order.

    Not in the papers (MATH 9, "Beyond the papers", 1). For m = 2 it is the permutation (2, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import GeometricLaw, StratifiedLengths
    >>> draws = np.random.default_rng(0).random((2, 1000, 2))  # pairs of walkers of 1000 nodes
    >>> lengths = StratifiedLengths().sample(GeometricLaw(0.5), 50, lambda k: draws[k])
    >>> lengths.min(axis=1).max().item(), lengths.max(axis=1).min().item()
    (0, 1)
    """

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        within = uniforms(0)
        strata = np.argsort(uniforms(1), axis=1, kind="stable")
        u = (strata + within) / within.shape[1]
        return law.lengths(u, max_length)


@dataclass(frozen=True)
class SigmaLengths(Lengths):
    """Pairs of walkers whose lengths lie in matched quantiles, q and sigma(q) of n equal bins.

    "Variance-reducing couplings", section 4.1, definition 4.2. The last walker of an odd number is
    independent.

    Parameters
    ----------
    order
        Number n of quantiles.
    permutation
        The permutation sigma, as the numbers 0..n-1. If left out, it is solved for the series, the
        length law and `reference`, and the solution is remembered.
    reference
        Graph to solve on; an Erdos-Renyi graph of 100 nodes if left out.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import GeometricLaw, SigmaLengths
    >>> opposed = SigmaLengths(permutation=(1, 0))  # the lower half of lengths meets the upper
    >>> draws = np.array([[[0.1, 0.0], [0.9, 0.0]], [[0.0, 0.5], [0.0, 0.5]]])
    >>> opposed.sample(GeometricLaw(0.5), 10, lambda k: draws[k]).tolist()
    [[0, 2], [3, 0]]
    """

    order: int = 30
    permutation: tuple[int, ...] | None = None
    reference: Graph | None = None

    def __post_init__(self) -> None:
        check_positive_int(self.order, "order")
        if self.permutation is not None:
            solved = check_permutation(self.permutation)
            object.__setattr__(self, "permutation", tuple(solved.tolist()))
            object.__setattr__(self, "order", solved.size)

    def prepare(self, law: LengthLaw, modulation: FloatArray, max_length: int) -> Lengths:
        if self.permutation is not None:
            return self
        survival = law.survival(max_length)
        sigma = solved_permutation(modulation, survival, self.order, self.reference)
        return SigmaLengths(self.order, tuple(sigma.tolist()), self.reference)

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        if self.permutation is None:
            raise InvalidInputError("permutation: expected a solved sigma; call prepare first")
        sigma = np.asarray(self.permutation)
        u, partner = uniforms(0).copy(), uniforms(1)
        half = u.shape[1] // 2 * 2
        quantile = np.floor(u[:, 0:half:2] * sigma.size).astype(np.int64)
        u[:, 1:half:2] = (sigma[quantile] + partner[:, 1:half:2]) / sigma.size
        return law.lengths(u, max_length)


@dataclass(frozen=True)
class MultiSigmaLengths(Lengths):
    """All walkers of a node in matched quantiles: the k-th in sigma_k(q) of n equal bins.

    The generalisation of `SigmaLengths` to m - 1 permutations, which "Variance-reducing couplings"
    proposes in section 4.1. For two walkers it is `SigmaLengths`; for more it gains little over
    pairs and nothing over strata (docs/graphs.md), and has no name in texts. Only series of kernels
    prepare it.

    Parameters
    ----------
    order
        Number n of quantiles.
    reference
        Graph to solve on; an Erdos-Renyi graph of 100 nodes if left out.
    modulation, survival
        Series and survival of the length law that it is solved for, which `prepare` gives it.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.couplings import MultiSigmaLengths, WalkerCoupling
    >>> graph = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> coupling = WalkerCoupling(MultiSigmaLengths(order=5, reference=graph))
    >>> walks = cgp.features.sample_walks(
    ...     graph, n_walks=4, coupling=coupling, modulation=[1.0, 0.5, 0.25], generator=0
    ... )
    >>> len(walks.coupling.lengths.survival)  # solved for walks of at most two steps
    3
    """

    order: int = 30
    reference: Graph | None = None
    modulation: tuple[float, ...] = ()
    survival: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_positive_int(self.order, "order")

    def prepare(self, law: LengthLaw, modulation: FloatArray, max_length: int) -> Lengths:
        if self.survival:
            return self
        solved_for = (
            tuple(np.asarray(modulation).tolist()),
            tuple(law.survival(max_length).tolist()),
        )
        return MultiSigmaLengths(self.order, self.reference, *solved_for)

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        if not self.survival:
            raise InvalidInputError("survival: expected that of a series; call prepare first")
        u, within = uniforms(0), uniforms(1).copy()
        sigma = solved_permutations(
            np.array(self.modulation), np.array(self.survival), u.shape[1], self.order,
            self.reference,
        )  # fmt: skip
        quantile = np.floor(u[:, :1] * self.order).astype(np.int64)
        # The first walker's own place in its quantile is that of the first uniforms.
        within[:, :1] = u[:, :1] * self.order - quantile
        walkers = np.arange(u.shape[1])
        return law.lengths((sigma[walkers, quantile] + within) / self.order, max_length)
