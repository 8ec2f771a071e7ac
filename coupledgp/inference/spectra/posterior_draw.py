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

from dataclasses import dataclass

import numpy as np

from coupledgp.couplings.balanced import balanced_sample, recombined_sample
from coupledgp.couplings.frequencies.qmc import QuasiMonteCarlo
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.inference.spectra.posterior_form import Atoms, PosteriorForm
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

# Most rows and queries of a pilot, and the share of a small table that its queries are.
PILOT_ROWS, PILOT_QUERIES, QUERY_SHARE = 512, 256, 1 / 3
# Frequencies of a pool per frequency drawn, and its least and greatest size.
POOL_FACTOR, LEAST_POOL, MOST_POOL = 16, 512, 4096
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
# which the second order holds.
LEAST_PER_DIMENSION, LEAST_DRAWN_ROWS, MOST_KL = 16, 200, 0.1
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


@dataclass(frozen=True)
class Proposal:
    """Which law the frequencies of a model were drawn from, and why.

    Attributes
    ----------
    name : str
        `"kernel"`: the spectral measure of the kernel. `"posterior"`: where the posterior needs
        them, with importance weights.
    reason : str
        Why, in words.
    kl_per_point : float or None
        Expected KL of the frequencies in use to the exact posterior, nats per point, by a pilot.
    independent_kl : float or None
        That of as many independent frequencies of the kernel.
    largest_weight : float
        Greatest weight of a frequency over the mean weight.
    """

    name: str
    reason: str
    kl_per_point: float | None = None
    independent_kl: float | None = None
    largest_weight: float = 1.0

    def explain(self) -> str:
        """Return the proposal, the reason and the expected KL, in words."""
        if self.kl_per_point is None:
            return f"Frequencies are drawn from the kernel's spectrum: {self.reason}."
        return (
            f"Frequencies are drawn for the posterior: {self.reason}. A pilot expects a KL of "
            f"{self.kl_per_point:.2g} nats per point, {self.independent_kl:.2g} with as many "
            f"independent ones; the largest weight is {self.largest_weight:.2g} times the mean."
        )


def pilot_form(
    inputs: FloatArray,
    spectrum: Spectrum,
    hyper: Hyperparameters,
    rng: np.random.Generator,
    weights: RowWeights | None = None,
    queries: FloatArray | None = None,
    n_counted: float | None = None,
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
    """
    n = len(inputs)
    order = rng.permutation(n)
    n_queries = max(1, min(PILOT_QUERIES, round(QUERY_SHARE * n)))
    n_rows = max(1, min(PILOT_ROWS, n - n_queries))
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


def posterior_draw(
    form: PosteriorForm, dim: int, n_frequencies: int, rng: np.random.Generator
) -> PosteriorDraw:
    """Draw m frequencies of `dim` dimensions for a posterior; see the head of this file.

    O(N (n + p)^2) for the atoms of the pool and O(N r^2) for a draw balanced on r functions.
    """
    m = n_frequencies
    size = max(min(max(POOL_FACTOR * m, LEAST_POOL), MOST_POOL), 2 * m)
    pool = POOL.sample(size, dim, form.spectrum, rng)
    atoms = form.atoms(pool)
    own = form.diagonal(atoms)
    functions = np.vstack([np.full(size, 1 / size), leading_functions(form, atoms, m, rng) / size])
    probabilities = inclusion(own, m)
    chosen = balanced_sample(probabilities, functions, rng)
    draws = {"balanced": (chosen, 1 / probabilities[chosen])}
    if m > 1:  # a single atom keeps no mean
        draws["recombined"] = recombined_sample(np.full(size, 1 / size), functions[1:], m, rng)
    n_queries = form.n_queries
    independent = max(float(own.mean()) - form.of_kernel, 0.0) / m / n_queries
    found = []
    for kind, (places, weights) in draws.items():
        weights = weights / weights.sum()
        value = form.value(atoms.take(places), weights) / n_queries
        found.append(PosteriorDraw(pool[places], weights, kind, value, independent, size))
    return min(found, key=lambda draw: draw.kl_per_point)


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
