"""Joint laws of the lengths of a node's walkers; each length alone follows its law (MATH 9).

Laws of a walker's length, as survival functions `S_t = P(length >= t)` (MATH 9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings.walkers.sigma import (
    check_permutation,
    solved_permutation,
    solved_permutations,
)
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_positive_int, check_vector, wrong
from coupledgp.random import FloatArray, IntArray

LENGTH_TOLERANCE = 1e-6  # chance of a longer walk than `natural_length`
LENGTH_LIMIT = 2**16 - 1  # longest walk: its steps are streams of random numbers below 2^16


class LengthLaw(ABC):
    """The law of the length of one walker.

    Under a law of survival S, the load of a walker is multiplied by `S_{t-1} / S_t` at step t, so
    that the expected load after t steps is `W~^t` whatever the law.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import LengthLaw
    >>> class Uniform(LengthLaw):  # zero to three steps, equally likely
    ...     def survival(self, max_length):
    ...         return np.maximum(1 - np.arange(max_length + 1) / 4, 0.0)
    ...     def natural_length(self):
    ...         return 3
    >>> Uniform().lengths(np.array([0.1, 0.3, 0.6, 0.9]), 10).tolist()
    [0, 1, 2, 3]
    >>> Uniform().hazards(4).round(3).tolist()
    [0.25, 0.333, 0.5, 1.0]
    """

    @abstractmethod
    def survival(self, max_length: int) -> FloatArray:
        """Survival `S_0 = 1, S_1, ..., S_max_length`, not increasing, shape (max_length + 1,)."""

    @abstractmethod
    def natural_length(self) -> int:
        """Number of steps that a walker exceeds with a chance of `LENGTH_TOLERANCE`."""

    def lengths(self, u: FloatArray, max_length: int) -> IntArray:
        """Lengths at quantiles of the law, cut at `max_length`.

        The length at quantile u is the number of steps t with `u >= 1 - S_t`.

        Parameters
        ----------
        u
            Quantiles in (0, 1), of any shape.
        max_length
            Longest length.

        Returns
        -------
        IntArray
            Lengths, in the shape of `u`.
        """
        cdf = 1.0 - self.survival(max_length)[1:]
        return np.searchsorted(cdf, u.ravel(), side="right").reshape(u.shape).astype(np.int64)

    def hazards(self, max_length: int) -> FloatArray:
        """Chance to halt before each step t = 1..max_length, shape (max_length,).

        It is `P(length = t - 1 | length >= t - 1)`.
        """
        s = self.survival(max_length)
        alive = np.divide(s[1:], s[:-1], out=np.zeros(max_length), where=s[:-1] > 0)
        return 1.0 - alive


@stored
@dataclass(frozen=True)
class GeometricLaw(LengthLaw):
    """The papers' law: a walker halts with chance p before each step, so that `S_t = (1-p)^t`.

    Examples
    --------
    >>> from coupledgp.couplings import GeometricLaw
    >>> law = GeometricLaw(p_halt=0.5)
    >>> law.survival(3).tolist()
    [1.0, 0.5, 0.25, 0.125]
    >>> law.hazards(3).tolist()
    [0.5, 0.5, 0.5]
    >>> law.natural_length()  # a longer walk has a chance of 1e-6
    20
    """

    p_halt: float = 0.1

    def __post_init__(self) -> None:
        if not (isinstance(self.p_halt, (int, float, np.number)) and 0 < self.p_halt < 1):
            raise wrong("p_halt", "a number in (0, 1)", self.p_halt)

    def survival(self, max_length: int) -> FloatArray:
        return (1.0 - self.p_halt) ** np.arange(max_length + 1, dtype=np.float64)

    def natural_length(self) -> int:
        return int(np.ceil(np.log(LENGTH_TOLERANCE) / np.log1p(-self.p_halt)))

    def __str__(self) -> str:
        return f"geometric({self.p_halt:g})"


class MatchedLaw(LengthLaw):
    """Law with survival in proportion to a series' tail: `S_t ~ sqrt(sum_{k>=t} f_k^2)`.

    Not in the papers (MATH 9, "Beyond the papers", 3). Loads stay bounded, where under geometric
    lengths they grow like `(1-p)^-t`. With several rows the law is the mean of the laws that match
    each row. A law that matches too short a series gives very large errors for a longer one, while
    a law for too long a series costs little; so match several times the diffusion time.

    Parameters
    ----------
    modulations
        Modulation coefficients `f_0, f_1, ...`, shape (n_terms,), or several rows of them,
        shape (n_laws, n_terms).

    Examples
    --------
    >>> from coupledgp.couplings import MatchedLaw
    >>> law = MatchedLaw([0.8, 0.6])  # a series with two terms
    >>> law.survival(3).round(6).tolist()
    [1.0, 0.6, 0.0, 0.0]
    >>> law.natural_length()
    1
    """

    def __init__(self, modulations: ArrayLike) -> None:
        rows = np.atleast_2d(np.asarray(modulations, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] == 0 or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"modulations: expected finite coefficients of shape (n_laws, n_terms), "
                f"got shape {rows.shape}"
            )
        self._survival = np.mean([matched_survival(row) for row in rows], axis=0)
        self._survival.flags.writeable = False

    def survival(self, max_length: int) -> FloatArray:
        table = np.zeros(max_length + 1)
        size = min(table.size, self._survival.size)
        table[:size] = self._survival[:size]
        return table

    def natural_length(self) -> int:
        return int(np.flatnonzero(self._survival > LENGTH_TOLERANCE).max())

    def __str__(self) -> str:
        return f"matched(mean length {self._survival[1:].sum():.3g})"


def matched_survival(modulation: ArrayLike) -> FloatArray:
    """Survival (n_terms,) in proportion to `sqrt(sum_{k>=t} f_k^2)` for coefficients f (n_terms,).

    It is one at t = 0. If f is zero, all walkers halt at once.
    """
    f = check_vector(modulation, "modulation")
    largest = np.abs(f).max()
    if largest == 0:
        return (np.arange(f.size) == 0).astype(np.float64)
    left: FloatArray = np.sqrt(np.cumsum((f / largest)[::-1] ** 2)[::-1])
    return left / left[0]


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
