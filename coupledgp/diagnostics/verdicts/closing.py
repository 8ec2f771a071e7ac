"""What would bring an approximation closer to the exact process: measured, not guessed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.couplings.frequencies.posterior import PosteriorLaw
from coupledgp.couplings.frequencies.registry import describe_coupling
from coupledgp.diagnostics.scoring.laws import Law, law_of_process
from coupledgp.diagnostics.scoring.measures import kl_per_point
from coupledgp.diagnostics.scoring.scores import nlpd
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.errors import CoupledGPError, HeavyTailWarning
from coupledgp.features import FourierFeatures
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.inference.spectra.posterior_draw import (
    LEAST_DRAWN_ROWS,
    LEAST_PER_DIMENSION,
)
from coupledgp.random import FloatArray

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
