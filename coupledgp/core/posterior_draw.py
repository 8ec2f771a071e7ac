"""Frequencies drawn for the posterior of a data set, with importance weights.

From a pool of N frequencies of the kernel's own law (scrambled Halton points) m are drawn, so that
their weighted kernel has the mean of the pool's: unbiased, unlike fitted frequencies. Two draws are
made, and that of the lesser expected KL (`PosteriorForm.value`) is kept:

* balanced: inclusion probabilities `pi_i` in proportion to `sqrt(Q(A_i))`, the proposal of least
  expected KL among independent ones, weights `1 / (N pi_i)`, by the cube method, balanced on the
  leading functions of the posterior's form B over the pool;
* recombined: m atoms whose weights reproduce the means of m - 1 of these functions.

The form is that of a pilot: some rows, whose noise is scaled down to carry the information of all,
and other rows as queries.

Precedents: leverage scores as proposals (Bach, 2017; Avron et al., 2017; Li et al., 2019), the cube
method (Deville and Tille, 2004), recombination (Hayakawa, Oberhauser and Lyons, 2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coupledgp.core.posterior_form import Atoms, PosteriorForm
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.couplings.balanced import balanced_sample, recombined_sample
from coupledgp.couplings.frequencies.quadrature import QuasiMonteCarlo
from coupledgp.couplings.frequencies.registry import PosteriorLaw
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.ground.tensors import torch
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum

# Most rows and queries of a pilot, and the share of a small table that its queries are.
PILOT_ROWS, PILOT_QUERIES, QUERY_SHARE = 512, 256, 1 / 3
# Frequencies of a pool per frequency drawn, and its least and greatest size.
POOL_FACTOR, LEAST_POOL, MOST_POOL = 16, 2048, 4096
# Landmarks of the leading functions per frequency, and most of them.
LANDMARK_FACTOR, MOST_LANDMARKS = 2, 1024
# Functions that are balanced: as many as frequencies up to the first number, beyond it the second.
MOST_FUNCTIONS, FUNCTIONS_BEYOND = 512, 256
# Eigenvalues of the landmarks' form below this part of the greatest are rounding.
LEAST_EIGENVALUE = 1e-12
# Greatest weight over the mean above which probabilities are mixed with equal ones, and how much.
MOST_UNEVEN, EQUAL_SHARE = 30.0, 0.1
# Where "auto" draws for the posterior: frequencies per dimension from which it gains, rows from
# which a pilot says enough, and the expected KL of independent frequencies, nats per query, up to
# which the second order holds and from which there is something to gain.
LEAST_PER_DIMENSION, LEAST_DRAWN_ROWS, MOST_KL, LEAST_KL = 16, 200, 0.1, 1e-4
# Frequencies that tell the expected KL well enough to decide.
SCOUTS = 512
# Fewest rows that can be divided into a pilot's rows and its queries.
LEAST_PILOT_ROWS = 3
# Steps of the logarithms of a pilot's hyperparameters: searches end within their tolerance, on each
# machine a little elsewhere, and a draw is not to depend on that.
LOG_STEP = 1 / 64
POOL = QuasiMonteCarlo("halton")


@dataclass(frozen=True)
class PosteriorDraw:
    """Frequencies drawn for a posterior.

    Attributes
    ----------
    frequencies : FloatArray (m, d)
        In units of one over the lengthscale.
    weights : FloatArray (m,)
        Of sum one.
    kind : str
        `"balanced"` or `"recombined"`.
    kl_per_point : float
        Expected KL of the pilot, nats per query, to second order.
    independent_kl : float
        That of as many independent frequencies.
    pool_size : int
        Number of frequencies of the pool.
    """

    frequencies: FloatArray
    weights: FloatArray
    kind: str
    kl_per_point: float
    independent_kl: float
    pool_size: int

    @property
    def largest_weight(self) -> float:
        """Greatest weight over the mean weight."""
        return float(self.weights.max() * self.weights.size)

    def features(self, own: FeatureMap) -> FeatureMap:
        """These frequencies as a feature map with the kernel, type and device of another."""
        tensors = (torch.as_tensor(a).to(own.frequencies) for a in (self.frequencies, self.weights))
        frequencies, weights = tensors
        made = FourierFeatures.from_frequencies(frequencies, POOL, own.spectrum, weights)
        made.coupling = PosteriorLaw()
        return made


@dataclass(frozen=True)
class Pilot:
    """Why frequencies were drawn for the posterior or not, and what a pilot expects of them.

    Attributes
    ----------
    reason : str
        Why, in words.
    kl_per_point : float or None
        Expected KL of the frequencies in use to the exact posterior, nats per point.
    independent_kl : float or None
        That of as many independent frequencies of the kernel.
    largest_weight : float
        Greatest weight of a frequency over the mean weight.
    """

    reason: str
    kl_per_point: float | None = None
    independent_kl: float | None = None
    largest_weight: float = 1.0

    def explain(self) -> str:
        """Return the reason and the expected KL, in words."""
        if self.kl_per_point is None:
            return self.reason
        return (
            f"{self.reason}. A pilot expects a KL of {self.kl_per_point:.2g} nats per point, "
            f"{self.independent_kl:.2g} with as many independent ones; the largest weight is "
            f"{self.largest_weight:.2g} times the mean"
        )


def pilot_places(n_rows: int, rng: np.random.Generator) -> IntArray:
    """Places, ascending, of the random rows of a table of n rows that a pilot takes."""
    size = min(n_rows, PILOT_ROWS + PILOT_QUERIES)
    return np.sort(rng.choice(n_rows, size, replace=False))


def pilot_form(
    inputs: FloatArray,
    spectrum: Spectrum,
    hyper: Hyperparameters,
    rng: np.random.Generator,
    weights: RowWeights | None = None,
    queries: FloatArray | None = None,
    n_counted: float | None = None,
    most_rows: int = PILOT_ROWS,
) -> PosteriorForm:
    """The form of a random part of a table, which stands for the whole.

    Parameters
    ----------
    inputs
        Inputs (n, d).
    spectrum, hyper
        The kernel and its hyperparameters.
    rng
        Source of the rows.
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    queries
        Further points (q, d) at which the posterior matters.
    n_counted
        Number of rows that the table stands for; None for its own.
    most_rows
        Most rows of the pilot beside its queries.
    """
    n = len(inputs)
    order = rng.permutation(n)
    n_queries = max(1, min(PILOT_QUERIES, round(QUERY_SHARE * n)))
    n_rows = max(1, min(most_rows, n - n_queries))
    rows, held_out = order[:n_rows], order[n_rows : n_rows + n_queries]
    points = inputs[held_out]
    if queries is not None:
        chosen = rng.permutation(len(queries))[:PILOT_QUERIES]
        points = np.concatenate([points, queries[chosen]])
    own = RowWeights.ones(n_rows) if weights is None else weights.take(rows)
    total = n_counted
    if total is None:
        total = n if weights is None else float(np.sum(weights.counts))
    # The rows of the pilot stand for all: together they count as often.
    counted = RowWeights(own.noise, own.counts * (total / own.counts.sum()), own.level)
    return PosteriorForm(inputs[rows], points, spectrum, _stepped(hyper), counted)


def _stepped(hyper: Hyperparameters) -> Hyperparameters:
    """Hyperparameters whose logarithms are rounded to `LOG_STEP`."""

    def near(value: FloatArray | float) -> FloatArray:
        return np.asarray(np.exp(LOG_STEP * np.round(np.log(value) / LOG_STEP)))

    scales = float(near(hyper.outputscale)), float(near(hyper.noise))
    return Hyperparameters(near(hyper.lengthscale), *scales)


@dataclass(frozen=True, eq=False)
class WeighedPool:
    """A pool of N frequencies, with what each costs a posterior.

    Attributes
    ----------
    form : PosteriorForm
        The form of the posterior.
    frequencies : FloatArray (N, d)
        In units of one over the lengthscale.
    atoms : Atoms
        Their features.
    own : FloatArray (N,)
        `Q(A_w)` of each alone.
    """

    form: PosteriorForm
    frequencies: FloatArray
    atoms: Atoms
    own: FloatArray

    @classmethod
    def of(
        cls, form: PosteriorForm, dim: int, n_frequencies: int, rng: np.random.Generator
    ) -> WeighedPool:
        """Draw a pool that is large enough for a draw of m frequencies."""
        m = n_frequencies
        size = max(min(max(POOL_FACTOR * m, LEAST_POOL), MOST_POOL), 2 * m)
        return cls.drawn(form, dim, size, rng)

    @classmethod
    def drawn(
        cls, form: PosteriorForm, dim: int, size: int, rng: np.random.Generator
    ) -> WeighedPool:
        """Draw a pool of N frequencies of `dim` dimensions; O(N (n + p)^2)."""
        pool = POOL.sample(size, dim, form.spectrum, rng)
        atoms = form.atoms(pool)
        return cls(form, pool, atoms, form.diagonal(atoms))

    def independent_kl(self, n_frequencies: int) -> float:
        """Expected KL of m independent frequencies of the kernel, nats per query."""
        variance = max(float(self.own.mean()) - self.form.of_kernel, 0.0)
        return variance / n_frequencies / self.form.n_queries

    def draw(self, n_frequencies: int, rng: np.random.Generator) -> PosteriorDraw:
        """Draw m frequencies; O(N r^2) for a draw balanced on r functions."""
        independent, found = self.independent_kl(n_frequencies), []
        for kind, places, weights in _balanced(self, n_frequencies, rng):
            weights = weights / weights.sum()
            value = self.form.value(self.atoms.take(places), weights) / self.form.n_queries
            chosen, size = self.frequencies[places], len(self.atoms)
            found.append(PosteriorDraw(chosen, weights, kind, value, independent, size))
        return min(found, key=lambda draw: draw.kl_per_point)


def posterior_draw(
    form: PosteriorForm,
    dim: int,
    n_frequencies: int,
    rng: np.random.Generator,
) -> PosteriorDraw:
    """Draw m frequencies of `dim` dimensions for a posterior; see the head of this file."""
    return WeighedPool.of(form, dim, n_frequencies, rng).draw(n_frequencies, rng)


_Sample = tuple[str, IntArray, FloatArray]


def _balanced(pool: WeighedPool, m: int, rng: np.random.Generator) -> Iterator[_Sample]:
    size = len(pool.atoms)
    leading = leading_functions(pool.form, pool.atoms, m, rng)
    functions = np.vstack([np.full(size, 1 / size), leading / size])
    probabilities = inclusion(pool.own, m)
    chosen = balanced_sample(probabilities, functions, rng)
    yield "balanced", chosen, 1 / probabilities[chosen]
    if m > 1:  # a single atom keeps no mean
        yield "recombined", *recombined_sample(np.full(size, 1 / size), functions[1:], m, rng)


def inclusion(own: FloatArray, m: int) -> FloatArray:
    """Inclusion probabilities (N,) of sum m in proportion to the roots of Q (N,), at most one."""
    sizes = np.sqrt(own) if own.max() > 0 else np.ones(own.size)
    if sizes.mean() > MOST_UNEVEN * sizes.min() and own.mean() > 0:
        sizes = np.sqrt((1 - EQUAL_SHARE) * own + EQUAL_SHARE * own.mean())
    sure = np.zeros(sizes.size, dtype=bool)
    while True:
        left = m - int(sure.sum())
        found = np.where(sure, 1.0, left * sizes / sizes[~sure].sum())
        above = (found >= 1) & ~sure
        if not above.any():
            return found
        sure |= above


def leading_functions(
    form: PosteriorForm, atoms: Atoms, m: int, rng: np.random.Generator
) -> FloatArray:
    """Leading eigenfunctions (r, N) of the form on a pool, from landmarks (Nystrom)."""
    size = len(atoms)
    count = min(LANDMARK_FACTOR * m, MOST_LANDMARKS, size)
    landmarks = np.sort(rng.choice(size, count, replace=False))
    B = form.gram(atoms, atoms.take(landmarks))
    values, vectors = np.linalg.eigh(B[landmarks])
    wanted = m if m <= MOST_FUNCTIONS else FUNCTIONS_BEYOND
    order = np.argsort(-values)[:wanted]
    order = order[values[order] > LEAST_EIGENVALUE * values[order[0]]]
    return np.asarray((B @ (vectors[:, order] / np.sqrt(values[order]))).T)
