"""How often reports find a planted fault, advise what cures it, and leave right laws alone.

    python benchmarks/verdict_causes.py --models 15

Targets are drawn from a known covariance: a smooth function of the columns, and what is planted.
The model that is judged is an exact process of a stationary kernel fitted to the columns, or what
the case says. The right law of a case is the conditional law of the covariance itself. "Found" is
an amber or red verdict, or a verdict that is not given for the reason that is planted. Advice is
right where the first advice, or the warning, names the cause.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.diagnostics import Report, nlpd
from coupledgp.random import FloatArray

N_TRAIN = N_TEST = 200
ALARMS = ("amber", "red")
# Nats per point by which the NLPD of a good model may be above that of the right law.
GOOD_GAP = 0.02


@dataclass(frozen=True)
class Drawn:
    """Rows of a case, the training rows first, with the covariance that targets were drawn from.

    Attributes
    ----------
    X : FloatArray (n, d)
        Columns that the model sees.
    y : FloatArray (n,)
    signal, cov : FloatArray (n, n)
        Covariance of the function, and of observations.
    columns : dict of str to (n,)
        Columns that the model does not see.
    """

    X: FloatArray
    y: FloatArray
    signal: FloatArray
    cov: FloatArray
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """Training rows and targets, test rows and targets."""
        return self.X[:N_TRAIN], self.y[:N_TRAIN], self.X[N_TRAIN:], self.y[N_TRAIN:]

    def known(self, rows: slice) -> dict[str, Any]:
        """Columns that the model does not see, of some of the rows."""
        return {name: values[rows] for name, values in self.columns.items()}

    def right(self, cov: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance at the test rows given the training rows; of observations."""
        a, b = slice(0, N_TRAIN), slice(N_TRAIN, None)
        gain = np.linalg.solve(self.cov[a, a], self.cov[a, b])
        found = (self.cov if cov is None else cov)[b, b] - self.cov[b, a] @ gain
        return gain.T @ self.y[a], found

    def true_nlpd(self) -> float:
        """NLPD of single points by the right law, nats per point."""
        mean, cov = self.right()
        return nlpd(self.y[N_TRAIN:], mean, np.sqrt(np.diagonal(cov)))


def gaussian(X: FloatArray, lengthscale: Any = 1.0) -> FloatArray:
    """Gaussian kernel (n, n) of rows (n, d)."""
    rows = X / lengthscale
    squares = np.square(rows[:, None] - rows[None]).sum(axis=2)
    return np.exp(-0.5 * squares)


def drawn(rng: np.random.Generator, X: FloatArray, signal: FloatArray, noise: Any,
          columns: dict[str, Any] | None = None) -> Drawn:  # fmt: skip
    """Targets of a covariance; `noise` are variances, or the covariance of the noise."""
    added = np.diag(np.broadcast_to(noise, len(X))) if np.ndim(noise) < 2 else noise
    cov = signal + added
    root = np.linalg.cholesky(cov + 1e-10 * np.eye(len(X)))
    return Drawn(X, root @ rng.normal(size=len(X)), signal, cov, columns or {})


def rows(rng: np.random.Generator, d: int, high: float = 2.0) -> FloatArray:
    """Rows uniform in a box."""
    return rng.uniform(-high, high, (N_TRAIN + N_TEST, d))


def plain(rng: np.random.Generator) -> Drawn:
    """Nothing is planted."""
    X = rows(rng, 2)
    sites = rng.integers(0, 12, len(X)).astype(str)
    columns = {"site": sites, "depth": rng.uniform(size=len(X))}
    return drawn(rng, X, gaussian(X), 0.05, columns)


def wide(rng: np.random.Generator) -> Drawn:
    """Nothing is planted: a product kernel of eight columns."""
    X = rows(rng, 8)
    return drawn(rng, X, gaussian(X, 3.0), 0.05)


def additive(rng: np.random.Generator) -> Drawn:
    """A sum of functions of eight columns."""
    X = rows(rng, 8)
    return drawn(rng, X, sum(gaussian(X[:, [j]]) for j in range(8)) / 8, 0.02)


def autoregressive(rng: np.random.Generator) -> Drawn:
    """Noise that is an autoregression in row order."""
    X, step = rows(rng, 2), np.arange(N_TRAIN + N_TEST)
    noise = 0.25 * 0.8 ** np.abs(step[:, None] - step[None]) + 0.01 * np.eye(len(X))
    return drawn(rng, X, gaussian(X), noise)


def offsets(rng: np.random.Generator) -> Drawn:
    """Twelve sites with an offset each, which is not a column."""
    X = rows(rng, 2)
    site = rng.integers(0, 12, len(X))
    signal = gaussian(X) + 0.8 * (site[:, None] == site[None])
    return drawn(rng, X, signal, 0.05, {"site": np.array([f"s{one}" for one in site])})


def beyond(rng: np.random.Generator) -> Drawn:
    """A line and a smooth function; a third of the test rows lie beyond the training rows."""
    X = rows(rng, 2)
    X[N_TRAIN + 130 :, 0] = rng.uniform(2.5, 5.0, N_TEST - 130)
    return drawn(rng, X, gaussian(X) + X[:, [0]] * X[:, 0], 0.05)


def growing_noise(rng: np.random.Generator) -> Drawn:
    """A standard deviation of the noise that grows ten times along a column."""
    X = rows(rng, 2)
    return drawn(rng, X, gaussian(X), np.square(0.1 * 10 ** ((X[:, 0] + 2) / 4)))


def unseen_noise(rng: np.random.Generator) -> Drawn:
    """A standard deviation of the noise that grows ten times along a column that is not seen."""
    X, depth = rows(rng, 2), rng.uniform(0, 50, N_TRAIN + N_TEST)
    return drawn(rng, X, gaussian(X), np.square(0.1 * 10 ** (depth / 50)), {"depth": depth})


def repeating(rng: np.random.Generator) -> Drawn:
    """A daily course of hours, which are not a column."""
    X, hour = rows(rng, 2), np.arange(N_TRAIN + N_TEST, dtype=float)
    turns = np.sin(np.pi * (hour[:, None] - hour[None]) / 24)
    signal = gaussian(X) + 0.5 * np.exp(-2 * np.square(turns))
    return drawn(rng, X, signal, 0.05, {"hour": hour})


def bent(rng: np.random.Generator) -> Drawn:
    """A function that is ten times rougher at one end of a column."""
    X = rows(rng, 1)
    return drawn(rng, X, gaussian(np.exp(1.2 * X)), 0.01)


def wavering(rng: np.random.Generator) -> Drawn:
    """A function that is twenty times larger at one end of a column, at few rows for its range."""
    X = rows(rng, 2)
    size = np.exp(0.75 * X[:, 0])
    return drawn(rng, X, gaussian(X, 0.5) * size[:, None] * size, 0.01)


def heavy(rng: np.random.Generator) -> Drawn:
    """Noise of three degrees of freedom."""
    case = drawn(rng, X := rows(rng, 2), gaussian(X), 1e-8)
    y = case.y + 0.25 * rng.standard_t(3, len(X))
    return Drawn(X, y, case.signal, case.cov)


def counts(rng: np.random.Generator) -> Drawn:
    """Counts with means around one and a half."""
    case = drawn(rng, X := rows(rng, 2), gaussian(X), 1e-8)
    return Drawn(X, rng.poisson(1.5 * np.exp(0.8 * case.y)).astype(float), case.signal, case.cov)


def fitted(case: Drawn, kernel: Any = "gaussian") -> Any:
    """An exact model of the training rows."""
    X, y, *_ = case.tables
    ard = isinstance(kernel, str)
    options = {"ard": True} if ard else {}
    return cgp.ExactGPRegressor(kernel, options={"n_restarts": 0}, random_state=0, **options).fit(
        X, y
    )


def compared(case: Drawn, kernel: Any = "gaussian") -> Report:
    """Report at the test rows on a fitted model."""
    *_, X, y = case.tables
    columns = case.known(slice(N_TRAIN, None))
    return cgp.report(fitted(case, kernel), X, y, progress=False, columns=columns)


def left_out(case: Drawn) -> Report:
    """Report on rows that are left out."""
    return cgp.cross_validate(fitted(case), columns=case.known(slice(0, N_TRAIN)))


def leaked(case: Drawn) -> Report:
    """Half of the test rows are training rows but for rounding."""
    X, y, X_test, y_test = case.tables
    model = fitted(case)
    near = X[:100] + 1e-6 * np.random.default_rng(0).normal(size=(100, X.shape[1]))
    X_test, y_test = np.vstack([near, X_test[:100]]), np.concatenate([y[:100], y_test[:100]])
    return cgp.report(model, X_test, y_test, progress=False)


def stated(case: Drawn) -> Report:
    """The right law with its covariance, of any origin."""
    columns = case.known(slice(N_TRAIN, None))
    return cgp.audit(case.right(), *case.tables, columns=columns)


def latent(case: Drawn) -> Report:
    """The law of the function, given as that of observations."""
    mean, cov = case.right(case.signal)
    return cgp.audit((mean, np.sqrt(np.diagonal(cov))), *case.tables)


def latent_beside_kernel(case: Drawn) -> Report:
    """The same, with the kernel stated."""
    mean, cov = case.right(case.signal)
    law = mean, np.sqrt(np.diagonal(cov))
    hyper = {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.05, "mean": 0.0}
    return cgp.audit(law, *case.tables, kernel="gaussian", **hyper)


def variational(case: Drawn, n_inducing: int) -> Report:
    """Gpytorch's sparse variational process, after 300 steps of Adam."""
    import gpytorch
    import torch

    X, y = (torch.as_tensor(one) for one in case.tables[:2])
    torch.manual_seed(0)

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            points = X[torch.randperm(len(X))[:n_inducing]].clone()
            law = gpytorch.variational.CholeskyVariationalDistribution(n_inducing)
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, law))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model, likelihood = Model().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (-bound(model(X), y)).backward()
        optimizer.step()
    model.eval()
    likelihood.eval()
    return cgp.audit((model, likelihood), *case.tables).with_remedies()


def few_features(case: Drawn) -> Report:
    """Six frequencies, whose hyperparameters are fitted."""
    X, y, X_test, y_test = case.tables
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=6, random_state=0).fit(X, y)
    return cgp.report(model, X_test, y_test, progress=False).with_remedies()


@dataclass(frozen=True)
class Case:
    """A generator, the report on it, and words of the right advice; none of a right law."""

    draw: Callable[[np.random.Generator], Drawn]
    report: Callable[[Drawn], Report]
    advice: str = ""


CASES = {
    "additive truth, 8 columns": Case(additive, compared, "dditive"),
    "AR(1) noise in row order": Case(autoregressive, compared, "row order|in time|earlier rows"),
    "AR(1) noise, cross-validation": Case(autoregressive, left_out,
                                          "row order|in time|earlier rows"),
    "offset per site, not a column": Case(offsets, compared, "site"),
    "offset per site, cross-validation": Case(offsets, left_out, "site"),
    "test rows beyond the training box": Case(beyond, compared, "beyond"),
    "noise sd times 10 along a column": Case(growing_noise, compared, "noise that varies"),
    "noise sd times 10, unseen column": Case(unseen_noise, compared, "depth"),
    "near-duplicate test rows": Case(plain, leaked, "training rows"),
    "latent variance as predictive": Case(plain, latent, r"[Aa]dd the noise"),
    "the same, kernel stated": Case(plain, latent_beside_kernel, r"[Aa]dd the noise"),
    "SVGP of 8 inducing points": Case(plain, lambda case: variational(case, 8), "inducing"),
    "6 frequencies, fitted": Case(plain, few_features, "features|n_frequencies|exact"),
    "period missed": Case(repeating, compared, "period|hour"),
    "roughness that varies": Case(bent, compared, "stationar"),
    "the same, cross-validation": Case(bent, left_out, "stationar"),
    "size that varies": Case(wavering, compared, "stationar"),
    "heavy tails": Case(heavy, compared, "tails"),
    "heavy tails, cross-validation": Case(heavy, left_out, "tails"),
    "counts as Gaussian": Case(counts, compared, "count"),
    "right: plain, fitted": Case(plain, compared),
    "right: plain, cross-validation": Case(plain, left_out),
    "right: plain, stated": Case(plain, stated),
    "right: 8 columns, fitted": Case(wide, compared),
    "right: additive, fitted": Case(additive, lambda case: compared(case, "additive")),
    "right: additive, stated": Case(additive, stated),
    "right: AR(1), stated": Case(autoregressive, stated),
    "right: offsets, stated": Case(offsets, stated),
    "right: beyond the box, stated": Case(beyond, stated),
    "right: growing noise, stated": Case(growing_noise, stated),
    "right: unseen noise, stated": Case(unseen_noise, stated),
    "right: period, stated": Case(repeating, stated),
    "right: roughness that varies, stated": Case(bent, stated),
    "right: size that varies, stated": Case(wavering, stated),
    "right: SVGP of 64 points": Case(plain, lambda case: variational(case, 64)),
}  # fmt: skip


def told(report: Report) -> tuple[bool, str]:
    """Whether a fault is found, and the first advice with warnings and what is not judged."""
    found = any(one.colour in ALARMS for one in report.verdicts)
    grey = [one.sentence for one in report.verdicts if one.colour == "grey"]
    advice = [one.remedy for one in report.advice[:1]]
    return found, " ".join([*report.warnings, *grey[:1], *advice])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=15)
    parser.add_argument("--only", default="", help="regular expression of names")
    parser.add_argument("--show", action="store_true", help="print verdicts and advice of each")
    given = parser.parse_args()
    for name, case in CASES.items():
        if not re.search(given.only, name):
            continue
        n_found = n_right = n_good = n_alarms = 0
        start = time.process_time()
        for seed in range(given.models):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = case.draw(np.random.default_rng([seed, 33]))
                report = case.report(data)
                found, words = told(report)
            grey = report.verdicts[0].colour == "grey"
            right = bool(case.advice) and re.search(case.advice, words) is not None
            n_found += found or (right and grey)
            n_right += right
            good = (
                report.tables.left_out is not None
                or report.score("nlpd") < data.true_nlpd() + GOOD_GAP
            )
            n_good += good
            n_alarms += good and found
            if given.show:
                for one in report.verdicts:
                    print(f"    [{one.colour}] {one.sentence}")
                print(f"    -> {words}")
        seconds = (time.process_time() - start) / given.models
        advice = f", advice right {n_right}" if case.advice else ""
        result = f"found {n_found} of {given.models}"
        if not case.advice:
            result = (
                f"alarms {n_alarms} of {n_good} within {GOOD_GAP} nats of the right law, "
                f"{n_found - n_alarms} of {given.models - n_good} others"
            )
        print(f"{name}: {result}{advice}, {seconds:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
