"""Contracts of couplings of frequencies, and of their parts.

Contracts of laws of walkers: of their lengths and of their steps.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats

from coupledgp.couplings import (
    CouplingLike,
    Directions,
    FrequencyCoupling,
    GeometricLaw,
    LengthLaw,
    Lengths,
    MatchedLaw,
    Norms,
    Steps,
    available_couplings,
    parse_coupling,
)
from coupledgp.couplings.frequencies.registry import DIRECTIONS, NORMS, coupling_text
from coupledgp.errors import InvalidInputError
from coupledgp.ground.counter import LengthUniforms
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum, parse_spectrum
from coupledgp.testing.checks import (
    require,
    require_close,
    require_law,
    require_mean,
    require_uniform,
)

# Pairs (m, d) with one frequency, with one dimension, with m < d, and with several blocks of which
# the last is cut.
SIZES = ((1, 1), (3, 1), (2, 3), (3, 3), (5, 3), (7, 2), (1, 4))


class CouplingContract:
    """Tests of a coupling of frequencies.

    Attributes
    ----------
    coupling
        The coupling, an object or its text form.
    spectra
        Names of the spectra that it must serve; the first is tested most thoroughly.
    sizes
        Pairs (m, d) that it must serve.
    law_sizes
        Pairs (m, d) for which the marginals are tested; the last is the size of kernel estimates.
    repetitions
        Number of independent ensembles in a statistical test.
    seed
        Seed for all draws; the tests must pass for any.

    Examples
    --------
    >>> from coupledgp.couplings import FrequencyCoupling, parse_coupling
    >>> from coupledgp.testing import CouplingContract
    >>> class Upward(FrequencyCoupling):
    ...     def _sample(self, n_frequencies, dim, spectrum, rng):
    ...         return abs(parse_coupling("iid").sample(n_frequencies, dim, spectrum, rng))
    >>> class TestUpward(CouplingContract):
    ...     coupling = Upward()
    >>> TestUpward().test_marginals()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: projection of frequency 0 of 3 in 1 dimensions, gaussian: not of its law, ...
    """

    coupling: CouplingLike
    spectra: ClassVar[tuple[str, ...]] = ("gaussian", "matern-3/2")
    sizes: ClassVar[tuple[tuple[int, int], ...]] = SIZES
    law_sizes: ClassVar[tuple[tuple[int, int], ...]] = ((3, 1), (2, 3), (5, 3))
    repetitions: ClassVar[int] = 500
    seed: int = 0

    @property
    def _coupling(self) -> FrequencyCoupling:
        return parse_coupling(self.coupling)

    def _is_rule(self, dim: int, spectrum: Spectrum) -> bool:
        """Whether the coupling is a rule with weights, which promises accuracy, not marginals."""
        return self._coupling.weights(2, dim, spectrum) is not None

    def _ensembles(self, m: int, dim: int, spectrum: Spectrum) -> FloatArray:
        """Independent ensembles of frequencies, shape (repetitions, m, dim)."""
        rng = np.random.default_rng([self.seed, m, dim])
        draws = [self._coupling.sample(m, dim, spectrum, rng) for _ in range(self.repetitions)]
        return np.stack(draws)

    def test_shapes(self) -> None:
        """Each size gives finite frequencies (m, d) in float64."""
        for name in self.spectra:
            for m, dim in self.sizes:
                drawn = self._coupling.sample(m, dim, name, self.seed)
                where = f"m = {m}, d = {dim}, {name}"
                require(drawn.shape == (m, dim), f"{where}: got shape {drawn.shape}")
                require(drawn.dtype == np.float64, f"{where}: got dtype {drawn.dtype}")
                require(np.isfinite(drawn).all(), f"{where}: got NaN or inf")

    def test_same_seed_same_bits(self) -> None:
        """A seed fixes the ensemble, and different seeds give different ones."""
        for m, dim in self.sizes:
            first, again, other = (
                self._coupling.sample(m, dim, generator=seed)
                for seed in (self.seed, self.seed, self.seed + 1)
            )
            require(np.array_equal(first, again), f"m = {m}, d = {dim}: one seed, two ensembles")
            if not self._is_rule(dim, parse_spectrum("gaussian")):
                require(not np.array_equal(first, other), f"m = {m}, d = {dim}: seed has no effect")

    def test_marginals(self) -> None:
        """Each frequency alone follows the spectrum: its norm, and its projection on any axis."""
        for name in self.spectra:
            spectrum = parse_spectrum(name)
            # One size is enough to see that another spectrum is inverted rightly.
            for m, dim in self.law_sizes if name == self.spectra[0] else self.law_sizes[-1:]:
                if self._is_rule(dim, spectrum):
                    continue
                drawn = self._ensembles(m, dim, spectrum)
                rng = np.random.default_rng(self.seed)
                axes = rng.standard_normal((dim, dim))
                axes[0] = np.eye(dim)[0]
                axes /= np.linalg.norm(axes, axis=1, keepdims=True)
                for i in range(m):
                    where = f"frequency {i} of {m} in {dim} dimensions, {name}"
                    norms = np.linalg.norm(drawn[:, i], axis=1)
                    require_uniform(spectrum.norm_cdf(norms, dim), f"norm of {where}")
                    for axis in axes[:2]:
                        # A projection has the law of a frequency in one dimension.
                        along = drawn[:, i] @ axis
                        half = np.sign(along) * spectrum.norm_cdf(np.abs(along), 1)
                        require_uniform((1 + half) / 2, f"projection of {where}")

    def test_estimates_are_unbiased(self) -> None:
        """`sum_i a_i cos(w_i . z)` has the kernel as its mean; for a rule it is near the kernel."""
        for name in self.spectra:
            spectrum = parse_spectrum(name)
            for m, dim in self.law_sizes[-1:]:
                rule = self._is_rule(dim, spectrum)
                m = 12**dim if rule else m  # 12 nodes in each dimension reach the tolerance
                drawn = (
                    self._coupling.sample(m, dim, spectrum, self.seed)[None]
                    if rule
                    else self._ensembles(m, dim, spectrum)
                )
                axis = np.ones(dim) / np.sqrt(dim)
                distances = np.array([0.3, 1.0, 2.0])
                weights = self._coupling.weights(m, dim, spectrum)
                values = np.cos((drawn @ axis)[..., None] * distances)
                estimates = np.average(values, axis=1, weights=weights)
                exact = spectrum.kernel(distances)
                where = f"kernel estimate, m = {m}, d = {dim}, {name}"
                if rule:
                    require_close(estimates[0], exact, 0.05, where)
                else:
                    require_mean(estimates, exact, where)

    def test_text_form(self) -> None:
        """Parsing the text of a registered coupling gives an equal coupling."""
        text = str(self._coupling)
        if text not in available_couplings():
            named = coupling_text(self._coupling) is not None
            require(
                named or not isinstance(self.coupling, str),
                f"{text!r}: not the text it was made from",
            )
            return
        parsed = parse_coupling(text)
        require(parsed == self._coupling, f"{text!r}: parsing the text gives another coupling")
        m, dim = self.law_sizes[-1]
        mine, its = (c.sample(m, dim, generator=self.seed) for c in (self._coupling, parsed))
        require(np.array_equal(mine, its), f"{text!r}: parsing the text gives other frequencies")

    def test_counts_are_checked(self) -> None:
        """A size that is no positive integer is refused by an error that names it."""
        for name in ("n_frequencies", "dim"):
            for value in (0, -1, 2.5, True):
                arguments = {"n_frequencies": 2, "dim": 1, name: value}
                try:
                    self._coupling.sample(**arguments)  # type: ignore[arg-type]
                except InvalidInputError as error:
                    require(name in str(error), f"{name} = {value!r}: the error does not name it")
                else:
                    require(False, f"{name} = {value!r} was accepted")


class DirectionsContract:
    """Tests of a law of directions.

    Attributes
    ----------
    directions
        The law.
    sizes, repetitions, seed
        As in `CouplingContract`.

    Examples
    --------
    >>> from coupledgp.couplings import IidDirections
    >>> from coupledgp.testing import DirectionsContract
    >>> class Long(IidDirections):
    ...     def sample(self, norms, dim, rng):
    ...         return 2 * super().sample(norms, dim, rng)
    >>> class TestLong(DirectionsContract):
    ...     directions = Long()
    >>> TestLong().test_unit_vectors()
    Traceback (most recent call last):
    AssertionError: lengths, m = 1, d = 1: differ by 1.00e+00, more than 1.00e-12
    """

    directions: Directions
    sizes: ClassVar[tuple[tuple[int, int], ...]] = SIZES
    repetitions: ClassVar[int] = 500
    seed: int = 0

    def _draw(self, m: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Directions (m, dim) for m different norms."""
        return self.directions.sample(np.linspace(0.5, 2.0, m), dim, rng)

    def test_unit_vectors(self) -> None:
        """There is one unit vector for each norm."""
        for m, given in self.sizes:
            dim = self.directions.ambient_dim(given)
            require(dim >= given, f"ambient_dim({given}): got {dim}, which is less")
            drawn = self._draw(m, dim, np.random.default_rng(self.seed))
            require(drawn.shape == (m, dim), f"m = {m}, d = {dim}: got shape {drawn.shape}")
            lengths = np.linalg.norm(drawn, axis=1)
            require_close(lengths, np.ones(m), 1e-12, f"lengths, m = {m}, d = {dim}")

    def test_same_seed_same_bits(self) -> None:
        """All randomness comes from the generator, and different seeds give different draws."""
        for m, given in self.sizes:
            dim = self.directions.ambient_dim(given)
            first, again, other = (
                self._draw(m, dim, np.random.default_rng(seed))
                for seed in (self.seed, self.seed, self.seed + 1)
            )
            require(np.array_equal(first, again), f"m = {m}, d = {dim}: one seed, two draws")
            # In one dimension there are two directions only.
            same = dim > 1 and np.array_equal(first, other)
            require(not same, f"m = {m}, d = {dim}: the generator has no effect")

    def test_each_is_uniform_on_the_sphere(self) -> None:
        """The projection on any axis has the law of a coordinate of a uniform direction."""
        rng = np.random.default_rng(self.seed)
        for m, given in ((2, 3), (5, 3)):
            dim = self.directions.ambient_dim(given)
            drawn = np.stack([self._draw(m, dim, rng) for _ in range(self.repetitions)])
            axes = rng.standard_normal((2, dim))
            axes[0] = np.eye(dim)[0]
            axes /= np.linalg.norm(axes, axis=1, keepdims=True)
            for i in range(m):
                for axis in axes:
                    along = drawn[:, i] @ axis
                    half = np.sign(along) * stats.beta(0.5, (dim - 1) / 2).cdf(along**2)
                    require_uniform((1 + half) / 2, f"direction {i} of {m} in {dim} dimensions")

    def test_equal_laws_are_equal(self) -> None:
        """A registered law equals the one its name makes, so that it has a text form."""
        known = [law for law in DIRECTIONS.values() if type(law) is type(self.directions)]
        require(not known or self.directions in known, "the law differs from that of its own name")


class NormsContract:
    """Tests of a law of the uniforms behind the norms.

    Attributes
    ----------
    norms
        The law.
    repetitions, seed
        As in `CouplingContract`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import Norms
    >>> from coupledgp.testing import NormsContract
    >>> class Ascending(Norms):
    ...     def sample(self, n, block_size, rng):
    ...         return np.sort(rng.uniform(size=n))
    >>> class TestAscending(NormsContract):
    ...     norms = Ascending()
    >>> TestAscending().test_each_is_uniform()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: uniform 0, n = 5, blocks of 1: not of its law, ...
    """

    norms: Norms
    sizes: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1), (5, 1), (5, 2), (7, 3), (4, 9))
    repetitions: ClassVar[int] = 1500
    seed: int = 0

    def test_each_is_uniform(self) -> None:
        """Each of the values alone is uniform on the open interval (0, 1)."""
        for n, block in self.sizes:
            rng = np.random.default_rng([self.seed, n, block])
            u = np.stack([self.norms.sample(n, block, rng) for _ in range(self.repetitions)])
            where = f"n = {n}, blocks of {block}"
            require(u.shape[1:] == (n,), f"{where}: got shape {u.shape[1:]}")
            require(((u > 0) & (u < 1)).all(), f"{where}: values outside (0, 1)")
            for i in range(n):
                require_uniform(u[:, i], f"uniform {i}, {where}")

    def test_same_seed_same_bits(self) -> None:
        """All randomness comes from the generator, and different seeds give different draws."""
        for n, block in self.sizes:
            first, again, other = (
                self.norms.sample(n, block, np.random.default_rng(seed))
                for seed in (self.seed, self.seed, self.seed + 1)
            )
            require(np.array_equal(first, again), f"n = {n}: one seed, two draws")
            require(not np.array_equal(first, other), f"n = {n}: the generator has no effect")

    def test_equal_laws_are_equal(self) -> None:
        """A registered law equals the one its name makes, so that it has a text form."""
        known = [law for law in NORMS.values() if type(law) is type(self.norms)]
        require(not known or self.norms in known, "the law differs from that of its own name")


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
