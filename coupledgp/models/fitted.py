"""How a sparse-spectrum regressor fits its frequencies: to a posterior, the evidence or a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.inference.exact_evidence import ExactEvidence
from coupledgp.inference.feature_evidence import FeatureEvidence
from coupledgp.inference.fitted_evidence import SpectrumEvidence
from coupledgp.inference.fitted_members import (
    EvidenceSettings,
    HeldOut,
    Member,
    fit_members,
    hold_out,
    log_densities,
)
from coupledgp.inference.fitted_posterior import Teacher
from coupledgp.inference.fitted_stack import mixture_weights
from coupledgp.inference.fitted_training import (
    KLSettings,
    QueryPoints,
    SpectrumFit,
    fit_loss,
    fit_posterior_kl,
)
from coupledgp.inference.optimize import Report, SearchSpace
from coupledgp.models.base import StationaryGPRegressor
from coupledgp.models.stack import Stack
from coupledgp.validation import check_choice, check_positive_int

SPECTRA = ("sampled", "fitted")
OBJECTIVES = ("evidence", "posterior-kl")
# Fewer rows leave none to hold out.
LEAST_ROWS = 10
# Held-out rows that the sampled spectrum is credited with, the others with one: of few rows, which
# tell little of who is over-confident, it keeps the larger part.
SAMPLED_COUNT = 10.0


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


def fit_frequencies(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Report,
) -> None:
    """Set the model's feature map and hyperparameters, and its members if there are several."""
    if model.objective == "evidence":
        _fit_evidence(model, problem, space, rng, report)
        return
    if model.objective == "posterior-kl":
        fit = _fit_posterior(model, problem, space, rng, report)
    else:
        StationaryGPRegressor._optimise(model, problem, space, rng, report)
        fit = fit_loss(model.objective, model.features_, KLSettings(), report)
    model.features_ = _map(model.features_, fit.frequencies, fit.weights)
    model.spectrum_start_loss_, model.spectrum_loss_ = fit.start_loss, fit.loss


def _fit_posterior(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Report,
) -> SpectrumFit:
    """Hyperparameters of an exact GP on a subset, and a spectrum fitted to its posterior."""
    stream, n = problem.stream, problem.n_rows
    size = min(n, model.teacher_rows)
    rows = np.sort(rng.choice(n, size, replace=False))
    further = np.setdiff1d(np.arange(n), rows)
    # Unlabelled points need not be many: they are drawn with replacement.
    further = rng.choice(further, min(len(further), 20 * size), replace=False)
    inputs = stream.X[rows] - stream.center
    targets, spectrum = problem.targets[rows], stream.feature_map.spectrum
    exact = ExactEvidence(spectrum, inputs, targets)
    StationaryGPRegressor._optimise(model, exact, space, rng, report)
    teacher = Teacher(inputs, targets, spectrum, model._hyperparameters)
    queries = QueryPoints(inputs, stream.X[further] - stream.center, rng)

    def draw() -> FeatureMap:
        shape = stream.feature_map.dim, stream.feature_map.n_frequencies
        return FourierFeatures(*shape, stream.feature_map.coupling, spectrum, rng)

    return fit_posterior_kl(teacher, queries, draw, KLSettings(), report)


def _fit_evidence(
    model: Any,
    problem: FeatureEvidence,
    space: SearchSpace,
    rng: np.random.Generator,
    report: Report,
) -> None:
    """Sampled spectrum, fitted ones, and the weights of their mixture.

    The sampled member has the hyperparameters of all rows, the very model that
    `frequencies="sampled"` gives; the held-out rows flatter it a little for that.
    """
    StationaryGPRegressor._optimise(model, problem, space, rng, report)
    train, held = hold_out(problem.n_rows, rng)
    stream = problem.stream
    sampled = _member(stream.feature_map, model._hyperparameters)
    centred = SpectrumEvidence(stream.X[train] - stream.center, problem.targets[train])
    held_out = HeldOut(stream.X[held] - stream.center, problem.targets[held])
    settings = EvidenceSettings(batch_rows=model.batch_rows)
    spectrum = stream.feature_map.spectrum
    fitted = fit_members(centred, held_out, sampled, space, spectrum, settings, rng, report)
    members = [sampled, *fitted]
    report("weights of the mixture")
    densities = np.array([log_densities(centred, m, held_out) for m in members])
    weights = mixture_weights(densities, [SAMPLED_COUNT] + [1.0] * len(fitted))
    models = [_model(model, member) for member in members]
    models[0].features_ = model.features_
    model._stack = Stack(models, weights)


def _member(feature_map: FeatureMap, hyperparameters: Any) -> Member:
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
