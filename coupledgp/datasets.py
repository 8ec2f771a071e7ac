"""Data of the demo and of examples, which need no file and no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class RegressionData:
    """A regression set; its numbers are finite and in float64.

    Attributes
    ----------
    name : str
    X : FloatArray (n, d)
        Inputs.
    y : FloatArray (n,)
        Targets.
    feature_names : tuple of str
        Names of the d columns of X.
    target_name : str
    source : str
        Where the numbers came from, in words.
    """

    name: str
    X: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)
    feature_names: tuple[str, ...]
    target_name: str
    source: str


def friedman2() -> RegressionData:
    """500 circuits of four parts, whose impedance is known with a noise of 20 ohm.

    Source: Friedman (1991), Multivariate adaptive regression splines, section 4.4.

    Examples
    --------
    >>> from coupledgp.datasets import friedman2
    >>> data = friedman2()
    >>> data.X.shape, data.y.shape, data.target_name
    ((500, 4), (500,), 'impedance')
    """
    from sklearn.datasets import make_friedman2

    X, y = make_friedman2(500, noise=20.0, random_state=0)
    names = ("resistance", "frequency", "inductance", "capacitance")
    return RegressionData("friedman2", X, y, names, "impedance", "scikit-learn's make_friedman2")


def shape(name: str = "icosphere") -> Any:
    """A triangle mesh (`trimesh.Trimesh`) of one of the `SHAPES`.

    Examples
    --------
    >>> from coupledgp.datasets import shape
    >>> len(shape("annulus").faces)
    1600
    """
    from trimesh import creation

    return SHAPES[name](creation)


SHAPES: Mapping[str, Callable[[Any], Any]] = {
    "icosphere": lambda creation: creation.icosphere(subdivisions=3),
    "annulus": lambda creation: creation.torus(2.0, 0.7, major_sections=40, minor_sections=20),
    "capsule": lambda creation: creation.capsule(height=2.0, radius=1.0, count=[24, 24]),
}
