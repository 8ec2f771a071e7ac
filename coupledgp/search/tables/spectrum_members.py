"""Spectra fitted to the evidence, several from two trajectories, for a mixture of their posteriors.

The evidence as a function of the frequencies overfits: its maximum predicts with variances that are
too small. Three measures keep the predictions honest; the last one suffices alone.

1. Jitter: along one trajectory the evidence is that of frequencies moved by fresh noise, whose
   scale falls in stages, so that only optima wide enough to survive it are entered; the spectral
   density is a prior of the frequencies.
2. From each stage, and from a second trajectory on the plain evidence, the state is kept that
   predicts best on held-out rows.
3. These states and the sampled spectrum are members of a mixture, whose weights the held-out rows
   decide (`inference.spectra`). No member needs to be right: one that is over-confident loses
   weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.descent import Check, constant, descend
from coupledgp.ground.progress import Progress
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import Hyperparameters, RowWeights
from coupledgp.inference.spectra.evidence import SpectrumEvidence, log_evidence_of
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray
from coupledgp.search.profile import ROUNDINGS
from coupledgp.search.starts import SearchSpace
from coupledgp.search.tables.spectrum_descent import LEARNING_RATE
from coupledgp.spectra import Spectrum


@dataclass(frozen=True)
class JitterStage:
    """A run of `n_steps` steps; `jitter` is the standard deviation of noise on the frequencies."""

    n_steps: int
    jitter: float


@dataclass(frozen=True)
class EvidenceSettings:
    """Settings of the fits of spectra to the evidence.

    Parameters
    ----------
    annealed
        Stages of the trajectory with jitter and a prior.
    plain
        Stages of the trajectory on the evidence alone.
    batch_rows
        Largest number of rows in one step; of a longer table each step draws rows anew.
    """

    annealed: tuple[JitterStage, ...] = (
        JitterStage(60, 0.4),
        JitterStage(60, 0.2),
        JitterStage(50, 0.1),
        JitterStage(50, 0.0),
    )
    plain: tuple[JitterStage, ...] = (JitterStage(150, 0.0),)
    batch_rows: int = 8192

    @property
    def n_steps(self) -> int:
        """Number of steps of all stages."""
        return sum(stage.n_steps for stage in (*self.annealed, *self.plain))


@dataclass(frozen=True)
class Member:
    """A spectrum of a mixture, with hyperparameters of its own.

    Attributes
    ----------
    frequencies : Tensor (m, d)
        In units of one over the lengthscale.
    weights : Tensor (m,)
        Positive, of sum one.
    hyperparameters : Hyperparameters
    """

    frequencies: Tensor
    weights: Tensor
    hyperparameters: Hyperparameters


@dataclass(frozen=True)
class UnseenRows:
    """Rows that training does not see.

    Attributes
    ----------
    X : FloatArray (b, d)
        Inputs, centred as those of the training rows.
    targets : FloatArray (b, k)
        Normalised targets.
    weights : RowWeights or None
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    X: FloatArray
    targets: FloatArray
    weights: RowWeights | None = None


def spectral_penalty(spectrum: Spectrum, frequencies: Tensor) -> Tensor:
    """Minus the log spectral density of frequencies (m, d), summed, without its constant."""
    return -spectrum.log_density(frequencies.square().sum(1), frequencies.shape[1])


class Trajectory:
    """Adam on frequencies, log weights and log hyperparameters, from one start.

    Parameters
    ----------
    problem
        Evidence on the training rows.
    held_out
        Rows by which states are judged.
    start
        State from which it starts; its device is that of all tensors.
    space
        Free hyperparameters and their bounds.
    spectrum
        Spectrum whose density is the prior of the frequencies, or None for no prior.
    rng
        Source of jitter and batches.
    batch_rows
        Largest number of rows in one step.
    """

    def __init__(
        self,
        problem: SpectrumEvidence,
        held_out: UnseenRows,
        start: Member,
        space: SearchSpace,
        spectrum: Spectrum | None,
        rng: np.random.Generator,
        batch_rows: int,
    ) -> None:
        self.problem, self.held_out, self.space = problem, held_out, space
        self.spectrum, self.rng, self.batch_rows = spectrum, rng, batch_rows
        hyper = start.hyperparameters
        floor = torch.finfo(torch.float64).eps
        self.frequencies = start.frequencies.double().clone()
        self.base = self._tensor(hyper.lengthscale)
        self.log_weights = start.weights.double().clamp_min(floor).log()
        self.log_weights -= self.log_weights.mean()
        self.log_lengthscale = self.base.new_zeros(space.n_lengthscales)
        self.log_outputscale, self.log_noise = self.base.new_tensor(
            [hyper.outputscale, hyper.noise]
        ).log()
        self.judged = problem if problem.n_rows <= batch_rows else self._batch()

    def _tensor(self, array: FloatArray) -> Tensor:
        """An array as a tensor of the same shape, on the device of the frequencies."""
        return torch.as_tensor(array, device=self.frequencies.device)

    def _batch(self) -> SpectrumEvidence:
        if self.problem.n_rows <= self.batch_rows:
            return self.problem
        rows = self.rng.choice(self.problem.n_rows, self.batch_rows, replace=False)
        return self.problem.subset(np.sort(rows))

    def run(self, stage: JitterStage, report: Progress) -> Member:
        """Take the steps of a stage; return its best state on the held-out rows."""
        names = ["frequencies", "log_weights"]
        names += [f"log_{name}" for name in sorted(self.space.free)]

        def show(check: Check) -> None:
            report(f"loss {check.loss:.4f}, held-out NLPD {check.score:.4f}")

        found = descend(
            [getattr(self, name) for name in names],
            lambda: self.loss(stage.jitter),
            self.score,
            stage.n_steps,
            constant(LEARNING_RATE),
            keep_start=False,
            after_step=self._keep_in_bounds,
            on_check=show,
        )
        return self.state(**dict(zip(names, found.best, strict=True)))

    def loss(self, jitter: float) -> Tensor:
        """Minus the log evidence of one batch and the log prior, per target, a tensor ()."""
        frequencies = self.frequencies
        if jitter:
            noise = self.rng.standard_normal(tuple(frequencies.shape))
            frequencies = frequencies + jitter * self._tensor(noise)
        factors = self.space.of_dimensions(self.log_lengthscale.exp())
        scaled = frequencies / (self.base * factors)
        problem = self._batch()
        value = log_evidence_of(
            problem, scaled, self.log_weights.log_softmax(0), self.log_outputscale, self.log_noise
        )
        loss = -value / (problem.n_rows * problem.n_outputs)
        if self.spectrum is None:
            return loss
        penalty = spectral_penalty(self.spectrum, frequencies)
        penalty = penalty + 0.5 * self.log_weights.square().sum()
        return loss + penalty / (self.problem.n_rows * self.problem.n_outputs)

    def _keep_in_bounds(self) -> None:
        """Move the variances into their bounds, the noise above the Gram matrix's rounding."""
        with torch.no_grad():
            bounds, size = self.space.bounds, 2 * len(self.frequencies)
            if "outputscale" in self.space.free:
                self.log_outputscale.clamp_(*np.log(bounds.outputscale))
            if "noise" in self.space.free:
                rounding = ROUNDINGS * size * np.finfo(np.float64).eps * self.problem.n_rows
                least = max(bounds.noise[0], rounding * float(self.log_outputscale.exp()))
                self.log_noise.clamp_(float(np.log(least)), float(np.log(bounds.noise[1])))

    def state(self, **values: Tensor) -> Member:
        """The present state, with other values of the variables that are named."""

        def value(name: str) -> Tensor:
            return values.get(name, getattr(self, name)).detach()

        factors = self.space.of_dimensions(value("log_lengthscale").exp())
        return Member(
            value("frequencies").clone(),
            value("log_weights").softmax(0),
            Hyperparameters(
                (self.base * factors).cpu().numpy().copy(),
                float(value("log_outputscale").exp()),
                float(value("log_noise").exp()),
            ),
        )

    def score(self) -> float:
        """Mean negative log density of the held-out rows, each alone."""
        densities = log_densities(self.judged, self.state(), self.held_out)
        weights = self.held_out.weights
        return -float(np.average(densities, weights=None if weights is None else weights.counts))


def log_densities(problem: SpectrumEvidence, member: Member, rows: UnseenRows) -> FloatArray:
    """Log predictive density (b,) of rows given the problem's rows, under one member."""
    hyper = member.hyperparameters
    frequencies = member.frequencies.double()
    frequencies = frequencies / torch.as_tensor(hyper.lengthscale, device=frequencies.device)
    log_weights = member.weights.double().clamp_min(torch.finfo(torch.float64).tiny).log()
    posterior = problem.posterior(frequencies, log_weights, hyper.outputscale, hyper.noise)
    mean, variance = predict(problem.features(frequencies, log_weights, rows.X), posterior)
    noise = hyper.noise if rows.weights is None else hyper.noise * rows.weights.noise[:, None]
    return gaussian_log_density(rows.targets, mean, variance + noise)


def predict(features: Tensor, posterior: WeightPosterior) -> tuple[FloatArray, FloatArray]:
    """Mean (b, k) and variance (b, 1) of f at features (b, M)."""
    variance = posterior.root(features).square().sum(1, keepdim=True)
    return posterior.predict(features).cpu().numpy(), variance.cpu().numpy()


def fit_members(
    problem: SpectrumEvidence,
    held_out: UnseenRows,
    start: Member,
    space: SearchSpace,
    spectrum: Spectrum,
    settings: EvidenceSettings,
    rng: np.random.Generator,
    report: Progress,
) -> list[Member]:
    """Fit the members of the mixture besides the sampled spectrum.

    Parameters
    ----------
    problem
        Evidence on the training rows.
    held_out
        The other rows, which judge states.
    start
        The sampled spectrum with its hyperparameters, where both trajectories start.
    space
        Free hyperparameters and bounds.
    spectrum
        Spectrum whose density is the prior of the jittered trajectory.
    settings
        Stages and batches.
    rng
        Source of jitter and batches.
    report
        Called with a line of progress.
    """
    members: list[Member] = []
    done = 0
    for stages, prior in ((settings.annealed, spectrum), (settings.plain, None)):
        trajectory = Trajectory(problem, held_out, start, space, prior, rng, settings.batch_rows)
        for stage in stages:
            done += stage.n_steps
            title = f"spectrum, to step {done} of {settings.n_steps}: "
            members.append(trajectory.run(stage, _prefixed(report, title)))
    return members


def _prefixed(report: Progress, title: str) -> Progress:
    return lambda text: report(title + text)


def hold_out(n_rows: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of the rows to train on and of a tenth to judge by, each sorted."""
    order = rng.permutation(n_rows)
    n_held = max(1, round(n_rows / 10))
    return np.sort(order[n_held:]), np.sort(order[:n_held])
