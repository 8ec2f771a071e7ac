"""The race of exact models: who is searched for on all rows."""

from dataclasses import dataclass

import numpy as np

import coupledgp as cgp
from coupledgp.tables.race import CLOSE, Runner, _order


@dataclass(frozen=True)
class Named:
    name: str
    family: str


def runners(**densities):
    return [
        Runner(Named(name, name.rstrip("12")), np.zeros(1), 1, np.asarray(own, float))
        for name, own in densities.items()
    ]


def test_a_model_that_others_do_not_replace_goes_on():
    """One is good on half of the rows, another on the rest; a third adds nothing to either."""
    half = np.repeat([0.0, -2.0], 50)
    made = runners(a1=half, b1=half[::-1], a2=half - 1.0, c1=np.full(100, -3.0))
    assert {one.entry.name for one in _order(made, None)} == {"a1", "b1"}


def test_the_best_of_each_family_that_is_close_goes_on():
    flat = np.zeros(100)
    made = runners(a1=flat, a2=flat - 0.01, b1=flat - 0.5 * CLOSE, c1=flat - 2 * CLOSE)
    names = {one.entry.name for one in _order(made, None)}
    assert {"a1", "b1"} <= names
    assert "c1" not in names


def test_an_additive_function_has_an_additive_winner():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 6))
    y = np.sin(3 * X).sum(axis=1) + 0.1 * rng.normal(size=300)
    gp = cgp.GPRegressor(noise="constant", random_state=0).fit(X, y)
    assert "additive" in gp.choice_.ranked[0].name
