"""Gains that advice states, beside what following it gains on fresh rows.

    python benchmarks/advice_gains.py --models 20

Each case of `verdict_causes` is drawn with further rows that no report sees. The first advice is
read from its sentence and followed: the same kind of model is fitted to the changed rows, targets
or kernel, or its deviations are changed. The fresh gain is the NLPD of the model at the fresh rows
less that of the changed one, nats per point.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks import verdict_causes as causes
from coupledgp.diagnostics import Report
from coupledgp.random import FloatArray

N_FRESH = 400
Law = tuple[FloatArray, FloatArray]


class Given:
    """Rows of a case: those that a model is fitted to, those of its report, and fresh ones."""

    def __init__(self, drawn: causes.Drawn) -> None:
        a, b = causes.N_TRAIN, causes.N_TRAIN + causes.N_TEST - N_FRESH
        self.drawn, self.stop = drawn, b
        self.X, self.y = drawn.X[:a], drawn.y[:a]
        self.test, self.fresh = (drawn.X[a:b], drawn.y[a:b]), (drawn.X[b:], drawn.y[b:])


def losses(y: FloatArray, law: Law) -> float:
    """Mean NLPD of a normal law (mean, std)."""
    return cgp.diagnostics.nlpd(y, *law)


def exact(given: Given, X: FloatArray, y: FloatArray, kernel: Any = "gaussian", **options: Any
          ) -> Any:  # fmt: skip
    """An exact model with one restart."""
    return cgp.ExactGPRegressor(kernel, random_state=0, **options).fit(X, y)


def of_range(given: Given, match: re.Match[str], model: Any) -> float:
    """The loss of a model of a stretched column."""
    number = int(match[1].rpartition(" ")[2]) - 1

    def changed(X: FloatArray) -> FloatArray:
        found = X.copy()
        found[:, number] = eval(match[2], {"np": np, "x": X[:, number]})
        return found

    X, y = given.fresh
    again = exact(given, changed(given.X), given.y)
    return losses(y, again.predict(changed(X), return_std=True))


def by_density(make: Callable[[], Any]) -> Callable[..., float]:
    """The loss of a model that knows log densities."""

    def found(given: Given, match: re.Match[str], model: Any) -> float:
        fitted, (X, y) = make().fit(given.X, given.y), given.fresh
        return -float(fitted.process_.log_density(fitted.points(X), y[:, None]).mean())

    return found


def of_kernel(given: Given, match: re.Match[str], model: Any) -> float:
    """The loss of another kernel, fitted."""
    X, y = given.fresh
    return losses(y, exact(given, given.X, given.y, match[1]).predict(X, return_std=True))


def again(kernel: str) -> Callable[..., float]:
    """The loss of a kernel, fitted anew."""
    return lambda given, match, model: of_kernel(given, {1: kernel}, model)  # type: ignore[arg-type]


def scaled(given: Given, match: re.Match[str], model: Any) -> float:
    """The loss with other deviations."""
    mean, std = model(given.fresh[0])
    return losses(given.fresh[1], (mean, float(match[1]) * std))


def noisier(given: Given, match: re.Match[str], model: Any) -> float:
    """The loss with added noise."""
    mean, std = model(given.fresh[0])
    return losses(given.fresh[1], (mean, np.sqrt(std**2 + float(match[1]))))


CURES: dict[str, tuple[str, Callable[..., float]]] = {
    "range": (r"its range varies along column `(.*?)`. Give the model (.*) in place", of_range),
    "transform": (r"target_transform='auto'\.", by_density(
        lambda: cgp.ExactGPRegressor(target_transform="auto", random_state=0))),
    "tails": ("heavy tails", by_density(
        lambda: cgp.GPRegressor(noise="varying", random_state=0))),
    "noise varies": ("noise that varies", by_density(
        lambda: cgp.GPRegressor(noise="varying", random_state=0))),
    "factor": (r"Multiply its standard deviations by ([\d.]+):", scaled),
    "add noise": (r"Add the noise ([\d.e-]+)", noisier),
    "additive": ("function is additive", again("additive(2)")),
    "kernel": (r"Fit kernel='(.*?)'", of_kernel),
    "new fit": ("exact process of one|same kernel|Fit again", again("gaussian")),
}  # fmt: skip


def fitted(given: Given) -> tuple[Report, Any, float]:
    """Report on an exact model, the model, and its loss at the fresh rows."""
    model = cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0).fit(given.X, given.y)
    own = losses(given.fresh[1], model.predict(given.fresh[0], return_std=True))
    return cgp.report(model, *given.test, progress=False), model, own


def short(given: Given) -> tuple[Report, Any, float]:
    """Report on the right law with deviations 40 % short."""
    case, a = given.drawn, causes.N_TRAIN
    mean, cov = case.right()
    std = 0.6 * np.sqrt(np.diagonal(cov))
    test, fresh = slice(0, given.stop - a), slice(given.stop - a, None)
    report = cgp.audit((mean[test], std[test]), given.X, given.y, *given.test, progress=False)
    own = losses(given.fresh[1], (mean[fresh], std[fresh]))
    return report, lambda X: (mean[fresh], std[fresh]), own


def skewed(rng: np.random.Generator) -> causes.Drawn:
    """The exponential of a smooth function with noise."""
    case = causes.plain(rng)
    return causes.Drawn(case.X, np.exp(case.y), case.signal, case.cov)


def shifted_gamma(rng: np.random.Generator) -> causes.Drawn:
    """A smooth function with skewed noise, far from zero."""
    case = causes.drawn(rng, X := causes.rows(rng, 2), causes.gaussian(X), 1e-8)
    y = 5 + case.y + 0.3 * (rng.gamma(1.0, size=len(X)) - 1)
    return causes.Drawn(X, y, case.signal, case.cov)


CASES: dict[str, tuple[Callable[..., causes.Drawn], Callable[..., Any]]] = {
    "range varies": (causes.bent, fitted),
    "size varies": (causes.wavering, fitted),
    "skewed targets": (skewed, fitted),
    "skewed noise": (shifted_gamma, fitted),
    "deviations 40 % short": (causes.plain, short),
    "additive truth, 8 columns": (causes.additive, fitted),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--only", default="", help="regular expression of names")
    asked = parser.parse_args()
    causes.N_TEST = 200 + N_FRESH
    for name, (draw, report_of) in CASES.items():
        if not re.search(asked.only, name):
            continue
        told: Counter[str] = Counter()
        gains: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for seed in range(asked.models):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = Given(draw(np.random.default_rng([seed, 33])))
                report, model, own = report_of(given)
                text = report.advice[0].remedy if report.advice else ""
                kind, match = next(
                    ((kind, found) for kind, (pattern, _) in CURES.items()
                     if (found := re.search(pattern, text))), ("other" if text else "none", None),
                )  # fmt: skip
                told[kind] += 1
                if match is not None:
                    fresh = own - CURES[kind][1](given, match, model)
                    gains[kind].append((report.advice[0].gain, fresh))
        for kind, n in told.most_common():
            stated, fresh = np.array(gains.get(kind, [(np.nan, np.nan)])).T
            gap = stated - fresh
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            print(
                f"{name}: {kind} {n} of {asked.models}, stated {stated.mean():.3f}, fresh "
                f"{fresh.mean():.3f}, stated - fresh {gap.mean():+.3f} ± {error:.3f}", flush=True
            )  # fmt: skip


if __name__ == "__main__":
    main()
