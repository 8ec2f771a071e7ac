"""Numbers of any magnitude end in finite answers, or in an error that names the limit."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.gp import schema
from coupledgp.ground.validation import (
    LARGEST,
    LARGEST_PRODUCT,
    SMALLEST,
    SMALLEST_PRODUCT,
    check_gaussian,
    check_lengthscale,
    check_magnitude,
    check_sizes,
    check_spread,
    json_values,
)
from coupledgp.spectra import parse_spectrum
from tests.numbers import cases, fuzz
from tests.numbers.cases import TABLES, X_TEST, Y_TEST, X, Y, answers, no_numbers

pytestmark = pytest.mark.filterwarnings("ignore")
FAR = [1e80, 1e100, 1e140, 1e150, 1e155, 1e200, 1e250, 1e300, 1e307]
scores = cgp.diagnostics


def scaled(what: str, s: float) -> tuple[Any, Any, Any, Any]:
    """The table with targets, all columns, one column, two of them apart, or test points scaled."""
    column = {"X": [s, s], "a column": [s, 1.0], "columns apart": [s, 1 / s]}.get(what, [1.0, 1.0])
    t = s if what == "y" else 1.0
    further = s if what == "test points" else 1.0
    return X * column, Y * t, X_TEST * column * further, Y_TEST * t


@pytest.mark.parametrize("what", ["y", "X", "a column", "columns apart"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_within_the_limits_have_finite_answers(name: str, what: str) -> None:
    for s in (1e-74, 1e74):
        if name in cases.SLOW and (what in ("a column", "columns apart") or s > 1):
            continue
        if (name == "automatic" and what == "X") or (what == "columns apart" and s > 1):
            continue  # the same columns the other way round
        found = answers(TABLES[name](), *scaled(what, s), scored=name not in cases.SLOW)
        assert list(no_numbers(found)) == [], s


@pytest.mark.parametrize("s", FAR)
@pytest.mark.parametrize("name", TABLES)
def test_tables_beyond_the_limits_are_refused(name: str, s: float) -> None:
    for what, argument in (("y", "y"), ("X", "X"), ("a column", "X")):
        with pytest.raises(InvalidInputError, match=rf"^{argument}: .*at most 1e\+75.* got -?\d"):
            TABLES[name]().fit(*scaled(what, s)[:2])
        with pytest.raises(InvalidInputError, match=r"^X: .*(at least|at most) 1e.* got .*\d"):
            TABLES[name]().fit(*scaled("X", 1 / s)[:2])
    model = TABLES["exact, given lengthscale"]().fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"^X: .*at most"):
        model.predict(s * X_TEST)
    with pytest.raises(InvalidInputError, match=r"^y"):
        scores.compare(model, X_TEST, s * Y_TEST)


@pytest.mark.parametrize("s", FAR)
def test_targets_that_vary_by_too_little_are_refused(s: float) -> None:
    for make in (TABLES["exact"], TABLES["sparse"]):
        with pytest.raises(InvalidInputError, match=r"^y: .*at least 1e-75.* in output 0"):
            make().fit(X, Y / s)
    model, nodes, y, *_ = cases.on_nodes(y=cases.Y_NODES / s)
    with pytest.raises(InvalidInputError, match=r"^y: .*at least 1e-75"):
        model.fit(nodes, y)
    model, places, y, *_ = cases.on_sphere(y=cases.Y_SENSORS / s)
    with pytest.raises(InvalidInputError, match=r"^y: .*at least 1e-75"):
        model.fit(places, y)
    model = TABLES["exact"]().fit(X, np.zeros(24))  # a constant has no scale that vanishes
    with pytest.raises(InvalidInputError, match=r"^y: .*at least 1e-75"):
        model.partial_fit(X_TEST, Y_TEST / s)
    assert not model.predict(X_TEST).any()


@pytest.mark.parametrize("exponent", [-230, -100, 100, 230])
@pytest.mark.parametrize("name", sorted(set(TABLES) - cases.SLOW))
def test_units_do_not_matter(name: str, exponent: int) -> None:
    """Targets times s have predictions times s; inputs in another unit have the same."""
    s = 2.0**exponent  # exact, so that both searches see the same numbers
    if name not in ("exact, y as it is", "exact, transformed"):
        expected = TABLES[name]().fit(X, Y).predict(X_TEST)
        found = TABLES[name]().fit(X, s * Y).predict(X_TEST)
        np.testing.assert_allclose(found / s, expected, rtol=1e-6, atol=1e-8)
    if "given lengthscale" not in name:
        expected = TABLES[name]().fit(X, Y).predict(X_TEST)
        found = TABLES[name]().fit(s * X, Y).predict(s * X_TEST)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["exact", "exact, given lengthscale", "exact, averaged", "local"])
def test_far_points_have_the_law_of_the_prior(name: str) -> None:
    make = (
        TABLES[name]
        if name != "local"
        else lambda: cgp.LocalGPRegressor(
            "matern-3/2", n_frequencies=0, n_neighbors=6, trend="none", random_state=0
        )
    )
    model = make().fit(X, Y)
    for far in (1e6, 1e20, 1e40, 1e74):
        mean, std = model.predict([[far, -far], [far, 0.0]], return_std=True, latent=True)
        np.testing.assert_allclose(mean, Y.mean(), atol=1e-9)
        prior = np.sqrt(np.diagonal(model.prior_covariance([[far, -far], [far, 0.0]])))
        if name != "exact, averaged":  # whose spread includes that of the means
            np.testing.assert_allclose(std, prior, rtol=1e-9)


def test_features_of_far_points_do_not_depend_on_their_batch() -> None:
    for dtype in ("float64", "float32"):
        model = cgp.SparseSpectrumGPRegressor(
            n_frequencies=8, optimizer=None, random_state=0, dtype=dtype
        ).fit(X, Y)
        points = 10.0 ** np.arange(0, 75, 5)[:, None] * np.ones(2)
        together = model.predict(points)
        alone = np.concatenate([model.predict(point[None]) for point in points])
        np.testing.assert_allclose(together, alone, atol=1e-2 if dtype == "float32" else 1e-3)
        assert np.isfinite(together).all()


@pytest.mark.parametrize("s", [1e-74, 1e74])
def test_graphs_within_the_limits_have_finite_answers(s: float) -> None:
    one = np.where(np.arange(len(cases.EDGES)) == 3, cases.WEIGHTS * s, cases.WEIGHTS)
    for walks in (False, True):
        for weights in (cases.WEIGHTS * s, one):
            found = answers(*cases.on_nodes(weights, walks=walks), scored=not walks)
            assert list(no_numbers(found)) == []
        found = answers(*cases.on_nodes(y=cases.Y_NODES * s, walks=walks))
        assert list(no_numbers(found)) == []


@pytest.mark.parametrize("s", [1e-29, 1e29])
def test_fields_within_the_limits_have_finite_answers(s: float) -> None:
    assert list(no_numbers(answers(*cases.on_sphere(s, y=cases.Y_SENSORS / s**2)))) == []
    assert list(no_numbers(answers(*cases.on_roads(s), scored=False))) == []


def test_micrometres_far_from_the_origin_predict_as_metres_do() -> None:
    expected = answers(*cases.on_sphere(), scored=False)
    for scale, offset in ((1e-6, 0.0), (1.0, 1e6), (1e3, 1e8)):
        found = answers(*cases.on_sphere(scale, offset), scored=False)
        np.testing.assert_allclose(found["mean"], expected["mean"], atol=1e-5)


@pytest.mark.parametrize("s", FAR)
def test_weights_and_coordinates_beyond_the_limits_are_refused(s: float) -> None:
    for factor in (s, 1 / s):
        with pytest.raises(InvalidInputError, match=r"^weights: .*1e-75 to 1e\+75, .*has \d"):
            cases.on_nodes(cases.WEIGHTS * factor)
        with pytest.raises(InvalidInputError, match=r"^matrix: .*1e-75 to 1e\+75"):
            cgp.Graph.from_scipy(np.array([[0.0, factor], [factor, 0.0]]))
        with pytest.raises(InvalidInputError, match=r"^mesh.* 1e[+-]?30.* got \d"):
            cases.on_sphere(factor)
        with pytest.raises(InvalidInputError, match=r"^lengths: .*1e-30 to 1e\+30"):
            cases.on_roads(factor)


GIVEN = ["lengthscale", "outputscale", "noise"]


@pytest.mark.parametrize("name", GIVEN)
def test_given_hyperparameters(name: str) -> None:
    few = partial(cgp.SparseSpectrumGPRegressor, n_frequencies=8)
    for value in (1e-74, 1e-20, 1e20, 1e74):
        for make in (cgp.ExactGPRegressor, few):
            try:
                found = answers(make(**cases.KEPT, **{name: value}), X, Y, X_TEST, Y_TEST)
            except NumericalError:  # a matrix that is singular to rounding
                continue
            assert list(no_numbers(found)) == []
    for value in (1e80, 1e-80, 1e300, 1e-300, 5e-324):
        with pytest.raises(InvalidInputError, match=rf"^{name}: .*1e-75 to 1e\+75"):
            cgp.ExactGPRegressor(optimizer=None, **{name: value}).fit(X, Y)


@pytest.mark.parametrize("name", ["sample_weight", "sample_noise"])
def test_weights_of_rows(name: str) -> None:
    one = np.ones(24)
    for value in (1e-60, 1e-20, 1e20, 1e60):
        for given in (value * one, np.where(np.arange(24) == 5, value, one)):
            try:
                found = answers(
                    cgp.ExactGPRegressor(**cases.KEPT), X, Y, X_TEST, Y_TEST, **{name: given}
                )
            except NumericalError:  # a matrix that is singular to rounding
                continue
            assert list(no_numbers(found)) == []
    for value in (1e-200, 1e200):
        with pytest.raises(InvalidInputError, match=rf"^{name}.*expected sizes from 1e-.* got \d"):
            cgp.ExactGPRegressor(**cases.KEPT).fit(X, Y, **{name: value * one})


def test_numbers_that_look_odd_but_are_within_the_limits() -> None:
    constant = np.column_stack([X, np.full(24, 1e74), np.full(24, 5e-324)])
    further = np.column_stack([X_TEST, np.full(9, 1e74), np.full(9, 5e-324)])
    expected = answers(TABLES["exact"](), X, Y, X_TEST, Y_TEST)["mean"]
    found = answers(TABLES["exact"](), constant, Y, further, Y_TEST)
    assert list(no_numbers(found)) == []
    np.testing.assert_allclose(found["mean"], expected, atol=0.2)
    for y in (
        np.full(24, 1e74), np.full(24, 1e-300), 1e74 * (1 + 1e-16 * Y), 2.0**63 + np.arange(24),
        Y * 1e-74 + 1.0, np.where(np.arange(24) == 0, 5e-324, 0.0) + Y,
    ):  # fmt: skip
        found = answers(TABLES["exact"](), X, y, X_TEST, np.full(9, y[0]), scored=False)
        assert list(no_numbers(found)) == []
    single = answers(TABLES["exact"](), X.astype("f"), Y.astype("f"), X_TEST.astype("f"), Y_TEST)
    np.testing.assert_allclose(single["mean"], expected, atol=1e-3)


SCORES = {
    "rmse": lambda y, std: scores.rmse(y, 0 * y),
    "mae": lambda y, std: scores.mae(y, 0 * y),
    "nlpd": lambda y, std: scores.nlpd(y, 0 * y, std),
    "crps": lambda y, std: scores.crps(y, 0 * y, std),
    "coverage": lambda y, std: scores.coverage(y, 0 * y, std),
    "pit": lambda y, std: scores.pit_histogram(y, 0 * y, std),
    "sharpness": lambda y, std: scores.sharpness(std),
    "interval_width": lambda y, std: scores.interval_width(std),
    "nlpd_joint": lambda y, std: scores.nlpd_joint(y, 0 * y, np.diag(std**2)),
    "gaussian_kl": lambda y, std: scores.gaussian_kl(y, np.diag(std**2), 0 * y, np.diag(std**2)),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_finite_or_refused(name: str) -> None:
    y, std = Y_TEST, np.linspace(0.5, 1.5, 9)
    for s in (1e-74, 1.0, 1e74):
        assert list(no_numbers(SCORES[name](s * y, s * std))) == []
    for wrong in (1e200, 1e308, np.nan, np.inf):
        with pytest.raises((InvalidInputError, NumericalError), match=r"1e|finite|NaN"):
            SCORES[name](wrong * y, wrong * std)


def test_scores_have_the_units_of_the_targets() -> None:
    s, std = 2.0**230, np.linspace(0.5, 1.5, 9)
    for name in ("rmse", "mae", "crps", "sharpness"):
        np.testing.assert_allclose(
            SCORES[name](s * Y_TEST, s * std), s * SCORES[name](Y_TEST, std), rtol=1e-12
        )


def test_kernel_errors_are_relative_to_the_kernel() -> None:
    exact = np.cov(np.random.default_rng(0).normal(size=(4, 9)))
    expected = scores.kernel_error(1.1 * exact, exact)
    np.testing.assert_allclose(expected[1], 0.1)
    np.testing.assert_allclose(expected[0], 0.1 * np.sqrt(np.mean(exact**2)))
    for s in (1e-149, 1e149):
        rmse, relative = scores.kernel_error(1.1 * exact * s, exact * s)
        np.testing.assert_allclose((rmse / s, relative), expected, rtol=1e-12)
    with pytest.raises(InvalidInputError, match=r"^exact: expected a matrix that is not zero"):
        scores.kernel_error(exact, 0 * exact)


def test_matern_kernels_vanish_at_any_distance() -> None:
    for nu in ("0.7", "1/2", "3/2", "5/2", "7.3", "99"):
        spectrum = parse_spectrum(f"matern-{nu}")
        r = np.array([1e5, 1e9, 1e15, 1e20, 1e74, 1e150])
        assert not spectrum.kernel(r).any()
        assert not spectrum.kernel_slope(r).any()


def test_hybrid_features_warn_of_what_is_beyond_numbers() -> None:
    features = cgp.features.GaussianHybridFeatures(2, 4, generator=0)
    with pytest.warns(RuntimeWarning, match="^X: features beyond the range"):
        features.queries(torch.full((1, 2), 1e3, dtype=torch.float64))


def test_theory_refuses_errors_beyond_numbers(capfd: pytest.CaptureFixture[str]) -> None:
    for x in (30.0, 1e3, 1e9, 1e70):
        with pytest.raises((InvalidInputError, NumericalError), match=r"^x"):
            cgp.theory.expected_mse("laplace", "orthogonal", 8, [x, x], [-x, 2 * x])
    assert capfd.readouterr().err == ""  # scipy's compiled functions write what they ignore
    assert np.isfinite(cgp.theory.expected_mse("fourier", "orthogonal", 8, [1e70], [-1e70]))


def test_checks_name_argument_limit_and_value() -> None:
    check_magnitude(np.array([-LARGEST, LARGEST, np.nan]), "a")
    check_sizes(np.array([SMALLEST, LARGEST]), "a")
    check_spread(np.array([[0.0, 1e-200], [SMALLEST, 1e-200]]), "a", "column")
    with pytest.raises(InvalidInputError, match=r"^a: .*at most 1e\+75.*got -2e\+75"):
        check_magnitude(np.array([1.0, -2e75]), "a")
    with pytest.raises(InvalidInputError, match=r"^a: .*at most 1e\+75.*got 2e\+75"):
        check_magnitude(np.array([np.nan, 2e75, 1.0]), "a")
    with pytest.raises(InvalidInputError, match=r"^a: .*1e-75 to 1e\+75.*got 1e-76"):
        check_sizes(np.array([1.0, 1e-76]), "a")
    with pytest.raises(InvalidInputError, match=r"^a: .*1e-75.*got differences of 1e-76 in row 1"):
        check_spread(np.array([[0.0, 0.0], [1.0, 1e-76]]), "a", "row")
    check_spread(np.array([[1e-70], [1e-70 * (1 + 2e-16)]]), "a", "column")  # rounding of one value
    for wrong in ([1.0, np.nan], [1.0, np.inf], [1.0, -1.0], [0.0, 1.0]):
        with pytest.raises(InvalidInputError, match=r"^lengthscale: expected finite numbers > 0"):
            check_lengthscale(wrong, 2)
    covariance = np.array([[1.0, 0.5], [0.5 + 1e-6, 1.0]])
    with pytest.raises(InvalidInputError, match=r"^cov: expected a symmetric matrix"):
        check_gaussian([0.0, 0.0], covariance, "mean", "cov")


def test_model_files_may_hold_what_fits_accept() -> None:
    assert schema.LARGEST == LARGEST_PRODUCT >= LARGEST
    assert SMALLEST_PRODUCT <= 1 / schema.LARGEST * (1 + 1e-9) <= SMALLEST
    assert schema.LARGEST_SQUARE >= LARGEST_PRODUCT**2 * 1e3
    # The fourth power, of which a standard error of squared errors is made, is a number.
    assert np.isfinite(LARGEST**4)
    assert np.finfo(float).tiny <= SMALLEST**4


def test_json_has_null_and_a_reason_where_there_is_no_number() -> None:
    found = json_values({"a": {"b": [1.0, np.nan]}, "c": -np.inf, "d": None, "e": 2})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "a": {"b": [1.0, None]}, "c": None, "d": None, "e": 2,
        "not_finite": {"a.b[1]": "not a number", "c": "infinite"},
    }  # fmt: skip
    assert json_values({"a": 1.0}) == {"a": 1.0}


def test_random_magnitudes_end_in_finite_answers_or_errors() -> None:
    """The short form of `make fuzz`."""
    counts = fuzz.run(24, seed=5)
    assert counts["faults"] == 0
    assert counts["answers"] >= 4
    assert counts["refusals"] >= 2
