"""The evidence of complete data on irregular axes, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.inference.space_time.filter_evidence import FilterEvidence
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.whittle import RIDGE, SpaceTimeParameters, Whittle
from coupledgp.kernels.time import Constant, Matern12
from coupledgp.search.space_time.rounds import ImputationRounds
from tests.inference.space_time.dense import made

BURSTS = np.concatenate([20.0 * k + np.arange(8) for k in range(10)])


def complete():
    return made(irregular=True, observed=np.ones((9, 40), dtype=bool))


def test_the_value_is_the_dense_evidence():
    dense = complete()
    start = replace(dense.parameters, noise=0.2)
    Z = np.stack([dense.values, 0.5 * dense.values])
    found = FilterEvidence(Z, dense.times, lambda theta: dense.gram[:9, :9], start)
    at = dense.parameters
    each = [replace(dense, values=values).log_evidence for values in Z]
    pull = RIDGE * np.log(2.0) ** 2
    expected = -np.mean(each) - 0.5 * dense.values.size * np.log(2 * np.pi) + pull
    assert found.value(at.variables) == pytest.approx(expected, rel=1e-10)


def test_slopes_are_those_of_central_differences():
    dense = complete()
    found = FilterEvidence(
        dense.values[None], dense.times, lambda theta: dense.gram[:9, :9], dense.parameters
    )
    x = dense.parameters.variables + 0.1
    value, slopes = found.loss(x)
    assert value == found.value(x)
    steps = 1e-4 * np.eye(x.size)
    expected = [(found.value(x + h) - found.value(x - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(slopes, expected, atol=1e-3 * np.abs(slopes).max())


def test_on_an_axis_of_bursts_what_is_found_is_as_likely_as_the_truth():
    terms = (Term("graph", Matern12(8.0), 1.0), Term("node", Constant(), 0.3))
    observed = np.random.default_rng(1).random((9, 80)) > 0.2
    dense = made(n=80, own=False, terms=terms, times=BURSTS, observed=observed)
    start = SpaceTimeParameters(
        np.zeros(0), (replace(terms[0], kernel=Matern12(4.0)), terms[1]), 0.3, np.ones(9)
    )

    def gram(theta):
        return dense.gram[:9, :9]

    rounds = ImputationRounds(dense.data, gram, [], own_scales=False, fixed_noise=False, seed=0)
    found = rounds.run([start]).point
    likely = replace(dense, terms=found.terms, noise=found.noise).log_evidence
    assert likely > dense.log_evidence - 1.0


def test_steps_that_are_alike_have_the_evidence_of_frequencies():
    dense = made(own=False, observed=np.ones((9, 40), dtype=bool))
    start = dense.parameters
    for times, kind in ((dense.times, Whittle), (dense.times**1.1, FilterEvidence)):
        data = replace(dense, times=times).data
        rounds = ImputationRounds(data, lambda theta: dense.gram[:9, :9], [], own_scales=False,
                        fixed_noise=False, seed=0)  # fmt: skip
        assert type(rounds._evidence(start)) is kind
