"""How a sparse-spectrum regressor fits its frequencies: to a posterior, the evidence or a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.search.optimize import Hyperparameters, SearchSpace
from coupledgp.inference.spectra.evidence import SpectrumEvidence
from coupledgp.inference.spectra.members import (
    EvidenceSettings,
    HeldOut,
    Member,
    fit_members,
    hold_out,
    log_densities,
)
from coupledgp.inference.spectra.mixture import mixture_weights
from coupledgp.inference.spectra.posterior_kl import Teacher
from coupledgp.inference.spectra.training import (
    KLSettings,
    QueryPoints,
    SpectrumFit,
    fit_loss,
    fit_posterior_kl,
)
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.models.stack import Stack
from coupledgp.progress import Progress
from coupledgp.validation import check_choice, check_positive_int

SPECTRA = ("sampled", "fitted")
OBJECTIVES = ("evidence", "posterior-kl")
# Fewer rows leave none to hold out.
LEAST_ROWS = 10
# Held-out rows that members are credited with beforehand: of few rows, which tell little of who is
# over-confident, the sampled spectrum keeps a good part.
SAMPLED_COUNT, ONE_FACTOR_COUNT, FITTED_COUNT = 4.0, 2.0, 1.0


def check_fitting(model: Any, n_rows: int) -> None:
    """Refuse what cannot be fitted, before any work."""
    check_choice(model.frequencies, SPECTRA, "frequencies")
    if not callable(model.objective):
        check_choice(model.objective, OBJECTIVES, "objective")
    check_positive_int(model.teacher_rows, "teacher_rows", minimum=2)
    check_positive_int(model.batch_rows, "batch_rows", minimum=LEAST_ROWS)
    if model.frequencies == "sampled":
        if model.objective != "evidence":
            raise InvalidInputError(
                f"objective: {model.objective!r} moves the frequencies, which needs "
                "frequencies='fitted', got frequencies='sampled'"
            )
        return
    if model.features != "fourier":
        raise InvalidInputError(
            "frequencies: only those of features='fourier' can be fitted, got "
            f"features={model.features!r}"
        )
    if n_rows < LEAST_ROWS:
        raise InvalidInputError(
            f"X: expected at least {LEAST_ROWS} rows to fit frequencies to, got {n_rows}"
        )


def check_use_of_queries(model: Any) -> None:
    """Refuse query points where nothing is compared at them."""
    if model.frequencies != "fitted" or model.objective != "posterior-kl":
        raise InvalidInputError(
            "queries: expected none unless frequencies='fitted' and objective='posterior-kl', got "
            f"frequencies={model.frequencies!r}, objective={model.objective!r}"
        )


def fit_frequencies(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Progress,
) -> None:
    """Set the model's feature map and hyperparameters, and its members if there are several."""
    if model.objective == "evidence":
        _fit_evidence(model, problem, space, rng, report)
        return
    if model.objective == "posterior-kl":
        fit = _fit_posterior(model, problem, space, rng, report)
    else:
        model._take(model._maximise(problem, space, rng, report))
        fit = fit_loss(model.objective, model.features_, KLSettings(), report)
    model.features_ = _map(model.features_, fit.frequencies, fit.weights)
    model.spectrum_start_loss_, model.spectrum_loss_ = fit.start_loss, fit.loss


def _fit_posterior(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Progress,
) -> SpectrumFit:
    """Hyperparameters of an exact GP on a subset, and a spectrum fitted to its posterior."""
    stream, n = problem.stream, problem.n_rows
    size = min(n, model.teacher_rows)
    rows = np.sort(rng.choice(n, size, replace=False))
    inputs = stream.X[rows] - stream.center
    further = model._queries
    if further is None:
        left = np.setdiff1d(np.arange(n), rows)
        # Unlabelled points need not be many: they are drawn with replacement.
        further = stream.X[rng.choice(left, min(len(left), 20 * size), replace=False)]
    targets, spectrum = problem.targets[rows], stream.feature_map.spectrum
    exact = ExactEvidence(spectrum, inputs, targets)
    model._take(model._maximise(exact, space, rng, report))
    teacher = Teacher(inputs, targets, spectrum, model._hyperparameters)
    queries = QueryPoints(inputs, further - stream.center, rng)

    def draw() -> FeatureMap:
        shape = stream.feature_map.dim, stream.feature_map.n_frequencies
        return FourierFeatures(*shape, stream.feature_map.coupling, spectrum, rng)

    return fit_posterior_kl(teacher, queries, draw, KLSettings(), report)


def _fit_evidence(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Progress,
) -> None:
    """Sampled spectrum, fitted ones, and the weights of their mixture.

    The sampled members have the hyperparameters of all rows, the first is the very model that
    `frequencies="sampled"` gives; the held-out rows flatter them a little for that.
    """
    found = model._maximise(problem, space, rng, report)
    model._take(found)
    stream = problem.stream
    drawn = [_member(stream.feature_map, model._hyperparameters)]
    if space.ard and space.base.size > 1 and "lengthscale" in space.free:
        drawn += _one_factor(model, problem, space, found.log_evidence, drawn[0], rng, report)
    train, held = hold_out(problem.n_rows, rng)
    centred = SpectrumEvidence(stream.X[train] - stream.center, problem.targets[train])
    held_out = HeldOut(stream.X[held] - stream.center, problem.targets[held])
    settings = EvidenceSettings(batch_rows=model.batch_rows)
    spectrum = stream.feature_map.spectrum
    fitted = fit_members(centred, held_out, drawn[0], space, spectrum, settings, rng, report)
    members = [*drawn, *fitted]
    report("weights of the mixture")
    densities = np.array([log_densities(centred, m, held_out) for m in members])
    credit = [SAMPLED_COUNT, ONE_FACTOR_COUNT][: len(drawn)] + [FITTED_COUNT] * len(fitted)
    weights = mixture_weights(densities, credit)
    models = [_model(model, member) for member in members]
    models[0].features_ = model.features_
    model._stack = Stack(models, weights)


def _one_factor(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    log_evidence: float,
    sampled: Member,
    rng: np.random.Generator,
    report: Progress,
) -> list[Member]:
    """The sampled spectrum with one free factor on all lengthscales, unless evidence refutes it.

    The evidence overfits many lengthscales to few rows: a member that cannot is a hedge. It is left
    out where its evidence is lower by `(d - 1) log n` or more, twice Schwarz's criterion: there it
    would only cost.
    """
    base = space.base if space.lengthscale is None else space.lengthscale
    narrow = replace(space, ard=False, base=base)
    result = model._maximise(problem, narrow, rng, lambda text: report("one factor: " + text))
    if log_evidence - result.log_evidence >= (base.size - 1) * np.log(problem.n_rows):
        return []
    return [replace(sampled, hyperparameters=result.hyperparameters)]


def _member(feature_map: FeatureMap, hyperparameters: Hyperparameters) -> Member:
    frequencies = feature_map.frequencies.double()
    weights = feature_map.weights
    m = len(frequencies)
    equal = frequencies.new_full((m,), 1 / m)
    return Member(frequencies, equal if weights is None else weights.double(), hyperparameters)


def _model(model: Any, member: Member) -> Any:
    """A model of one member, its posterior to come."""
    other = model._sibling()
    other._stack = None
    other._hyperparameters = member.hyperparameters
    other.features_ = _map(model.features_, member.frequencies, member.weights)
    return other


def _map(like: FeatureMap, frequencies: torch.Tensor, weights: torch.Tensor) -> FourierFeatures:
    """Feature map of a fitted spectrum, in the dtype of another map."""
    return FourierFeatures.from_frequencies(
        frequencies.to(like.frequencies.dtype), like.coupling, like.spectrum, weights
    )
