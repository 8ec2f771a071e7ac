"""Other models of a table: kernels, local parts, trends, transforms and boosted trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from coupledgp.diagnostics.rivals.contest import FOLDS
from coupledgp.diagnostics.rivals.rival import FittedRival, Rival
from coupledgp.diagnostics.sections.section import short_numbers
from coupledgp.errors import InvalidInputError
from coupledgp.features.sklearn import Columns
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.transformed import TransformedGP, transformed_data
from coupledgp.gp.transforms import Identity
from coupledgp.ground.progress import reporter
from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.local import LocalGPRegressor
from coupledgp.models.regressor import GPRegressor
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor
from coupledgp.models.tables import TableRegressor, chosen_transforms
from coupledgp.random import FloatArray
from coupledgp.selection.member_kinds import Size
from coupledgp.selection.member_plans import KINDS
from coupledgp.selection.protocol import is_auto, with_parameters

# Fewest rows for boosting: its leaves hold 20 rows each.
FEWEST_ROWS = 60
# Seconds of a fit on one core of a server of 2023: at least, and for each row and column up to.
FIT_SECONDS, ENTRY_SECONDS, MOST_BINNED = 0.25, 5e-6, 10_000
# Kernels from the roughest to the smoothest, functions of the Euclidean distance.
KERNELS = ("matern-1/2", "matern-3/2", "matern-5/2", "gaussian")
# Evaluations of the evidence that a search takes, and seconds of one core for each operation on an
# entry: of a Cholesky factor with its gradient, of a covariance, and of a Gram matrix of features.
EVALUATIONS, CUBIC_SECONDS, COLUMN_SECONDS, GRAM_SECONDS = 60, 1e-10, 2e-9, 2e-10
# Largest table whose exact process is an alternative to a model that is not of this package.
EXACT_ROWS = 1000


@dataclass(frozen=True, eq=False)
class TableTask:
    """A table to which models are fitted.

    Attributes
    ----------
    data : Data
        Training rows (n, d) and targets (n, k), as the model was given them.
    columns : Columns
        Columns of the table.
    model : TableRegressor or None
        The model; None for one of another package.
    transformed : bool
        Whether the targets are transformed ones already.
    seed : int
        Seed of all alternatives.
    budget : float
        Seconds for all of them.
    """

    data: Data
    columns: Columns
    model: TableRegressor | None
    transformed: bool
    seed: int
    budget: float

    def rivals(self) -> list[Rival]:
        """Models that differ from the model in one respect, and those of other kinds."""
        found = [*self._kernels(), *self._fits(), *self._transforms()]
        if not isinstance(self.model, LocalGPRegressor):
            found.append(
                self._of(
                    "local part",
                    "Add a local part and a trend: LocalGPRegressor().",
                    LocalGPRegressor(random_state=self.seed, progress=False),
                    KINDS["hybrid"].forecast(self._size),
                )
            )
        if not isinstance(self.model, GPRegressor):
            found.append(self.mixture())
        return [*found, boosting(self.data, self.seed)]

    def mixture(self) -> Rival:
        """The mixture of kernels, local parts, features and a trend."""
        model = self._mixture()
        action = "Mix kernels, local parts, features and a trend by their density: GPRegressor()."
        return self._of("mixture", action, model, self._forecast(model))

    @property
    def _size(self) -> Size:
        n, d = self.data.points.shape
        return Size(n, d, 32, 64)

    def _mixture(self) -> GPRegressor:
        return GPRegressor(random_state=self.seed, budget=self.budget, progress=False)

    def _forecast(self, model: Any) -> float:
        """Seconds of a fit of an estimator."""
        n, d = self.data.points.shape
        if isinstance(model, GPRegressor):
            try:
                return sum(plan.seconds for plan in model.forecast(n, d))
            except InvalidInputError:  # nothing is within the budget
                return sum(p.seconds for p in GPRegressor(budget=1e12).forecast(n, d))
        if isinstance(model, SparseSpectrumGPRegressor):
            features = 2 * int(model.n_frequencies)
            return EVALUATIONS * GRAM_SECONDS * (n + features) * features**2
        if isinstance(model, ExactGPRegressor):
            return EVALUATIONS * (CUBIC_SECONDS * n**3 + COLUMN_SECONDS * d * n**2)
        return KINDS["hybrid"].forecast(self._size)

    def _variant(self, **parameters: Any) -> Any:
        """The model without its transform, or for one of another package an exact one."""
        if self.model is None:
            return ExactGPRegressor(random_state=self.seed, progress=False).set_params(**parameters)
        own: dict[str, Any] = {"target_transform": None, "progress": False}
        if self.model.random_state is None:
            own["random_state"] = self.seed
        if isinstance(self.model, SparseSpectrumGPRegressor):
            own["n_frequencies"] = self.model.n_frequencies_
            if is_auto(self.model.coupling):
                own["coupling"] = None
        return with_parameters(self.model, **(own | parameters))

    def _kernels(self) -> list[Rival]:
        """The same method with rougher and smoother kernels, where it has one kernel."""
        own = self._kernel()
        if own is None:
            return []
        found = []
        features = isinstance(self.model, SparseSpectrumGPRegressor)
        for name in KERNELS if features else (*KERNELS, "laplace"):
            if name == own:
                continue
            kind = "another"
            if own in KERNELS and name in KERNELS:
                rougher = KERNELS.index(name) < KERNELS.index(own)
                kind = "a rougher" if rougher else "a smoother"
            action = f"Use {kind} kernel: kernel='{name}'."
            if self.model is None:
                action = f"Use the exact process of a kernel: ExactGPRegressor('{name}')."
            model = self._variant(kernel=name, **self._searched)
            found.append(self._of(f"kernel {name}", action, model, self._forecast(model)))
        return found

    def _kernel(self) -> str | None:
        """Name of the model's only kernel; empty for a small table of another package's model."""
        if self.model is None:
            return "" if len(self.data) <= EXACT_ROWS else None
        sampled = getattr(self.model, "frequencies", "sampled") == "sampled"
        single = isinstance(self.model, ExactGPRegressor | SparseSpectrumGPRegressor)
        return str(self.model.kernel) if single and sampled else None

    @property
    def _searched(self) -> dict[str, Any]:
        """Parameters with which hyperparameters are fitted to another kernel."""
        kept = getattr(self.model, "fixed", None)
        free = {} if kept else {"lengthscale": None, "outputscale": None, "noise": None}
        return {"optimizer": getattr(self.model, "optimizer", None) or "lbfgs", **free}

    def _fits(self) -> list[Rival]:
        """The same kernel with fitted hyperparameters, where those of the model were given."""
        if self._kernel() is None or getattr(self.model, "optimizer", "lbfgs") is not None:
            return []
        model = self._variant(**self._searched)
        action = "Fit the hyperparameters: optimizer='lbfgs'."
        return [self._of("fitted hyperparameters", action, model, self._forecast(model))]

    def _transforms(self) -> list[Rival]:
        """The same model of transformed targets, where they are not transformed yet."""
        if self.transformed or (self.data.weights is not None and self.data.weights.level):
            return []
        base = self._mixture() if self.model is None else self._variant()
        text = "GPRegressor(target_transform='auto')" if self.model is None else "'auto'"
        action = f"Transform the targets: target_transform={text}."
        if self.model is None:
            action = f"Transform the targets: {text}."

        def fit(data: Data, seconds: float) -> FittedRival | str:
            asking = with_parameters(base, target_transform="auto")
            transforms = chosen_transforms(asking, data, self.columns)
            if all(one == Identity() for one in transforms):
                return "no transform has more evidence than none"
            inner, _ = base.fit_data(transformed_data(data, transforms), self.columns)
            names = short_numbers(", ".join(str(one) for one in transforms))
            return FittedRival(TransformedGP.of(inner, transforms, data), f" It takes {names}.")

        return [Rival("transformed targets", fit, action, 1.5 * self._forecast(base))]

    def _of(self, name: str, action: str, model: Any, seconds: float) -> Rival:
        """An estimator as a rival."""

        def fit(data: Data, limit: float) -> GaussianProcess:
            process: GaussianProcess = model.fit_data(data, self.columns)[0]
            return process

        return Rival(name, fit, action, seconds)


def forecast(n_rows: int, n_columns: int, n_outputs: int) -> float:
    """Seconds of the fits to all rows and to the folds."""
    rows = min(n_rows, MOST_BINNED) + 0.1 * max(n_rows - MOST_BINNED, 0)
    return (FOLDS + 1) * n_outputs * (FIT_SECONDS + ENTRY_SECONDS * rows * n_columns)


def boosting(data: Data, seed: int) -> Rival:
    """Boosted trees of a table as a rival; they need a number of rows."""

    def fit(given: Data, seconds: float) -> Any:
        if len(data) < FEWEST_ROWS:
            return f"expected {FEWEST_ROWS} training rows at least, got {len(data)}"
        with reporter("boosting") as report:
            report("fit")
            models = [_fitted(given, targets, seed) for targets in given.targets.T]
        return lambda points: np.column_stack([model.predict(points) for model in models])

    action = (
        "Use boosted trees: scikit-learn's HistGradientBoostingRegressor, with the error of "
        "cross-validation as standard deviation."
    )
    n, d = data.points.shape
    return Rival("gradient boosting", fit, action, forecast(n, d, data.targets.shape[1]))


def _fitted(data: Data, targets: FloatArray, seed: int) -> Any:
    """Boosted trees fitted to targets (n,)."""
    weights = None if data.relative_noise is None else 1 / data.relative_noise
    model = HistGradientBoostingRegressor(random_state=seed)
    return model.fit(data.points, targets, sample_weight=weights)
