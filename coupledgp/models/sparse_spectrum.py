"""Sparse-spectrum GP regression: a GP whose kernel is a dot product of coupled random features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.features.hybrid.base import refuse_as_covariance
from coupledgp.gp.fit_spectrum import check_fitting, check_use_of_queries, fit_frequencies
from coupledgp.inference.search.optimize import SearchSpace
from coupledgp.inference.search.problem import EvidenceProblem
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models.base import (
    StationaryGPRegressor,
    column_spread,
    safe_scale,
    unfitted,
)
from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.stack import Stack
from coupledgp.progress import Progress
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.validation import check_choice, check_vector

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "fourier": FourierFeatures,
    "laplace": LaplaceFeatures,
}
DTYPES = {"float64": torch.float64, "float32": torch.float32}
# What `partial_fit` and `conditioned_on` change.
TAKEN = (
    "_statistics", "_posterior", "_y_mean", "_y_scale", "_X_parts", "_y_parts",
    "log_marginal_likelihood_value_",
)  # fmt: skip
# Rows from which the mean of |x_i + x_j| in the Laplace rule is estimated.
RULE_ROWS = 2000


class SparseSpectrumGPRegressor(StationaryGPRegressor):
    """Gaussian process regression with coupled random features, linear in the number of rows.

    `y = sqrt(v) phi((x - c) / l) . w + e`, `w ~ N(0, I)`, `e ~ N(0, s)`: inference in the space of
    the M feature weights, O(n M^2) time and O(M^2) memory (MATH section 6). The hyperparameters
    `l`, `v`, `s` maximise the evidence.

    Parameters
    ----------
    kernel
        `"gaussian"`, `"matern-1/2"`, `"matern-3/2"`, `"matern-5/2"`, `"matern-NU"` or a Spectrum.
    features
        `"fourier"` (sine and cosine, M = 2m) or `"laplace"` (positive, Gaussian kernel only,
        M = m).
    n_frequencies
        Number of frequencies m. `"auto"`: as many as it takes for the KL from the exact posterior
        to this one to fall below `kl_target`; see `selection_`.
    coupling
        Joint law of the frequencies: an object or a text such as `"orthogonal+pnc"`. `"auto"`: the
        one that comes closest to the exact posterior.
    frequencies
        `"sampled"`: drawn from the spectral measure and kept, so that the prior is an unbiased
        estimate of the kernel's. `"fitted"`: drawn and then moved to where the `objective` wants
        them, each with a weight (MATH section 4). They are then no unbiased sample of the kernel:
        `compare(...).prior_kl_per_point` says how far the prior is from the kernel's.
    objective
        What fitted frequencies are fitted to. `"evidence"`: several spectra from annealed and
        early-stopped maximisation of the evidence, which together with the sampled one are the
        members of a mixture whose weights a held-out tenth of the rows decides; for prediction.
        `"posterior-kl"`: KL from the posterior of an exact GP on `teacher_rows` rows, which also
        supplies the hyperparameters; for closeness to the exact GP with few frequencies. A function
        `loss(frequencies, weights)` of tensors (m, d), in units of one over the lengthscale, and
        (m,), that returns a differentiable scalar: the hyperparameters maximise the evidence of the
        sampled spectrum, then the loss is minimised. With sampled frequencies only `"evidence"`,
        which is what the hyperparameters maximise.
    ard
        One lengthscale for each column of X; otherwise one for all.
    lengthscale
        Lengthscale, one or (d,), in units of X: where the optimizer starts, or kept if it is None.
        None takes it from the spread of the data; for Laplace features by the rule
        `2 mean_ij |x_i + x_j|` of "Variance-reducing couplings" (A1), on standardised columns if
        `ard`.
    outputscale, noise
        Variances of f and of the noise, in units of the normalised y; kept if the optimizer is
        None (None: 1 and 0.1).
    normalize_y
        Subtract the mean of y and divide by its standard deviation before fitting.
    optimizer
        `"lbfgs"`, or None to keep the given hyperparameters.
    random_state
        Seed of the frequencies and of everything else.
    fixed
        Names of hyperparameters the optimizer leaves alone. None: nothing for Fourier features,
        `("lengthscale",)` for Laplace features, whose evidence would trade the rule's low variance
        for an easier kernel.
    n_restarts
        How many starts besides the best are tried.
    max_iter
        Most iterations of L-BFGS on the whole table.
    center
        Shift c of the inputs (d,). None: the mean of the first batch. Fourier features do not
        depend on it; for Laplace features it is part of the model.
    dtype
        `"float64"`, or `"float32"`: features and matrix products of at most 16384 rows in single,
        sums and solves in double precision.
    progress
        Show progress on stderr; None does so on a terminal.
    teacher_rows
        Most rows of the exact GP of `objective="posterior-kl"`, drawn from the table.
    batch_rows
        Most rows of one step of `objective="evidence"` with fitted frequencies; of longer tables
        each step takes rows of its own.
    kl_target
        Nats per point, for `"auto"`. It is measured after the fit, at each quarter of the rows
        given the others, or, from 1024 rows on, at 256 of them; a ConvergenceWarning says if it
        could not be met, or not surely.

    Attributes
    ----------
    lengthscale_, outputscale_, noise_
        Fitted hyperparameters, in units of X and of y squared; those of the sampled spectrum if
        there are several members.
    log_marginal_likelihood_value_
        Log evidence of y (in its own units) at the fitted hyperparameters.
    features_
        The feature map, of unit lengthscale and variance; `features_.frequencies` is (m, d) and
        `features_.weights` (m,) where frequencies were fitted. The sampled one of several members.
    members_, member_weights_
        The models whose laws are mixed and their weights: the sampled spectrum first; with `ard`
        then the same with one factor on all lengthscales; then the fitted ones. The model itself
        and one where frequencies were not fitted to the evidence. `predict` gives the
        precision-weighted mean and the root of the mixture's second moment about it,
        `log_density` the density of the mixture itself, `sample_y` draws of it.
    spectrum_start_loss_, spectrum_loss_
        The objective before and after, on points no step has seen, for `"posterior-kl"`; of a
        function, its value.
    n_evaluations_, converged_
        Evaluations of the evidence that fitting took, and whether L-BFGS converged.
    selection_, kl_per_point_
        Of `"auto"`: what was tried and why it was chosen (`selection_.explain()`), and the KL that
        was measured after the fit.
    n_frequencies_
        Number of frequencies in use.
    n_features_in_, feature_names_in_
        Of X, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> gp = SparseSpectrumGPRegressor(n_frequencies=32, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: SpectrumLike = "gaussian",
        features: str = "fourier",
        n_frequencies: int | str = 256,
        coupling: CouplingLike = "orthogonal+pnc",
        frequencies: str = "sampled",
        objective: str | Callable[[Tensor, Tensor], Tensor] = "evidence",
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
        center: ArrayLike | None = None,
        dtype: str = "float64",
        progress: bool | None = None,
        teacher_rows: int = 500,
        batch_rows: int = 8192,
        kl_target: float = 0.01,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.frequencies = frequencies
        self.objective = objective
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
        self.center = center
        self.dtype = dtype
        self.progress = progress
        self.teacher_rows = teacher_rows
        self.batch_rows = batch_rows
        self.kl_target = kl_target

    # Several spectra fitted to the evidence; otherwise the model is one.
    _stack: Stack | None = None
    # What `fit` was given, while it runs.
    _queries: Any = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, queries: ArrayLike | None = None
    ) -> SparseSpectrumGPRegressor:
        """Fit hyperparameters and frequencies, then the posterior.

        Parameters
        ----------
        X
            Inputs (n, d).
        y
            Targets (n,), or (n, k) for k independent outputs that share the hyperparameters.
        queries
            Inputs (q, d) without targets, such as those to be predicted: for
            `objective="posterior-kl"`, points where the posterior matters. They take half of the
            places at which it is compared with the teacher's, drawn with replacement; the other
            half lies near the teacher's rows. None: rows that the teacher was not given, if any.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, or `queries` serve no purpose.
        NumericalError
            The posterior's matrix is not positive definite to working precision.
        """
        fitted = unfitted(self)
        if queries is not None:
            check_use_of_queries(self)
            fitted._queries = queries
        fitted._fit(X, y)
        fitted.__dict__.pop("_queries", None)
        self.__dict__ = fitted.__dict__
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike) -> None:
        if "auto" not in (self.n_frequencies, self.coupling):
            super()._fit(X, y)
            return
        from coupledgp.selection.automatic import fit_automatic  # it imports this class

        fitted = fit_automatic(self, X, y, lambda candidate: candidate.fit(X, y))
        self.__dict__ = fitted.__dict__

    @property
    def n_frequencies_(self) -> int:
        """Number of frequencies in use."""
        return self.features_.n_frequencies

    def _prepare(self, inputs: FloatArray, rng: np.random.Generator) -> None:
        refuse_as_covariance(self.features)
        check_choice(self.features, FEATURE_MAPS, "features")
        check_fitting(self, len(inputs))
        if self._queries is not None:
            self._queries = self._checked_queries()
        check_choice(self.dtype, DTYPES, "dtype")
        self._stack = None
        self._center = inputs.mean(axis=0)
        if self.center is not None:
            self._center = check_vector(np.broadcast_to(self.center, inputs.shape[1]), "center")
        size: Any = self.n_frequencies
        self.features_ = FEATURE_MAPS[self.features](
            inputs.shape[1],
            size,
            self.coupling,
            parse_spectrum(self.kernel, "kernel"),
            rng,
            dtype=DTYPES[self.dtype],
        )

    def _checked_queries(self) -> FloatArray:
        try:
            queries: FloatArray = validate_data(self, self._queries, dtype=np.float64, reset=False)
        except ValueError as error:
            raise InvalidInputError(f"queries: {error}") from None
        return queries

    def _default_fixed(self) -> tuple[str, ...]:
        return ("lengthscale",) if self.features == "laplace" else ()

    def _default_lengthscale(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        if self.features != "laplace":
            return super()._default_lengthscale(inputs, rng)
        spread = column_spread(inputs, self.ard) if self.ard else np.ones(inputs.shape[1])
        return spread * laplace_lengthscale((inputs - self._center) / spread, rng)

    def _stream(self, inputs: FloatArray) -> FeatureStream:
        hyper = getattr(self, "_hyperparameters", None)
        lengthscale = np.ones(inputs.shape[1]) if hyper is None else hyper.lengthscale
        return FeatureStream(self.features_, inputs, self._center, lengthscale)

    def _evidence_problem(self, inputs: FloatArray, targets: FloatArray) -> FeatureEvidence:
        return FeatureEvidence(self._stream(inputs), targets)

    def _optimise(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        rng: np.random.Generator,
        report: Progress,
    ) -> None:
        if self.frequencies == "sampled":
            super()._optimise(problem, space, rng, report)
        else:
            assert isinstance(problem, FeatureEvidence)
            fit_frequencies(self, problem, space, rng, report)

    def _condition(self, inputs: FloatArray, targets: FloatArray) -> None:
        if self._stack is not None:
            self._stack = self._stack.conditioned(self, inputs, targets)
            self._take_posterior()
            return
        offset = torch.as_tensor(targets.mean(axis=0))
        empty = DataStatistics(self.features_.n_features, offset)
        self._statistics = empty.updated(self._chunks(inputs, targets))
        self._solve()

    def _chunks(self, inputs: FloatArray, targets: FloatArray) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, _, features in self._stream(inputs):
            # A copy: torch warns of tensors that share a read-only array.
            yield features, torch.tensor(targets[rows])

    def _solve(self) -> None:
        hyper = self._hyperparameters
        self._posterior: WeightPosterior = self._statistics.posterior(
            torch.as_tensor(self._y_mean), torch.as_tensor(self._y_scale),
            hyper.outputscale, hyper.noise,
        )  # fmt: skip
        self._set_log_evidence(self._posterior.log_evidence, self._statistics.n_rows)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> SparseSpectrumGPRegressor:
        """Add rows to the data, hyperparameters and frequencies fixed.

        The first call on an unfitted model is `fit`. Afterwards the posterior is the one a single
        `fit` on all rows with the same hyperparameters (in units of the normalised y) would give;
        the normalisation of y follows the data.

        Parameters
        ----------
        X, y
            Further inputs (n, d) and targets, as in `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        inputs, targets = self._validate(X, y, reset=False)
        for model in [self] if self._stack is None else self._stack.members:
            model._update(inputs, targets)
        if self._stack is not None:
            self._take_posterior()
        return self

    def _update(self, inputs: FloatArray, targets: FloatArray) -> None:
        self._statistics = self._statistics.updated(self._chunks(inputs, targets))
        if self._rows_kept:
            self._X_parts = [*self._X_parts, inputs]
            self._y_parts = [*self._y_parts, targets]
        if self.normalize_y:
            mean, std = (t.numpy() for t in self._statistics.target_mean_and_std())
            self._y_mean, self._y_scale = mean, safe_scale(std, mean)
        self._solve()

    def _take_posterior(self) -> None:
        """Take over data and posterior of the first member."""
        assert self._stack is not None
        self.__dict__.update({k: v for k, v in vars(self._stack.members[0]).items() if k in TAKEN})

    @property
    def members_(self) -> list[SparseSpectrumGPRegressor]:
        """Models whose laws are mixed, the sampled spectrum first; the model itself if single."""
        return [self] if self._stack is None else self._stack.members

    @property
    def member_weights_(self) -> FloatArray:
        """Weights (K,) of the members, of sum one."""
        return np.ones(1) if self._stack is None else self._stack.weights

    def _law(
        self, inputs: FloatArray, want: str, latent: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        if self._stack is None:
            return super()._law(inputs, want, latent)
        return self._stack.law(inputs, want, latent)

    def _samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator, latent: bool
    ) -> FloatArray:
        if self._stack is None:
            return super()._samples(inputs, n_samples, rng, latent)
        return self._stack.samples(inputs, n_samples, rng, latent)

    def _log_density(self, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        if self._stack is None:
            return super()._log_density(inputs, targets)
        return self._stack.log_density(inputs, targets)

    def _latent(self, inputs: FloatArray, want: str) -> tuple[FloatArray, FloatArray | None]:
        means, roots, variances = [], [], []
        for _, _, features in self._stream(inputs):
            means.append(self._posterior.predict(features))
            if want == "mean":
                continue
            root = self._posterior.root(features)
            variances.append(root.square().sum(1))
            if want == "covariance":
                roots.append(root)
        mean = torch.cat(means).numpy()
        if want == "mean":
            return mean, None
        variance = torch.cat(variances)
        if want == "variance":
            return mean, variance.numpy()
        root = torch.cat(roots)
        covariance = root @ root.T
        covariance.diagonal().copy_(variance)
        return mean, covariance.numpy()

    def _latent_samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        n_outputs = self._y_mean.size
        # The draws depend on the seed only, so calls with one seed see the same functions.
        innovations = rng.standard_normal((self._posterior.n_innovations, n_outputs * n_samples))
        deviations = self._posterior.sample(torch.as_tensor(innovations))
        weights = self._posterior.mean[:, :, None] + deviations.reshape(-1, n_outputs, n_samples)
        flat = weights.reshape(len(weights), -1)
        parts = [features.to(flat) @ flat for _, _, features in self._stream(inputs)]
        return torch.cat(parts).reshape(-1, n_outputs, n_samples).numpy()

    def prior_covariance(self, X: ArrayLike) -> FloatArray:
        """Prior covariance `v Phi Phi'` of f at inputs (p, d), units of y squared.

        Shape (p, p), or (p, p, k) for targets of two dimensions; of several members the mixture's.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        if self._stack is None:
            return self._prior_covariance(inputs)
        return self._stack.prior_covariance(inputs)

    def _prior_covariance(self, inputs: FloatArray) -> FloatArray:
        features = self._stream(inputs).dense()
        return np.multiply.outer((features @ features.T).numpy(), self.outputscale_)

    def exact_twin(self) -> ExactGPRegressor:
        """Return the exact GP at this model's hyperparameters, fitted to the same data.

        They are the teacher's for frequencies fitted to a posterior, and those of the sampled
        spectrum for frequencies fitted to the evidence, which speak of kernels of their own.
        """
        check_is_fitted(self)
        hyper = self._hyperparameters
        twin = ExactGPRegressor(
            kernel=self.features_.spectrum,
            ard=self.ard,
            lengthscale=hyper.lengthscale,
            outputscale=hyper.outputscale,
            noise=hyper.noise,
            normalize_y=self.normalize_y,
            optimizer=None,
            random_state=self.random_state,
            progress=self.progress,
        )
        return twin._adopt(self, self.features_.spectrum)


def laplace_lengthscale(centred: FloatArray, rng: np.random.Generator) -> float:
    """`2 mean_ij |x_i + x_j|` over the rows (n, d), all pairs, on at most 2000 rows."""
    if len(centred) > RULE_ROWS:
        centred = centred[np.sort(rng.choice(len(centred), RULE_ROWS, replace=False))]
    rows = torch.as_tensor(centred)
    rule = 2 * float(torch.cdist(rows, -rows).mean())
    return rule if rule > 0 else 1.0
