"""Exact GP regression, the reference of every approximation: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from coupledgp.features.sklearn import Columns
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import MATRICES_AT_ONCE, ExactGP, StationaryPrior, check_dense_size
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.units import Units
from coupledgp.ground.devices import DeviceLike, parse_device
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_positive_int
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.models.estimator import FittedModel
from coupledgp.models.tables import TableRegressor, averaged_results, search_results
from coupledgp.models.targets import TransformLike, fit_transformed
from coupledgp.search.averaging import HyperparameterPrior
from coupledgp.search.optimize import maximise_evidence
from coupledgp.spectra import SpectrumLike, parse_spectrum


class ExactGPRegressor(TableRegressor):
    """Gaussian process regression without approximation.

    `y = f(x) + e`, `f ~ GP(0, v kappa(|x - x'| / l))`, `e ~ N(0, s)`, by Cholesky. Same interface
    and conventions as `SparseSpectrumGPRegressor`, whose `exact_twin` it is.

    Parameters
    ----------
    kernel
        `"gaussian"`, `"matern-1/2"`, `"matern-3/2"`, `"matern-5/2"`, `"matern-NU"` or a Spectrum.
    ard
        One lengthscale for each column of X; otherwise one for all.
    lengthscale
        Lengthscale, one or (d,), in units of X: where the optimizer starts, or kept if it is None.
        None takes it from the spread of the data.
    outputscale, noise
        Variances of f and of the noise, in units of the normalised y; kept if the optimizer is
        None (None: 1 and 0.1).
    normalize_y
        Subtract the mean of y and divide by its standard deviation before fitting.
    optimizer
        `"lbfgs"`, or None to keep the given hyperparameters.
    random_state
        Seed of the restarts.
    fixed
        Names of hyperparameters the optimizer leaves alone.
    n_restarts
        Number of starting points, besides the best one, from which L-BFGS is run as well. Without
        a `lengthscale` they come from a coarse profile of the evidence on at most 128 rows; on
        tables that are searched whole twice as many are tried for a few steps.
    max_iter
        Largest number of iterations of L-BFGS. Where it ends there, a ConvergenceWarning is given.
    progress
        Show progress on stderr; None does so on a terminal.
    hyperparameters
        `"maximum"`: those of greatest evidence. `"averaged"`: averaged over their posterior by
        importance sampling, which keeps intervals honest on few rows, where the maximum is
        over-confident; the law is then a mixture, whose first member has the hyperparameters of
        greatest posterior, which `lengthscale_`, `outputscale_` and `noise_` state.
    hyperparameter_prior
        Laws of the logarithms of the hyperparameters where they are averaged, a
        `HyperparameterPrior` or its fields by name; None: normal laws with standard deviation 1 of
        `log l` about the log of the data-driven lengthscale and of `log v` about 0, and 1.7 of
        `log s` about -3, for the normalised y.
    n_hyperparameter_draws
        Draws of averaged hyperparameters: each costs an evaluation of the evidence, and a member
        of the mixture unless its weight is below 1e-4.
    missing
        Missing values (NaN, None, NaT) of X. `"raise"`: they are an error. `"indicator"`: a number
        or date that is missing is the mean of its column, with an indicator beside it under the
        same lengthscale; a missing category is a level of its own (docs/tables.md).
    target_transform
        Increasing transform g of the targets: the model is one of `z = g(y)`, and its law of y
        is that of `g^-1(z)`. `"log"`, `"box-cox"`, `"yeo-johnson"`, `"logit"`, a text with
        numbers such as `"log(shift=1.0)"`, a `coupledgp.gp.transforms.TargetTransform`, or
        `"auto"`: the one of greatest evidence of y, if that exceeds the evidence without one by
        five nats. Free shapes are fitted by the evidence, on at most 500 rows. `outputscale_`
        and `noise_` are then in units of z squared; see `docs/targets.md`.
    device
        Where matrices of the rows are (docs/models.md, "On a GPU"): None or `"cpu"`, `"cuda"`,
        `"cuda:1"`, `"auto"` (a GPU where torch finds one) or a `torch.device`. Kernels besides the
        Gaussian one and those of Matern of orders 1/2, 3/2 and 5/2 are computed on the CPU.

    Attributes
    ----------
    n_effective_draws_
        Effective number of draws of averaged hyperparameters, `1 / sum w^2` of their weights.
    lengthscale_, outputscale_, noise_
        Fitted hyperparameters, in units of X and of y squared.
    log_marginal_likelihood_value_
        Log evidence of y (in its own units) at the fitted hyperparameters.
    """

    def __init__(
        self,
        kernel: SpectrumLike = "gaussian",
        ard: bool = True,
        lengthscale: ArrayLike | None = None,
        outputscale: float | None = None,
        noise: float | None = None,
        normalize_y: bool = True,
        optimizer: str | None = "lbfgs",
        random_state: Any = None,
        *,
        fixed: tuple[str, ...] | None = None,
        n_restarts: int = 1,
        max_iter: int = 100,
        progress: bool | None = None,
        hyperparameters: str = "maximum",
        hyperparameter_prior: HyperparameterPrior | Mapping[str, float] | None = None,
        n_hyperparameter_draws: int = 48,
        missing: str = "raise",
        target_transform: TransformLike = None,
        device: DeviceLike = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.lengthscale = lengthscale
        self.outputscale = outputscale
        self.noise = noise
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.random_state = random_state
        self.fixed = fixed
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.progress = progress
        self.hyperparameters = hyperparameters
        self.hyperparameter_prior = hyperparameter_prior
        self.n_hyperparameter_draws = n_hyperparameter_draws
        self.missing = missing
        self.target_transform = target_transform
        self.device = device

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> ExactGPRegressor:
        """Fit the hyperparameters by maximum evidence, then the posterior.

        Parameters
        ----------
        X
            Inputs (n, d).
        y
            Targets (n,), or (n, k) for k independent outputs that share the hyperparameters.
        sample_weight
            Weights (n,), not negative: a row of weight w counts as if it stood w times in the
            table, in the posterior, the evidence and the normalisation of y; rows of weight zero
            are left out. `noise_` is the noise variance of a row of weight one.
        sample_noise
            Known noise variances (n,) of the rows, positive, in units of y squared, for one output.
            They are kept unless `fixed` is given without "noise"; then they are known up to one
            factor, which the evidence decides. `noise_` is their mean, times that factor: the noise
            of observations at new inputs. At most one of `sample_weight` and `sample_noise`.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, or there is no such device.
        MemoryLimitError
            Matrices of the rows do not fit into memory, that of the device or of the machine.
        NumericalError
            The posterior's matrix is not positive definite to working precision.
        """
        parse_device(self.device)
        with named_exhaustion("fit"):
            if self.target_transform is None:
                fitted = self._fit(X, y, sample_weight, sample_noise)
            else:
                fitted = fit_transformed(self, X, y, sample_weight, sample_noise)
        self._fitted = fitted
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> ExactGPRegressor:
        """Add rows (n, d) and targets (n,) or (n, k), hyperparameters fixed.

        On an unfitted model this is `fit`.
        The posterior is recomputed, at the cost of one Cholesky factor of all rows. An error
        leaves the model as it was.

        Parameters
        ----------
        X, y
            Further inputs (n, d) and targets (n,) or (n, k), as in `fit`.
        sample_weight, sample_noise
            As in `fit`; variances are in units of y squared, of which `noise_` is the unit.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, sample_noise)
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, sample_weight, sample_noise)
        return self._updated(data)

    def exact_twin(self) -> ExactGPRegressor:
        """Return this model: it is its own exact counterpart."""
        return self

    def around(self, process: GaussianProcess, record: FittedModel) -> ExactGPRegressor:
        """Return this estimator around the exact process of a fitted model."""
        return self.holding(FittedModel(process, record.ndim, {}, record.columns))

    def fit_data(self, data: Data, columns: Columns) -> tuple[GaussianProcess, dict[str, Any]]:
        where = parse_device(self.device)
        check_dense_size(len(data), MATRICES_AT_ONCE, where)
        self._check_averaging()
        rng = self._rng()
        spectrum = parse_spectrum(self.kernel, "kernel")
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
