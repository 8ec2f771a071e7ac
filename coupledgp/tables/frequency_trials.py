"""How a sparse-spectrum model draws its frequencies, and what `"auto"` tries of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from coupledgp.core.column_moments import (
    column_means,
    column_spread,
    laplace_lengthscale,
    spread_lengthscale,
)
from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.posterior_form import PosteriorForm
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.starts import first_places
from coupledgp.couplings import CouplingLike
from coupledgp.couplings.frequencies.registry import DEFAULT_COUPLING, PosteriorLaw, parse_law
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.features.registry import FeaturesLike, features_class, make_features
from coupledgp.ground.devices import parse_device
from coupledgp.ground.parameters import any_value, at_least, one_of, option
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import check_magnitude, check_vector
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.tables.batch_passes import FitInBatches
from coupledgp.tables.exact_regressor import ExactGPRegressor
from coupledgp.tables.members import is_auto, with_parameters
from coupledgp.tables.out_of_core import check_options, fit_passes
from coupledgp.tables.regressor import AutomaticSize
from coupledgp.tables.samplers import Columns
from coupledgp.tables.stationary_regressor import StationaryRegressor
from coupledgp.tables.table_passes import TablePasses
from coupledgp.tables.weight_space import FeaturePrior

DTYPES = ("float64", "float32")
# The largest size that "auto" tries: its matrix of 16384 features takes 2 GiB.
MAX_FREQUENCIES = 8192


class FrequencyTrials(AutomaticSize, FitInBatches, StationaryRegressor):
    """Part of a sparse-spectrum model that draws feature maps, for itself and for `"auto"`.

    Parameters are those of `SparseSpectrumGPRegressor`.
    """

    n_frequencies: int | str
    coupling: CouplingLike | None
    frequencies: str
    kernel: SpectrumLike
    features: FeaturesLike
    optimizer: str | None

    center = option(None, any_value)
    dtype = option("float64", one_of(*DTYPES))
    teacher_rows = option(500, at_least(2))

    def check_passes(self) -> None:
        check_options(self)

    def fit_passes(self, passes: TablePasses) -> tuple[GaussianProcess, dict[str, Any]]:
        return fit_passes(self, passes)

    def _drawn(
        self,
        dim: int,
        coupling: CouplingLike,
        size: int,
        rng: np.random.Generator,
        rows: FloatArray | None = None,
    ) -> FeatureMap:
        kernel = parse_spectrum(self.kernel, "kernel")
        where: dict[str, Any] = {
            "dtype": getattr(torch, self.dtype),
            "device": parse_device(self.device),
        }
        return make_features(self.features, dim, size, coupling, kernel, rng, rows=rows, **where)

    @property
    def sampled_by(self) -> CouplingLike:
        """The coupling that frequencies are sampled by, where they are."""
        return DEFAULT_COUPLING if self.coupling is None else self.coupling

    @property
    def _from_rows(self) -> bool:
        """Whether the frequencies' law depends on the training rows."""
        return features_class(self.features).from_rows

    def _center(self, data: Data) -> FloatArray:
        if self.center is None:
            return column_means(data.points, data.counts)
        center = check_vector(np.broadcast_to(self.center, data.points.shape[1]), "center")
        check_magnitude(center, "center")
        return center

    def _default_fixed(self) -> tuple[str, ...]:
        return ("lengthscale",) if features_class(self.features).lengthscale_by_rule else ()

    def _default_lengthscale(
        self,
        data: Data,
        center: FloatArray,
        rng: np.random.Generator,
        groups: IntArray | None,
    ) -> FloatArray:
        inputs, counts = data.points, data.counts
        if not features_class(self.features).lengthscale_by_rule:
            return spread_lengthscale(inputs, self.ard, groups, counts=counts)
        spread = np.ones(inputs.shape[1])
        if self.ard:
            spread = column_spread(inputs, self.ard, groups, counts=counts)
        return spread * laplace_lengthscale((inputs - center) / spread, rng, counts)

    # The methods by which a coupling and a size are chosen, see `selection.members`.

    @property
    def candidate_couplings(self) -> tuple[str, ...]:
        """Couplings that `"auto"` compares."""
        return features_class(self.features).couplings_to_try

    def parse_coupling(self, coupling: Any, name: str) -> Any:
        """Return a coupling of frequencies, or a law that depends on the posterior."""
        return parse_law(coupling, name)

    @property
    def has_closed_form(self) -> bool:
        own = features_class(self.features) is FourierFeatures and is_auto(self.n_frequencies)
        free = is_auto(self.coupling) and self.frequencies == "auto"
        return own and (self.coupling is None or free)

    def posterior_form(
        self, exact: GaussianProcess, data: Data, rng: np.random.Generator, n_rows: int
    ) -> PosteriorForm:
        """The form of a pilot of some rows of the data, at the hyperparameters of an exact GP."""
        prior = FeaturePrior(
            self._drawn(data.points.shape[1], DEFAULT_COUPLING, 1, rng),
            self._center(data),
            exact.hyperparameters,
        )
        return prior.pilot(data, rng, n_rows)

    def chosen(self, coupling: Any, size: int) -> Self:
        changes = {"coupling": coupling, "frequencies": "sampled"}
        if isinstance(parse_law(coupling), PosteriorLaw):
            changes = {"coupling": None, "frequencies": str(coupling)}
        copy: Self = with_parameters(self, n_frequencies=size, **changes)
        return copy

    def size_range(self, data: Data) -> tuple[int, int]:
        """Smallest and largest number of frequencies that are tried.

        With more features than rows the exact GP is cheaper.
        """
        n_rows, dim = len(data), data.points.shape[1]
        return min(max(dim, 4), n_rows), min(MAX_FREQUENCIES, n_rows)

    def exact_process(
        self, data: Data, seed: int, progress: bool | None, columns: Any = None
    ) -> GaussianProcess:
        """Fit the exact GP to these rows, with the hyperparameters fixed that this model fixes."""
        columns = Columns(data.points.shape[1]) if columns is None else columns
        self._check_parameters(len(data))
        fixed = self._default_fixed() if self.fixed is None else self.fixed
        lengthscale = self.lengthscale
        if lengthscale is None and "lengthscale" in fixed:
            rng, center = self._rng(), self._center(data)
            lengthscale = self._default_lengthscale(data, center, rng, columns.groups)
            if columns.groups is not None:
                lengthscale = lengthscale[first_places(columns.groups)]
        exact = ExactGPRegressor(
            kernel=self.kernel,
            ard=self.ard,
            lengthscale=lengthscale,
            outputscale=self.outputscale,
            noise=self.noise,
            normalize_y=self.normalize_y,
            optimizer=self.optimizer,
            options={"fixed": fixed, "n_restarts": self.n_restarts, "max_iter": self.max_iter},
            random_state=seed,
            progress=progress,
        )
        return exact.fit_data(data, columns)[0]

    def approximation(
        self, exact: GaussianProcess, coupling: Any, size: int, seed: int
    ) -> GaussianProcess:
        """Return the process of this model at the hyperparameters and data of an exact one."""
        data = exact.data
        rng = np.random.default_rng(seed_from_random_state(seed))
        center, scales = self._center(data), exact.hyperparameters
        rows = (data.points - center) / scales.lengthscale if self._from_rows else None
        law, dim = parse_law(coupling), data.points.shape[1]
        like = DEFAULT_COUPLING if isinstance(law, PosteriorLaw) else law
        prior = FeaturePrior(self._drawn(dim, like, size, rng, rows), center, scales)
        if isinstance(law, PosteriorLaw):
            prior = prior.drawn_for(data, size, rng)
        return prior.given(data, exact.units, self.normalize_y)
