"""Fitted models of a table, to be mixed: their hyperparameters and their scores on rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from coupledgp.gp.additive import ExactAdditiveGP
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.neighbours.evidence import REFUSED
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray
from coupledgp.search.tables.local import LocalFitter, LocalSearch


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A model with draws of its hyperparameters.

    Attributes
    ----------
    name : str
        Name of the model.
    priors : tuple of LocalPrior
        The prior of each draw; one for the hyperparameters of greatest posterior.
    shares : FloatArray (q,)
        Weights of the draws, of sum one.
    log_densities : FloatArray (b,)
        Log density of each row that was left out, in normalised units.
    variance : float
        Mean predictive variance of these rows.
    exact : bool
        Whether its process is the dense one.
    n_evaluations : int
        Evaluations of the evidence.
    """

    name: str
    priors: tuple[LocalPrior, ...]
    shares: FloatArray
    log_densities: FloatArray
    variance: float
    exact: bool
    n_evaluations: int

    def broader(self, noise: float) -> tuple[LocalPrior, ...]:
        """The priors of the member with another noise variance."""
        return tuple(prior.with_noise(noise) for prior in self.priors)


@dataclass(frozen=True)
class MemberChoice:
    """A member of the mixture in a report: its name, weight and score.

    Attributes
    ----------
    name : str
        Name of the model.
    weight : float
        Its weight in the mixture; zero for one that was left out.
    log_density : float
        Mean log density of the rows that were left out, nats, targets of unit variance.
    """

    name: str
    weight: float
    log_density: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The members of a mixture with their weights and scores.

    Attributes
    ----------
    members : tuple of MemberChoice
        All models that were fitted.
    log_density : float
        Mean log density under the mixture of the rows that were left out.
    n_scored : int
        Number of these rows.
    scored_by : str
        How they were left out.
    n_evaluations : int
        Evaluations of the evidence of all models.
    """

    members: tuple[MemberChoice, ...]
    log_density: float
    n_scored: int
    scored_by: str
    n_evaluations: int


# Entry of the noise in a vector of hyperparameters, the first entry in every structure.
NOISE_PLACE = 0


class MemberPosterior(VectorObjective):
    """Minus the log posterior of the hyperparameters of a model given all rows, nats.

    A known noise is no variable: its entry has a standard normal law that nothing depends on.

    Parameters
    ----------
    fitter
        The table.
    found
        The search, by whose lengthscales neighbours are near.
    """

    def __init__(self, fitter: LocalFitter, found: LocalSearch) -> None:
        everything = np.arange(len(fitter.rows))
        self.evidence = fitter.evidence(found.structure, everything, found.vector)
        self.scale = self.evidence.n_total * fitter.rows.targets.shape[1]

    def box(self, start: FloatArray) -> Box:
        return self.evidence.box(start)

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient (q,); a point without an evidence has no gradient."""
        kept = self.with_known_noise(variables)
        value, gradient = self.evidence.value_and_gradient(kept)
        if value >= REFUSED:
            return value, gradient
        value, gradient = self.scale * value, self.scale * gradient
        if self.evidence.structure.known_noise is not None:
            gap = variables[NOISE_PLACE] - kept[NOISE_PLACE]
            value += 0.5 * gap**2
            gradient[NOISE_PLACE] = gap
        return value, gradient

    def with_known_noise(self, vectors: FloatArray) -> FloatArray:
        """Vectors (..., p) of hyperparameters, with the known noise in its entry if any."""
        known = self.evidence.structure.known_noise
        if known is None:
            return vectors
        kept = vectors.copy()
        kept[..., NOISE_PLACE] = np.log(known)
        return kept


def leave_one_out(process: ExactAdditiveGP) -> tuple[FloatArray, float]:
    """Log densities (n,) of the rows, each given all other rows, and their mean variance.

    `mu_i = y_i - alpha_i / P_ii` and `1 / P_ii` with `P = (K + s R)^-1`, normalised units
    (Rasmussen and Williams, 2006, section 5.4.2).
    """
    precision = torch.cholesky_inverse(process.factor).diagonal().numpy()
    gaps = process.alpha.numpy() / precision[:, None]
    variance = 1 / precision[:, None]
    zeros = np.zeros_like(gaps)
    return gaussian_log_density(gaps, zeros, variance), float(variance.mean())


def name_of(structure: Structure) -> str:
    """Name of a model: its local kernel, and the number of its fitted frequencies."""
    parts = [] if structure.spectrum is None else [f"local, {structure.spectrum}"]
    if structure.frequencies is not None:
        parts.append(f"{len(structure.frequencies)} fitted frequencies")
    return " and ".join(parts)
