"""Bounds of divergences by probes: closed forms at products whose error is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coupledgp.diagnostics.probes import (
    ProbeTerms,
    RelativeCovariance,
    divergences,
    quadratic_forms,
)
from coupledgp.linalg.lanczos import Lanczos

VALUES = np.array([0.5, 0.8, 1.3, 4.0])
ERROR = 1e-3


class Known:
    """Products with a diagonal matrix B, of which it is said that they are off by `ERROR`."""

    floor, tolerance = 0.25, 1e-3

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def product(self, V: np.ndarray) -> np.ndarray:
        return self.values[:, None] * V

    def product_error(self, V: np.ndarray) -> float:
        return ERROR

    def report(self, message: str) -> None:
        pass


def found(values: np.ndarray, n_probes: int = 6) -> tuple[Any, ...]:
    p = len(values)
    others = np.eye(p)[:, :2]
    rng = np.random.default_rng(1)
    return divergences(Known(values), np.zeros(p), others, n_probes, rng)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [VALUES, np.array([0.9, 1.0, 1.1, 1.2])])
def test_what_the_solver_leaves_is_the_slope_times_the_error(values: np.ndarray) -> None:
    """All four steps are made, so that the quadrature is exact and its gap is rounding.

    Half of `x - 1 - log x` has the slope `(1 - 1/x) / 2`, half of `1/x - 1 + log x` that of
    `(1/x - 1/x^2) / 2`, which is at most half of `max(1 / x^2, 1 / x)` in size.
    """
    forward, backward, logdet, _ = found(values)
    scale = 0.5 * ERROR * np.sqrt(4)
    least, largest = values[0], values[-1]
    steep = max(abs(1 - 1 / least), abs(1 - 1 / largest)) * scale
    assert forward[2:] == pytest.approx((steep, steep), rel=1e-6)
    steep = max(1 / least**2, 1 / largest) * scale
    assert backward[2:] == pytest.approx((steep, steep), rel=1e-6)
    assert logdet[2:] == pytest.approx((2 * scale / least,) * 2, rel=1e-6)


def test_an_inverse_form_is_off_by_its_own_size_over_the_least_eigenvalue() -> None:
    *_, forms = found(VALUES)
    for form, value in zip(forms, VALUES, strict=False):
        assert form.value == pytest.approx(1 / value / 4)
        share = ERROR * np.sqrt(4) / VALUES[0]
        assert form.below == pytest.approx(share * form.value, rel=1e-6)
        assert form.above == pytest.approx(share * form.value, rel=1e-6)


def test_each_gap_is_on_its_own_side() -> None:
    """The Gauss rule takes the logarithm too large and the inverse too small."""
    values = np.geomspace(0.3, 40, 400)
    p, n_probes = 400, 5
    forward, backward, logdet, _ = found(values, n_probes)
    probes = np.random.default_rng(1).choice([-1.0, 1.0], (p, n_probes))
    full = Lanczos(Known(values).product, np.column_stack([probes, np.zeros(p), np.eye(p)[:, :2]]))
    steps = 0
    while True:  # the steps that `divergences` makes, to know its gaps
        full.step()
        steps += 1
        forms = quadratic_forms(full, 0.5 * Known.floor)
        terms = ProbeTerms.of(forms, p, n_probes)
        if terms.excess() <= 1 or steps >= 100:
            break
    assert terms.forward_gap > 1e-9
    assert forward.above - forward.below == pytest.approx(terms.forward_gap, rel=1e-6)
    assert logdet.below - logdet.above == pytest.approx(2 * terms.forward_gap, rel=1e-6)
    assert backward.below - backward.above == pytest.approx(
        terms.forward_gap - terms.backward_gap, rel=1e-6
    )


@pytest.mark.parametrize("worst", [0, 1])
def test_the_error_of_products_is_that_of_the_worst_column(worst: int) -> None:
    relative = object.__new__(RelativeCovariance)
    relative.tolerance = 1e-2
    sizes = np.where(np.arange(2) == worst, 3.0, 1.0)

    def product(V: np.ndarray, tolerance: float) -> np.ndarray:
        return V + (tolerance == 1e-2) * sizes * V

    relative._product = product  # type: ignore[method-assign]
    assert relative.product_error(np.random.default_rng(0).normal(size=(5, 2))) == pytest.approx(3)
