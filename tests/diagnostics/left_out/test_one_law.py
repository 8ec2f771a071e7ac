"""Rows and groups left out lie in intervals of the law that is scored: a mixture's own."""

from dataclasses import replace

import numpy as np

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.units import Units
from coupledgp.diagnostics import cross_validate
from coupledgp.diagnostics.scoring.scores import coverage

RNG = np.random.default_rng(9)
X = RNG.uniform(-2, 2, (110, 1))[:40]
Y = (np.sin(2 * X[:, 0])) + np.where(np.arange(40) % 2, 0.05, 0.7) * RNG.normal(size=110)[:40]


def member(noise, offset):
    gp = cgp.ExactGPRegressor(
        lengthscale=0.7, outputscale=1.0, noise=noise, optimizer=None, normalize_y=False
    ).fit(X, Y)
    return replace(gp.process_, units=Units(np.array([offset]), np.ones(1)))


def test_tables_of_what_is_left_out_agree_with_the_scores():
    first, second = member(0.003, -0.3), member(0.6, 0.4)
    report = cross_validate(MixtureGP.of([first, second], np.array([0.8, 0.2]), first.data))
    p, groups = report.predictions, report.group_table()
    assert coverage(p.y, p.mean, p.std)[0.95] != report.coverage[0.95], "laws are not told apart"
    assert np.mean(report.left_out_table()["inside"]) == report.coverage[0.95]
    assert np.average(groups["coverage"], weights=groups["n"]) == report.coverage[0.95]
    assert report.calibration.coverage == report.coverage
