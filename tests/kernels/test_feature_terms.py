"""Features of terms of expressions: exact ones, unbiased waves, and terms without any."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.kernels import parse_kernel
from coupledgp.kernels.feature_terms import ExpressionFeatures
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance

RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(40, 4))
ROWS[:, 3] = RNG.integers(0, 4, 40)
FAR = RNG.uniform(-3, 3, (5, 4))


def covariance(text: str, low: float | None = None) -> RowCovariance:
    ends = None if low is None else np.array([np.full(4, low), np.full(4, -low)])
    return RowCovariance(text, RowColumns.plain(4), ends=ends)


def made(own: RowCovariance, theta: np.ndarray, n: int = 8, seed: int = 0) -> ExpressionFeatures:
    rng = np.random.default_rng(seed)
    return ExpressionFeatures.of(own, theta, ROWS, n, "iid", rng, unit=1.7)


@pytest.mark.parametrize(
    "text",
    [
        "additive(1, matern-1/2, full=false)[0, 1, 2]",
        "additive(2, gaussian, full=false) + constant",
        "additive(1)[0] + linear",
        "periodic(1.3)[0] + categorical[3]",
        "categorical[3] * gaussian[0] + rational-quadratic[1]",
        "laplace[0] + constant * linear[1]",
    ],
)
def test_terms_of_one_and_two_columns_are_exact(text: str) -> None:
    """The columns have few values, each of which is a point of its law."""
    own = covariance(text)
    theta = own.start + 0.3 * RNG.normal(size=len(own.names))
    found = made(own, theta)
    features = found.at(ROWS)
    gram, exact = 1.7 * features @ features.T, own.gram(ROWS, ROWS, theta)
    assert features.shape == (40, found.n_features)
    assert np.abs(gram - exact).max() < 1e-6 * exact.diagonal().mean()
    products = "linear" not in text.replace("* linear", "")
    if products:  # away from the points it is known what is left out
        other = 1.7 * (found.at(FAR) @ found.at(FAR).T + found.lost(FAR))
        np.testing.assert_allclose(other, own.gram(FAR, FAR, theta), atol=1e-7)


def test_what_pairs_leave_out_is_known() -> None:
    own = covariance("additive(2, matern-1/2)[0, 1]")
    found = made(own, own.start)
    features = found.at(ROWS)
    other = 1.7 * (features @ features.T + found.lost(ROWS))
    np.testing.assert_allclose(other, own.gram(ROWS, ROWS, own.start), atol=1e-10)
    assert found.n_features < 40 * 40


def test_a_trend_ends_where_its_kernel_does() -> None:
    own = covariance("linear", -1.0)
    features = made(own, own.start).at(FAR)
    np.testing.assert_allclose(1.7 * features @ features.T, own.gram(FAR, FAR, own.start))


@pytest.mark.parametrize(
    "text",
    [
        "matern-3/2[0, 1, 2]",
        "matern-3/2[0, 1] * gaussian[2, 3]",
        "additive(2, matern-5/2)[0, 1, 2]",
        "sphere[0, 1]",
    ],
)
def test_waves_are_unbiased(text: str) -> None:
    own = covariance(text)
    theta = own.start
    rows = ROWS[:6]
    grams = np.array(
        [1.7 * f @ f.T for f in (made(own, theta, 4, seed).at(rows) for seed in range(120))]
    )
    error = grams.std(axis=0) / 250**0.5
    gaps = np.abs(grams.mean(axis=0) - own.gram(rows, rows, theta))
    assert (gaps < 5 * error + 1e-3).all()  # the rest is what eigenfunctions leave out
    assert error.max() > 1e-3 or "additive" in text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("constant + rational-quadratic", "rational-quadratic"),
        ("additive(3) + linear", r"additive\(3, matern-3/2\)"),
        ("laplace", "laplace"),
        ("linear * gaussian[0]", r"linear \* gaussian"),
    ],
)
def test_terms_without_features_are_named(text: str, name: str) -> None:
    own = covariance(text)
    with pytest.raises(InvalidInputError, match=f"got the term {name}"):
        made(own, own.start)


def test_too_many_pairs_are_refused() -> None:
    own = RowCovariance(parse_kernel("additive(2, full=false)"), RowColumns.plain(30))
    with pytest.raises(InvalidInputError, match="at most 200 pairs of columns, got 435"):
        ExpressionFeatures.of(own, own.start, RNG.normal(size=(9, 30)), 4, "iid", RNG)
