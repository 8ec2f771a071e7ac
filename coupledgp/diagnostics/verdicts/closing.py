"""What would bring an approximation closer to the exact process: measured, not guessed.

The model's own kernel fitted anew, to the targets and to transforms of them.

A rival that is fitted gains from the fit as well as from what it is. Beside the model's own kernel,
fitted to the same rows, what is left is the gain of the rival alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.core.column_moments import spread_lengthscale
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.posterior_draw import LEAST_DRAWN_ROWS, LEAST_PER_DIMENSION
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.starts import SearchSpace
from coupledgp.core.transformed import transformed_data
from coupledgp.core.transforms import Identity
from coupledgp.core.units import Units
from coupledgp.couplings.frequencies.registry import PosteriorLaw, describe_coupling
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.laws import Law, law_of_process
from coupledgp.diagnostics.scoring.measures import kl_per_point
from coupledgp.diagnostics.scoring.scores import MeanOverPoints, nlpd, paired_difference, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, process_of, some_rows
from coupledgp.errors import CoupledGPError, HeavyTailWarning
from coupledgp.features import FourierFeatures
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.dense_prior import DenseProblem
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.transform_search import fit_transforms

# Factor on the number of features or walkers that is tried.
LARGER = 4
# Multiplications that a draw may take: some seconds.
MOST_WORK = 1e11


@dataclass(frozen=True)
class Closing:
    """Another draw of an approximation.

    Attributes
    ----------
    name : str
        The parameter that differs, with its value.
    own : str
        The model's value.
    kl_per_point : float
        `KL(reference || it)`, nats per point.
    nlpd : float or None
        Its negative log predictive density, nats per point; None without targets.
    """

    name: str
    own: str
    kl_per_point: float
    nlpd: float | None

    @property
    def action(self) -> str:
        """How to get it, as a sentence."""
        return f"Take {self.name} instead of {self.own}."


def closings(subject: Subject, exact: Law, y: FloatArray | None) -> tuple[Closing, ...]:
    """Try more features or walkers, and the default coupling, at the points of an exact law.

    Empty for processes that draw nothing, and where a draw would take long.
    """
    found: list[Closing] = []
    try:
        candidates = list(_candidates(subject))
    except CoupledGPError:  # the observations were not kept
        return ()
    for (name, own), coupling, size in candidates:
        assert subject.process is not None
        try:
            with warnings.catch_warnings():  # of a trial, whose law nobody is given
                warnings.simplefilter("ignore", HeavyTailWarning)
                law = law_of_process(subject.process.redrawn(coupling, size, 0), subject.points)
        except CoupledGPError:
            continue
        density = None if y is None else nlpd(y, law.mean, law.std)
        found.append(Closing(name, own, kl_per_point(exact, law), density))
    return tuple(found)


def closest(found: tuple[Closing, ...], kl: float) -> str:
    """What takes an approximation closest to the reference, in words; empty if nothing does."""
    nearer = [one for one in found if one.kl_per_point < 0.9 * kl]
    if not nearer:
        return ""
    best = min(nearer, key=lambda one: one.kl_per_point)
    return f"; with {best.name} the KL is {best.kl_per_point:.2g}"


def _candidates(subject: Subject) -> Iterator[tuple[tuple[str, str], Any, int]]:
    """Texts of the new and the own value, couplings and sizes to try."""
    model = subject.model
    name, process = getattr(model, "size_parameter", None), process_of(model)
    if name is None or process is None or process is not subject.process:
        return
    size, coupling = getattr(model, f"{name}_", None), _coupling(model, process)
    if not isinstance(size, int | np.integer) or coupling is None:
        return
    n_rows, size = len(process.data), int(size)
    if n_rows * (2.0 * LARGER * size) ** 2 <= MOST_WORK:
        larger = f"{name}={LARGER * size}{_frequencies(model, coupling)}"
        yield (larger, f"{size}"), coupling, LARGER * size
    if isinstance(coupling, PosteriorLaw) or n_rows * (2.0 * size) ** 2 > MOST_WORK:
        return
    if _may_be_drawn(process, size):
        drawn, own = "frequencies='posterior'", describe_coupling(coupling)
        if model.coupling is not None:
            drawn += ", coupling=None"
        yield (drawn, f"frequencies sampled by {own}"), PosteriorLaw(), size
    default = getattr(type(model), "coupling", None)
    if default is not None and default != coupling:
        yield (f"coupling={default!r}", f"{coupling!r}"), default, size


def _frequencies(model: Any, coupling: Any) -> str:
    """What else to ask a model for, so that its frequencies are those that were tried."""
    asked = getattr(model, "frequencies", None)
    law = "posterior" if isinstance(coupling, PosteriorLaw) else "sampled"
    known = asked in (None, law) or (asked == "auto" and model.coupling is not None)
    return "" if known else f", frequencies={law!r}"


def _may_be_drawn(process: GaussianProcess, size: int) -> bool:
    """Whether the frequencies are of the kernel's law, and a draw for the posterior may gain."""
    prior = getattr(process, "feature_prior", None)
    if prior is None or prior.is_fitted:
        return False
    own, n_rows = prior.feature_map, len(process.data)
    enough = size >= LEAST_PER_DIMENSION * own.dim and n_rows >= LEAST_DRAWN_ROWS
    return enough and own.maker is FourierFeatures


def _coupling(model: Any, process: GaussianProcess) -> Any:
    """The law that the features of a model were drawn from."""
    prior = getattr(process, "feature_prior", None)
    if prior is not None:
        return prior.feature_map.coupling
    chosen = getattr(model, "coupling_", None)
    return getattr(model, "coupling", None) if chosen is None else chosen


SAME = "same kernel"
# Rows that a kernel is fitted to, of more a random subset, and steps of the search.
MOST_ROWS, STEPS = 400, 40


def refitted(problem: DenseProblem, points: FloatArray) -> BaselinePrediction:
    """Predictions at rows (p, d) of a problem's kernel, all its hyperparameters fitted anew."""
    process = _fitted(_spectrum(problem), _rows(problem))
    return BaselinePrediction(SAME, *_law(process, points))


def transform_gain(
    problem: DenseProblem, points: FloatArray, y: FloatArray, losses: FloatArray
) -> MeanOverPoints | None:
    """What a transform of the targets gains at rows (p, d) with targets (p, 1) of losses (p,).

    Transform and hyperparameters are chosen on the training rows. None where no transform is.
    """
    data, spectrum = _rows(problem), _spectrum(problem)
    (transform,) = fit_transforms(None, data, spectrum, True, np.random.default_rng(5))
    if transform == Identity() or not np.all(transform.contains(y)):
        return None
    process = _fitted(spectrum, transformed_data(data, (transform,)))
    own = point_nlpd(transform.forward(y), *_law(process, points)) - transform.log_slope(y)
    return paired_difference(losses, own[:, 0])


def _spectrum(problem: DenseProblem) -> Spectrum:
    assert isinstance(problem.prior, StationaryPrior)
    return problem.prior.spectrum


def _rows(problem: DenseProblem) -> Data:
    own = problem.data.take(some_rows(len(problem.data), MOST_ROWS, [0, 41]))
    return Data.of(own.points, own.targets, own.relative_noise)


def _fitted(spectrum: Spectrum, data: Data) -> ExactGP:
    units = Units.of(data.targets, True, data.counts)
    evidence = ExactEvidence(spectrum, data.points, units.normalized(data.targets), data.weights)
    found = maximise_evidence(
        evidence, SearchSpace(spread_lengthscale(data.points, True), True), n_restarts=1,
        max_iterations=STEPS, rng=np.random.default_rng(0),
    )  # fmt: skip
    prior = StationaryPrior(spectrum, found.hyperparameters)
    return ExactGP.given(prior, data, units, False)


def _law(process: ExactGP, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = process.law(points, "variance")
    assert variance is not None
    return mean, np.sqrt(variance)
