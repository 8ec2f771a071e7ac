"""Sparse-spectrum GP regression: a GP whose kernel is a dot product of coupled random features."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.starts import SearchSpace, first_places
from coupledgp.core.stored import FittedModel, fitted_result
from coupledgp.core.transformed import untransformed
from coupledgp.core.units import Units
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.features import FeatureMap
from coupledgp.features.base import refuse_as_covariance
from coupledgp.features.fourier import check_directions
from coupledgp.features.registry import (
    Drawn,
    FeaturesLike,
    parse_features,
)
from coupledgp.ground.parameters import check_declared
from coupledgp.ground.progress import reporter
from coupledgp.ground.threads import numbers_of
from coupledgp.ground.validation import (
    check_lengthscale,
    check_positive_int,
)
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.tables.exact_regressor import ExactGPRegressor
from coupledgp.tables.frequency_trials import FrequencyTrials
from coupledgp.tables.members import is_auto
from coupledgp.tables.rows import named_rows
from coupledgp.tables.samplers import Columns
from coupledgp.tables.spectrum_options import (
    check_fitting,
    check_room,
    check_use_of_queries,
    why_sampled,
)
from coupledgp.tables.spectrum_search import FittedFeatures, SpectrumFitter
from coupledgp.tables.stationary_regressor import averaged_results, search_results
from coupledgp.tables.weight_space import WeightSpaceGP


@estimator
class SparseSpectrumGPRegressor(FrequencyTrials):
    """Gaussian process regression with coupled random features, linear in the number of rows.

    `y = sqrt(v) phi((x - c) / l) . w + e`, `w ~ N(0, I)`, `e ~ N(0, s)`: inference in the space of
    the M feature weights, O(n M^2) time and O(M^2) memory (MATH section 6). The hyperparameters
    `l`, `v`, `s` maximise the evidence.

    Parameters
    ----------
    kernel
        A stationary kernel, as in `parse_spectrum`.
    features
        `"fourier"` (sine and cosine, M = 2m), `"laplace"` (positive, Gaussian kernel only, M = m),
        `"importance-laplace"` (the same, frequencies drawn where the training rows need them, see
        `features.ImportanceLaplaceFeatures`) or another registered name; a subclass of
        `FeatureMap`, or a function of its arguments (see `features.parse_features`).
    n_frequencies
        Number of frequencies m. `"auto"`: the least number for which the KL from the exact
        posterior to this one falls below `kl_target`, or 256 if that predicts held-out rows
        better by more than the error; see `selection_`.
    coupling
        Joint law that the frequencies are sampled by: an object or a text such as `"iid"`.
        `"auto"`: the one that comes closest to the exact posterior. None: orthogonal+pnc, unless
        they are drawn for the posterior.
    frequencies
        `"sampled"`: by the coupling from the spectral measure, so that the prior is an unbiased
        estimate of the kernel's. `"posterior"`: drawn where the posterior of these rows needs them,
        with importance weights, so that the prior stays unbiased; as many frequencies then come
        several times closer to the exact posterior (docs/posterior_draws.md). The hyperparameters
        are searched with sampled ones, and the variances once more with those drawn. `"auto"`:
        `"posterior"` where a pilot expects a gain, `"sampled"` elsewhere and where a coupling is
        given. `"fitted"`: sampled and then moved, each with a weight, to where the KL from the
        posterior of an exact GP on at most 500 rows is least; that GP also supplies the
        hyperparameters (MATH section 4). They are then no unbiased sample of the kernel:
        `compare(...).prior_kl_per_point` says how far the prior is from the kernel's.
    options
        Values by name for specialists; None: none. `fixed`, `n_restarts`, `max_iter`,
        `hyperparameter_prior` and `n_hyperparameter_draws` are those of the search:

        * `fixed`: names of hyperparameters that the optimizer leaves alone. None, the default:
          nothing, but `("lengthscale",)` for Laplace features, whose evidence would trade the
          rule's low variance for an easier kernel.
        * `n_restarts` (1): number of starting points, besides the best one, from which L-BFGS is
          run as well. Without a `lengthscale` they come from a coarse profile of the evidence on
          at most 128 rows; on tables that are searched whole twice as many are tried for a few
          steps.
        * `max_iter` (100): largest number of iterations of L-BFGS, on each rung of a long table's
          ladder of rows. A ConvergenceWarning is given if the search on the last rung ends there.
        * `hyperparameter_prior`: laws of the logarithms of averaged hyperparameters, a
          `HyperparameterPrior` or its fields by name. None, the default: normal laws for the
          normalised y. `log l` has standard deviation 1 about the log of the data-driven
          lengthscale, `log v` has 1 about 0, and `log s` has 1.7 about -3.
        * `n_hyperparameter_draws` (48): draws of averaged hyperparameters: each costs an
          evaluation of the evidence, and a member of the mixture unless its weight is below 1e-4.
        * `keep_rows`: whether the model holds the training rows, which the exact twin, left-out
          laws, further draws of the frequencies and `X_train_` need. None, the default: `fit` and
          its `partial_fit` keep them, `fit_batches` does not.
        * `kl_target` (0.01): target of the KL for `"auto"`, nats per point. The KL is measured
          after the fit, at each quarter of the observations given the other quarters. For 1024
          rows or more it is measured at 256 rows at most. A ConvergenceWarning is given if the KL,
          or its mean plus two standard errors, is above the target.
        * `center`: shift c of the inputs (d,). None, the default: the mean of the first batch.
          Fourier features do not depend on it; for Laplace features it is part of the model.
        * `dtype`: `"float64"`, or `"float32"`: features and matrix products of at most 16384 rows
          in single, sums and solves in double precision.
        * `teacher_rows` (500): largest number of rows, drawn from the table, of the exact GP of
          `frequencies="fitted"`.
    device
        Where features, sums and solves are computed (docs/models.md, "On a GPU"): None or `"cpu"`,
        `"cuda"`, `"cuda:1"`, `"auto"` (a GPU where torch finds one) or a `torch.device`. Draws, and
        with them the frequencies of a seed, are the same on every device, results are NumPy arrays,
        and model files hold none: they load anywhere. `exact_twin` is on the CPU.

    Attributes
    ----------
    lengthscale_, outputscale_, noise_
        Fitted hyperparameters, in units of X and of y squared.
    features_
        The feature map, of unit lengthscale and variance; `features_.frequencies` is (m, d) and
        `features_.weights` (m,) where frequencies were fitted.
    members_, member_weights_
        The models whose laws are mixed where hyperparameters are averaged, and their weights (K,);
        elsewhere the model itself with weight one.
    spectrum_start_loss_, spectrum_loss_
        KL per point from the exact posterior before and after frequencies were fitted, at points
        that no step used.
    n_frequencies_
        Number of frequencies in use.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> gp = cgp.SparseSpectrumGPRegressor(n_frequencies=32, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.01)
    True
    """

    kernel: SpectrumLike = "gaussian"
    features: FeaturesLike = "fourier"
    n_frequencies: int | str = 256
    coupling: CouplingLike | None = None
    frequencies: str = "auto"
    ard: bool = True
    lengthscale: ArrayLike | None = None
    outputscale: float | None = None
    noise: float | None = None
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None

    size_parameter: ClassVar[str] = "n_frequencies"

    spectrum_start_loss_ = fitted_result(
        "spectrum_start_loss_", "KL per point before frequencies were fitted."
    )
    spectrum_loss_ = fitted_result("spectrum_loss_", "KL per point of fitted frequencies.")
    pilot_ = fitted_result("pilot_", "Why the frequencies were drawn as they were.")

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
        *,
        queries: ArrayLike | None = None,
    ) -> Self:
        """Fit as every estimator of tables does, and the frequencies where they are fitted.

        Parameters
        ----------
        X, y, sample_weight, sample_noise
            As in `ExactGPRegressor.fit`.
        queries
            Inputs (q, d) without targets, such as those to be predicted: where frequencies are
            drawn for the posterior or fitted to it, points where it matters. They take half of the
            places at which it is compared with the teacher's, drawn with replacement; the other
            half lies near the teacher's rows. None: rows that the teacher was not given, if any.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, or `queries` serve no purpose.
        NumericalError
            The posterior's matrix is not positive definite to working precision.
        """
        if queries is not None:
            check_use_of_queries(self)
        further = {} if queries is None else {"queries": queries}
        size = numbers_of(y)
        if isinstance(self.n_frequencies, int):  # rows whose dense matrix costs as much
            size = float(np.cbrt(size * (2 * numbers_of(self.n_frequencies)) ** 2))
        return self._assigned(
            lambda: self._fit(X, y, sample_weight, sample_noise, **further), size, y=y
        )

    def _fit(self, X: ArrayLike, y: ArrayLike, *weights: Any, **further: Any) -> FittedModel:
        if self.keep_rows is not False and self._chooses and self.target_transform is None:
            return self._fit_automatic(X, y, *weights)
        return super()._fit(X, y, *weights, **further)

    @property
    def features_(self) -> FeatureMap:
        """The feature map in use."""
        return self._first.feature_map

    @property
    def _first(self) -> WeightSpaceGP:
        process = untransformed(self.process_)
        first = process.first
        assert isinstance(first, WeightSpaceGP)
        return first

    @property
    def drawn_(self) -> Drawn:
        """What the frequencies are, in one form for all texts."""
        return Drawn.of(self.features_)

    @property
    def n_frequencies_(self) -> int:
        """Number of frequencies in use."""
        return self.features_.n_frequencies

    def exact_twin(self, solver: str = "dense") -> ExactGPRegressor:
        """Return the exact GP at this model's hyperparameters, fitted to the same data.

        Its hyperparameters are the teacher's if frequencies were fitted to a posterior, and those
        of the sampled spectrum if they were fitted to the evidence, since fitted spectra define
        kernels of their own. `solver` as in `TableRegressor.exact_twin`.
        """
        exact, record, groups = self.solved_exactly(solver), self.fitted_, self._columns.groups
        hyper = record.process.hyperparameters
        twin = ExactGPRegressor(
            kernel=self.features_.spectrum,
            ard=self.ard,
            lengthscale=hyper.lengthscale
            if groups is None
            else hyper.lengthscale[first_places(groups)],
            outputscale=hyper.outputscale,
            noise=hyper.noise,
            normalize_y=self.normalize_y,
            optimizer=None,
            random_state=self.random_state,
            progress=self.progress,
            missing=self.missing,
            target_transform=self.target_transform,
            solver=solver,
        )
        return twin.around(exact, record)

    def fit_data(
        self, data: Data, columns: Columns, queries: Any = None, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        self._check_parameters(len(data))
        if queries is not None:
            queries = named_rows(self, queries, columns, "queries")
        rng = self._rng()
        size: Any = self.n_frequencies
        drawn = None
        if not self._from_rows:
            drawn = self._drawn(data.points.shape[1], self.sampled_by, size, rng)
            check_directions(drawn)
            check_room(self, drawn, len(data))
        center = self._center(data)
        units = Units.of(data.targets, self.normalize_y, data.counts)
        base = self._default_lengthscale(data, center, rng, columns.groups)
        if drawn is None:
            scale = base if self.lengthscale is None else self.lengthscale
            rows = (data.points - center) / check_lengthscale(scale, center.size)
            drawn = self._drawn(center.size, self.sampled_by, size, rng, rows)
            check_room(self, drawn, len(data))
        space = self._search_space(data, units, base, columns.groups)
        stream = FeatureStream(drawn, data.points, center, np.ones(center.size))
        with reporter("fit", self.progress):
            problem = FeatureEvidence(stream, units.normalized(data.targets), data.weights)
            found = self._fitted_features(problem, space, rng, queries)
            first = found.prior
            average = self._averaged(problem, space, first.hyperparameters, rng)
        if average is None:
            return first.given(data, units, self.normalize_y), self._results(found)
        members = [
            replace(first, hyperparameters=hyperparameters).given(data, units, self.normalize_y)
            for hyperparameters in average.hyperparameters
        ]
        process = MixtureGP.of(members, average.weights, data, "hyperparameters")
        return process, averaged_results(found.search, average) | {"pilot_": found.pilot}

    def check_parameters(self) -> None:
        super().check_parameters()
        self._check_parameters(sys.maxsize)
        if not is_auto(self.coupling):
            parse_coupling(self.sampled_by)
        if not is_auto(self.n_frequencies):
            check_positive_int(self.n_frequencies, "n_frequencies")

    def _check_parameters(self, n_rows: int) -> None:
        parse_spectrum(self.kernel, "kernel")
        refuse_as_covariance(self.features)
        parse_features(self.features)
        check_fitting(self, n_rows)
        check_declared(self)

    def _fitted_features(
        self,
        problem: FeatureEvidence,
        space: SearchSpace,
        rng: np.random.Generator,
        queries: FloatArray | None,
    ) -> FittedFeatures:
        fitter = SpectrumFitter(
            problem,
            space,
            rng,
            self.n_restarts,
            self.max_iter,
            self.teacher_rows,
            queries,
            why_sampled(self, problem.n_rows, problem.stream.X.shape[1]),
        )
        if self.frequencies != "fitted":
            if fitter.kept:
                return fitter.sampled()
            return fitter.for_posterior(self.frequencies == "posterior")
        return fitter.to_posterior()

    def _explained(self) -> list[str]:
        pilot, drawn = self.fitted_.results.get("pilot_"), self.drawn_
        why = "" if pilot is None else f": {pilot.explain()}"
        return [*super()._explained(), *([] if drawn is None else [f"frequencies: {drawn}{why}"])]

    def _results(self, found: FittedFeatures) -> dict[str, Any]:
        results = search_results(found.search)
        if found.pilot is not None:
            results["pilot_"] = found.pilot
        if found.loss is not None:
            results |= {"spectrum_start_loss_": found.start_loss, "spectrum_loss_": found.loss}
        return results
