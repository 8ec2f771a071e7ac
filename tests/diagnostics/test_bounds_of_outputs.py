"""Bounds of figures of several outputs are made of those of each output alone."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.diagnostics.score_errors import (
    SolverErrors,
    add_score_errors,
    kl_bounds_per_point,
    solver_errors,
)
from coupledgp.diagnostics.scoring.divergences import kl_bounds
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.scoring.score_table import SCORES, MarginalScore

P, RNG = 7, np.random.default_rng(12)


def law(n_outputs: int, rng: np.random.Generator) -> Law:
    """A law known up to bounds, which are of another size for every output."""
    root = rng.normal(size=(n_outputs, P, P))
    cov = np.einsum("kij,klj->ilk", root, root) + 2.0 * np.eye(P)[..., None]
    gap = rng.normal(size=(n_outputs, P, 2)) * np.geomspace(0.02, 0.3, n_outputs)[:, None, None]
    error = np.einsum("kij,klj->ilk", gap, gap)
    sizes = np.linspace(0.5, 2.0, n_outputs)
    return Law(rng.normal(size=(P, n_outputs)), cov, cov_error=error, mean_error=sizes)


def output(of: Law, k: int) -> Law:
    """The law of one output."""
    assert of.cov_error is not None
    assert of.mean_error is not None
    one = slice(k, k + 1)
    return Law(
        of.mean[:, one], of.cov[..., one],
        cov_error=of.cov_error[..., one], mean_error=of.mean_error[one],
    )  # fmt: skip


P_LAW, Q_LAW, Y = law(3, RNG), law(3, RNG), RNG.normal(size=(P, 3))


def test_divergences_add_up() -> None:
    total = np.zeros(2)
    for k in range(3):
        parts = [
            (one.mean[:, k], one.cov[..., k], one.floor(k), one.radius(k)) for one in (P_LAW, Q_LAW)
        ]
        total += kl_bounds(parts[0], parts[1])
    assert kl_bounds_per_point(P_LAW, Q_LAW) == pytest.approx(total / (3 * P), rel=1e-12)


def test_scores_are_means_of_outputs() -> None:
    """Those of single points and of the joint law; marginal ones take the largest of the levels."""
    found, alone = SolverErrors(), [SolverErrors() for _ in range(3)]
    add_score_errors(found, {"": P_LAW}, Y)
    for k, one in enumerate(alone):
        add_score_errors(one, {"": output(P_LAW, k)}, Y[:, k : k + 1])
    means = [
        score.name for score in SCORES.values()
        if not isinstance(score, MarginalScore) and not getattr(score, "root", False)
    ]  # fmt: skip
    assert {"nlpd", "nlpd_joint", "crps"} <= set(means)
    for name in means:
        expected = np.mean([one.bounds[name] for one in alone], axis=0)
        assert found.bounds[name] == pytest.approx(expected, rel=1e-9), name
        assert np.ptp([one.bounds[name] for one in alone], axis=0).max() > 0, name


def test_bounds_of_a_model_and_of_its_reference_are_not_those_of_each_other() -> None:
    """The model enters with its own law, the reference with its own; a difference with both."""
    exact = Law(Q_LAW.mean, Q_LAW.cov)
    found = solver_errors(P_LAW, exact, Y).bounds
    assert "reference_nlpd" not in found
    below, above = found["nlpd"]
    assert found["differences.nlpd"] == pytest.approx((below, above))
    other = solver_errors(exact, P_LAW, Y).bounds
    assert "nlpd" not in other
    assert other["reference_nlpd"] == pytest.approx((below, above))
    assert other["differences.nlpd"] == pytest.approx((above, below))
    both = solver_errors(P_LAW, Q_LAW, Y).bounds
    assert both["differences.nlpd"] == pytest.approx(
        (both["nlpd"][0] + both["reference_nlpd"][1], both["nlpd"][1] + both["reference_nlpd"][0])
    )
    assert both["kl_per_point"] == pytest.approx(kl_bounds_per_point(Q_LAW, P_LAW))
    assert both["reverse_kl_per_point"] == pytest.approx(kl_bounds_per_point(P_LAW, Q_LAW))
