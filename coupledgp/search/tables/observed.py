"""The search for the hyperparameters of an expression whose observations follow a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.expressions import Kernel
from coupledgp.gp.kernel_prior import KernelGP
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.inference.dense.expression_evidence import ExpressionEvidence
from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.sites.objective import REACH, SiteObjective
from coupledgp.inference.sites.observed import Observed
from coupledgp.inference.sites.priors import DenseSites
from coupledgp.inference.sites.rules import rule_of
from coupledgp.kernels.row_covariance import RowCovariance
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Search, SearchResult
from coupledgp.search.tables.expression import ExpressionProblem
from coupledgp.search.tables.local import VALUE_TOLERANCE, LocalProblem, Round

# Logarithm of the factor by which variances at the start of a search exceed the means of their
# priors, which are those of targets of unit variance: functions of logits are larger.
LARGER = 1.5


class _Gram(Differentiable):
    """Covariance of rows as a function of hyperparameters that torch differentiates."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, covariance: RowCovariance, rows: FloatArray) -> Tensor:
        found = covariance.evaluate(rows, rows, theta.detach().numpy())
        ctx.pull = found.pull
        return torch.as_tensor(found.covariance)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        return torch.as_tensor(ctx.pull(cotangents[0].numpy())), None, None


class LatentEvidence(VectorObjective):
    """Minus the log posterior of hyperparameters under a likelihood, per observation.

    Variables (1 + q + l,) are those of `ExpressionEvidence`, whose priors they have, then the
    logarithms of l parameters of the likelihood, of a flat prior. The first one, of the noise, is
    the unit of the sites' noise and stays zero.

    Parameters
    ----------
    evidence
        The evidence of the same rows under normal noise of variance one, which knows the priors.
    observed
        The observations under their likelihood.
    inference
        The rule of the sites, "variational" or "laplace".
    """

    def __init__(self, evidence: ExpressionEvidence, observed: Observed, inference: str) -> None:
        self.normal, self.size = evidence, evidence.size
        covariance, rows = evidence.covariance, evidence.rows

        def sites(theta: Tensor) -> DenseSites:
            return DenseSites(_Gram.apply(theta, covariance, rows))

        self.sites = SiteObjective(sites, len(covariance.parameters), observed, rule_of(inference))

    @property
    def start(self) -> FloatArray:
        """Variables at the means of the priors, with larger variances, and at the likelihood's."""
        own = self.sites.observed.likelihood.parameters.values()
        larger = LARGER * variances_of(self.normal.covariance)
        return np.append(self.normal.start + larger, np.log(list(own)))

    def box(self, start: FloatArray) -> Box:
        n, likelihood = self.normal.start.size, self.sites.observed.likelihood
        return [*self.normal.box(start[:n]), *likelihood.log_box(start[n:], REACH)]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.sites.value_and_gradient(variables[1:])
        normal = self.normal
        n = normal.start.size
        gaps = ((variables[:n] - normal.means) / normal.widths)[1:]
        gradient[: n - 1] += gaps / normal.widths[1:]
        value += 0.5 * float(gaps @ gaps)
        return value / self.size, np.append(0.0, gradient) / self.size


def variances_of(covariance: RowCovariance) -> FloatArray:
    """One (1 + q,) where a variable of an expression's evidence is a variance of f, else zero."""
    return np.array([0.0, *(name.startswith("variance") for name in covariance.names)])


@dataclass(frozen=True, eq=False)
class ObservedProblem:
    """A table whose process under an expression and a likelihood is searched for.

    Hyperparameters are those of the function over its unit, the scale of the table's units: one but
    for observations that are f plus noise.

    Attributes
    ----------
    table : LocalProblem
        The table; the offset of its units is the prior mean of the function, their scale its unit,
        and its known noise one.
    kernel : Kernel
        The expression.
    likelihood : Likelihood
        Law of an observation given the function, with the parameters where a search starts.
    inference : str
        The rule of the sites, "variational" or "laplace".
    """

    table: LocalProblem
    kernel: Kernel
    likelihood: Likelihood
    inference: str = "variational"

    @property
    def normal(self) -> ExpressionProblem:
        """The same table under normal noise."""
        return ExpressionProblem(self.table, self.kernel)

    def evidence(self, rows: IntArray) -> LatentEvidence:
        """The evidence of some rows, of observations over the unit."""
        data, units = self.table.data.take(rows), self.table.units
        unit = float(units.scale[0])
        law = self.likelihood.rescaled(1 / unit)
        observed = Observed.of(law, data.targets / unit, units.offset / unit, data.weights)
        return LatentEvidence(self.normal.evidence(rows), observed, self.inference)

    def search(self, report: Progress, rounds: Sequence[Round]) -> SearchResult[FloatArray]:
        """Maximise the posterior of the hyperparameters, on rounds of more and more rows.

        Parameters
        ----------
        report
            Called with a line of progress after each evaluation.
        rounds
            Numbers of rows and of iterations; one that would repeat the rows of the one before is
            left out.
        """
        search, normal = Search(report=report), self.normal
        found, before = None, 0
        for stage, part in enumerate(rounds):
            rows = normal.rows(part.batch_rows, stage)
            if len(rows) == before:
                continue
            evidence, before = self.evidence(rows), len(rows)
            start = evidence.start if found is None else found.point
            found = search.improved(evidence, start, Stopping(part.max_iterations, VALUE_TOLERANCE))
        assert found is not None
        return found

    def likelihood_of(self, vector: FloatArray) -> Likelihood:
        """The likelihood of observations at a point of the search (1 + q + l,)."""
        law = self.likelihood
        own = np.exp(vector[len(vector) - len(law.parameters) :]).tolist()
        found = law.with_parameters(dict(zip(law.parameters, own, strict=True)))
        return found.rescaled(float(self.table.units.scale[0]))

    def prior_process(self, vector: FloatArray) -> KernelGP:
        """A process of one row that carries the prior of f at a point of the search."""
        table, normal = self.table, self.normal
        unit = float(table.units.scale[0])
        own = vector[: 1 + len(normal.covariance.names)]
        own = own + 2 * np.log(unit) * (
            variances_of(normal.covariance) + (np.arange(len(own)) == 0)
        )
        units = Units(table.units.offset, np.ones(1))
        row = Data.of(table.data.points[:1], units.offset[None])
        found: KernelGP = normal.prior(own).given(row, units, False, warns=False)
        return found
