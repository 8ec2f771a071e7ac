"""Bounds of the KL of laws that are known up to bounds, in closed form for one point."""

import numpy as np
import pytest

from coupledgp.diagnostics.scoring.divergences import gaussian_kl, kl_bounds
from coupledgp.diagnostics.scoring.score_bounds import nlpd_joint_bounds


def one(mean, variance, floor, radius):
    return np.array([mean]), np.array([[variance]]), np.array([[floor]]), radius


@pytest.mark.parametrize("gap", [0.0, 0.4, 3.0])
def test_every_term_at_its_worst(gap):
    """One point: `p = N(gap, 2)` with a floor of 1.7, `q = N(0, 3)` with a floor of 2.4."""
    S_p, B_p, r_p, S_q, B_q, r_q = 2.0, 1.7, 0.5, 3.0, 2.4, 0.8
    h = r_p * np.sqrt((S_p - B_p) / B_q) + r_q * np.sqrt((S_q - B_q) / B_q)
    below, above = kl_bounds(one(gap, S_p, B_p, r_p), one(0.0, S_q, B_q, r_q))
    far, near = gap / np.sqrt(B_q), gap / np.sqrt(S_q)
    most = (1 / B_q - 1 / S_q) * S_p + np.log(S_p / B_p) + (far + h) ** 2 - near**2
    least = (S_p - B_p) / S_q + np.log(S_q / B_q) + near**2 - max(near - h, 0.0) ** 2
    assert above == pytest.approx(most / 2, rel=1e-12)
    assert below == pytest.approx(least / 2, rel=1e-12)


def test_laws_that_are_known_have_no_error():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(2, 4, 4))
    covs = root @ root.transpose(0, 2, 1) + np.eye(4)
    p, q = ((rng.normal(size=4), cov, cov, 0.7) for cov in covs)
    assert kl_bounds(p, q) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_independent_points_add_up():
    rng = np.random.default_rng(4)
    means = rng.normal(size=(2, 5))
    variances = rng.uniform(1, 2, size=(2, 5))
    floors = variances * rng.uniform(0.8, 1.0, size=(2, 5))
    laws = [
        (mean, np.diag(v), np.diag(f), 0.0)
        for mean, v, f in zip(means, variances, floors, strict=True)
    ]
    total = sum(
        np.array(kl_bounds(*(one(means[k, i], variances[k, i], floors[k, i], 0.0) for k in (0, 1))))
        for i in range(5)
    )
    assert kl_bounds(laws[0], laws[1]) == pytest.approx(tuple(total), rel=1e-12)
    # With means that are known, the greatest is reached at p's floor beside q's.
    assert gaussian_kl(means[0], np.diag(floors[0]), means[1], np.diag(floors[1])) <= (
        gaussian_kl(means[0], np.diag(variances[0]), means[1], np.diag(variances[1])) + total[1]
    )


@pytest.mark.parametrize("gap", [0.05, 0.4, 3.0])
def test_the_joint_density_of_one_point(gap):
    S, B, radius = 2.0, 1.7, 0.5
    h = radius * np.sqrt((S - B) / B)
    below, above = nlpd_joint_bounds(
        np.array([gap]), np.zeros(1), np.array([[S]]), np.array([[B]]), radius
    )
    near, far = gap / np.sqrt(S), gap / np.sqrt(B)
    least = np.log(S / B) + near**2 - max(near - h, 0.0) ** 2
    assert below == pytest.approx(least / 2, rel=1e-12)
    assert above == pytest.approx(((far + h) ** 2 - near**2) / 2, rel=1e-12)
