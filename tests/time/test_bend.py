"""What linear forecasts lack: plain ridge regressions, and where there is nothing to find."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coupledgp.time import recursion as ar
from coupledgp.time import spread as sp

P, N = 6, 2500
NONE = np.zeros((P, P))
BASE, GAIN = np.zeros((P, N)), np.full(P, 0.8)


def bent(seed=0):
    """Values that stay where they are above zero and fall back below it."""
    rng = np.random.default_rng(seed)
    x = np.zeros((P, N))
    for t in range(1, N):
        before = x[:, t - 1]
        x[:, t] = np.where(before > 0, 0.97 * before, 0.3 * before) + 0.3 * rng.normal(size=P)
        x[:, t] -= 3.0 * (rng.random(P) < 0.01)
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def prepared(x):
    observed = np.random.default_rng(1).random(x.shape) > 0.05
    fit = ar.fitted_recursion(x, observed, sparse.csr_array(NONE), kept=1e5)
    return fit, observed, fit.ahead, sp.volatility_after(fit.ahead.errors[0], NONE)


def test_hats_interpolate_and_add_up_to_one():
    at = np.array([-9.0, -4.0, -1.7, -0.4, 0.13, 2.9, 3.0, 8.0])
    found = sp.hats(at)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for k, row in enumerate(np.eye(sp.KNOTS.size)):
        np.testing.assert_allclose(found[:, k], np.interp(at, sp.KNOTS, row), atol=1e-15)


def test_columns_are_as_many_as_said_and_of_one_row_each():
    rng = np.random.default_rng(2)
    given = rng.normal(size=(5, 3, 4))
    found = sp.bend_columns(*given)
    assert found.shape == (3, 4, sp.N_BENDS)
    np.testing.assert_array_equal(found[1, 2], sp.bend_columns(*given[:, 1, 2][:, None])[0])


def test_corrections_are_ridge_regressions_on_the_other_blocks():
    x = bent()
    fit, _, ahead, volatility = prepared(x)
    found, left = sp.fitted_bend(ahead, x, volatility, BASE, GAIN, fit.blocks)
    k, h = 1, 3
    rows, targets, of_block = [], [], []
    for number, block in enumerate(fit.blocks):
        for t in range(max(block.first, h), block.last):
            for i in range(P):
                if np.isnan(ahead.errors[k, i, t]):
                    continue
                f = ahead.forecasts[k, i, t]
                rows.append(sp.bend_columns(
                    np.array(GAIN[i] * f), np.array(f), np.array(x[i, t - h]), GAIN[i],
                    np.array(volatility[i, t - h]),
                ))  # fmt: skip
                targets.append(ahead.errors[k, i, t])
                of_block.append(number)
    G, e, of_block = np.array(rows), np.array(targets), np.array(of_block)

    def ridge(kept):
        return np.linalg.solve(
            G[kept].T @ G[kept] + sp.BEND_RIDGE * np.eye(sp.N_BENDS), G[kept].T @ e[kept]
        )

    np.testing.assert_allclose(found.coefficients[k], ridge(of_block >= 0), atol=1e-9)
    second = fit.blocks[2]
    own = left.errors[k][:, max(second.first, h) : second.last].T
    expected = (e - G @ ridge(of_block != 2))[of_block == 2]
    np.testing.assert_allclose(own[~np.isnan(own)], expected, atol=1e-9)
    np.testing.assert_allclose(
        left.errors[k] + left.forecasts[k], ahead.errors[k] + ahead.forecasts[k], atol=1e-12
    )


def test_errors_fall_where_the_recursion_bends_and_not_in_noise():
    x = bent()
    fit, _, ahead, volatility = prepared(x)
    found, left = sp.fitted_bend(ahead, x, volatility, BASE, GAIN, fit.blocks)
    assert np.nanmean(left.errors[0] ** 2) < 0.95 * np.nanmean(ahead.errors[0] ** 2)
    assert found.coefficients[0].any()
    # And those of values that were not there.
    other = bent(9)
    new = ar.errors_ahead(other, np.ones(x.shape, bool), [ar.Block(12, N, fit.model)])
    calm = sp.volatility_after(new.errors[0], NONE)
    made = new.forecasts[0][:, 13:]
    correction = np.einsum("ihk,k->ih", sp.bend_columns(
        0.8 * made, made, other[:, 12:-1], np.full(made.shape, 0.8), calm[:, 12:-1]
    ), found.coefficients[0])  # fmt: skip
    error = other[:, 13:] - made
    assert np.mean((error - correction) ** 2) < 0.95 * np.mean(error**2)
    noise = np.random.default_rng(3).normal(size=(P, N))
    fit, _, ahead, volatility = prepared(noise)
    found, left = sp.fitted_bend(ahead, noise, volatility, BASE, GAIN, fit.blocks)
    assert not found.coefficients[1:].any()
