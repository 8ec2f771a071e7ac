"""Tables of known functions, in any number of rows, for comparisons with rivals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

Generated = tuple[np.ndarray, np.ndarray]


def _uniform(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    return rng.uniform(-1, 1, (n, dim))


def linear(rng: np.random.Generator, n: int) -> Generated:
    """A linear relation of 17 columns and a small smooth part."""
    X = rng.normal(size=(n, 17)) @ rng.normal(size=(17, 17))
    y = X @ rng.normal(size=17) + np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, y


def useless(rng: np.random.Generator, n: int) -> Generated:
    """Two columns of use and forty of none."""
    X = _uniform(rng, n, 42)
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


def outliers(rng: np.random.Generator, n: int) -> Generated:
    """One row in thirty is off by ten standard deviations of the function."""
    X = _uniform(rng, n, 4)
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y + 10 * (rng.random(n) < 1 / 30) * rng.normal(size=n)


def heteroscedastic(rng: np.random.Generator, n: int) -> Generated:
    """Noise that grows by a factor of twenty along a column."""
    X = _uniform(rng, n, 3)
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + np.exp(1.5 * X[:, 2] - 2) * rng.normal(size=n)


def categories(rng: np.random.Generator, n: int) -> Generated:
    """Two columns of numbers and the levels of two categories, as numbers without an order."""
    X = _uniform(rng, n, 2)
    levels = rng.integers(0, 8, (n, 2))
    effect = rng.normal(size=(8, 8))
    y = np.sin(4 * X[:, 0] + effect[levels[:, 0], 0]) + effect[levels[:, 0], levels[:, 1]]
    codes = [levels[:, [k]] == np.arange(8) for k in (0, 1)]
    return np.hstack([X, *codes]).astype(float), y + 0.2 * rng.normal(size=n)


def steps(rng: np.random.Generator, n: int) -> Generated:
    """Jumps along axes, which trees are made for."""
    X = _uniform(rng, n, 5)
    y = np.floor(3 * X[:, 0]) * (X[:, 1] > 0) + np.sign(X[:, 2] + 0.3)
    return X, y + 0.2 * rng.normal(size=n)


def smooth(rng: np.random.Generator, n: int) -> Generated:
    """A smooth function of two columns, nearly without noise."""
    X = _uniform(rng, n, 2)
    return X, np.exp(X[:, 0]) * np.cos(3 * X[:, 1]) + 0.01 * rng.normal(size=n)


def step_boxes(rng: np.random.Generator, n: int) -> Generated:
    """A sum of axis-aligned boxes of one to three columns."""
    X, y = _uniform(rng, n, 6), np.zeros(n)
    for _ in range(30):
        columns = rng.choice(6, rng.integers(1, 4), replace=False)
        low = rng.uniform(-1, 1, columns.size)
        inside = (X[:, columns] > low) & (X[:, columns] < low + rng.uniform(0.5, 2, columns.size))
        y += rng.normal() * inside.all(axis=1)
    return X, y + 0.1 * rng.normal(size=n)


def additive(rng: np.random.Generator, n: int) -> Generated:
    """Smooth effects of eight columns, without interactions."""
    X = _uniform(rng, n, 8)
    phases, speeds = rng.uniform(0, 6, 8), rng.uniform(2, 6, 8)
    return X, np.sin(speeds * X + phases).sum(axis=1) + 0.4 * rng.normal(size=n)


def pairs(rng: np.random.Generator, n: int) -> Generated:
    """Ten columns, of which four pairs interact."""
    X = _uniform(rng, n, 10)
    y = sum(np.sin(3 * X[:, i] * X[:, i + 1] + i) for i in (0, 2, 4, 6))
    return X, y + X[:, 8] + 0.1 * rng.normal(size=n)


def demand(rng: np.random.Generator, n: int) -> Generated:
    """Hours of a year: a day, a week, a season, weather."""
    hours = np.arange(n) * (8750 / n)
    cold = np.cos(2 * np.pi * hours / 8766) + 0.3 * rng.normal(size=n)
    day, week = (hours / 24) % 1, (hours / 168) % 1
    use = np.sin(2 * np.pi * day) + 0.5 * np.sin(4 * np.pi * day) * (week < 5 / 7)
    y = 10 + 2 * use + 1.5 * np.maximum(cold, 0) + 0.2 * rng.normal(size=n)
    return np.column_stack([hours, 24 * day, 7 * week, cold]), y


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """On the cube from -5 to 10."""
    z = 15 * x - 5
    return (100 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2).sum(axis=1)


def dixon(x: np.ndarray) -> np.ndarray:
    """Dixon and Price's function on the cube from -10 to 10."""
    z = 20 * x - 10
    rest = np.arange(2, x.shape[1] + 1) * (2 * z[:, 1:] ** 2 - z[:, :-1]) ** 2
    return (z[:, 0] - 1) ** 2 + rest.sum(axis=1)


def borehole(x: np.ndarray) -> np.ndarray:
    """Flow of water through a borehole (Harper and Gupta, 1983)."""
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (low + x * (high - low)).T
    ratio = np.log(r / rw)
    inner = 1 + 2 * length * tu / (ratio * rw**2 * kw) + tu / tl
    return 2 * np.pi * tu * (hu - hl) / (ratio * inner)


def ishigami(x: np.ndarray) -> np.ndarray:
    """On the cube from -pi to pi, a = 7 and b = .1."""
    a, b, c = (2 * np.pi * x - np.pi).T
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def wing(x: np.ndarray) -> np.ndarray:
    """Weight of a wing (Forrester, Sobester and Keane, 2008)."""
    low = np.array([150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025])
    high = np.array([200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08])
    area, fuel, aspect, sweep, q, taper, thick, load, gross, paint = (low + x * (high - low)).T
    cosine = np.cos(np.deg2rad(sweep))
    return (
        0.036 * area**0.758 * fuel**0.0035 * (aspect / cosine**2) ** 0.6 * q**0.006
        * taper**0.04 * (100 * thick / cosine) ** -0.3 * (load * gross) ** 0.49 + area * paint
    )  # fmt: skip


def piston(x: np.ndarray) -> np.ndarray:
    """Cycle time of a piston (Kenett and Zacks, 1998)."""
    low = np.array([30, 0.005, 0.002, 1000, 90000, 290, 340])
    high = np.array([60, 0.020, 0.010, 5000, 110000, 296, 360])
    weight, area, volume, spring, pressure, ambient, gas = (low + x * (high - low)).T
    a = pressure * area + 19.62 * weight - spring * volume / area
    flow = pressure * volume * ambient / gas
    v = area / (2 * spring) * (np.sqrt(a**2 + 4 * spring * flow) - a)
    return 2 * np.pi * np.sqrt(weight / (spring + area**2 * flow / v**2))


def circuit(x: np.ndarray) -> np.ndarray:
    """Voltage of a push-pull circuit without transformer (Ben-Ari and Steinberg, 2007)."""
    low, high = np.array([50, 25, 0.5, 1.2, 0.25, 50]), np.array([150, 70, 3, 2.5, 1.2, 300])
    b1, b2, f, c1, c2, beta = (low + x * (high - low)).T
    base, gain = 12 * b2 / (b1 + b2), beta * (c2 + 9)
    return (
        (base + 0.74) * gain / (gain + f)
        + 11.35 * f / (gain + f)
        + 0.74 * f * gain / ((gain + f) * c1)
    )


def robot(x: np.ndarray) -> np.ndarray:
    """Distance of a robot's hand from its shoulder, four segments (An and Owen, 2001)."""
    angles, lengths = np.cumsum(2 * np.pi * x[:, :4], axis=1), x[:, 4:]
    return np.hypot((lengths * np.cos(angles)).sum(axis=1), (lengths * np.sin(angles)).sum(axis=1))


def hartmann(x: np.ndarray) -> np.ndarray:
    """Hartmann's function of six columns."""
    weights = np.array([1, 1.2, 3, 3.2])
    scales = np.array([
        [10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14],
    ])  # fmt: skip
    places = 1e-4 * np.array([
        [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
    ])  # fmt: skip
    squares = (scales * (x[:, None] - places) ** 2).sum(axis=2)
    return -np.exp(-squares) @ weights


def ridge(rng: np.random.Generator, n: int) -> Generated:
    """Two directions of twelve columns matter."""
    X = rng.normal(size=(n, 12))
    along = X @ np.linalg.qr(rng.normal(size=(12, 2)))[0]
    return X, np.sin(2 * along[:, 0]) + np.abs(along[:, 1]) + 0.1 * rng.normal(size=n)


def positive(rng: np.random.Generator, n: int) -> Generated:
    """A positive target with errors in proportion to it."""
    X = _uniform(rng, n, 5)
    return X, np.exp(X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2] + 0.3 * rng.normal(size=n))


def full(rng: np.random.Generator, n: int) -> Generated:
    """A draw of a Gaussian process of five columns, by 2000 frequencies."""
    X = rng.normal(size=(n, 5))
    frequencies, phases = rng.normal(size=(5, 2000)) / 2, rng.uniform(0, 2 * np.pi, 2000)
    weights = rng.normal(size=2000) / np.sqrt(1000)
    parts = [
        np.cos(rows @ frequencies + phases) @ weights for rows in np.array_split(X, 1 + n // 4000)
    ]
    return X, np.concatenate(parts) + 0.2 * rng.normal(size=n)


def sums_with_categories(rng: np.random.Generator, n: int) -> Generated:
    """Smooth effects of three columns and of two categories, as numbers without an order."""
    X, levels = _uniform(rng, n, 3), rng.integers(0, 6, (n, 2))
    effects = rng.normal(size=(2, 6))
    codes = [levels[:, [k]] == np.arange(6) for k in (0, 1)]
    y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + effects[0, levels[:, 0]]
    y += effects[1, levels[:, 1]] * X[:, 2]
    return np.hstack([X, *codes]).astype(float), y + 0.3 * rng.normal(size=n)


def computed(function: Callable, dim: int) -> Callable:
    """A deterministic function of the unit cube, as simulations are."""

    def generate(rng: np.random.Generator, n: int) -> Generated:
        x = rng.uniform(size=(n, dim))
        return x, function(x)

    return generate


def friedman(make: Callable, noise: float) -> Callable:
    """One of Friedman's functions."""

    def generate(rng: np.random.Generator, n: int) -> Generated:
        return make(n, noise=noise, random_state=int(rng.integers(2**31)))

    return generate


GENERATED = {
    "friedman1": friedman(make_friedman1, 1.0), "friedman2": friedman(make_friedman2, 100.0),
    "friedman3": friedman(make_friedman3, 0.1), "linear": linear, "useless": useless,
    "outliers": outliers, "heteroscedastic": heteroscedastic, "categories": categories,
    "steps": steps, "smooth": smooth, "boxes": step_boxes, "additive": additive, "pairs": pairs,
    "demand": demand, "rosenbrock": computed(rosenbrock, 10), "dixon": computed(dixon, 20),
    "borehole": computed(borehole, 8), "ishigami": computed(ishigami, 3),
    "wing": computed(wing, 10), "piston": computed(piston, 7), "circuit": computed(circuit, 6),
    "robot": computed(robot, 8), "hartmann": computed(hartmann, 6), "ridge": ridge,
    "positive": positive, "full": full, "sums with categories": sums_with_categories,
}  # fmt: skip
