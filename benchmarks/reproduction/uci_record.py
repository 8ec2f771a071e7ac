"""Tables 1, 3 and 4 of "Variance-reducing couplings" as published, and what we found beside them.

Table 1 has a check in closed form. The error of m = d orthogonal Fourier features hangs on the data
only through the distances of the test points over the lengthscale (Lemma 3.1), and the paper's
lengthscales are not printed. `implied` finds the one at which the published error of orthogonal
frequencies over independent ones is exact; the error with pairwise norms then follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from record import Finding, Record, command
from scipy.optimize import brentq
from scipy.spatial.distance import pdist

from coupledgp.random import FloatArray
from coupledgp.theory import distance_mse

PAPER_LIST = "variance-reducing-couplings"
DATASETS = ("concrete", "abalone", "cpu", "power", "airfoil", "boston")
IMPLIED = "fourier, implied lengthscale"
# (value, one standard error); order of DATASETS. Tables 3 and 4 print two standard errors.
PAPER = {
    ("fourier", "kernel"): {
        "halton": [(1.028, 0.029), (0.991, 0.042), (0.995, 0.082), (0.913, 0.033), (0.927, 0.021), (1.176, 0.022)],
        "orthogonal": [(0.627, 0.019), (0.535, 0.023), (0.617, 0.070), (0.669, 0.024), (0.586, 0.013), (0.639, 0.016)],
        "orthogonal+pnc": [(0.563, 0.019), (0.433, 0.019), (0.544, 0.071), (0.547, 0.020), (0.481, 0.011), (0.606, 0.018)],
    },
    ("laplace", "kernel"): {
        "halton": [(0.721, 0.067), (0.777, 0.031), (0.779, 0.084), (0.728, 0.015), (0.721, 0.021), (0.893, 0.028)],
        "orthogonal (antiparallel)": [(0.418, 0.041), (0.546, 0.026), (0.614, 0.098), (0.527, 0.013), (0.489, 0.016), (0.360, 0.019)],
        "orthogonal+pnc+antithetic": [(0.367, 0.043), (0.486, 0.027), (0.618, 0.119), (0.438, 0.013), (0.418, 0.016), (0.324, 0.019)],
    },
    ("fourier", "kl"): {
        "iid": [(1.491, 0.053), (0.013, 0.0005), (1.570, 0.209), (0.150, 0.0035), (0.357, 0.0125), (2.128, 0.099)],
        "halton": [(1.548, 0.052), (0.014, 0.0005), (1.596, 0.21), (0.138, 0.003), (0.356, 0.012), (2.263, 0.102)],
        "orthogonal": [(1.166, 0.057), (0.004, 0.0005), (1.635, 0.212), (0.029, 0.001), (0.235, 0.0085), (1.990, 0.096)],
        "orthogonal+pnc": [(1.168, 0.057), (0.004, 0.0005), (1.589, 0.208), (0.029, 0.001), (0.235, 0.0085), (1.985, 0.095)],
    },
    ("laplace", "kl"): {
        "iid": [(0.552, 0.032), (0.028, 0.0015), (5.925, 0.98), (0.199, 0.0055), (0.230, 0.012), (0.759, 0.034)],
        "halton": [(0.574, 0.032), (0.024, 0.0015), (5.811, 0.949), (0.146, 0.0045), (0.213, 0.011), (0.834, 0.037)],
        "orthogonal (antiparallel)": [(0.486, 0.0295), (0.014, 0.001), (5.494, 0.887), (0.059, 0.0025), (0.165, 0.009), (0.679, 0.029)],
        "orthogonal+pnc+antithetic": [(0.482, 0.029), (0.014, 0.001), (5.468, 0.89), (0.050, 0.003), (0.165, 0.009), (0.673, 0.029)],
    },
    ("fourier", "rmse"): {
        "halton": [(v, None) for v in (1.013, 1.001, 1.005, 0.991, 0.999, 1.021)],
        "sobol": [(v, None) for v in (1.010, 1.000, 1.004, 0.991, 0.997, 1.027)],
        "orthogonal": [(v, None) for v in (0.917, 0.994, 1.019, 0.915, 0.930, 0.974)],
        "orthogonal+pnc": [(v, None) for v in (0.917, 0.994, 1.033, 0.915, 0.930, 0.975)],
    },
    ("laplace", "rmse"): {
        "halton": [(v, None) for v in (1.007, 0.997, 1.003, 0.964, 0.989, 1.019)],
        "sobol": [(v, None) for v in (1.007, 0.997, 0.998, 0.964, 0.990, 1.017)],
        "orthogonal (antiparallel)": [(v, None) for v in (0.979, 0.990, 1.003, 0.899, 0.958, 0.979)],
        "orthogonal+pnc+antithetic": [(v, None) for v in (0.981, 0.991, 1.006, 0.909, 0.958, 0.982)],
    },
}  # fmt: skip
PAPER |= {(IMPLIED, figure): PAPER["fourier", figure] for figure in ("kernel", "kl")}

TABLES = {"kernel": "Table 1", "kl": "Table 3", "rmse": "Table 4"}
FARTHEST = 15.0  # lengthscales, beyond which the error of an estimate no longer depends on distance
Splits = list[dict]


def relative_error(coupling: str, distances: FloatArray, dim: int) -> Callable[[float], float]:
    """RMSE of `coupling` over that of independent frequencies as a function of the lengthscale."""
    grid = np.geomspace(0.02, FARTHEST, 120)
    curves = {
        name: np.array([distance_mse("fourier", name, dim, dim, t) for t in grid]) / grid**4
        for name in ("iid", coupling)
    }

    def ratio(lengthscale: float) -> float:
        t = np.minimum(distances / lengthscale, FARTHEST)
        errors = {name: np.mean(np.interp(t, grid, curve) * t**4) for name, curve in curves.items()}
        return float((errors[coupling] / errors["iid"]) ** 0.5)

    return ratio


def implied(
    name: str, test_points: list[FloatArray], evidence: float
) -> tuple[float, dict[str, float]]:
    """The lengthscale at which the published error of orthogonal frequencies is exact.

    Of several the one nearest to the evidence's, as a ratio; where there is none the nearest miss.
    With it come the errors over independent frequencies that the closed form gives there.
    """
    dim = test_points[0].shape[1]
    quantiles = (np.arange(2000) + 0.5) / 2000
    distances = np.quantile(np.concatenate([pdist(X) for X in test_points]), quantiles)
    ratios = {c: relative_error(c, distances, dim) for c in ("orthogonal", "orthogonal+pnc")}
    published = PAPER["fourier", "kernel"]["orthogonal"][DATASETS.index(name)][0]
    scales = np.geomspace(0.5, 60, 80)
    misses = np.array([ratios["orthogonal"](scale) - published for scale in scales])
    crossings = np.flatnonzero(misses[:-1] * misses[1:] < 0)
    roots = [
        brentq(lambda s: ratios["orthogonal"](s) - published, scales[k], scales[k + 1])
        for k in crossings
    ] or [scales[np.argmin(np.abs(misses))]]
    lengthscale = float(min(roots, key=lambda root: abs(np.log(root / evidence))))
    return lengthscale, {name: ratio(lengthscale) for name, ratio in ratios.items()}


def write_record(
    results: dict[str, Splits],
    summary: Callable[[Splits, str, str, str], tuple[float, float, float]],
    closed: dict[str, tuple[float, float, dict[str, float]]],
) -> None:
    """Record the three tables; `summary` gives mean, standard error and median over splits."""
    kept = Record("uci_couplings", command())
    found = {figure: kept.item(PAPER_LIST, table) for figure, table in TABLES.items()}
    means: dict[tuple[str, str, str, str], float] = {}
    for features, figure in PAPER:
        labels = [label for kind, label in next(iter(results.values()))[0] if kind == features]
        for label in labels:
            for column, name in enumerate(DATASETS):
                mean, error, median = summary(results[name], features, label, figure)
                means[figure, features, label, name] = mean
                theirs = PAPER[features, figure].get(label)
                if theirs is not None and (figure == "kl" or label != labels[0]):
                    found[figure].figure(
                        f"{features}: {label}, {name}", mean, error, *theirs[column], median=median
                    )
    claims_of_kernels(found["kernel"], means, closed)
    claims_of_posteriors(found["kl"], means)
    claims_of_predictions(found["rmse"], means)
    kept.write()


def claims_of_kernels(
    finding: Finding,
    means: dict[tuple[str, str, str, str], float],
    closed: dict[str, tuple[float, float, dict[str, float]]],
) -> None:
    """Table 1: order of the couplings, and the closed form."""

    def below(features: str, label: str, other: str, names: tuple[str, ...] = DATASETS) -> bool:
        return all(
            means["kernel", features, label, n] < means["kernel", features, other, n] for n in names
        )

    finding.claim(
        "fourier: orthogonal below iid on every set", below("fourier", "orthogonal", "iid")
    )
    finding.claim(
        "fourier: PNC below orthogonal on every set",
        below("fourier", "orthogonal+pnc", "orthogonal"),
    )
    anti = "orthogonal (antiparallel)"
    finding.claim("laplace: orthogonal below Halton on every set", below("laplace", anti, "halton"))
    others = tuple(name for name in DATASETS if name != "cpu")
    finding.claim(
        "laplace: PNC with antithetic below orthogonal on every set but cpu",
        below("laplace", "orthogonal+pnc+antithetic", anti, others),
    )
    near = []
    for column, name in enumerate(DATASETS):
        lengthscale, evidence, errors = closed[name]
        theirs, their_error = PAPER["fourier", "kernel"]["orthogonal+pnc"][column]
        near.append(abs(errors["orthogonal+pnc"] - theirs) < 2 * their_error)
        finding.figure(
            f"closed form: PNC, {name}, at lengthscale {lengthscale:.2f} (evidence {evidence:.2f}), "
            f"where orthogonal is {errors['orthogonal']:.3f}",
            errors["orthogonal+pnc"], None, theirs, their_error,
        )  # fmt: skip
    finding.claim(
        "at the lengthscales that the published orthogonal figures imply, Lemma 3.1 gives the "
        "published PNC figures within two of their standard errors",
        all(near),
    )
    finding.note(
        "The closed form has no draws and no fit: it says that the published couplings and ours are "
        "the same, and that what differs are lengthscales. Airfoil's is about twice the evidence's."
    )


def claims_of_posteriors(finding: Finding, means: dict[tuple[str, str, str, str], float]) -> None:
    """Table 3: orthogonality helps the posterior, coupled norms do not."""

    def ratio(features: str, label: str, other: str, name: str) -> float:
        return means["kl", features, label, name] / means["kl", features, other, name]

    anti = "orthogonal (antiparallel)"
    for features, label in (("fourier", "orthogonal"), ("laplace", anti)):
        finding.claim(
            f"{features}: orthogonal below iid on every set"
            + (", which on cpu it was not published to be" if features == "fourier" else ""),
            all(ratio(features, label, "iid", name) < 1 for name in DATASETS),
        )
    finding.claim(
        "fourier: PNC within 5 % of orthogonal on every set",
        all(abs(ratio("fourier", "orthogonal+pnc", "orthogonal", n) - 1) < 0.05 for n in DATASETS),
    )
    near = {
        name: means["kl", IMPLIED, "iid", name] / PAPER["fourier", "kl"]["iid"][column][0]
        for column, name in enumerate(DATASETS)
    }
    shown = ", ".join(f"{name} {value:.2g}" for name, value in near.items())
    finding.note(
        "The evidence's hyperparameters decide the size of the KL, and the paper's are not printed. "
        f"With the lengthscales that Table 1 implies, our iid KL over theirs is: {shown}. "
        "A mean over splits hides a few large ones, so that medians stand beside it. What scaling and "
        "splits do is under Section B.1: on cpu, columns as they are make single splits of several "
        "nats, which could carry the published mean. Abalone with Fourier features stays unexplained."
    )


def claims_of_predictions(finding: Finding, means: dict[tuple[str, str, str, str], float]) -> None:
    """Table 4: predictions hardly differ."""
    for features, label in (
        ("fourier", "orthogonal+pnc"),
        ("laplace", "orthogonal+pnc+antithetic"),
    ):
        base = "orthogonal" if features == "fourier" else "orthogonal (antiparallel)"
        finding.claim(
            f"{features}: PNC changes the RMSE of orthogonal by less than 2 % on every set",
            all(
                abs(means["rmse", features, label, n] / means["rmse", features, base, n] - 1) < 0.02
                for n in DATASETS
            ),
        )
        finding.claim(
            f"{features}: PNC no worse than iid by more than 5 % on every set",
            all(means["rmse", features, label, n] < 1.05 for n in DATASETS),
        )
