"""The choice of a kernel under a likelihood, by densities of observations that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.latent import LatentGP
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.search import SearchResult
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel
from coupledgp.features.registry import make_features
from coupledgp.ground.codec import stored
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.ground.progress import tell
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import Bernoulli
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum
from coupledgp.tables.exact_members import leave_one_out
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.expression_members import PAIR_SECONDS
from coupledgp.tables.expression_search import ObservedProblem
from coupledgp.tables.lattice import MOST_AXES, TooManyWavesError
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_process import LatticeGP
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import Round
from coupledgp.tables.member_kinds import EVALUATIONS_PER_ITERATION, GRAM_SECONDS
from coupledgp.tables.weight_space import FeaturePrior

# Kernels of tables whose posteriors are exact, and of larger ones, which have Fourier features.
EXACT_KERNELS = (
    "matern-3/2 + linear + constant",
    "additive(2, matern-3/2) + constant",
    "laplace + constant",
)
FEATURE_KERNELS = ("matern-3/2", "matern-5/2")
# Kernels that have a lattice of frequencies, for tables of one to three columns.
LATTICE_SPECTRA = (GaussianSpectrum, MaternSpectrum)
# Rows up to which posteriors are exact, and entries of the factors of all functions.
EXACT_LATENT_ROWS, MOST_ENTRIES = 3000, 6 * 10**7
# Rows of the search, with its iterations, and rows by which kernels are compared.
LATENT_ROUNDS, COMPARED_ROWS = (Round(250, 25), Round(600, 6)), 1000
# Functions, of the most frequent classes, for which all kernels are compared; the best serves all.
COMPARED_FUNCTIONS = 2
# Columns with a lengthscale each; more share one, and the additive kernel has none of that.
MOST_SCALES = 50
# Seconds of one core of a cubed row: of sites with their gradient, and of a posterior.
CUBE_SECONDS = 7e-10
# Newton steps to the mode.
STEPS = 8
# Posteriors of a function on a lattice until sites are found; seconds of each, and a row of it.
LATTICE_STEPS, LATTICE_SECONDS, LATTICE_ROW_SECONDS = 25, 0.45, 6e-6
# Least variance of a function that is left out.
LEAST_VARIANCE = 1e-10
# Coupling of the frequencies.
COUPLING = "orthogonal+pnc"
# What the figures of a comparison are, in words, and most kernels that are listed.
LABELS = "Log loss of {n} labels left out, one class against all others"
OBSERVATIONS, MOST_SHOWN = "Log loss of {n} observations left out", 8
EVIDENCE = "Minus the log evidence of each of {n} observations"


@dataclass(frozen=True)
class LatentSize:
    """Size of a table: rows, encoded columns, functions, and frequencies of features.

    Attributes
    ----------
    n_rows, dim : int
        Rows and encoded columns.
    n_functions : int
        Functions, one for observations of one output, or one a class.
    n_frequencies : int
        Frequencies of features.
    cost : float
        Cost of a search under the likelihood over that under a log-concave one.
    """

    n_rows: int
    dim: int
    n_functions: int
    n_frequencies: int
    cost: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Whether posteriors are exact."""
        few = self.n_functions * self.n_rows**2 <= MOST_ENTRIES
        return self.n_rows <= EXACT_LATENT_ROWS and few

    @property
    def has_lattice(self) -> bool:
        """Whether functions are on a lattice of frequencies."""
        return self.dim <= MOST_AXES and not self.is_exact

    @property
    def kernels(self) -> tuple[str, ...]:
        """Texts of the kernels that suit the table."""
        known = EXACT_KERNELS if self.is_exact else FEATURE_KERNELS
        several = 2 <= self.dim <= MOST_SCALES
        return tuple(text for text in known if several or not text.startswith("additive"))

    def forecast(self, n_kernels: int) -> float:
        """Seconds of one core of a fit that compares so many kernels."""
        compared = self.n_functions if self.has_lattice else COMPARED_FUNCTIONS
        compared = min(self.n_functions, compared)
        n_searches = self.n_functions + (n_kernels - 1) * compared
        search = sum(
            EVALUATIONS_PER_ITERATION * part.max_iterations * self._sites(part.batch_rows)
            for part in LATENT_ROUNDS
        )
        scores = n_kernels * compared * self._sites(COMPARED_ROWS) if n_kernels > 1 else 0.0
        posterior = self._sites(self.n_rows)
        if self.has_lattice:
            scores, each = 0.0, LATTICE_SECONDS + LATTICE_ROW_SECONDS * self.n_rows
            posterior = n_kernels * LATTICE_STEPS * each
        elif not self.is_exact:
            posterior = STEPS * self.n_rows * (2 * self.n_frequencies) ** 2 * GRAM_SECONDS
        return self.cost * n_searches * search + scores + self.n_functions * posterior

    def _sites(self, n_rows: int) -> float:
        n = min(n_rows, self.n_rows)
        return n**2 * self.dim * PAIR_SECONDS + n**3 * CUBE_SECONDS


def plan_kernels(
    size: LatentSize, budget: float | None, kernel: Kernel | None
) -> tuple[Kernel, ...]:
    """Kernels that a fit within a budget compares: all that suit the table, or the first alone.

    Raises
    ------
    InvalidInputError
        Not even one kernel is within the budget; the message gives the forecast.
    """
    suited = tuple(map(parse_kernel, size.kernels)) if kernel is None else (kernel,)
    for kernels in (suited, suited[:1]):
        seconds = size.forecast(len(kernels))
        if budget is None or seconds <= budget:
            return kernels
    raise InvalidInputError(
        f"budget: {size.n_functions} functions of {size.n_rows} rows of {size.dim} columns would "
        f"take about {seconds:.0f} s of one core, more than the budget of {budget:g} s; raise the "
        "budget, or fit on a sample of the rows"
    )


@stored
@dataclass(frozen=True)
class TriedKernel:
    """A kernel that was compared with others.

    Attributes
    ----------
    name : str
        The kernel.
    log_loss : float or None
        Mean of minus the log density of an observation that is left out, nats: of classes, of one
        class against all others. None for a kernel that was the only one.
    is_chosen : bool
        Whether it is the model's.
    """

    name: str
    log_loss: float | None
    is_chosen: bool


@stored
@dataclass(frozen=True)
class KernelChoice(ExplainedChoice):
    """The kernels that were tried for functions under a likelihood.

    Attributes
    ----------
    kernels : tuple of TriedKernel
        The kernels.
    n_scored : int
        Observations that were left out one at a time.
    subject : str
        What the figures are, in words, of {n} observations.
    """

    kernels: tuple[TriedKernel, ...]
    n_scored: int
    subject: str = LABELS

    def explain(self) -> str:
        """A line for each kernel, the chosen one first, then the best ones."""
        if len(self.kernels) == 1:
            return f"Kernel: {self.kernels[0].name}."
        ranked = sorted(self.kernels, key=lambda each: (not each.is_chosen, each.log_loss))
        lines = [f"{self.subject.replace('{n}', str(self.n_scored))}:"]
        lines += [f"{each.log_loss:8.4f}  {each.name}" for each in ranked[:MOST_SHOWN]]
        if len(ranked) > MOST_SHOWN:
            lines.append(f"and {len(ranked) - MOST_SHOWN} more")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """Fits a function for each output and chooses their kernel.

    Attributes
    ----------
    table : LocalProblem
        Rows and observations (n, k), such as indicators of k classes; the offset of its units is
        the prior mean of the functions, their scale the functions' unit.
    likelihood : Likelihood
        Law of an observation given its function.
    n_frequencies : int
        Frequencies of features, where a posterior is not exact.
    is_exact : bool
        Whether posteriors are exact.
    """

    table: LocalProblem
    likelihood: Likelihood
    n_frequencies: int
    is_exact: bool

    def choose(self, kernels: Sequence[Kernel]) -> tuple[LatentGP, KernelChoice, int, bool]:
        """The process of the kernel of least log loss, the choice, evaluations and convergence."""
        targets = self.table.data.targets
        order = np.argsort(
            -np.average(targets, axis=0, weights=self.table.data.counts), kind="stable"
        )
        several = len(kernels) > 1
        by_evidence = several and all(map(self._has_lattice, kernels))
        left_out = several and not by_evidence
        compared = order[:COMPARED_FUNCTIONS] if left_out else order[:0]
        searches = {
            (kernel, c): self._search(kernel, c) for kernel in kernels for c in compared.tolist()
        }
        losses = np.full(len(kernels), np.nan)
        for k, kernel in enumerate(kernels if left_out else ()):
            own = [self._log_loss(kernel, c, searches[kernel, c]) for c in compared.tolist()]
            losses[k] = np.mean(own)
        processes: list[LatentGP] = []
        for kernel in kernels if by_evidence else (kernels[int(np.argmin(losses))],):
            for c in range(targets.shape[1]):
                searches[kernel, c] = searches.get((kernel, c)) or self._search(kernel, c)
            found = [searches[kernel, c] for c in range(targets.shape[1])]
            tell(f"posterior, {kernel}")
            functions = [self._function(kernel, c, search) for c, search in enumerate(found)]
            law = self._problem(kernel, 0).likelihood_of(found[0].point)
            processes.append(LatentGP.given(functions, law, self.table.data))
        if by_evidence:
            losses = np.array([-process.log_evidence / len(targets) for process in processes])
        place = int(np.argmin(losses))
        best, process = kernels[place], processes[place if by_evidence else 0]
        found = [searches[best, c] for c in range(targets.shape[1])]
        tried = tuple(
            TriedKernel(str(kernel), float(loss) if several else None, kernel == best)
            for kernel, loss in zip(kernels, losses, strict=True)
        )
        choice = KernelChoice(tried, len(compared) * min(COMPARED_ROWS, len(targets)))
        law = process.likelihood
        if by_evidence:
            choice = replace(choice, n_scored=len(targets), subject=EVIDENCE)
        elif not isinstance(law, Bernoulli):
            choice = replace(choice, subject=OBSERVATIONS)
        every = searches.values()
        n_evaluations = sum(search.n_evaluations for search in every)
        return process, choice, n_evaluations, all(search.converged for search in found)

    def _problem(self, kernel: Kernel, output: int) -> ObservedProblem:
        """The table of one output."""
        table, data = self.table, self.table.data
        own = Data.of(data.points, data.targets[:, [output]], weights=data.weights)
        units = Units(table.units.offset[[output]], table.units.scale[[output]])
        return ObservedProblem(replace(table, data=own, units=units), kernel, self.likelihood)

    def _search(self, kernel: Kernel, output: int) -> SearchResult[FloatArray]:
        tell(f"function {output + 1}, {kernel}")
        return self._problem(kernel, output).search(LATENT_ROUNDS)

    def _log_loss(self, kernel: Kernel, output: int, found: SearchResult[FloatArray]) -> float:
        """Log loss of observations that are left out, of at most `COMPARED_ROWS` rows."""
        densities, data = self._left_out(kernel, output, found)
        return float(np.average(-densities, weights=data.counts))

    def _left_out(
        self, kernel: Kernel, output: int, found: SearchResult[FloatArray]
    ) -> tuple[FloatArray, Data]:
        """Log densities (m,) of observations that are left out, and these."""
        problem = self._problem(kernel, output)
        data = problem.table.data.take(problem.normal.rows(COMPARED_ROWS, 0))
        function = problem.prior_process(found.point)
        process = LatentGP.given([function], problem.likelihood_of(found.point), data)
        return left_out_log_densities(process), data

    def _function(
        self, kernel: Kernel, output: int, found: SearchResult[FloatArray]
    ) -> NormalizedProcess:
        """A process that carries the prior of the function of an output."""
        own = self._problem(kernel, output).prior_process(found.point)
        if self.is_exact:
            return own
        if self._has_lattice(kernel):
            try:
                return self._on_lattice(kernel, output, found, own)
            except TooManyWavesError as error:
                tell(f"Fourier features, since {error}")
        if not isinstance(kernel, Spectrum):
            raise InvalidInputError(
                f"kernel: expected a kernel with Fourier features, such as 'matern-3/2', on more "
                f"than {EXACT_LATENT_ROWS} rows, got {str(kernel)!r}"
            )
        table, hyper = self.table, own.hyperparameters
        rng = np.random.default_rng([table.seed, 7])
        features = make_features(
            "fourier", len(table.center), self.n_frequencies, COUPLING, kernel, rng
        )
        scales = Hyperparameters(hyper.lengthscale, hyper.outputscale, 1.0)
        prior = FeaturePrior(features, table.center, scales)
        return one_row(prior, table.data, float(table.units.offset[output]))

    def _has_lattice(self, kernel: Kernel) -> bool:
        """Whether functions of a kernel are on a lattice of frequencies."""
        few = len(self.table.center) <= MOST_AXES
        return few and not self.is_exact and isinstance(kernel, LATTICE_SPECTRA)

    def _on_lattice(
        self,
        spectrum: Kernel,
        output: int,
        found: SearchResult[FloatArray],
        own: ExactGP,
    ) -> LatticeGP:
        """The prior of the function of an output on a lattice, for tables of few columns.

        Its noise, the unit of that of sites, is the mean of theirs on some rows: waves that stand
        out of it are kept.
        """
        assert isinstance(spectrum, Spectrum)
        problem = self._problem(spectrum, output)
        some = problem.table.data.take(problem.normal.rows(LATENT_ROUNDS[0].batch_rows, 0))
        given = LatentGP.given([own], problem.likelihood_of(found.point), some).functions[0]
        relative = given.data.relative_noise
        assert relative is not None
        noise = float(given.noise.variance / np.mean(1.0 / relative))
        scales = Hyperparameters(
            own.hyperparameters.lengthscale, own.hyperparameters.outputscale, noise
        )
        data, units = self.table.data, own.units
        trend = TrendColumns.of(np.arange(data.points.shape[1]), False, data.points, data.counts)
        return LatticeGP.given(
            spectrum, scales, trend, own.data, units, False, seed=self.table.seed
        )


def one_row(prior: StationaryPrior | FeaturePrior, data: Data, offset: float) -> NormalizedProcess:
    """A process of the prior given one row, which carries prior and units to a `LatentGP`."""
    row = Data.of(data.points[:1], np.full((1, 1), offset))
    units = Units(np.array([offset]), np.ones(1))
    if isinstance(prior, FeaturePrior):
        return prior.given(row, units, False)
    return ExactGP.given(prior, row, units, False)


def left_out_log_densities(process: LatentGP) -> FloatArray:
    """Log density (n,) of each observation of one exact function, given all others.

    The law of f without an observation is its posterior with that observation's site divided out:
    the sites of others stay as they are (Rasmussen and Williams 2006, section 3.6.1).
    """
    (function,) = process.functions
    assert isinstance(function, ExactGP)
    pseudo = function.data
    scores = leave_one_out(function, function.units.normalized(pseudo.targets))
    assert pseudo.relative_noise is not None
    noise = function.noise.variance * pseudo.relative_noise
    variance = np.maximum(scores.variances - noise, LEAST_VARIANCE)[:, None]
    mean = scores.means + function.units.offset
    weights = process.rows.weights
    if weights is not None and weights.exposure is not None:
        mean = mean + process.likelihood.log_exposure(weights.exposure)[:, None]
    return process.likelihood.marginal_log_density(process.rows.targets, mean, variance)[:, 0]
