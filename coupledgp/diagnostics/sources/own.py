"""Models of this package: their processes at test points, and their rows left out."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.core.latent import LatentGP
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data, GaussianProcess, Points
from coupledgp.core.transformed import untransformed
from coupledgp.diagnostics.laws import Mixture, Normal
from coupledgp.diagnostics.predictions import Law
from coupledgp.diagnostics.sources.kernel import StatedKernel
from coupledgp.errors import InvalidInputError
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.ground.validation import wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import class_log_chances
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.codes import CategoryCode
from coupledgp.tables.dense_prior import DenseProblem
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.weight_space import WeightSpaceGP

# What a report says of averaged hyperparameters.
SHARE = (
    "{:.0%} of the variance of observations at these points comes from means that differ with the "
    "hyperparameters."
)


def process_of(model: Any) -> GaussianProcess | None:
    """The process of a model, or None for an estimator that has none."""
    if isinstance(model, GaussianProcess):
        return model
    process = getattr(model, "process_", None)
    return process if isinstance(process, GaussianProcess) else None


def points_of(model: Any, X: Any) -> Any:
    """Points of the process of a model at test inputs; those of a process are its points.

    Raises
    ------
    InvalidInputError
        The inputs do not fit the model's data.
    """
    if isinstance(model, GaussianProcess):
        return X
    try:
        return model.points(X)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"X: {error}") from error


def input_names(model: Any) -> tuple[str, ...]:
    """Names of the columns of the inputs, as they are encoded; empty where they have none."""
    encoding, given = (getattr(model, name, None) for name in ("encoding_", "feature_names_in_"))
    found = given if encoding is None else encoding.column_names
    return () if found is None else tuple(map(str, found))


def categories(model: Any) -> tuple[IntArray, ...]:
    """Numbers of the columns of the inputs that are the code of each category."""
    encoding = getattr(model, "encoding_", None)
    return () if encoding is None else encoding.categories


def remarks_at(process: GaussianProcess, points: Points) -> tuple[str, ...]:
    """Sentences that a reader should know about a process at points."""
    if not isinstance(process, MixtureGP) or process.purpose != "hyperparameters":
        return process.remarks
    return (*process.remarks, SHARE.format(float(process.share_between(points).mean())))


class Functions(NamedTuple):
    """Joint normal law of k functions at p points, and the likelihood that observes them.

    `mean` is (p, k), `cov` (p, p, k).
    """

    mean: FloatArray
    cov: FloatArray
    likelihood: Likelihood

    @classmethod
    def of(cls, process: LatentGP, points: Points) -> Functions:
        """The functions of a process at points."""
        law = process.law(points, "covariance", latent=True)
        assert law.spread is not None
        return cls(law.mean, law.spread, process.likelihood)

    @property
    def variance(self) -> FloatArray:
        """Variances (p, k)."""
        return np.einsum("iik->ik", self.cov)

    def chances(self, power: float = 1.0) -> FloatArray:
        """Chances (p, K) of classes, raised to a power."""
        found = [
            self.likelihood.marginal_log_density(
                np.full_like(self.mean, y), self.mean, self.variance
            )
            for y in (0.0, 1.0)
        ]
        return np.exp(class_log_chances(found[0], found[1], power))

    def correlation(self) -> FloatArray:
        """Correlations (p, p, k) of observations."""
        return correlations(self.likelihood.marginal_moments(self.mean, self.cov)[1])


def correlations(cov: FloatArray) -> FloatArray:
    """Correlations (p, p, k) of covariances (p, p, k)."""
    std = np.sqrt(np.einsum("iik->ik", cov))
    found: FloatArray = cov / (std[:, None] * std[None])
    return found


def kernel(model: Any, n_columns: int) -> StatedKernel:
    """The stationary kernel of a model of a table, in units of y.

    Raises
    ------
    InvalidInputError
        It has none, or one of other columns.
    """
    process = process_of(model)
    assert process is not None
    problem = process.exact_problem()
    prior = problem.prior if isinstance(problem, DenseProblem) else None
    if not isinstance(prior, StationaryPrior) or process.data.points.shape[1] != n_columns:
        raise wrong(
            "kernel", f"a model of one stationary kernel of {n_columns} columns", type(model)
        )
    own, scale = prior.hyperparameters, float(problem.scale[0])
    return StatedKernel.stationary(
        prior.spectrum, own.lengthscale, own.outputscale * scale**2, own.noise * scale**2,
        float(problem.offset[0]), n_columns,
    )  # fmt: skip


def n_hyperparameters(process: GaussianProcess) -> int:
    """Number of the hyperparameters of a process, or of its first member."""
    first = process.first
    if isinstance(first, LocalGP):
        return int(first.local_prior.vector.size)
    count = _count(first.hyperparameters)
    if isinstance(first, WeightSpaceGP) and first.feature_prior.is_fitted:
        count += first.feature_map.n_frequencies * first.feature_map.dim
    return count


def _count(value: Any) -> int:
    """Different numbers in an object and in its parts."""
    if is_dataclass(value):
        return sum(_count(getattr(value, item.name)) for item in fields(value))
    if isinstance(value, float | np.floating):
        return 1
    if isinstance(value, np.ndarray):
        return int(np.unique(value).size)
    own = getattr(value, "__dict__", None)
    return sum(_count(part) for part in own.values()) if own else 0


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Observations of a fitted model, each to be predicted from those of other groups.

    Attributes
    ----------
    process : GaussianProcess
        The process; the inner one of one of transformed targets.
    groups : IntArray (n,)
        Number of the group of each observation.
    names : NDArray (g,)
        Names of the groups, texts.
    rows : IntArray (m,)
        Numbers of the observations that are scored, ascending.
    kind : str
        What a group is, in the plural: `"rows"`, `"nodes"`, `"places"` or `"groups"`.
    """

    process: GaussianProcess
    groups: IntArray
    names: NDArray[Any]
    rows: IntArray
    kind: str

    @classmethod
    def of(
        cls, model: Any, groups: ArrayLike | str | None, max_rows: int, seed: int
    ) -> LeftOutRows:
        """The observations of a fitted model or process.

        Raises
        ------
        InvalidInputError
            The model is none of this package, or the groups do not fit its observations.
        CoupledGPError
            The observations were not kept.
        """
        found = process_of(model)
        if found is None:
            raise InvalidInputError(
                f"model: expected a fitted model of this package, got a {type(model).__name__}; "
                "coupledgp.audit scores other models on test rows"
            )
        process = untransformed(found)
        data, kind = process.data, "groups"
        if isinstance(groups, str):
            groups = _column_groups(model, groups, data)
        if groups is None:
            numbers, names, kind = _by_place(process, data, model)
        else:
            numbers, names = _named_groups(groups, len(data))
        if len(names) < 2:
            raise InvalidInputError(f"groups: expected two {kind} at least, got one")
        return cls(process, numbers, names, some_rows(len(data), max_rows, seed), kind)

    def take(self, places: IntArray) -> LeftOutRows:
        """Some of the scored observations, by their places (q,)."""
        return replace(self, rows=self.rows[places])

    @property
    def y(self) -> FloatArray:
        """Targets (m, k) of the scored observations."""
        return self.process.data.targets[self.rows]

    @property
    def labels(self) -> NDArray[Any]:
        """Name (m,) of the group of each scored observation."""
        found: NDArray[Any] = self.names[self.groups[self.rows]]
        return found

    @property
    def leaves_one(self) -> bool:
        """Whether every group is a single observation."""
        return len(self.names) == len(self.groups)

    @property
    def text(self) -> str:
        """What is left out, in words."""
        n, m, g = len(self.groups), len(self.rows), len(self.names)
        if self.leaves_one:
            every = f"{self.kind}, each from all others"
        elif self.kind == "rows":
            every = "rows, each from all others but those of equal inputs"
        else:
            every = f"rows, each from those of other {self.kind} ({g} {self.kind})"
        return f"{n} {every}" if m == n else f"{m} of {n} {every}"

    def law(self) -> Law:
        """Laws of the scored observations, given those of other groups."""
        found = self.process.left_out(self.groups, self.rows)
        if len(found.shares) == 1:
            return Normal(found.mean, np.sqrt(found.variance))
        return Mixture.left_out(found)

    def correlation(self, places: IntArray) -> FloatArray | None:
        """Correlations (q, q, k) of the errors of some of the scored ones, by their places."""
        found = self.process.left_out_correlation(self.groups, self.rows[places])
        return None if found is None else found.reshape(len(places), len(places), -1)

    def judged(self, most: int, seed: int) -> IntArray:
        """Places of at most so many scored observations: all, or random ones with their nearest.

        Of a table the nearest is that in the fitted metric, so that neighbours are as near as the
        data allow; elsewhere observations are drawn at random.
        """
        if self.rows.size <= most:
            return np.arange(self.rows.size)
        rng = np.random.default_rng([seed, 7])
        points = self.process.data.points[self.rows]
        scale = np.asarray(
            getattr(self.process.hyperparameters, "lengthscale", 0.0), dtype=np.float64
        )
        if points.ndim != 2 or scale.shape != points.shape[1:]:
            return np.sort(rng.choice(self.rows.size, most, replace=False))
        inputs = in_lengthscales(points, scale, points)
        first = rng.choice(self.rows.size, most // 2, replace=False)
        near = cKDTree(inputs).query(inputs[first], k=2)[1]
        other = np.where(near[:, 0] == first, near[:, 1], near[:, 0])
        found: IntArray = np.unique(np.concatenate([first, other]))
        return found


def some_rows(n_rows: int, most: int, seed: Any) -> IntArray:
    """Numbers below n, or at most so many of them at random, ascending."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def _named_groups(groups: ArrayLike, n_rows: int) -> tuple[IntArray, NDArray[Any]]:
    """Number (n,) of the group of each observation, and names (g,) as texts."""
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"groups: expected the group of each of {n_rows} training rows, got shape "
            f"{labels.shape}"
        )
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        row = int(np.flatnonzero(missing)[0])
        raise InvalidInputError(f"groups: expected a group for each row, row {row} has none")
    if labels.dtype.kind not in "iufb":
        labels = labels.astype(str)
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), names.astype(str)


def _by_place(
    process: GaussianProcess, data: Data, model: Any
) -> tuple[IntArray, NDArray[Any], str]:
    """Observations at equal points together, numbered in the order of their first ones."""
    groups = first_seen(process.row_keys(data.points))
    firsts = np.unique(groups, return_index=True)[1]
    if np.ndim(data.points) == 1:
        nodes = np.asarray(data.points)[firsts]
        labels = getattr(getattr(model, "graph", None), "labels", None)
        names = [str(node if labels is None else labels[node]) for node in nodes.tolist()]
        return groups, np.array(names), "nodes"
    is_field = isinstance(process.first, FieldGP | PreciseFieldGP)
    return groups, firsts.astype(str), "places" if is_field else "rows"


def first_seen(keys: NDArray[Any]) -> IntArray:
    """Numbers (n,) of equal keys (n, ...), in the order of their first ones."""
    _, first, numbers = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found: IntArray = np.argsort(np.argsort(first))[numbers.reshape(-1)].astype(np.int64)
    return found


def _column_groups(model: Any, name: str, data: Data) -> NDArray[Any]:
    """Group (n,) of each training row: the value of the input column of a name."""
    names = [str(one) for one in getattr(model, "feature_names_in_", ())]
    if name not in names:
        known = f"one of {', '.join(names)}" if names else "an array, since inputs have no names"
        raise wrong("groups", known, name)
    encoding, place = getattr(model, "encoding_", None), names.index(name)
    if encoding is None:
        return data.points[:, place]
    widths = [sum(width for _, width in code.parts) for code in encoding.codes]
    start = sum(widths[:place])
    values = data.points[:, start : start + widths[place]]
    code = encoding.codes[place]
    if isinstance(code, CategoryCode):
        texts = ["missing" if level is None else str(level) for level in code.levels]
        distances = np.square(values[:, None] - code.points[None]).sum(axis=2)
        levels: NDArray[Any] = np.array([*texts, "other"])[distances.argmin(axis=1)]
        return levels
    if values.shape[1] == 1:
        return values[:, 0]
    first, number = np.unique(values, axis=0, return_index=True, return_inverse=True)[1:]
    return np.array([f"as in row {row}" for row in first])[number.reshape(-1)]
