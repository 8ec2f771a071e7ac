"""Conformity, pair densities, error ratios and costs of simplex features (Reid et al., Figs. 4 to 6).

* Fig. 4: conformity `rho = mean over i != j of 0F1(; d/2; v^2 |w_i + w_j|^2 / 4)` for given norms,
  d = 6, v = 1, under iid (mean over 100 couplings), orthogonal, simplex and simplex+ directions and
  those that a numerical optimiser (BFGS over all directions) ends at. The paper shows one draw of
  norms; here are many.
* Fig. 5: the law of `|w_i + w_j|`, d = 6: draws of the package beside the published densities.
* Fig. 6: mean squared error over that of iid frequencies, m = d = 64, against v.
* Table 1: exponents of the time of one block against d, draw and product with one vector.

    python benchmarks/reproduction/simplex_conformity.py [--norms 100] [--record]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from record import Record
from scipy import integrate, special, stats
from scipy.optimize import minimize

from coupledgp.couplings import parse_coupling
from coupledgp.couplings.frequencies.directions import haar_blocks, settle, simplex_product
from coupledgp.features import LaplaceFeatures
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.theory import distance_mse

PAPER = "simplex-random-features"
DIM, V = 6, 1.0
ORDER = ("iid", "orthogonal", "simplex", "simplex+", "optimum")
RATIO_DIM, RATIO_V = 64, (0.001, 0.01, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0)
# The coefficient of v^2 of simplex features for d = 64, which the paper states.
STATED = 0.0078
COST_DIMS = (256, 512, 1024, 2048)
ROUNDS = 4
# Chance of a false alarm of a test of a law, and exponents that count as linear (d log d has some
# 1.15 here) and as cubic (QR reaches its rate with d, and the product is quadratic).
ALARM, NEAR_LINEAR, ABOVE_QUADRATIC = 1e-3, 1.5, 2.2


def conformity_of(w: FloatArray) -> float:
    """Conformity of given frequencies (m, d)."""
    m, dim = w.shape
    squares = np.square(w[:, None] + w).sum(axis=-1)
    values = special.hyp0f1(dim / 2, V**2 * squares / 4)
    return float((values.sum() - np.trace(values)) / (m * (m - 1)))


def optimised(norms: FloatArray, start: FloatArray) -> float:
    """Least conformity that an optimiser finds over all directions for given norms."""
    m, dim = start.shape

    def value_and_slope(flat: FloatArray) -> tuple[float, FloatArray]:
        free = flat.reshape(m, dim)
        lengths = np.linalg.norm(free, axis=1, keepdims=True)
        units = free / lengths
        both = norms[:, None] * units
        sums = both[:, None] + both
        argument = V**2 * np.square(sums).sum(axis=-1) / 4
        values = special.hyp0f1(dim / 2, argument)
        # d/dz 0F1(; a; z) = 0F1(; a + 1; z) / a
        slopes = special.hyp0f1(dim / 2 + 1, argument) / (dim / 2)
        np.fill_diagonal(values, 0.0)
        np.fill_diagonal(slopes, 0.0)
        toward = V**2 * (slopes[:, :, None] * sums).sum(axis=1) * norms[:, None]
        along = (toward * units).sum(axis=1, keepdims=True)
        n_pairs = m * (m - 1)
        return float(values.sum() / n_pairs), ((toward - along * units) / lengths / n_pairs).ravel()

    found = minimize(value_and_slope, start.ravel(), jac=True, method="BFGS")
    return float(found.fun)


def conformities(norms: FloatArray, rng: np.random.Generator, couplings: int = 100) -> list[float]:
    """Conformities of all mechanisms for one draw of norms, in `ORDER`."""
    simplex = simplex_product(np.eye(DIM))
    plus, _ = settle(simplex, norms, 1e-8, 100_000)
    iid = [rng.normal(size=(DIM, DIM)) for _ in range(couplings)]
    iid = [w / np.linalg.norm(w, axis=1, keepdims=True) for w in iid]
    starts = [simplex, plus, *iid[:3]]
    return [
        float(np.mean([conformity_of(norms[:, None] * w) for w in iid])),
        *(conformity_of(norms[:, None] * w) for w in (np.eye(DIM), simplex, plus)),
        min(optimised(norms, start) for start in starts),
    ]


def figure_4(kept: Record, n_norms: int) -> None:
    """Conformities over draws of norms, and those of the first draw."""
    rng = np.random.default_rng(4)
    spectrum = GaussianSpectrum()
    found = np.array([
        conformities(spectrum.norm_ppf(rng.uniform(size=DIM), DIM), rng) for _ in range(n_norms)
    ])  # fmt: skip
    finding = kept.item(PAPER, "Figure 4")
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(n_norms)
    for name, one, mean, error in zip(ORDER, found[0], means, errors, strict=True):
        finding.figure(f"{name}, one draw of norms", one)
        finding.figure(f"{name}, mean over {n_norms} draws", mean, error)
        print(f"Fig. 4, {name}: one draw {one:.3f}, mean {mean:.3f} ({error:.3f})")
    falls = -np.diff(found, axis=1)
    share = float(np.mean((falls > -1e-9).all(axis=1)))
    print(f"Fig. 4: the whole order holds in {share:.2f} of the draws of norms")
    finding.claim("Conformity falls from iid over orthogonal, simplex and simplex+ to the optimum, "
                  "for the first draw of norms and in the mean.",
                  (falls[0] > -1e-9).all() and (np.diff(means) < 0).all())  # fmt: skip
    left = float(np.mean(found[:, 2] - found[:, 4]) / np.mean(found[:, 1] - found[:, 2]))
    finding.claim(f"What is left below simplex features is marginal: {left:.2f} of what they gain "
                  "over orthogonal ones, below one half.", left < 0.5)  # fmt: skip
    near = float(np.mean(found[:, 3] - found[:, 4]) / np.mean(found[:, 4]))
    finding.claim(f"Simplex+ is close to the optimum: {near:.3f} above it in the mean, below .05.",
                  near < 0.05)  # fmt: skip
    finding.note(f"The order holds in {share:.0%} of the draws of norms; the paper shows one draw.")


def pair_density(w: float, cosine: float) -> float:
    """Density of `|w_i + w_j|` for marginally Gaussian frequencies at a fixed angle, eq. 20."""

    def of(phi: float) -> float:
        wide = 1 + np.sin(2 * phi) * cosine
        return float((np.sin(phi) * np.cos(phi)) ** (DIM - 1) * np.exp(-(w**2) / 2 / wide) / wide**DIM)  # fmt: skip

    integral = integrate.quad(of, 0, np.pi / 2)[0]
    return float(w ** (2 * DIM - 1) * integral / 2 ** (DIM - 2) / special.gamma(DIM / 2) ** 2)


def distribution(cosine: float) -> Callable[[FloatArray], FloatArray]:
    """Distribution function of `|w_i + w_j|` by Simpson's rule over the density."""
    grid = np.linspace(0, 16, 801)
    density = np.array([pair_density(w, cosine) for w in grid])
    total = integrate.cumulative_simpson(density, x=grid, initial=0)
    return lambda w: np.interp(w, grid, total)


def figure_5(kept: Record, n_pairs: int = 20_000) -> None:
    """Lengths of sums of pairs, against the published densities."""
    laws: dict[str, Callable[[FloatArray], FloatArray]] = {
        "iid": lambda w: stats.chi(DIM, scale=np.sqrt(2)).cdf(w),
        "orthogonal": distribution(0.0),
        "simplex": distribution(-1 / (DIM - 1)),
    }
    finding, beyond, accepted = kept.item(PAPER, "Figure 5"), [], []
    for name, law in laws.items():
        rng, coupling = np.random.default_rng(5), parse_coupling(name)
        drawn = [coupling.sample(2, DIM, GaussianSpectrum(), rng).sum(axis=0) for _ in range(n_pairs)]  # fmt: skip
        lengths = np.linalg.norm(drawn, axis=1)
        p = stats.kstest(lengths, law).pvalue
        share = float(np.mean(lengths > 5))
        error = (share * (1 - share) / n_pairs) ** 0.5
        finding.figure(
            f"{name}, P(|w_i + w_j| > 5)", share, error, 1 - float(law(np.array(5.0))), 0
        )
        print(f"Fig. 5, {name}: beyond 5 {share:.4f} ({error:.4f}), Kolmogorov-Smirnov p {p:.3f}")
        beyond.append(share)
        accepted.append(p > ALARM)
    finding.claim("Lengths of drawn pairs follow the published densities (Kolmogorov-Smirnov, "
                  f"{n_pairs} pairs, p above {ALARM:g} for each).", all(accepted))  # fmt: skip
    finding.claim("Mass at large lengths falls from iid over orthogonal to simplex.",
                  (np.diff(beyond) < 0).all())  # fmt: skip


def figure_6(kept: Record) -> None:
    """Ratios of mean squared errors against v."""
    finding = kept.item(PAPER, "Figure 6")
    names = ("iid", "orthogonal", "simplex")
    ratios = []
    for v in RATIO_V:
        errors = [distance_mse("laplace", name, RATIO_DIM, RATIO_DIM, v) for name in names]
        ratios.append([error / errors[0] for error in errors])
        for name, ratio in zip(names[1:], ratios[-1][1:], strict=True):
            stated = STATED if name == "simplex" and v == RATIO_V[0] else None
            finding.figure(f"{name} over iid, v = {v:g}", ratio, None, stated)
        print(f"Fig. 6, v={v:g}: orthogonal {ratios[-1][1]:.4f}, simplex {ratios[-1][2]:.4f}")
    finding.claim("Simplex below orthogonal below iid at every v.",
                  (np.diff(ratios, axis=1) < 0).all())  # fmt: skip
    finding.claim("The gain is larger at smaller v.", (np.diff([r[2] for r in ratios]) > 0).all())
    finding.claim(f"At small v the ratio tends to {STATED}.", abs(ratios[0][2] - STATED) < 1e-4)


def seconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least time of each of several calls, which take turns."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def table_1(kept: Record, dims: tuple[int, ...]) -> None:
    """Exponents of the time of a block, regular and fast."""
    finding, slopes = kept.item(PAPER, "Table 1"), {}
    times: dict[str, list[float]] = {}
    for dim in dims:
        rng, x = np.random.default_rng(dim), np.random.default_rng(1).normal(size=(64, dim))
        draws = {
            "orthogonal": lambda d=dim, g=rng, x=x: x @ haar_blocks(1, d, d, g)[0].T,
            "simplex": lambda d=dim, g=rng, x=x: x @ simplex_product(haar_blocks(1, d, d, g)[0]).T,
        }
        maps = {
            f"{name} fast, 64 products": LaplaceFeatures(dim, dim, f"{name}-fast", generator=0)
            for name in ("orthogonal", "simplex")
        }
        products = {name: lambda f=f, x=x: f(0.01 * x) for name, f in maps.items()}
        for name, found in (seconds(draws, ROUNDS) | seconds(products, 10 * ROUNDS)).items():
            times.setdefault(name, []).append(found)
    for name, taken in times.items():
        slopes[name] = float(np.polyfit(np.log(dims), np.log(taken), 1)[0])
        finding.figure(f"{name}: exponent of d", slopes[name])
        finding.figure(f"{name}: seconds at d = {dims[-1]}", taken[-1])
        print(f"Table 1, {name}: exponent {slopes[name]:.2f}, {taken[-1]:.4f} s at d={dims[-1]}")
    fast = [slope for name, slope in slopes.items() if "fast" in name]
    regular = [slopes[name] for name in ("orthogonal", "simplex")]
    finding.claim(f"Fast blocks grow nearly as d: exponents below {NEAR_LINEAR}.",
                  max(fast) < NEAR_LINEAR)  # fmt: skip
    finding.claim("Regular blocks grow faster than d squared: exponents above "
                  f"{ABOVE_QUADRATIC}.", min(regular) > ABOVE_QUADRATIC)  # fmt: skip
    cost = times["simplex"][-1] / times["orthogonal"][-1]
    finding.claim(f"A simplex block costs what an orthogonal one does: {cost:.2f} times, below 1.2.",
                  cost < 1.2)  # fmt: skip
    finding.note("Times hang on the machine and are the least of several calls.")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--norms", type=int, default=100)
    parser.add_argument("--largest", type=int, default=COST_DIMS[-1], help="largest d of Table 1")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    command = f"python benchmarks/reproduction/simplex_conformity.py --norms {arguments.norms}"
    kept = Record("simplex_conformity", command + " --record")
    figure_4(kept, arguments.norms)
    figure_5(kept)
    figure_6(kept)
    table_1(kept, tuple(dim for dim in COST_DIMS if dim <= arguments.largest))
    if arguments.record:
        print(kept.write())


if __name__ == "__main__":
    main()
