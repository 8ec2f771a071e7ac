"""Members of a mixture that pass over a wide table together answer as each does alone."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.linalg.distances import scaled_distances
from coupledgp.metrics import Metric
from coupledgp.tables import standardized as tables


@pytest.fixture(scope="module")
def wide() -> tuple[MixtureGP, np.ndarray, np.ndarray]:
    """A mixture of 300 columns, further rows (7, 300), and their targets (7, 1)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(31, 300))
    y = X[:, 0] + 0.1 * rng.normal(size=31)
    model = cgp.GPRegressor(random_state=0, progress=False, budget=1.5).fit(X[:24], y[:24])
    assert isinstance(model.process_, MixtureGP)
    return model.process_, X[24:], y[24:, None]


def answers(process: MixtureGP, points: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Everything that a mixture makes of the laws of its members."""
    found = [*process.law(points, "variance"), process.law(points, "covariance").spread]
    found += [process.log_density(points, targets), process.cdf(points, targets)]
    found += [process.quantiles(points, np.array([0.1, 0.6])), process.share_between(points)]
    return [*found, process.prior(points)]


def test_members_together_answer_as_each_alone(wide, monkeypatch):
    together = answers(*wide)
    monkeypatch.setattr(MixtureGP, "_sharing", property(lambda own: own.members))
    for found, alone in zip(together, answers(*wide), strict=True):
        np.testing.assert_array_equal(found, alone)


def test_a_prediction_passes_over_a_wide_table_once(wide, monkeypatch):
    process, points, _ = wide
    assert len(process.members) > 2
    shapes = []

    def counted(a, b, metric):
        shapes.append((len(a), len(b)))
        return scaled_distances(a, b, metric)

    monkeypatch.setattr(tables, "scaled_distances", counted)
    process.law(points, "variance")
    assert shapes == [(7, 24)]


def test_factors_stay_known_to_members(wide):
    """A prediction leaves the members' factors where the next one finds them."""
    process, points, _ = wide
    process.law(points, "variance")
    for member, shared in zip(process.members, process._sharing, strict=True):
        assert shared.row_inverse is member.row_inverse
        assert "factor" in vars(member.row_inverse)


def test_narrow_tables_are_not_kept():
    kept = tables.Tables(np.zeros(2), np.ones(2))
    rows = np.ones((3, 2))
    assert kept.pair(rows, rows) is not kept.pair(rows, rows)
    kept = tables.Tables(np.zeros(tables.WIDE), np.ones(tables.WIDE))
    rows = np.ones((3, tables.WIDE))
    assert kept.pair(rows, rows) is kept.pair(rows[:], rows)
    assert kept.pair(rows, rows[::-1]) is not kept.pair(rows, rows)


def test_members_of_other_units_keep_to_themselves(wide):
    from dataclasses import replace

    from coupledgp.tables.dense_prior import sharing_tables

    first, second, *_ = wide[0].members
    prior = second.dense_prior
    other = replace(
        second,
        dense_prior=replace(prior, parts=replace(prior.parts, center=prior.parts.center + 1)),
    )
    assert sharing_tables([first, other]) == [first, other]


def test_distances_of_many_columns_lose_no_digits():
    rng = np.random.default_rng(1)
    a, b = 1e6 + rng.normal(size=(5, 9001)), 1e6 + rng.normal(size=(4, 9001))
    b[0] = a[2] + 1e-9
    plain = np.sqrt(np.square(a[:, None] - b[None]).sum(axis=2))
    np.testing.assert_allclose(scaled_distances(a, b, Metric.L2), plain, rtol=1e-12)
