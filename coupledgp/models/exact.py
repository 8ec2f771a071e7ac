"""Exact GP regression, the reference of every approximation: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from coupledgp.expressions import Kernel
from coupledgp.features.sklearn import Columns
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.dense_prior import MATRICES_AT_ONCE, check_dense_size
from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.units import Units
from coupledgp.ground.devices import parse_device
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_positive_int
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.models.expression import AskedExpression, results_of
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel
from coupledgp.models.stationary import StationaryRegressor, averaged_results, search_results
from coupledgp.search.optimize import maximise_evidence
from coupledgp.spectra import Spectrum, SpectrumLike


@estimator
class ExactGPRegressor(StationaryRegressor):
    """Gaussian process regression without approximation.

    `y = f(x) + e`, `f ~ GP(0, v kappa(|x - x'| / l))`, `e ~ N(0, s)`, by Cholesky. Same interface
    and conventions as `SparseSpectrumGPRegressor`, whose `exact_twin` it is.

    Parameters
    ----------
    kernel
        A stationary kernel as in `SparseSpectrumGPRegressor`, or an expression of kernels or its
        text, such as `"matern(1.5) + additive(2)"` (docs/kernels.md). The hyperparameters of an
        expression are those of greatest posterior density under weak priors, for standardised
        columns. They are searched for on at most 2000 rows; the posterior has all.
    device
        Where matrices of the rows are (docs/models.md, "On a GPU"): None or `"cpu"`, `"cuda"`,
        `"cuda:1"`, `"auto"` (a GPU where torch finds one) or a `torch.device`. Kernels besides the
        Gaussian one and those of Matern of orders 1/2, 3/2 and 5/2 are computed on the CPU.
    """

    kernel: SpectrumLike | Kernel = "gaussian"  # type: ignore[assignment]
    ard: bool = True
    lengthscale: ArrayLike | None = None
    outputscale: float | None = None
    noise: float | None = None
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None

    def exact_twin(self) -> ExactGPRegressor:
        """Return this model: it is its own exact counterpart."""
        return self

    def around(self, process: GaussianProcess, record: FittedModel) -> ExactGPRegressor:
        """Return this estimator around the exact process of a fitted model."""
        return self.holding(FittedModel(process, record.ndim, {}, record.columns))

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        where = parse_device(self.device)
        check_dense_size(len(data), MATRICES_AT_ONCE, where)
        self._check_averaging()
        kernel = parse_kernel(self.kernel)
        if not isinstance(kernel, Spectrum):
            asked = AskedExpression.of(self, kernel, data, columns)
            with reporter("fit", self.progress) as report:
                search = asked.search(report)
                return asked.problem.process(search.point, self.normalize_y), results_of(search)
        rng = self._rng()
        spectrum = kernel
        units = Units.of(data.targets, self.normalize_y, data.counts)
        groups = columns.groups
        base = spread_lengthscale(data.points, self.ard, groups, counts=data.counts)
        space = self._search_space(data, units, base, groups)
        with reporter("fit", self.progress) as report:
            normalized = units.normalized(data.targets)
            problem = ExactEvidence(spectrum, data.points, normalized, data.weights, where)
            found = maximise_evidence(
                problem,
                space,
                n_restarts=check_positive_int(self.n_restarts, "n_restarts", minimum=0),
                max_iterations=check_positive_int(self.max_iter, "max_iter"),
                rng=rng,
                report=report,
            )
            average = self._averaged(problem, space, found.hyperparameters, rng, report)

        def given(hyperparameters: Hyperparameters) -> ExactGP:
            prior = StationaryPrior(spectrum, hyperparameters, device=where)
            return prior.given(data, units, self.normalize_y)

        if average is None:
            return given(found.hyperparameters), search_results(found)
        members = [given(hyperparameters) for hyperparameters in average.hyperparameters]
        process = MixtureGP.of(members, average.weights, data, "hyperparameters")
        return process, averaged_results(found, average)
