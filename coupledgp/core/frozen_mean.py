"""A Gaussian process about a mean function that does not change: `y = m(x) + r(x)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.drawn_functions import DrawnFunctions, MappedFunctions
from coupledgp.core.left_out import LeftOut
from coupledgp.core.mixture import n_columns_of
from coupledgp.core.process import (
    Data,
    Points,
    PredictiveLaw,
    Problem,
    Want,
)
from coupledgp.core.wrapped import WrappedGP
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.compiled import compiled
from coupledgp.random import FloatArray, IntArray

# Constants of the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@stored
@dataclass(frozen=True, eq=False, repr=False)
class FrozenMeanGP(WrappedGP):
    """The law of `y = m(x) + r(x)`, r the observations of an inner process, given data.

    The mean is a sum of boosted trees. At observed rows it is that of trees which did not see them,
    so that the residuals are those of rows that were left out; at other points it is the mean of
    all sums. It does not change when the process is given other data. `units`, `noise` and
    `hyperparameters` are those of the residuals.

    Attributes
    ----------
    inner : GaussianProcess
        Process of the residuals, Gaussian.
    mean : BoostedTrees
        The mean m, in units of y.
    rows : Data or None
        Observations of y; None if they were not kept.
    """

    mean: BoostedTrees

    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """Observations less the mean of trees that did not see them."""
        return targets - self.mean.observed(points)

    @property
    def remarks(self) -> tuple[str, ...]:
        return (
            *self.inner.remarks,
            "The model's mean is a sum of boosted trees that further rows do not change.",
        )

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        mean, spread = self.inner.law(points, want, latent=latent)
        return PredictiveLaw(mean + self.mean.at(points), spread)

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        drawn = self.inner.sample(points, n_samples, rng, latent=latent)
        return drawn + self.mean.at(points)[:, :, None]

    @property
    def is_rough(self) -> bool:
        """True: sums of trees jump."""
        return True

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions of the residuals, about the mean."""
        return MappedFunctions(
            self.inner.draw_functions(n_functions, rng),
            lambda points, values: values + self.mean.at(points)[:, :, None],
        )

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, about the trees that did not see their rows."""
        found = self.inner.left_out(groups, rows)
        points = self.data.points
        wanted = points if rows is None else points[np.asarray(rows)]
        return replace(found, means=found.means + self.mean.observed(wanted))

    def exact_problem(self) -> Problem:
        """Refuse, since a kernel alone does not state the law of y.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "method: a model about boosted trees has no single kernel to solve with; use "
            "method='dense' on fewer rows"
        )

    def read_back(self) -> FrozenMeanGP:
        """The process of a file, whose trees are those of its columns and outputs."""
        self.mean.check(n_columns_of(self.inner) or 0, self.inner.units.n_outputs)
        return self


def residuals(data: Data, mean: BoostedTrees) -> Data:
    """The same observations of y less a mean of trees that did not see them."""
    return data.mapped(lambda points, targets: targets - mean.observed(points))


def folds_of(points: Points, n_folds: int) -> IntArray:
    """Number of the fold (n,) of each row (n, d), by a hash of its values alone."""
    bits = (np.ascontiguousarray(points, dtype=np.float64) + 0.0).view(np.uint64)
    found = np.full(len(bits), GOLDEN)
    for column in bits.T:
        found = (found ^ column) + GOLDEN
        found = (found ^ (found >> np.uint64(30))) * FIRST
        found = (found ^ (found >> np.uint64(27))) * SECOND
        found ^= found >> np.uint64(31)
    return (found % np.uint64(n_folds)).astype(np.int64)


@compiled
def _sums(
    points: Any, first: int, last: int, starts: Any, base: float, feature: Any, threshold: Any,
    left: Any, right: Any, missing_left: Any, value: Any,
) -> Any:  # fmt: skip
    """`b + sum_t v_t(x)` (p,) at points (p, d), trees `first` to `last - 1` added in order."""
    out = np.empty(len(points))
    for row in range(len(points)):
        total = base
        for tree in range(first, last):
            start = starts[tree]
            node = start
            while feature[node] >= 0:
                x = points[row, feature[node]]
                goes_left = missing_left[node] if np.isnan(x) else x <= threshold[node]
                node = start + (left[node] if goes_left else right[node])
            total += value[node]
        out[row] = total
    return out


@stored
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Sums of trees for each of q folds and k outputs, as plain arrays of nodes.

        m(x) = b + sum_t v_t(x) ,   v_t(x) the value of the leaf of tree t that x falls into

    Each fold of rows has a sum of its own, fitted to the rows of all other folds. The fold of a row
    is a hash of its inputs, so that equal rows share a fold, and every process of the same rows
    finds the same folds whatever their order. Observed rows take the sum that did not see them;
    other points take the mean of all sums.

    Attributes
    ----------
    base : FloatArray (q, k)
        The constant b of each sum, in units of y.
    sums : NDArray (q k + 1,)
        First tree of each sum, folds before outputs, and the number of trees.
    starts : NDArray (t,)
        First node of each tree.
    feature : NDArray (m,)
        Column that a node compares; -1 for a leaf.
    threshold : FloatArray (m,)
        A row goes left where its value is at most this.
    left, right : NDArray (m,)
        The next nodes, counted from the first node of the tree.
    missing_left : NDArray of bool (m,)
        Whether a row without a value (NaN) goes left.
    value : FloatArray (m,)
        Value of a leaf, in units of y.
    """

    base: FloatArray
    sums: NDArray[np.int64]
    starts: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: FloatArray
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    value: FloatArray

    @property
    def n_folds(self) -> int:
        """Number q of the folds."""
        return len(self.base)

    def of_fold(self, points: Points, fold: int) -> FloatArray:
        """Sums (p, k) at points (p, d) that were fitted to the rows of all other folds."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        k = self.base.shape[1]
        nodes = (self.feature, self.threshold, self.left, self.right, self.missing_left, self.value)
        columns = [
            _sums(points, *self.sums[fold * k + j : fold * k + j + 2], self.starts,
                  self.base[fold, j], *nodes)
            for j in range(k)
        ]  # fmt: skip
        return np.column_stack(columns)

    def at(self, points: Points) -> FloatArray:
        """The mean (p, k) of the sums of all folds at points (p, d)."""
        sums = [self.of_fold(points, fold) for fold in range(self.n_folds)]
        return np.asarray(sum(sums[1:], sums[0]) / self.n_folds)

    def observed(self, points: Points, folds: IntArray | None = None) -> FloatArray:
        """Sums (n, k) at observed rows (n, d), each by trees that did not see it.

        The folds (n,) are those of the points unless they are given.
        """
        folds = folds_of(points, self.n_folds) if folds is None else folds
        found = np.empty((len(points), self.base.shape[1]))
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            found[rows] = self.of_fold(points[rows], int(fold))
        return found

    @classmethod
    def of(cls, models: list[Any], n_folds: int, n_trees: int | None = None) -> BoostedTrees:
        """The first trees of models of scikit-learn for each fold and output, folds first."""
        trees = [[stage[0].nodes for stage in model._predictors[:n_trees]] for model in models]
        each = [nodes for own in trees for nodes in own]
        lengths = np.array([len(nodes) for nodes in each])
        nodes = np.concatenate(each)
        leaf = nodes["is_leaf"].astype(bool)

        def integers(name: str) -> Any:
            return np.where(leaf, 0, nodes[name].astype(np.int64))

        base: FloatArray = np.array([float(model._baseline_prediction[0, 0]) for model in models])
        return cls(
            base=base.reshape(n_folds, -1),
            sums=np.cumsum([0, *(len(own) for own in trees)]).astype(np.int64),
            starts=(np.cumsum(lengths) - lengths).astype(np.int64),
            feature=np.where(leaf, -1, nodes["feature_idx"].astype(np.int64)),
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            left=integers("left"),
            right=integers("right"),
            missing_left=nodes["missing_go_to_left"].astype(bool) & ~leaf,
            value=np.where(leaf, nodes["value"], 0.0),
        )

    def check(self, n_columns: int, n_outputs: int) -> None:
        """Refuse trees of a file that are none for rows of so many columns.

        Raises
        ------
        ModelFileError
            A node refers to a column or node that does not exist, or would be visited again.
        """
        nodes = check_shapes(
            self, base=("q", n_outputs), sums=(self.base.size + 1,), starts=("t",), feature=("m",),
            threshold=("m",), left=("m",), right=("m",), missing_left=("m",), value=("m",),
        )["m"]  # fmt: skip
        check_range(self, 0, nodes - 1, "starts")
        check_range(self, 0, self.starts.size, "sums")
        check_range(self, -1, n_columns - 1, "feature")
        check_range(self, 0, nodes, "left", "right")
        self._check_order()

    def _check_order(self) -> None:
        """Refuse trees whose nodes do not lead on, so that no visit of them fails to end."""
        n_nodes = len(self.value)
        ends = np.append(self.starts[1:], n_nodes)
        ordered = bool((np.diff(self.sums) >= 0).all() and (self.starts < ends).all())
        if not ordered or self.starts[0] != 0 or self.sums[-1] != len(self.starts):
            raise ModelFileError("trees: expected trees one after the other, got others")
        tree = np.repeat(np.arange(len(self.starts)), ends - self.starts)
        own = np.arange(n_nodes) - self.starts[tree]
        inner = self.feature >= 0
        for child in (self.left, self.right):
            if (child <= own)[inner].any() or (child >= (ends - self.starts)[tree])[inner].any():
                raise ModelFileError("trees: expected nodes before those they lead to, got others")
