"""Effects and shares of variance of the parts of a table, for any fitted process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
from scipy import linalg

from coupledgp.diagnostics.effects.axis import AxisPosterior, arranged
from coupledgp.diagnostics.effects.results import CONDITIONAL, Effects, Importance, Share
from coupledgp.diagnostics.effects.sampled import SampledPosterior, two_samples
from coupledgp.diagnostics.effects.units import CORRELATED, Unit, median_correlation, rows_of
from coupledgp.expressions import AxisTerm
from coupledgp.gp.drawn_functions import ChosenFunctions, DrawnFunctions, row_blocks
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.transformed import TransformedGP, mixed_parts
from coupledgp.linalg.matrices import as_numpy
from coupledgp.random import FloatArray

# What is added to variances at the anchors, relative to their mean prior variance.
JITTER = 1e-9
# Draws of functions in all: by closed forms, and where functions are evaluated at many rows. The
# fewest of a member.
DRAWS, SAMPLED_DRAWS, LEAST_DRAWS = 400, 160, 2
# Parts among which pairs are looked at: those of greatest total share.
PAIRED = 8

Projected: TypeAlias = AxisPosterior | SampledPosterior


class Explanation:
    """The members of a process, each with the means to compute effects.

    Parameters
    ----------
    process
        A process of a table that knows its rows.
    units
        All parts of the table.
    seed
        Seed of draws and samples.
    """

    def __init__(self, process: GaussianProcess, units: Sequence[Unit], seed: int) -> None:
        self.units = tuple(units)
        self.varying = [j for j, unit in enumerate(units) if unit.varies]
        parts = mixed_parts(process)
        terms = [_terms(part, self.units) for part, _ in parts]
        size = SAMPLED_DRAWS if None in terms else DRAWS
        exact = [(*part, own) for part, own in zip(parts, terms, strict=True) if own is not None]
        others = [part for part, own in zip(parts, terms, strict=True) if own is None]
        self.members: list[Projected] = [
            _closed(part, own, self.units, _count(size, share), seed + k)
            for k, (part, share, own) in enumerate(exact)
        ]
        self.shares = [share for _, share, _ in exact]
        if others:
            share = sum(own for _, own in others)
            self.members.append(_sampled(others, self.units, _count(size, share), seed))
            self.shares.append(share)
        self.remarks = _remarks(process, self.units)

    @property
    def method(self) -> str:
        """How effects are computed, in words."""
        methods = dict.fromkeys(member.method for member in self.members)
        return " and ".join(methods)

    def effects(self, chosen: Sequence[int], level: float, ndim: int) -> Effects:
        """Main effects of some units at their grids; see `Effects`."""
        ends = [(1 - level) / 2, (1 + level) / 2]
        means: list[FloatArray] = []
        lows: list[FloatArray] = []
        highs: list[FloatArray] = []
        for place in chosen:
            found = [member.main(place, member.units[place].grid) for member in self.members]
            mean = sum(share * own for share, (own, _) in zip(self.shares, found, strict=True))
            draws = np.concatenate([own for _, own in found], axis=2)
            low, high = np.quantile(draws, ends, axis=2)
            for parts, value in ((means, mean), (lows, low), (highs, high)):
                parts.append(np.asarray(value)[:, 0] if ndim == 1 else np.asarray(value))
        return Effects(
            tuple(self.units[j].name for j in chosen),
            tuple(self.units[j].labels for j in chosen),
            tuple(means), tuple(lows), tuple(highs), level, self.method, self.remarks,
        )  # fmt: skip

    def importance(self, level: float, ndim: int, paired: int = PAIRED) -> Importance:
        """Shares of variance of all units and of pairs among some; see `Importance`."""
        whole = np.concatenate([member.variance() for member in self.members], axis=1)
        floor = np.finfo(np.float64).tiny
        names = [unit.name for unit in self.units]

        def share(draws: FloatArray) -> Share:
            return Share.of(draws / np.maximum(whole, floor), level, ndim == 1)

        first, total = (
            {
                j: np.concatenate([compute(member, j) for member in self.members], axis=1)
                for j in self.varying
            }
            for compute in (_first, _total)
        )
        leading = sorted(self.varying, key=lambda j: (-float(total[j].mean()), j))[:paired]
        pairs = {
            (i, j): np.concatenate([member.pair(i, j) for member in self.members], axis=1)
            for i, j in combinations(sorted(leading), 2)
        }
        rest = whole - sum(first.values()) - sum(pairs.values())
        remarks = self.remarks
        if len(self.varying) > paired:
            remarks = (
                *remarks,
                f"Pairs are those of the {paired} parts of greatest total share, of "
                f"{len(self.varying)}; what other pairs explain is in the rest.",
            )
        return Importance(
            {names[j]: share(draws) for j, draws in first.items()},
            {(names[i], names[j]): share(draws) for (i, j), draws in pairs.items()},
            {names[j]: share(draws) for j, draws in total.items()},
            share(np.asarray(rest)), level, self.method, remarks,
        )  # fmt: skip


def _first(member: Projected, place: int) -> FloatArray:
    return member.first(place)


def _total(member: Projected, place: int) -> FloatArray:
    return member.total(place)


def _terms(process: GaussianProcess, units: tuple[Unit, ...]) -> tuple[AxisTerm, ...] | None:
    """Terms of a process's kernel with one factor for each unit, if it has such."""
    terms = process.dense_prior.axes() if isinstance(process, ExactGP) else None
    return None if terms is None else arranged(terms, units)


def _count(size: int, share: float) -> int:
    """Number of draws of a member."""
    return max(round(size * share), LEAST_DRAWS)


def _closed(
    process: GaussianProcess,
    terms: tuple[AxisTerm, ...],
    units: tuple[Unit, ...],
    n_draws: int,
    seed: int,
) -> AxisPosterior:
    """Closed forms of an exact process whose kernel has these terms."""
    assert isinstance(process, ExactGP)  # which alone has terms
    prior, rows = process.dense_prior, process.data.points
    return AxisPosterior(
        terms, prior.standardised(rows), as_numpy(process.factor),
        as_numpy(process.alpha), process.units.scale,
        tuple(_standardised(unit, prior.standardised, rows.shape[1]) for unit in units),
        n_draws, seed,
    )  # fmt: skip


def _sampled(
    parts: list[tuple[GaussianProcess, float]], units: tuple[Unit, ...], n_draws: int, seed: int
) -> SampledPosterior:
    """Averages over functions drawn from processes of these shares."""
    shares = np.array([share for _, share in parts])
    shares /= shares.sum()
    rng = np.random.default_rng([seed, 4])
    n_columns = sum(unit.columns.size for unit in units)
    samples = two_samples(units, seed)
    anchors = np.vstack([rows_of(units, places, n_columns) for places in samples])
    counts = np.maximum(np.round(n_draws * shares).astype(np.int64), 1)
    ends = np.cumsum(counts)
    own = []
    for (part, _), count, end in zip(parts, counts.tolist(), ends.tolist(), strict=True):
        drawn = (
            AnchoredFunctions(part, anchors, count, rng)
            if isinstance(part, ExactGP)
            else part.draw_functions(count, rng)
        )
        own.append((np.arange(end - count, end), drawn))
    functions = ChosenFunctions(own, int(ends[-1]))

    def mean(rows: FloatArray) -> FloatArray:
        means = [part.law(rows, "mean", latent=True).mean for part, _ in parts]
        found: FloatArray = np.tensordot(shares, np.array(means), axes=1)
        return found

    return SampledPosterior(mean, functions, n_columns, units, seed, samples)


def _standardised(
    unit: Unit, standardise: Callable[[FloatArray], FloatArray], n_columns: int
) -> Unit:
    """A unit whose points are standardised; its grid is standardised too."""

    def own(points: FloatArray) -> FloatArray:
        rows = np.zeros((len(points), n_columns))
        rows[:, unit.columns] = points
        return standardise(rows)[:, unit.columns]

    return replace(unit, points=own(unit.points), grid=own(unit.grid))


def _remarks(process: GaussianProcess, units: Sequence[Unit]) -> tuple[str, ...]:
    remarks = [CONDITIONAL]
    found = median_correlation(process.data.points)
    if found > CORRELATED:
        remarks.append(
            f"Columns hang on each other (median correlation {found:.2f} between two of them): "
            "effects average over combinations of values that no row has."
        )
    if any(isinstance(part, TransformedGP) for part, _ in mixed_parts(process)):
        remarks.append("Effects are those of the median of y, the inverse transform of f.")
    still = [unit.name for unit in units if not unit.varies]
    if still:
        remarks.append(f"Constant, so without effect: {', '.join(still[:5])}.")
    return tuple(remarks)


class AnchoredFunctions(DrawnFunctions):
    """Functions of an exact process for averages over the law that anchors Z are drawn from.

        f(x) = k(x, X) (alpha - (K + s R)^-1 K(X, Z) c) + k(x, Z) c ,   c ~ N(0, C^-1)

    C is the posterior covariance at Z, so that values there are exact draws. Elsewhere they lack
    the variance that rows and anchors leave open, which averages over many points do not have.

    Parameters
    ----------
    process
        The process.
    anchors
        Rows Z (N, D).
    n_functions
        Number of functions.
    rng
        Where the draws come from.
    """

    def __init__(
        self, process: ExactGP, anchors: FloatArray, n_functions: int, rng: np.random.Generator
    ) -> None:
        self.process, self.n_functions = process, n_functions
        prior, rows = process.dense_prior, process.data.points
        self._places = np.vstack([rows, anchors])
        factor = as_numpy(process.factor)
        root = linalg.solve_triangular(factor, prior.covariance(rows, anchors), lower=True)
        covariance = prior.covariance(anchors, anchors) - root.T @ root
        covariance[np.diag_indices_from(covariance)] += JITTER * prior.variance(anchors).mean()
        own = np.linalg.cholesky(0.5 * (covariance + covariance.T))
        size = process.units.n_outputs * n_functions
        innovations = rng.standard_normal((len(anchors), size))
        draws = linalg.solve_triangular(own, innovations, lower=True, trans="T")
        taken = linalg.solve_triangular(factor, root @ draws, lower=True, trans="T")
        alpha = np.repeat(as_numpy(process.alpha), n_functions, axis=1)
        self._weights = np.vstack([alpha - taken, draws])

    def __call__(self, points: FloatArray) -> FloatArray:
        prior, units = self.process.dense_prior, self.process.units
        parts = [
            prior.covariance(points[rows], self._places) @ self._weights
            for rows in row_blocks(len(points))
        ]
        shape = (len(points), units.n_outputs, self.n_functions)
        return units.samples(np.concatenate(parts).reshape(shape))
