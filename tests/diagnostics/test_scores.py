"""Scores against plain sums and scipy's densities."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics import (
    coverage,
    crps,
    interval_width,
    kernel_error,
    mae,
    nlpd,
    nlpd_joint,
    paired_difference,
    pit_histogram,
    rmse,
    sharpness,
)
from coupledgp.diagnostics.score_errors import subset_error, subset_errors
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.measures import marginal_scores, standard_errors
from coupledgp.diagnostics.scoring.score_bounds import nlpd_joint_bounds
from coupledgp.diagnostics.scoring.score_table import SCORES, JointScore
from coupledgp.errors import InvalidInputError, NumericalError
from tests.theory import assert_mean


def test_rmse() -> None:
    assert rmse(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 3.0])) == pytest.approx(
        np.sqrt(5 / 3)
    )


def test_nlpd_is_the_mean_of_marginal_densities(rng: np.random.Generator) -> None:
    y, mean, std = rng.normal(size=9), rng.normal(size=9), rng.uniform(0.1, 3, size=9)
    expected = -np.mean([stats.norm(m, s).logpdf(x) for x, m, s in zip(y, mean, std, strict=True)])
    assert nlpd(y, mean, std) == pytest.approx(expected, rel=1e-12)


def test_joint_nlpd_is_a_multivariate_density_per_point(rng: np.random.Generator) -> None:
    y, mean, root = rng.normal(size=6), rng.normal(size=6), rng.normal(size=(6, 6))
    cov = root @ root.T + np.eye(6)
    expected = -stats.multivariate_normal(mean, cov).logpdf(y) / 6
    assert nlpd_joint(y, mean, cov) == pytest.approx(expected, rel=1e-10)


def test_joint_and_marginal_agree_without_correlation(rng: np.random.Generator) -> None:
    y, mean, std = rng.normal(size=6), rng.normal(size=6), rng.uniform(0.1, 3, size=6)
    assert nlpd_joint(y, mean, np.diag(std**2)) == pytest.approx(nlpd(y, mean, std), rel=1e-12)


def test_joint_nlpd_of_a_singular_law_names_it() -> None:
    with pytest.raises(NumericalError, match="predictive covariance is not positive definite"):
        nlpd_joint(np.zeros(2), np.zeros(2), np.ones((2, 2)) - 1e-9 * np.eye(2))


def test_coverage_by_hand() -> None:
    y = np.array([0.0, 0.6, 1.2, 1.9, 2.1]) * np.array([1, -1, 1, -1, 1])
    shares = coverage(3 * y + 7, np.full(5, 7.0), np.full(5, 3.0))
    # Half widths 0.674, 1.282 and 1.960 standard deviations.
    assert shares == {0.5: 0.4, 0.8: 0.6, 0.95: 0.8}


def test_coverage_of_a_true_law_is_nominal(rng: np.random.Generator) -> None:
    n, levels = 40_000, (0.1, 0.5, 0.8, 0.95, 0.999)
    mean, std = rng.normal(size=n), rng.uniform(0.1, 3, size=n)
    y = mean + std * rng.normal(size=n)
    for level, share in coverage(y, mean, std, levels).items():
        hits = np.repeat([1.0, 0.0], [round(share * n), n - round(share * n)])
        assert_mean(hits, level)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_levels(level: float) -> None:
    with pytest.raises(InvalidInputError, match="levels: expected numbers between 0 and 1"):
        coverage(np.zeros(2), np.zeros(2), np.ones(2), [0.5, level])


def test_kernel_error() -> None:
    exact, approximate = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    error = kernel_error(approximate, exact)
    assert error == pytest.approx((np.sqrt(6 / 4), np.sqrt(6 / 5)))


def test_mae_and_sharpness() -> None:
    assert mae(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 3.0])) == pytest.approx(1.0)
    assert sharpness(np.array([3.0, 4.0])) == pytest.approx(np.sqrt(12.5))


def test_crps_is_the_integral_of_the_squared_difference(rng: np.random.Generator) -> None:
    y, mean, std = rng.normal(size=5), rng.normal(size=5), rng.uniform(0.1, 3, size=5)
    t = np.linspace(-40, 40, 800_001)
    values = [
        np.trapezoid((stats.norm(m, s).cdf(t) - (t >= x)) ** 2, t)
        for x, m, s in zip(y, mean, std, strict=True)
    ]
    # A jump inside a cell of the grid: half a cell's error at most.
    assert crps(y, mean, std) == pytest.approx(np.mean(values), abs=1e-4)


def test_crps_of_a_true_law_is_its_mean(rng: np.random.Generator) -> None:
    """`E crps = std / sqrt(pi)` where y follows the law, and more for any other law."""
    std = 2.5
    y = 3 + std * rng.normal(size=40_000)
    own = np.array([crps(part, np.full(40, 3.0), np.full(40, std)) for part in y.reshape(-1, 40)])
    assert_mean(own, std / np.sqrt(np.pi))
    for mean, other in ((3.0, 1.5 * std), (3.0, std / 1.5), (4.0, std)):
        assert crps(y, np.full(y.size, mean), np.full(y.size, other)) > own.mean() * 1.02


def test_crps_of_a_sharp_law_is_the_absolute_error() -> None:
    y, mean = np.array([1.0, -2.0]), np.array([0.0, 0.0])
    assert crps(y, mean, np.full(2, 1e-9)) == pytest.approx(1.5, rel=1e-6)


def test_interval_width_by_hand() -> None:
    widths = interval_width(np.array([1.0, 3.0]), (0.5, 0.95))
    assert widths == pytest.approx({0.5: 2 * 2 * 0.6744898, 0.95: 2 * 2 * 1.9599640})


def test_pit_by_hand() -> None:
    y, mean, std = np.array([-9.0, -0.1, 0.1, 0.2, 9.0]), np.zeros(5), np.ones(5)
    assert pit_histogram(y, mean, std, 4) == pytest.approx((0.2, 0.2, 0.4, 0.2))
    with pytest.raises(InvalidInputError, match="n_bins: expected an int >= 1"):
        pit_histogram(y, mean, std, 0)


def test_pit_of_a_true_law_is_flat_and_of_a_narrow_one_is_not(rng: np.random.Generator) -> None:
    n = 40_000
    mean, std = rng.normal(size=n), rng.uniform(0.1, 3, size=n)
    y = mean + std * rng.normal(size=n)
    for share in pit_histogram(y, mean, std):
        hits = np.repeat([1.0, 0.0], [round(share * n), n - round(share * n)])
        assert_mean(hits, 0.1)
    narrow = pit_histogram(y, mean, std / 3)
    assert min(narrow[0], narrow[-1]) > 2 * max(narrow[1:-1])


def test_standard_errors_are_those_of_many_tables(rng: np.random.Generator) -> None:
    """Over tables of the same law the scores spread as the standard errors say."""
    n_tables, n = 400, 300
    y = rng.normal(size=(n_tables, n, 1))
    mean, std = np.zeros((n, 1)), np.full((n, 1), 1.2)
    found = [marginal_scores(one, PointLaws(mean, std), "") for one in y]
    for name in ("rmse", "mae", "nlpd", "crps"):
        spread = np.std([f[name] for f in found], ddof=1)
        stated = np.mean([f["standard_errors"][name] for f in found])
        # A standard deviation of 400 draws is known to 1 / sqrt(800).
        assert stated == pytest.approx(spread, rel=5 / np.sqrt(2 * n_tables))


def test_standard_errors_of_one_point_and_of_no_error() -> None:
    one = np.ones((1, 1))
    assert set(standard_errors(one, PointLaws(one, one)).values()) == {None}
    exact = standard_errors(np.ones((5, 2)), PointLaws(np.ones((5, 2)), np.ones((5, 2))))
    assert exact == pytest.approx({"rmse": 0.0, "mae": 0.0, "nlpd": 0.0, "crps": 0.0}, abs=1e-15)


def test_paired_difference(rng: np.random.Generator) -> None:
    """The spread that two scores share cancels; the error is that of the mean of the gaps."""
    shared = 100 * rng.normal(size=400)
    gaps = 0.5 + rng.normal(size=400)
    gap = paired_difference(shared + gaps, shared)
    assert gap.mean == pytest.approx(gaps.mean())
    assert gap.standard_error == pytest.approx(gaps.std(ddof=1) / 20)
    assert paired_difference(np.ones(1), np.zeros(1)) == (1.0, None)
    both = paired_difference(np.stack([gaps, -gaps], axis=1), np.zeros((400, 2)))
    assert both.mean == pytest.approx(0, abs=1e-12)
    # Outputs of one point that go together are one observation, not two.
    doubled = paired_difference(np.stack([gaps, gaps], axis=1), np.zeros((400, 2)))
    assert doubled.standard_error == pytest.approx(gap.standard_error, rel=1e-12)


def test_bounds_hold_for_every_law_between_and_are_reached(rng: np.random.Generator) -> None:
    """Each score of each point, over laws within its mean's error and its deviation's range."""
    p = 60
    y, mean = rng.normal(size=(p, 1)), 0.8 * rng.normal(size=(p, 1))
    std = rng.uniform(0.1, 2.0, size=(p, 1))
    error, least_std = 0.3 * rng.uniform(size=(p, 1)), std * rng.uniform(0.3, 1.0, size=(p, 1))
    laws = [
        (mean + a * error, least_std + b * (std - least_std))
        for a in np.linspace(-1, 1, 41)
        for b in np.linspace(0, 1, 41)
    ]
    for score in SCORES.values():
        if isinstance(score, JointScore):
            continue
        least, most = score.bounds(y, mean, std, error, least_std)
        losses = np.array([score.points(y, *law) for law in laws])
        assert (losses >= least - 1e-12).all(), score.name
        assert (losses <= most + 1e-12).all(), score.name
        if score.name == "nlpd":  # each of whose terms is at its extreme
            continue
        share = ((losses.max(axis=0) - losses.min(axis=0)).sum()) / (most - least).sum()
        assert 0.93 < share <= 1 + 1e-12, (score.name, share)


def test_bounds_of_the_joint_density(rng: np.random.Generator) -> None:
    n, radius = 6, 0.5
    root = rng.normal(size=(n, n))
    cov, y, mean = root @ root.T + np.eye(n), rng.normal(size=n), rng.normal(size=n)
    for size in (1e-6, 1e-2, 0.3):
        gap = rng.normal(size=(n, 2))
        gap *= np.sqrt(size / np.linalg.eigvalsh(gap @ gap.T)[-1])
        below, above = nlpd_joint_bounds(y, mean, cov, cov - gap @ gap.T, radius)
        value, widest = nlpd_joint(y, mean, cov), [0.0, 0.0]
        for _ in range(300):
            e = rng.normal(size=2)
            e *= rng.choice([0.0, 1.0, rng.uniform()]) * radius / np.linalg.norm(e)
            share = rng.choice([0.0, 1.0, rng.uniform()])
            true = nlpd_joint(y, mean + gap @ e, cov - share * gap @ gap.T)
            widest = [max(widest[0], value - true), max(widest[1], true - value)]
        assert widest[0] <= below
        assert widest[1] <= above
        assert max(below, above) < 10 * np.sqrt(size)
    with pytest.raises(NumericalError, match="lower bound of the predictive covariance"):
        nlpd_joint_bounds(y, mean, cov, cov - 10 * np.trace(cov) * np.eye(n), radius)


def test_the_error_of_a_subset_is_that_of_sampling_without_replacement() -> None:
    parts = np.arange(8.0).reshape(4, 2, 1)
    means = parts.mean(axis=1)[:, 0]
    assert subset_error(parts, 16) == pytest.approx(stats.sem(means) * np.sqrt(0.75))
    assert subset_error(parts, 4) == 0
    assert subset_error(parts[:1], 4) is None
    # Of several values the largest error.
    several = np.concatenate([parts, 10 * parts, 0 * parts], axis=2)
    assert subset_error(several, 16) == pytest.approx(10 * stats.sem(means) * np.sqrt(0.75))
    assert subset_error(np.ones((9, 1, 1)), 900) > 0.05  # nine of nine is no certainty


def test_scores_of_subsets_are_off_by_what_their_errors_say(rng: np.random.Generator) -> None:
    p, m = 300, 80
    mean, std = rng.normal(size=(p, 1)), rng.uniform(0.5, 2.0, size=(p, 1))
    y = mean + std * rng.normal(size=(p, 1))
    whole = marginal_scores(y, PointLaws(mean, std), "")
    z: dict[str, list[float]] = {}
    for _ in range(400):
        rows = rng.choice(p, m, replace=False)
        part = (y[rows], mean[rows], std[rows])
        values = marginal_scores(part[0], PointLaws(*part[1:]), "")
        for name, error in subset_errors(part[0], PointLaws(*part[1:]), p).items():
            own, other = (
                np.array(list(v.values()) if isinstance(v, dict) else v)
                for v in (values[name], whole[name])
            )
            assert error is not None
            z.setdefault(name, []).append(float(np.abs(own - other).max()) / error)
    for name, gaps in z.items():
        # Of several values, the one that is furthest off stands beside the largest error.
        limits = (0.85, 1.15) if isinstance(whole[name], float) else (0.8, 1.8)
        assert limits[0] < np.sqrt(np.mean(np.square(gaps))) < limits[1], name
