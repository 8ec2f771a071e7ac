"""The choice of a kernel for classes, by chances of labels that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.expressions import Kernel
from coupledgp.features.registry import make_features
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.protocol import Data, NormalizedProcess
from coupledgp.gp.units import Units
from coupledgp.gp.weight_space import FeaturePrior
from coupledgp.ground.progress import Progress
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.bernoulli import Bernoulli
from coupledgp.random import FloatArray
from coupledgp.search.latent import one_row
from coupledgp.search.search import SearchResult
from coupledgp.search.tables.local import LocalProblem, Round
from coupledgp.search.tables.observed import ObservedProblem
from coupledgp.selection.exact_members import leave_one_out
from coupledgp.selection.expression_members import PAIR_SECONDS
from coupledgp.selection.member_costs import EVALUATIONS_PER_ITERATION, GRAM_SECONDS
from coupledgp.spectra import Spectrum

# Kernels of tables whose posteriors are exact, and of larger ones, which have Fourier features.
EXACT_KERNELS = (
    "matern-3/2 + linear + constant",
    "additive(2, matern-3/2) + constant",
    "laplace + constant",
)
FEATURE_KERNELS = ("matern-3/2", "matern-5/2")
# Rows up to which posteriors are exact, and entries of the factors of all classes.
EXACT_CLASS_ROWS, MOST_ENTRIES = 3000, 6 * 10**7
# Rows of the search, with its iterations, and rows by which kernels are compared.
CLASS_ROUNDS, COMPARED_ROWS = (Round(250, 25), Round(600, 6)), 1000
# Classes, the most frequent ones, for which all kernels are compared; the best serves all classes.
COMPARED_CLASSES = 2
# Columns with a lengthscale each; more share one, and the additive kernel has none of that.
MOST_SCALES = 50
# Seconds of one core of a cubed row: of sites with their gradient, and of a posterior.
CUBE_SECONDS = 7e-10
# Newton steps to the mode.
STEPS = 8
# Least variance of a function that is left out.
LEAST_VARIANCE = 1e-10
# Coupling of the frequencies, and the rule of sites that converges wherever there is a mode.
COUPLING, LAPLACE = "orthogonal+pnc", "laplace"


@dataclass(frozen=True)
class ClassSize:
    """Size of a table of classes: rows, encoded columns, functions, and frequencies of features."""

    n_rows: int
    dim: int
    n_functions: int
    n_frequencies: int

    @property
    def is_exact(self) -> bool:
        """Whether posteriors are exact."""
        few = self.n_functions * self.n_rows**2 <= MOST_ENTRIES
        return self.n_rows <= EXACT_CLASS_ROWS and few

    @property
    def kernels(self) -> tuple[str, ...]:
        """Texts of the kernels that suit the table."""
        known = EXACT_KERNELS if self.is_exact else FEATURE_KERNELS
        several = 2 <= self.dim <= MOST_SCALES
        return tuple(text for text in known if several or not text.startswith("additive"))

    def forecast(self, n_kernels: int) -> float:
        """Seconds of one core of a fit that compares so many kernels."""
        compared = min(self.n_functions, COMPARED_CLASSES)
        n_searches = self.n_functions + (n_kernels - 1) * compared
        search = sum(
            EVALUATIONS_PER_ITERATION * part.max_iterations * self._sites(part.batch_rows)
            for part in CLASS_ROUNDS
        )
        scores = n_kernels * compared * self._sites(COMPARED_ROWS) if n_kernels > 1 else 0.0
        posterior = self._sites(self.n_rows)
        if not self.is_exact:
            posterior = STEPS * self.n_rows * (2 * self.n_frequencies) ** 2 * GRAM_SECONDS
        return n_searches * search + scores + self.n_functions * posterior

    def _sites(self, n_rows: int) -> float:
        n = min(n_rows, self.n_rows)
        return n**2 * self.dim * PAIR_SECONDS + n**3 * CUBE_SECONDS


def plan_kernels(size: ClassSize, budget: float, kernel: Kernel | None) -> tuple[Kernel, ...]:
    """Kernels that a fit within a budget compares: all that suit the table, or the first alone.

    Raises
    ------
    InvalidInputError
        Not even one kernel is within the budget; the message gives the forecast.
    """
    suited = tuple(map(parse_kernel, size.kernels)) if kernel is None else (kernel,)
    for kernels in (suited, suited[:1]):
        seconds = size.forecast(len(kernels))
        if seconds <= budget:
            return kernels
    raise InvalidInputError(
        f"budget: {size.n_functions} functions of {size.n_rows} rows of {size.dim} columns would "
        f"take about {seconds:.0f} s of one core, more than the budget of {budget:g} s; raise the "
        "budget, or fit on a sample of the rows"
    )


@dataclass(frozen=True)
class TriedKernel:
    """A kernel that was compared with others.

    Attributes
    ----------
    name : str
        The kernel.
    log_loss : float or None
        Mean of minus the log chance of a label that is left out, nats, one class against all
        others; None for a kernel that was the only one.
    is_chosen : bool
        Whether it is the model's.
    """

    name: str
    log_loss: float | None
    is_chosen: bool


@dataclass(frozen=True)
class KernelChoice:
    """The kernels that were tried for the functions of classes.

    Attributes
    ----------
    kernels : tuple of TriedKernel
        The kernels.
    n_scored : int
        Labels that were left out one at a time.
    """

    kernels: tuple[TriedKernel, ...]
    n_scored: int

    def explain(self) -> str:
        """A line for each kernel, the chosen one first."""
        if len(self.kernels) == 1:
            return f"Kernel: {self.kernels[0].name}."
        ranked = sorted(self.kernels, key=lambda each: not each.is_chosen)
        lines = [f"Log loss of {self.n_scored} labels left out, one class against all others:"]
        return "\n".join(lines + [f"{each.log_loss:8.4f}  {each.name}" for each in ranked])


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """Fits the function of each class, one against all others, and chooses their kernel.

    Attributes
    ----------
    table : LocalProblem
        Rows and indicators (n, k) of k classes; the offset of its units is the logit of shares.
    n_frequencies : int
        Frequencies of features, where a posterior is not exact.
    is_exact : bool
        Whether posteriors are exact.
    inference : str
        The rule of the sites.
    report : Progress
        Called with a line of progress at each stage.
    """

    table: LocalProblem
    n_frequencies: int
    is_exact: bool
    inference: str
    report: Progress

    def choose(self, kernels: Sequence[Kernel]) -> tuple[LatentGP, KernelChoice, int, bool]:
        """The process of the kernel of least log loss, the choice, evaluations and convergence."""
        targets = self.table.data.targets
        order = np.argsort(
            -np.average(targets, axis=0, weights=self.table.data.counts), kind="stable"
        )
        several = len(kernels) > 1
        compared = order[:COMPARED_CLASSES] if several else order[:0]
        searches = {
            (kernel, c): self._search(kernel, c) for kernel in kernels for c in compared.tolist()
        }
        losses = np.full(len(kernels), np.nan)
        for k, kernel in enumerate(kernels if several else ()):
            own = [self._log_loss(kernel, c, searches[kernel, c]) for c in compared.tolist()]
            losses[k] = np.mean(own)
        best = kernels[int(np.argmin(losses))]
        found = [searches.get((best, c)) or self._search(best, c) for c in range(targets.shape[1])]
        self.report("posterior")
        functions = [self._function(best, c, search) for c, search in enumerate(found)]
        process = self._given(functions, self.table.data)
        tried = tuple(
            TriedKernel(str(kernel), float(loss) if several else None, kernel == best)
            for kernel, loss in zip(kernels, losses, strict=True)
        )
        choice = KernelChoice(tried, len(compared) * min(COMPARED_ROWS, len(targets)))
        every = [*found, *(s for (kernel, _), s in searches.items() if kernel != best)]
        n_evaluations = sum(search.n_evaluations for search in every)
        return process, choice, n_evaluations, all(search.converged for search in found)

    def _given(self, functions: Sequence[NormalizedProcess], data: Data) -> LatentGP:
        """Functions given observations, by Laplace's rule where the other does not converge."""
        try:
            return LatentGP.given(functions, Bernoulli(), data, self.inference)
        except NumericalError as error:
            self.report(f"Laplace's rule, since {error}")
            return LatentGP.given(functions, Bernoulli(), data, LAPLACE)

    def _problem(self, kernel: Kernel, output: int) -> ObservedProblem:
        """The table of one class against all others."""
        table, data = self.table, self.table.data
        own = Data.of(data.points, data.targets[:, [output]], weights=data.weights)
        units = Units(table.units.offset[[output]], np.ones(1))
        return ObservedProblem(
            replace(table, data=own, units=units), kernel, Bernoulli(), self.inference
        )

    def _search(self, kernel: Kernel, output: int) -> SearchResult[FloatArray]:
        self.report(f"class {output + 1}, {kernel}")
        problem = self._problem(kernel, output)
        try:
            return problem.search(self.report, CLASS_ROUNDS)
        except NumericalError:
            return replace(problem, inference=LAPLACE).search(self.report, CLASS_ROUNDS)

    def _log_loss(self, kernel: Kernel, output: int, found: SearchResult[FloatArray]) -> float:
        """Log loss of labels that are left out, of at most `COMPARED_ROWS` rows."""
        problem = self._problem(kernel, output)
        data = problem.table.data.take(problem.normal.rows(COMPARED_ROWS, 0))
        function = problem.prior_process(found.point)
        process = self._given([function], data)
        return float(np.average(-left_out_log_chances(process), weights=data.counts))

    def _function(
        self, kernel: Kernel, output: int, found: SearchResult[FloatArray]
    ) -> NormalizedProcess:
        """A process that carries the prior of the function of a class."""
        own = self._problem(kernel, output).prior_process(found.point)
        if self.is_exact:
            return own
        assert isinstance(kernel, Spectrum)
        table, hyper = self.table, own.hyperparameters
        rng = np.random.default_rng([table.seed, 7])
        features = make_features(
            "fourier", len(table.center), self.n_frequencies, COUPLING, kernel, rng
        )
        scales = Hyperparameters(hyper.lengthscale, hyper.outputscale, 1.0)
        prior = FeaturePrior(features, table.center, scales)
        return one_row(prior, table.data, float(table.units.offset[output]))


def left_out_log_chances(process: LatentGP) -> FloatArray:
    """Log chance (n,) of each observation of one exact function, given all others.

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
    return process.likelihood.marginal_log_density(process.rows.targets, mean, variance)[:, 0]
