"""Several models of a table as one mixture, whose weights rows that were left out decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.gp.additive import AdditivePrior, ExactAdditiveGP
from coupledgp.gp.local import LocalGP
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.ground.progress import Progress
from coupledgp.inference.spectra.mixture import (
    mixture_log_density,
    mixture_weights,
)
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray
from coupledgp.search.averaging import importance_draws
from coupledgp.search.tables.local import (
    FITTING_ROUNDS,
    LOCAL_ROUNDS,
    ROUNDING,
    SCREENING,
    LocalFitter,
    LocalProblem,
    LocalSearch,
)
from coupledgp.selection.fitted_members import (
    Choice,
    FittedMember,
    MemberChoice,
    MemberPosterior,
    leave_one_out,
    name_of,
)
from coupledgp.selection.member_plans import (
    EXACT_KERNELS,
    EXACT_NEIGHBOURS,
    EXACT_ROUNDS,
    EXACT_ROWS,
    LOCAL_KERNELS,
    N_DRAWS,
    MemberPlan,
    averages,
    kernels_for,
)
from coupledgp.spectra import parse_spectrum

# A tenth of the rows are held out, within these limits.
LEAST_HELD, MOST_HELD, LEAST_ROWS = 50, 4000, 8
# Rows that each member is credited with beforehand: few, since a table of fifty held-out rows
# should still tell a good member from bad ones.
PRIOR_COUNT = 0.2
# Members of smaller weight are left out; draws of averaged hyperparameters are small by nature.
LEAST_WEIGHT, LEAST_DRAW_WEIGHT = 0.01, 1e-3


Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class MemberSearch:
    """Fits models to a table and mixes them.

    Attributes
    ----------
    problem : LocalProblem
        The table.
    normalize : bool
        Whether the units of y follow the data.
    trend : str
        Trend of every model.
    n_neighbours, n_frequencies : int
        Neighbours of local parts, frequencies of features.
    report : Progress
        Called with a line of progress at each stage.
    """

    problem: LocalProblem
    normalize: bool
    trend: str
    n_neighbours: int
    n_frequencies: int
    report: Progress

    def choose(self, plans: tuple[MemberPlan, ...]) -> tuple[GaussianProcess, Choice]:
        """Fit the members of the plans, weigh them, and condition those of weight on all rows."""
        if all(plan.kind == "exact" for plan in plans):
            fitted = self._exact_members()
            counts = self.problem.data.counts
            return self._mixed(self._with_broader(fitted, self._leave_one_out), counts,
                               "leaving one row out at a time")  # fmt: skip
        train, held = self._split()
        fitted = self._computed(
            partial(self._held_out_members, plan, train, held) for plan in plans
        )

        def score(name: str, priors: tuple[LocalPrior, ...], old: FittedMember) -> FittedMember:
            return self._scored(replace(old, name=name, priors=priors), train, held)

        return self._mixed(self._with_broader(fitted, score), held.counts,
                           f"fitting to the other {len(train.data)} rows")  # fmt: skip

    def _computed(self, makers: Iterable[Callable[[], list[Made]]]) -> list[Made]:
        """Results of all makers, without those whose covariance has no factor.

        Raises
        ------
        NumericalError
            No covariance has a factor; the error of the last maker is raised.
        """
        found: list[Made] = []
        failure: NumericalError | None = None
        for make in makers:
            try:
                found += make()
            except NumericalError as error:
                failure = error
                self.report(f"a member is left out: {error}")
        if failure is not None and not found:
            raise failure
        return found

    # Exact members, scored by leaving one row out.

    def _exact_members(self) -> list[FittedMember]:
        fitter = self._rotated.fitter(self.report)

        def make(name: str) -> list[FittedMember]:
            member = self._exact_member(name, self._rotated, fitter)
            return [self._leave_one_out(member.name, member.priors, member)]

        return self._computed(partial(make, name) for name in self._kernels(EXACT_KERNELS))

    @cached_property
    def _rotated(self) -> LocalProblem:
        """The problem in which exact members are searched for: few columns, the same kernels."""
        return self.problem.rotated()

    def _kernels(self, kernels: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the kernels that suit the table."""
        return kernels_for(kernels, len(self.problem.groups), self.problem.shared)

    @property
    def _sharing(self) -> str:
        """End of the names of members whose columns share a lengthscale."""
        return ", one lengthscale" if self.problem.shared else ""

    def _exact_member(self, name: str, problem: LocalProblem, fitter: LocalFitter) -> FittedMember:
        return self._exact_of(self._exact_search(name, problem, fitter), problem, fitter)

    def _exact_search(self, name: str, problem: LocalProblem, fitter: LocalFitter) -> LocalSearch:
        k = min(EXACT_NEIGHBOURS, max(len(problem.data) - 1, 1))
        structure = problem.structure(self.trend, k, parse_spectrum(name))
        return fitter.search(structure, EXACT_ROUNDS)

    def _exact_of(
        self, found: LocalSearch, problem: LocalProblem, fitter: LocalFitter
    ) -> FittedMember:
        structure = found.structure
        vectors, shares = self._draws(fitter, found, len(problem.data))
        priors = tuple(problem.prior(structure, vector) for vector in vectors)
        name = f"exact, {structure.spectrum}{self._sharing}"
        nothing = np.empty(0)
        return FittedMember(name, priors, shares, nothing, 0.0, True, found.n_evaluations)

    def _draws(
        self, fitter: LocalFitter, found: LocalSearch, n_rows: int
    ) -> tuple[FloatArray, FloatArray]:
        """Vectors (q, p) of hyperparameters and their weights: the best, or draws on few rows."""
        if not averages(n_rows, len(self.problem.groups)) or not fitter.varies:
            return found.vector[None], np.ones(1)
        density = MemberPosterior(fitter, found)
        rng = np.random.default_rng([self.problem.seed, 3])
        draws, weights = importance_draws(density, found.vector, N_DRAWS, rng, self.report)
        kept = weights > LEAST_DRAW_WEIGHT
        kept[np.argmax(weights)] = True
        return density.with_known_noise(draws[kept]), weights[kept] / weights[kept].sum()

    def _leave_one_out(
        self, name: str, priors: tuple[LocalPrior, ...], old: FittedMember
    ) -> FittedMember:
        laws = [leave_one_out(self._exact(prior, self._rotated)) for prior in priors]
        densities = mixture_log_density(np.array([law[0] for law in laws]), old.shares)
        variance = float(old.shares @ [law[1] for law in laws])
        return replace(old, name=name, priors=priors, log_densities=densities, variance=variance)

    def _exact(self, prior: LocalPrior, problem: LocalProblem) -> ExactAdditiveGP:
        """The dense process; its noise is at least the rounding of its covariance."""
        prior = problem.adopted(prior)
        least = ROUNDING * len(problem.data) * prior.hyperparameters.outputscale
        if prior.noise < least and problem.known_noise is None:
            prior = prior.with_noise(least)

        def given(own: LocalPrior) -> ExactAdditiveGP:
            dense = AdditivePrior(own)
            found: ExactAdditiveGP = dense.given(
                problem.data, problem.units, self.normalize, warns=False
            )
            return found

        return problem.conditioned(prior, given)

    # Other members, scored on rows that were held out.

    def _split(self) -> tuple[LocalProblem, Data]:
        data = self.problem.data
        if len(data) < LEAST_ROWS:
            raise InvalidInputError(
                f"X: expected at least {LEAST_ROWS} rows, of which some are held out, got "
                f"n_samples={len(data)}; model='exact' holds out none"
            )
        n_held = min(max(len(data) // 10, LEAST_HELD), MOST_HELD, len(data) // 2)
        order = np.random.default_rng([self.problem.seed, 4]).permutation(len(data))
        train, held = np.sort(order[n_held:]), np.sort(order[:n_held])
        return self.problem.take(train), data.take(held)

    def _held_out_members(
        self, plan: MemberPlan, train: LocalProblem, held: Data
    ) -> list[FittedMember]:
        if plan.kind == "exact":
            rotated = train.rotated()
            fitter = rotated.fitter(self.report)
            searches = [
                self._exact_search(name, rotated, fitter) for name in self._kernels(EXACT_KERNELS)
            ]
            if len(self.problem.data) > EXACT_ROWS:
                best = max(searches, key=lambda search: search.value)
                searches = [replace(best, n_evaluations=sum(s.n_evaluations for s in searches))]

            def make(search: LocalSearch) -> list[FittedMember]:
                return [self._scored(self._exact_of(search, rotated, fitter), train, held)]

            return self._computed(partial(make, search) for search in searches)
        fitter = train.fitter(self.report)
        k = 0 if plan.kind == "features" else self.n_neighbours
        structure = train.structure(self.trend, k)
        n_screened = 0
        if k:
            spectra = [parse_spectrum(name) for name in self._kernels(LOCAL_KERNELS)]
            screened = fitter.smoothest(structure, spectra, SCREENING)
            structure, n_screened = screened.structure, screened.n_evaluations
        rounds = plan.rounds(LOCAL_ROUNDS if plan.kind == "local" else FITTING_ROUNDS)
        if plan.kind != "local":
            structure = train.with_features(
                structure, self.n_frequencies, "orthogonal+pnc", fitted=True
            )
        found = fitter.search(structure, rounds).after(n_screened)
        prior = train.prior(structure, found.vector)
        cut = f", {plan.effort:.0%} of the search" if plan.effort < 1 else ""
        name = f"{name_of(structure)}{self._sharing}{cut}"
        member = FittedMember(name, (prior,), np.ones(1), np.empty(0), 0.0, False,
                              found.n_evaluations)  # fmt: skip
        return [self._scored(member, train, held)]

    def _scored(self, member: FittedMember, train: LocalProblem, held: Data) -> FittedMember:
        """The member with its log densities of the rows that were held out."""
        self.report(f"{member.name}: {len(held)} rows that were held out")
        targets = train.units.normalized(held.targets)
        densities, variances = [], []
        for prior in member.priors:
            mean, variance = self._process(member, prior, train).latent_law(held.points, "variance")
            assert variance is not None
            observed = (variance + prior.noise)[:, None]
            densities.append(gaussian_log_density(targets, mean, observed))
            variances.append(observed.mean())
        mixed = mixture_log_density(np.array(densities), member.shares)
        return replace(member, log_densities=mixed, variance=float(member.shares @ variances))

    # All members.

    def _with_broader(
        self,
        members: list[FittedMember],
        score: Callable[[str, tuple[LocalPrior, ...], FittedMember], FittedMember],
    ) -> list[FittedMember]:
        """The members, and the best member with more noise.

        Beside the member itself it makes the tails of the mixture heavier, which a few rows that
        are far off need: one Gaussian law would have to be wide everywhere.
        """
        best = max(members, key=lambda member: member.log_densities.mean())
        if self.problem.known_noise is not None:
            return members
        noise = best.priors[0].noise + best.variance

        def broader() -> list[FittedMember]:
            return [score(f"{best.name}, more noise", best.broader(noise), best)]

        return self._computed([lambda: members, broader])

    def _mixed(
        self, members: list[FittedMember], counts: FloatArray | None, scored_by: str
    ) -> tuple[GaussianProcess, Choice]:
        densities = np.array([member.log_densities for member in members])
        weights = mixture_weights(densities, PRIOR_COUNT, counts)
        weights = np.where(weights >= LEAST_WEIGHT, weights, 0.0)
        weighty = [k for k in np.argsort(-weights, kind="stable") if weights[k] > 0]

        def given(k: int) -> list[tuple[int, list[LocalGP | ExactAdditiveGP]]]:
            self.report(f"posterior: {members[k].name}")
            return [(k, [self._process(members[k], p, self.problem) for p in members[k].priors])]

        posteriors = self._computed(partial(given, k) for k in weighty)
        kept = [k for k, _ in posteriors]
        weights = np.where(np.isin(np.arange(len(members)), kept), weights, 0.0)
        weights /= weights.sum()
        processes = [process for _, own in posteriors for process in own]
        shares = np.concatenate([weights[k] * members[k].shares for k in kept])
        data = self.problem.data
        process = processes[0] if len(processes) == 1 else MixtureGP.of(processes, shares, data)
        mixed = mixture_log_density(densities[kept], weights[kept])
        choices = tuple(
            MemberChoice(member.name, float(weight), float(member.log_densities.mean()))
            for member, weight in zip(members, weights, strict=True)
        )
        return process, Choice(
            choices, float(np.average(mixed, weights=counts)), len(mixed), scored_by,
            sum(member.n_evaluations for member in members),
        )  # fmt: skip

    def _process(
        self, member: FittedMember, prior: LocalPrior, problem: LocalProblem
    ) -> LocalGP | ExactAdditiveGP:
        if member.exact and problem is self.problem:
            found = self._exact(prior, self._rotated)  # the same covariance from fewer columns
            noisy = found.dense_prior
            assert isinstance(noisy, AdditivePrior)
            own = AdditivePrior(problem.adopted(noisy.parts)).bounded_by(problem.data.points)
            return replace(found, dense_prior=own, rows=problem.data)
        if member.exact:
            return self._exact(prior, problem)
        return problem.process(prior, self.normalize)
