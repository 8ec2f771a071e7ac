"""How often an audit finds fault with right laws of any shape, and how often with wrong ones.

    python benchmarks/law_alarms.py --cases 200

Each case has 150 training and 200 test rows of its own, whose targets are drawn from the law that
is audited: draws, ensembles, mixtures, quantiles, intervals, distributions, joint laws and joint
draws. A right law that is amber or red is a false alarm. The same laws with standard deviations
times .7, 1.2 and 1.5, and shifted by half a standard deviation, should be found.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import coupledgp as cgp
from coupledgp.random import FloatArray

N_TRAIN, N_TEST = 150, 200
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
ALARMS = ("amber", "red")


class Shape(NamedTuple):
    """A shape of laws: quantiles at chances (p,) or (m, p) of locations and scales (p,)."""

    name: str
    quantile: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def normal(u: FloatArray, mu: FloatArray, s: FloatArray) -> FloatArray:
    """Quantiles of a normal law."""
    return mu + s * stats.norm.ppf(u)


def lognormal(u: FloatArray, mu: FloatArray, s: FloatArray) -> FloatArray:
    """Quantiles of a lognormal law."""
    return np.exp(0.7 * normal(u, mu, s))


def student(u: FloatArray, mu: FloatArray, s: FloatArray) -> FloatArray:
    """Quantiles of a law of Student with three degrees of freedom."""
    return mu + s * stats.t.ppf(u, 3) / np.sqrt(3)


def rain(u: FloatArray, mu: FloatArray, s: FloatArray) -> FloatArray:
    """Zero with a chance of a half to three quarters, else a gamma law."""
    dry = 0.5 + 0.25 / (1 + np.exp(mu))
    wet = np.clip((u - dry) / (1 - dry), 1e-12, 1 - 1e-12)
    return np.where(u <= dry, 0.0, s * np.exp(0.5 * mu) * stats.gamma.ppf(wet, 1.5))


def two_modes(u: FloatArray, mu: FloatArray, s: FloatArray) -> FloatArray:
    """Half the observations 2 scales below, half above, each with .4 of the scale."""
    low = u < 0.5
    part = np.clip(np.where(low, 2 * u, 2 * u - 1), 1e-12, 1 - 1e-12)
    return mu + s * (np.where(low, -2.0, 2.0) + 0.4 * stats.norm.ppf(part))


SHAPES = [Shape(one.__name__, one) for one in (normal, lognormal, student, rain, two_modes)]


class Case(NamedTuple):
    """Rows, locations and scales of all rows, and the shape of the law."""

    X: FloatArray
    mu: FloatArray
    s: FloatArray
    y: FloatArray
    shape: Shape
    rng: np.random.Generator

    @classmethod
    def of(cls, seed: int, shape: Shape) -> Case:
        rng = np.random.default_rng([seed, 41])
        n = N_TRAIN + N_TEST
        X = rng.uniform(-2, 2, (n, 2))
        mu = np.sin(2 * X[:, 0]) * X[:, 1]
        s = rng.choice([0.3, 1.0]) * np.exp(0.4 * X[:, 0])
        return cls(X, mu, s, shape.quantile(rng.uniform(size=n), mu, s), shape, rng)

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        return self.X[:N_TRAIN], self.y[:N_TRAIN], self.X[N_TRAIN:], self.y[N_TRAIN:]

    def at(self, u: Any, factor: float = 1.0, shift: float = 0.0) -> FloatArray:
        """Quantiles of the test rows, of scales times a factor and shifted by so many scales."""
        mu, s = self.mu[N_TRAIN:], self.s[N_TRAIN:]
        return self.shape.quantile(np.asarray(u), mu + shift * s, factor * s)


Form = Callable[[Case, float, float], Any]


def draws(n: int) -> Form:
    """So many draws of each row, independent between rows."""
    return lambda case, factor, shift: case.at(case.rng.uniform(size=(n, N_TEST)), factor, shift)


def quantiles(case: Case, factor: float, shift: float) -> Any:
    """Five quantiles."""
    return {level: case.at(np.full(N_TEST, level), factor, shift) for level in LEVELS}


def intervals(case: Case, factor: float, shift: float) -> Any:
    """Central intervals of 90 %."""
    ends = (case.at(np.full(N_TEST, chance), factor, shift) for chance in (0.05, 0.95))
    return {"lower": next(ends), "upper": next(ends), "level": 0.9}


def mixture(case: Case, factor: float, shift: float) -> Any:
    """The law of two modes as one, whatever the shape of the case."""
    mu, s = case.mu[N_TRAIN:], case.s[N_TRAIN:]
    middle = mu + shift * s
    means = [middle - 2 * factor * s, middle + 2 * factor * s]
    return {"means": np.array(means), "stds": np.array([0.4 * factor * s] * 2)}


FORMS: dict[str, Form] = {
    "10 draws": draws(10), "50 draws": draws(50), "2000 draws": draws(2000),
    "5 quantiles": quantiles, "90 % intervals": intervals,
}  # fmt: skip


def marginal(case: Case, factor: float, shift: float) -> Any:
    """Means and standard deviations."""
    mu, s = case.mu[N_TRAIN:], case.s[N_TRAIN:]
    return mu + shift * s, factor * s


def distribution(case: Case, factor: float, shift: float) -> Any:
    """Distributions of Student."""
    mu, s = case.mu[N_TRAIN:], case.s[N_TRAIN:]
    return stats.t(3, loc=mu + shift * s, scale=factor * s / np.sqrt(3))


def poisson_case(seed: int) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Tables of counts, and the rates of the test rows."""
    rng = np.random.default_rng([seed, 43])
    X = rng.uniform(-2, 2, (N_TRAIN + N_TEST, 2))
    rate = np.exp(1.0 + 0.7 * np.sin(2 * X[:, 0]) * X[:, 1])
    y = rng.poisson(rate).astype(float)
    return (X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]), rate[N_TRAIN:]


def joint_case(seed: int) -> tuple[tuple[FloatArray, ...], FloatArray, FloatArray]:
    """Tables of an exact process, and its joint law of observations."""
    rng = np.random.default_rng([seed, 47])
    X = rng.uniform(-2, 2, (N_TRAIN + N_TEST, int(rng.choice([1, 2, 4]))))
    length, noise = float(rng.choice([0.5, 1.0, 2.0])), float(rng.choice([0.02, 0.1, 0.5]))
    squares = np.square(X[:, None] - X).sum(axis=2)
    cov = np.exp(-0.5 * squares / length**2) + noise * np.eye(len(X))
    y = np.linalg.cholesky(cov) @ rng.normal(size=len(X))
    a, b = slice(None, N_TRAIN), slice(N_TRAIN, None)
    gain = np.linalg.solve(cov[a, a], cov[a, b]).T
    return (X[a], y[a], X[b], y[b]), gain @ y[a], cov[b, b] - gain @ cov[a, b]


class Counts:
    """Colours of the first two verdicts by kind."""

    def __init__(self, shapes: list[str]) -> None:
        self.shapes = shapes
        self.alarms: Counter[tuple[str, str]] = Counter()
        self.dishonest: Counter[tuple[str, str]] = Counter()
        self.cases: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, what: str, stated: Any, tables: tuple[FloatArray, ...]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = cgp.audit(stated, *tables, progress=False)
        colours = [one.colour for one in report.verdicts[:2]]
        self.cases[kind, what] += 1
        self.alarms[kind, what] += any(one in ALARMS for one in colours)
        self.dishonest[kind, what] += colours[1] in ALARMS

    def show(self, wrong: list[str]) -> None:
        kinds = dict.fromkeys(kind for kind, _ in self.cases)
        print("| law | right: amber or red | dishonest of right |", " | ".join(wrong), "|")
        for kind in kinds:
            n = self.cases[kind, "right"]
            cells = [f"{self.dishonest[kind, what]} of {self.cases[kind, what]}" for what in wrong]
            print(f"| {kind} | {self.alarms[kind, 'right']} of {n} | "
                  f"{self.dishonest[kind, 'right']} of {n} | {' | '.join(cells)} |",
                  flush=True)  # fmt: skip


# Wrong laws: factor on the scales, and shift in scales.
WRONG = {"sd x 0.7": (0.7, 0.0), "sd x 1.2": (1.2, 0.0), "sd x 1.5": (1.5, 0.0),
         "shifted by .5": (1.0, 0.5)}  # fmt: skip


def shapes(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Every form of every shape."""
    forms = {f"{shape.name}, {form}": (shape, FORMS[form]) for shape in SHAPES for form in FORMS}
    forms |= {
        "normal, mean and std": (SHAPES[0], marginal),
        "two_modes, mixture": (SHAPES[4], mixture),
        "student, distribution": (SHAPES[2], distribution),
    }
    for kind, (shape, form) in forms.items():
        if counts.shapes and shape.name not in counts.shapes:
            continue
        for seed in range(n_cases):
            case = Case.of(seed, shape)
            counts.add(kind, "right", form(case, 1.0, 0.0), case.tables)
            for what, wrong in WRONG.items() if seed < n_wrong else ():
                counts.add(kind, what, form(case, *wrong), case.tables)


def poisson(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Counts of a Poisson law, as a distribution, draws and quantiles; wrong: rates."""
    for seed in range(n_cases):
        tables, rate = poisson_case(seed)
        rng = np.random.default_rng([seed, 44])
        for what, factor in (("right", 1.0), ("sd x 0.7", 0.7), ("sd x 1.5", 1.5)):
            if what != "right" and seed >= n_wrong:
                continue
            laws = {
                "poisson, distribution": stats.poisson(factor * rate),
                "poisson, 50 draws": rng.poisson(factor * rate, (50, N_TEST)).astype(float),
                "poisson, 5 quantiles": {q: stats.poisson.ppf(q, factor * rate) for q in LEVELS},
            }
            for kind, law in laws.items():
                counts.add(kind, what, law, tables)


def joint(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Joint laws, as covariances and as joint draws."""
    for seed in range(n_cases):
        tables, mean, cov = joint_case(seed)
        root = np.linalg.cholesky(cov)
        std = np.sqrt(np.diagonal(cov))
        rng = np.random.default_rng([seed, 48])
        for what, (factor, shift) in {"right": (1.0, 0.0), **WRONG}.items():
            if what != "right" and seed >= n_wrong:
                continue
            middle = mean + shift * std
            counts.add("joint law", what, (middle, factor**2 * cov), tables)
            for n in (10, 50, 2000):
                drawn = middle + factor * rng.normal(size=(n, N_TEST)) @ root.T
                counts.add(f"joint law, {n} draws", what, drawn, tables)


def classes(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Chances of two classes; wrong: logits times .5 and 1.5."""
    for seed in range(n_cases):
        rng = np.random.default_rng([seed, 49])
        X = rng.uniform(-2, 2, (N_TRAIN + N_TEST, 2))
        logits = 2 * np.sin(2 * X[:, 0]) * X[:, 1]
        y = (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-logits))).astype(int)
        tables = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]
        for what, factor in (("right", 1.0), ("sd x 0.7", 1 / 0.5), ("sd x 1.5", 0.5)):
            if what == "right" or seed < n_wrong:
                p = 1 / (1 + np.exp(-factor * logits[N_TRAIN:]))
                law = {"chances": np.column_stack([1 - p, p]), "classes": [0, 1]}
                counts.add("classes, chances (logits x 2, x .5)", what, law, tables)


# Factors on the standard deviations of right laws.
FACTORS = (0.6, 0.7, 0.8, 0.85, 0.9, 1.0, 1.1, 1.15, 1.2, 1.3, 1.5)


def power(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Print how often Gaussian laws of wrong standard deviations are called dishonest."""
    kinds = ("single points, 200 rows", "joint law, 200 rows", "single points, 1000 rows")
    print("| law |", " | ".join(f"sd x {factor:g}" for factor in FACTORS), "|")
    for kind in kinds:
        found: Counter[float] = Counter()
        for seed in range(n_cases):
            tables, mean, cov = joint_case(seed)
            if kind.startswith("single"):
                rng, p = np.random.default_rng([seed, 51]), 1000 if "1000" in kind else N_TEST
                X = rng.uniform(-2, 2, (p, 2))
                mean, std = np.sin(2 * X[:, 0]) * X[:, 1], np.exp(0.3 * X[:, 0])
                y = mean + std * rng.normal(size=p)
                train = rng.uniform(-2, 2, (N_TRAIN, 2))
                tables = train, np.sin(2 * train[:, 0]) * train[:, 1], X, y
            for factor in FACTORS:
                stated = factor * std if kind.startswith("single") else factor**2 * cov
                report = cgp.audit((mean, stated), *tables, progress=False)
                found[factor] += report.verdicts[1].colour in ALARMS
        cells = " | ".join(f"{found[factor] / n_cases:.3f}" for factor in FACTORS)
        print(f"| {kind} | {cells} |", flush=True)


def overstated(counts: Counts, n_cases: int, n_wrong: int) -> None:
    """Print how often stated correlations hide wrong deviations, and whether they are found."""
    for true in (0.0, 0.95):
        for stated, factor in ((true, 1.0), (0.95, 0.6), (0.95, 1.0), (0.0, 1.0)):
            count: Counter[str] = Counter()
            for seed in range(n_cases):
                rng = np.random.default_rng([seed, 53])
                X = rng.uniform(-2, 2, (N_TRAIN + N_TEST, 2))
                mean = np.sin(2 * X[:, 0]) * X[:, 1]
                shared = np.sqrt(true) * rng.normal()
                y = mean + 0.3 * (shared + np.sqrt(1 - true) * rng.normal(size=len(X)))
                cov = np.full((N_TEST, N_TEST), stated) + (1 - stated) * np.eye(N_TEST)
                a, b = slice(None, N_TRAIN), slice(N_TRAIN, None)
                law = mean[b], (0.3 * factor) ** 2 * cov
                report = cgp.audit(law, X[a], y[a], X[b], y[b], progress=False)
                count[report.verdicts[1].colour] += 1
            print(f"true correlation {true:g}, stated {stated:g}, sd x {factor:g}: {dict(count)}",
                  flush=True)  # fmt: skip


PARTS = {
    "power": power,
    "overstated": overstated,
    "shapes": shapes,
    "poisson": poisson,
    "joint": joint,
    "classes": classes,
}


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--wrong", type=int, default=50, help="cases of each wrong law")
    parser.add_argument("--only", choices=list(PARTS), nargs="*", default=list(PARTS))
    parser.add_argument("--shapes", nargs="*", default=[], help="of the part shapes; all")
    given = parser.parse_args()
    for part in given.only:
        counts = Counts(given.shapes)
        PARTS[part](counts, given.cases, given.wrong)
        if counts.cases:
            counts.show(list(WRONG))


if __name__ == "__main__":
    main()
