"""Variograms: half the mean squared difference of values over their distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from coupledgp.diagnostics.plotted import Plotted
from coupledgp.errors import InvalidInputError
from coupledgp.features.sklearn import seed_from_random_state
from coupledgp.ground.validation import check_positive, check_positive_int, real_array
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

    from coupledgp.diagnostics.pages.picture import Picture

# Share of the largest distance up to which pairs are counted, as is usual: beyond it few rows make
# all pairs.
REACH = 0.5
# Share of the pairs that are of a row and one of its nearest rows, which random pairs seldom are.
NEAR_SHARE, NEIGHBOURS = 0.2, 12


@dataclass(frozen=True, eq=False)
class Variogram(Plotted):
    """A variogram of data, beside that of a model.

    Attributes
    ----------
    distance : FloatArray (b,)
        Mean distance of the pairs of each bin, units of the places.
    pairs : IntArray (b,)
        Number of pairs.
    empirical : FloatArray (b,)
        Half the mean squared difference of values, units of y squared.
    error : FloatArray (b,)
        Standard error, pairs taken for independent; they share rows, so that it is too small.
    model : FloatArray (b,) or None
        Half the mean squared difference under the prior of a model, noise included.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import variogram
    >>> places = np.random.default_rng(0).uniform(size=(300, 2))
    >>> found = variogram(places, np.sin(6 * places[:, 0]), n_bins=4, n_pairs=5000, random_state=0)
    >>> list(found.to_frame().columns), found.model is None
    (['distance', 'pairs', 'empirical', 'error'], True)
    """

    distance: FloatArray
    pairs: IntArray
    empirical: FloatArray
    error: FloatArray
    model: FloatArray | None

    def to_frame(self) -> pd.DataFrame:
        """One row for each bin."""
        from pandas import DataFrame  # slow to import

        return DataFrame({k: v for k, v in vars(self).items() if v is not None})

    def picture(self) -> Picture:
        """Bins with two errors, and the model's curve."""
        from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend

        figure, axes = axes_of(6.0, 4.0)
        axes.errorbar(self.distance, self.empirical, 2 * self.error, fmt="o", label="data")
        if self.model is not None:
            axes.plot(self.distance, self.model, label="model")
        axes.set_xlabel("distance")
        axes.set_ylabel("half the mean squared difference")
        axes.set_ylim(bottom=0)
        legend(figure, axes)
        return Picture("variogram", "Half the mean squared difference by distance", figure)


def variogram(
    X: ArrayLike,
    y: ArrayLike,
    model: Any = None,
    *,
    n_bins: int = 20,
    n_pairs: int = 1_000_000,
    max_distance: float | None = None,
    random_state: Any = None,
) -> Variogram:
    """The variogram of values at places, from random pairs and from pairs of near rows.

    Parameters
    ----------
    X
        Places (n, d), numbers in one unit.
    y
        Values (n,).
    model
        A fitted model of these columns, whose variogram is computed at the same pairs: half of
        `k(x, x) + k(x', x') - 2 k(x, x')`, noise added.
    n_bins
        Bins of equal width.
    n_pairs
        Number of pairs, before bins beyond the distance are left out.
    max_distance
        Largest distance; None: half of the largest in the box of the places.
    random_state
        Seed of the pairs.

    Raises
    ------
    InvalidInputError
        Places or values are no finite numbers, or their numbers differ.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import variogram
    >>> places = np.random.default_rng(0).uniform(size=(300, 2))
    >>> found = variogram(places, np.sin(6 * places[:, 0]), n_bins=4, n_pairs=5000, random_state=0)
    >>> bool((np.diff(found.empirical) > 0).all())  # far values differ more
    True
    """
    places, values = real_array(X, "X"), real_array(y, "y")
    if places.ndim != 2 or values.shape != (len(places),) or len(places) < 2:
        raise InvalidInputError(
            f"X, y: expected places (n, d) and values (n,), got {places.shape} and {values.shape}"
        )
    if not (np.isfinite(places).all() and np.isfinite(values).all()):
        raise InvalidInputError("X, y: expected finite numbers, got NaN or infinity")
    n_bins = check_positive_int(n_bins, "n_bins")
    n_pairs = check_positive_int(n_pairs, "n_pairs", minimum=n_bins)
    rng = np.random.default_rng(seed_from_random_state(random_state))
    first, second = _pairs(places, n_pairs, rng)
    distances = np.linalg.norm(places[first] - places[second], axis=1)
    most = max_distance
    if most is None:
        most = REACH * float(np.linalg.norm(np.ptp(places, axis=0)))
    most = check_positive(most, "max_distance")
    kept = distances <= most
    first, second, distances = first[kept], second[kept], distances[kept]
    bins = np.minimum((distances / most * n_bins).astype(int), n_bins - 1)
    squares = 0.5 * np.square(values[first] - values[second])
    counts = np.bincount(bins, minlength=n_bins)
    some = counts > 0
    mean, square, where = (
        np.bincount(bins, part, n_bins)[some] / counts[some]
        for part in (squares, np.square(squares), distances)
    )
    of_model = None
    if model is not None:
        of_model = _of_model(model, places, first, second, bins, n_bins, rng)[some]
    error = np.sqrt(np.maximum(square - np.square(mean), 0.0) / counts[some])
    return Variogram(where, counts[some], mean, error, of_model)


def _pairs(places: FloatArray, n_pairs: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Numbers of the two rows of each pair: random ones, and rows with one of their nearest."""
    n = len(places)
    n_near = min(int(NEAR_SHARE * n_pairs), n * NEIGHBOURS)
    first = rng.integers(n, size=n_pairs - n_near)
    second = (first + rng.integers(1, n, size=len(first))) % n
    rows = rng.choice(n, size=max(1, min(n, n_near // NEIGHBOURS)), replace=False)
    near = cKDTree(places).query(places[rows], min(NEIGHBOURS + 1, n))[1]
    own = np.repeat(rows, near.shape[1])
    other = near.ravel()
    kept = own != other
    return np.concatenate([first, own[kept]]), np.concatenate([second, other[kept]])


# Pairs of each bin at which the prior of a model is asked for.
MODEL_PAIRS = 24


def _of_model(
    model: Any, places: FloatArray, first: IntArray, second: IntArray, bins: IntArray,
    n_bins: int, rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """Means over some pairs of each bin of half the prior variance of a difference, and noise."""
    process = model.process_
    points = model.points(places)
    noise = float(process.units.spread(process.noise.variance)[0])
    found = np.zeros(n_bins)
    for bin_ in range(n_bins):
        own = np.flatnonzero(bins == bin_)
        if not own.size:
            continue
        own = rng.permutation(own)[:MODEL_PAIRS]
        covariance = process.prior(np.concatenate([points[first[own]], points[second[own]]]))
        k = covariance[:, :, 0]
        a, b = np.arange(len(own)), np.arange(len(own)) + len(own)
        found[bin_] = 0.5 * (k[a, a] + k[b, b] - 2 * k[a, b]).mean() + noise
    return found
