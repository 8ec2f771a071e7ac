"""Kernels of a graph averaged over the posterior of their hyperparameters, by quadrature.

A family has one parameter theta at most. With `K = Q diag(w) Q'` at the observations, `a = Q'y`
and `r = s / v` the log likelihood of n observations of k outputs is

    -1/2 [ n k log(2 pi v) + k sum log(w + r) + sum a^2 / (w + r) / v ] .

Theta and log r run over a grid, first a coarse one over all that the graph can tell apart, then a
fine one over the box that carries the posterior; log v is integrated by Gauss-Hermite quadrature
about its maximum. Draws are systematic: the nodes of the quadrature are lined up by their mass, and
cut into parts of equal mass, from each of which the middle is taken.

Fits on few nodes: a mixture over the posterior of the hyperparameters of a graph's kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from coupledgp.core.averaging import HyperparameterPrior, systematic_draws
from coupledgp.core.budget import Forecast, Step, current_budget
from coupledgp.core.mixture import MixtureGP
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import ObservedEvidence, Scales, tolerance_for
from coupledgp.graphs.fitter import Fitted, NodeFitter, NodeSearch
from coupledgp.graphs.process import NodeGP
from coupledgp.graphs.recipes import NodePriorRecipe, WalkRecipe
from coupledgp.graphs.routes import NodeObservations, dense_route, moments_route, posterior_forecast
from coupledgp.graphs.search import FixedHyperparameters
from coupledgp.graphs.spectral import (
    ChebyshevMoments,
    SpectralMoments,
    dense_spectrum,
    lanczos_density,
    ritz_values,
)
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import varies
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray

# Kernels of a family, and noise ratios, of the coarse and of the fine grid.
COARSE, FINE = (16, 19), (20, 24)
# Most times that the fine grid is laid anew over a box that is smaller by this factor: once, unless
# the posterior is far narrower than a cell of the coarse grid.
MOST_ROUNDS, SMALLER = 8, 0.4
# Noise over the variance of the function, as logarithms: from next to none to nothing but noise.
RATIOS = (-12.0, 6.0)
# The same about a noise that is kept, in units of the variance of the targets.
KEPT_NOISE = (-9.0, 9.0)
# Nodes of the quadrature over log v, and steps of Newton's method to its maximum.
N_SCALES, NEWTON_STEPS = 5, 40
# Mass, relative to the greatest cell of any family, below which a cell is outside of the box.
LEAST_MASS = 1e-5
# The graph tells kernels apart whose effective number of eigenvectors is below this share of all,
# and whose second eigenvector has at least this part of the weight of the first.
MOST_LOCAL, LEAST_SECOND = 0.98, 0.02
# Kernels that are looked at to find this range, and nodes up to which all eigenvalues are used.
N_SCANNED, ALL_EIGENVALUES, N_RITZ = 64, 2048, 128
# Entries of the Lanczos vectors, 64 MiB.
RITZ_ENTRIES = 2**23
# Rounding of an eigenvalue of a covariance relative to the greatest.
ROUNDING = 1e-13
# Share of the variance at a node below which observations are all at one place.
EQUAL = 1e-10


class KernelDraw(NamedTuple):
    """A kernel with the variances v of the function and s of the noise, normalised."""

    kernel: GraphKernel
    outputscale: float
    noise: float


@dataclass(frozen=True)
class KernelAverage:
    """Draws from the posterior of the hyperparameters.

    Attributes
    ----------
    draws : tuple of KernelDraw
        Different draws, that of greatest posterior density first.
    weights : FloatArray (m,)
        Positive, of sum one.
    families : tuple of float
        Posterior probability of each family of kernels.
    n_evaluations : int
        Number of kernels whose covariance was decomposed.
    """

    draws: tuple[KernelDraw, ...]
    weights: FloatArray
    families: tuple[float, ...]
    n_evaluations: int

    @property
    def n_effective(self) -> float:
        """Effective number of draws, `1 / sum w^2`."""
        return float(1.0 / np.sum(self.weights**2))


class QuadratureNodes(NamedTuple):
    """Nodes of the quadrature of one family, all of the shape (n_thetas, n_ratios, n_scales).

    Attributes
    ----------
    theta, ratio, outputscale : FloatArray
        The kernel's parameter (NaN without one), r, and v.
    log_density, log_mass : FloatArray
        Logarithms of likelihood times prior density, and of its integral over the node's cell.
    """

    theta: FloatArray
    ratio: FloatArray
    outputscale: FloatArray
    log_density: FloatArray
    log_mass: FloatArray


class KernelPosterior:
    """Posterior of the hyperparameters of several families of kernels.

    The families have equal prior mass. In each the parameter is uniform over the range that the
    graph tells apart, `log V` and `log s` are normal, with V the variance of the function about its
    mean over the observations; both are in units of the variance of the targets.

    Parameters
    ----------
    graph
        The graph.
    covariance
        Function of a kernel: its matrix (n, n) at the observations, of unit output scale.
    targets
        Targets (n, k), centred, not all zero.
    families
        A kernel of each family.
    kept
        Hyperparameters that are given.
    prior
        Laws of log V (`outputscale_sd`) and log s (`noise_mean`, `noise_sd`).

    Raises
    ------
    InvalidInputError
        A family has more than one parameter, or one with a penalty of its own.
    """

    def __init__(
        self,
        graph: Graph,
        covariance: Callable[[GraphKernel], FloatArray],
        targets: FloatArray,
        families: Sequence[GraphKernel],
        kept: FixedHyperparameters,
        prior: HyperparameterPrior,
    ) -> None:
        for kernel in families:
            if not kept.kernel and not has_grid(kernel):
                raise InvalidInputError(
                    "hyperparameters: expected 'maximum' for a kernel of more than one free "
                    f"parameter, got 'averaged' for {kernel!r}; or keep the kernel with "
                    "options={'fixed': ('kernel',)}"
                )
        self.graph, self.covariance, self.targets = graph, covariance, targets
        self.families, self.kept, self.prior = families, kept, prior
        self.unit = variance_of(targets)
        self.n_evaluations = 0

    def average(self, n_draws: int) -> KernelAverage:
        """Draws of equal mass; draws at one node are one draw of greater weight."""
        boxes = [self._ranges(kernel) for kernel in self.families]
        nodes = []
        for number, (kernel, box) in enumerate(zip(self.families, boxes, strict=True)):
            tell(f"kernels {number + 1} of {len(boxes)}: {kernel!r}")
            nodes.append(self.nodes(kernel, box, COARSE))
        for round_ in range(MOST_ROUNDS):
            top = max(float(part.log_mass.max()) for part in nodes)
            inner = [_box(part, top, box) for part, box in zip(nodes, boxes, strict=True)]
            for number, found in enumerate(inner):
                if found is not None and (round_ == 0 or _is_smaller(found, boxes[number])):
                    tell(f"kernels near the best of {self.families[number]!r}")
                    nodes[number] = self.nodes(self.families[number], found, FINE)
                    boxes[number] = found
            if not any(box is new for box, new in zip(boxes, inner, strict=True)):
                break
        return self._drawn(nodes, n_draws)

    def _drawn(self, found: Sequence[QuadratureNodes], n_draws: int) -> KernelAverage:
        """Systematic draws from the nodes of all families."""
        top = max(float(nodes.log_mass.max()) for nodes in found)
        masses = [np.exp(nodes.log_mass - top) for nodes in found]
        flat = np.concatenate([_winding(mass) for mass in masses])
        places, counts = systematic_draws(flat, n_draws)
        density = np.concatenate([_winding(nodes.log_density) for nodes in found])
        order = np.argsort(-density[places], kind="stable")
        values = np.concatenate(
            [
                np.stack([np.full(nodes.ratio.size, number, dtype=float),
                          *(_winding(part) for part in nodes[:3])], axis=1)
                for number, nodes in enumerate(found)
            ]
        )  # fmt: skip
        draws = []
        for number, theta, ratio, scale in values[places[order]]:
            kernel = self.families[int(number)]
            if np.isfinite(theta):
                kernel = kernel.with_theta(np.array([theta]))
            draws.append(KernelDraw(kernel, float(scale), float(ratio * scale)))
        weights = counts[order] / n_draws
        shares = np.array([mass.sum() for mass in masses]) / flat.sum()
        return KernelAverage(tuple(draws), weights, tuple(shares.tolist()), self.n_evaluations)

    def _ranges(self, kernel: GraphKernel) -> tuple[tuple[float, float], ...]:
        """Ranges of theta and of `log(s / V)`; NaN for a parameter that is given."""
        none = (np.nan, np.nan)
        free = not self.kept.kernel and kernel.theta.size
        thetas = distinguishable_range(self.graph, kernel) if free else none
        return thetas, none if self._given_ratio is not None else ratio_range(self.kept, self.unit)

    @property
    def _given_ratio(self) -> float | None:
        outputscale, noise = self.kept.outputscale, self.kept.noise
        return None if outputscale is None or noise is None else noise / outputscale

    def nodes(
        self, kernel: GraphKernel, ranges: Sequence[tuple[float, float]], counts: tuple[int, int]
    ) -> QuadratureNodes:
        """The quadrature of a family over ranges of theta and of `log(s / V)`."""
        (thetas, width), (ratios, step) = (
            _midpoints(*part) for part in zip(ranges, counts, strict=True)
        )
        whole = self._ranges(kernel)[0]
        prior = -np.log(whole[1] - whole[0]) if np.isfinite(whole[0]) else 0.0
        rows = []
        for theta in thetas:
            member = kernel.with_theta(np.array([theta])) if np.isfinite(theta) else kernel
            rows.append(self._row(member, ratios))
        scale, density, mass = (np.stack(part) for part in list(zip(*rows, strict=True))[1:])
        ratio = np.stack([row[0] for row in rows])[:, :, None]
        theta = thetas[:, None, None]
        return QuadratureNodes(
            np.broadcast_to(theta, mass.shape), np.broadcast_to(ratio, mass.shape),
            scale, density + prior, mass + prior + np.log(width * step),
        )  # fmt: skip

    def _row(self, kernel: GraphKernel, ratios: FloatArray) -> tuple[FloatArray, ...]:
        """Of one kernel: r (r,), then v, log density and log mass, (r, scales) each."""
        self.n_evaluations += 1
        K = self.covariance(kernel)
        n, k = self.targets.shape
        values, vectors = np.linalg.eigh(K)
        values = np.maximum(values, ROUNDING * max(values[-1], np.finfo(float).tiny))
        spread = spread_of(K)
        r = np.exp(ratios) * spread
        if self._given_ratio is not None:
            r = np.array([self._given_ratio])
        d = values + r[:, None]
        squares = np.square(vectors.T @ self.targets).sum(axis=1)
        fit = (squares / d).sum(axis=1)
        logs = -0.5 * (k * np.log(d).sum(axis=1) + n * k * np.log(2 * np.pi))
        scale, rest, weight = self._scales(fit, r, spread, n * k)
        density = logs[:, None] + rest
        return r, scale, density, density + weight

    def _scales(
        self, fit: FloatArray, ratio: FloatArray, spread: float, size: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Nodes v (r, q), the log density there without log determinants, and log weights."""
        if self.kept.outputscale is not None:
            x = np.full((ratio.size, 1), np.log(self.kept.outputscale))
        elif self.kept.noise is not None:
            x = np.log(self.kept.noise / ratio)[:, None]
        else:
            return self._free_scales(fit, ratio, spread, size)
        return np.exp(x), self._log_density(x, fit, ratio, spread, size), np.zeros(x.shape)

    def _free_scales(
        self, fit: FloatArray, ratio: FloatArray, spread: float, size: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gauss-Hermite nodes about the maximum in log v of a concave log density."""
        prior = self.prior
        curvature = prior.outputscale_sd**-2 + prior.noise_sd**-2
        v_mean = np.log(self.unit / spread)
        s_mean = prior.noise_mean + np.log(self.unit / ratio)
        x = np.log(np.maximum(fit / size, np.finfo(float).tiny))
        for _ in range(NEWTON_STEPS):
            half = 0.5 * fit * np.exp(-x)
            slope = (
                half - 0.5 * size - (x - v_mean) / prior.outputscale_sd**2
                - (x - s_mean) / prior.noise_sd**2
            )  # fmt: skip
            x = x + np.clip(slope / (half + curvature), -2.0, 2.0)
        sd = 1.0 / np.sqrt(0.5 * fit * np.exp(-x) + curvature)
        z, weights = np.polynomial.hermite_e.hermegauss(N_SCALES)
        nodes = x[:, None] + sd[:, None] * z
        density = self._log_density(nodes, fit, ratio, spread, size)
        return np.exp(nodes), density, np.log(weights) + np.log(sd)[:, None] + 0.5 * z**2

    def _log_density(
        self, x: FloatArray, fit: FloatArray, ratio: FloatArray, spread: float, size: int
    ) -> FloatArray:
        """Log density at log v = x (r, q), without the log determinant; given scales have none."""
        value: FloatArray = -0.5 * (size * x + fit[:, None] * np.exp(-x))
        prior = self.prior
        if self.kept.outputscale is None:
            z = (x + np.log(spread / self.unit)) / prior.outputscale_sd
            value = value - 0.5 * z**2 - np.log(prior.outputscale_sd)
        if self.kept.noise is None:
            z = (x + np.log(ratio / self.unit)[:, None] - prior.noise_mean) / prior.noise_sd
            value = value - 0.5 * z**2 - np.log(prior.noise_sd)
        return value


def variance_of(targets: FloatArray) -> float:
    """Variance of targets (n, k); their mean square where they are constant to rounding."""
    whole = float(np.mean(targets**2))
    own = float(np.mean((targets - targets.mean(axis=0)) ** 2))
    differ = varies(targets.min(axis=0), targets.max(axis=0)).any()
    return max(own if differ else whole, np.finfo(float).tiny)


def spread_of(K: FloatArray) -> float:
    """Variance of a function of covariance K (n, n) about its mean over the observations.

    Observations that are all at one node have none: there it is the variance at that node.
    """
    n, trace = len(K), float(np.trace(K))
    own = (trace - float(K.sum()) / n) / max(n - 1, 1)
    return own if own > EQUAL * trace / n else trace / n


def ratio_range(kept: FixedHyperparameters, unit: float) -> tuple[float, float]:
    """Range of `log(s / V)` of targets of variance `unit`, of which s or V may be given.

    A small noise that is kept is no reason for a small function, nor a small function for a small
    noise: the range moves with the given value, so that the other one may be of the targets' size.
    """
    if kept.noise is not None:
        (low, high), middle = KEPT_NOISE, np.log(kept.noise) - np.log(unit)
    elif kept.outputscale is not None:
        (low, high), middle = RATIOS, np.log(unit) - np.log(kept.outputscale)
    else:
        return RATIOS
    return float(low + middle), float(high + middle)


def has_grid(kernel: GraphKernel) -> bool:
    """Whether a grid over the parameters of a kernel is affordable: at most one is free."""
    return kernel.theta.size <= 1 and kernel.penalty()[0] == 0.0


def distinguishable_range(graph: Graph, kernel: GraphKernel) -> tuple[float, float]:
    """Range of the parameter of a family in which kernels differ on a graph.

    Below it they are nearly the identity, above it nearly constant, both up to a scale.
    """
    (low, high) = kernel.bounds_on(graph)[0]
    thetas = np.linspace(low, high, N_SCANNED)
    eigenvalues, weights, second = _spectrum(graph)
    if second is None:
        return float(low), float(high)
    differ = []
    for theta in thetas:
        member = kernel.with_theta(np.array([theta]))
        g = member.spectral(eigenvalues)
        top, next_one = member.spectral(np.array([1.0, second]))
        rank = float(weights @ g) ** 2 / max(float(weights @ g**2), np.finfo(float).tiny)
        differ.append(bool(rank <= MOST_LOCAL and next_one >= LEAST_SECOND * top))
    found: FloatArray = thetas[np.array(differ)]
    return (float(found[0]), float(found[-1])) if found.size > 1 else (float(low), float(high))


@lru_cache(maxsize=4)
def _spectrum(graph: Graph) -> tuple[FloatArray, FloatArray, float | None]:
    """Eigenvalues of `W~` with weights, and the greatest below one; None where there is none."""
    if graph.n_nodes <= ALL_EIGENVALUES:
        eigenvalues = dense_spectrum(graph).values
        weights = np.full(eigenvalues.size, 1.0 / eigenvalues.size)
        beyond = eigenvalues[: -graph.components()[0]]
    else:
        eigenvalues, weights = lanczos_density(graph)
        ritz = ritz_values(graph, int(np.clip(RITZ_ENTRIES // graph.n_nodes, 24, N_RITZ)))
        beyond = ritz[ritz < 1.0 - 1e-10]
    return eigenvalues, weights, float(beyond.max()) if beyond.size else None


def _midpoints(span: tuple[float, float], count: int) -> tuple[FloatArray, float]:
    """Middles of `count` equal cells of a range, and their width; NaN and one without a range."""
    low, high = span
    if not np.isfinite(low):
        return np.array([np.nan]), 1.0
    width = (high - low) / count
    return np.asarray(low + width * (np.arange(count) + 0.5), np.float64), width


def _box(
    nodes: QuadratureNodes, top: float, ranges: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], ...] | None:
    """Ranges that hold the cells of more than `LEAST_MASS`, and the next; None without any."""
    cells = logsumexp(nodes.log_mass, axis=2) > top + np.log(LEAST_MASS)
    if not cells.any():
        return None
    box = []
    for axis, (low, high) in enumerate(ranges):
        if not np.isfinite(low):
            box.append((low, high))
            continue
        count = cells.shape[axis]
        width = (high - low) / count
        inside = np.flatnonzero(cells.any(axis=1 - axis))
        first, last = max(inside[0] - 1, 0), min(inside[-1] + 2, count)
        box.append((low + first * width, low + last * width))
    return tuple(box)


def _is_smaller(box: Sequence[tuple[float, float]], old: Sequence[tuple[float, float]]) -> bool:
    """Whether a side of a box is far shorter than the same side of an older box."""
    return any(
        high - low < SMALLER * (before[1] - before[0])
        for (low, high), before in zip(box, old, strict=True)
    )


def _winding(values: FloatArray) -> FloatArray:
    """Values (t, r, q) in a line of which neighbours are neighbours in theta and r."""
    turned = values.copy()
    turned[1::2] = values[1::2, ::-1]
    return turned.reshape(-1)


# Seconds, by forecast, and nodes of a graph, that averaging may take where it was not asked for.
PATIENCE, MOST_NODES = 8.0, 50_000
# Cost of a kernel of the grid, as a share of that of an evaluation of the evidence of the widest
# one: there are no slopes, and most series are shorter.
GRID_SHARE = 0.15
# Least noise ratio for which a series of the covariance is accurate.
LEAST_RATIO = 1e-4


@dataclass(frozen=True)
class Averaging:
    """How hyperparameters are averaged.

    Attributes
    ----------
    n_draws : int
        Number of draws, of which equal ones are one member.
    prior : HyperparameterPrior
        Laws of the variances of function and noise, in units of the variance of the targets.
    is_asked_for : bool
        Whether it is to be done at any cost, or refused, or else only where it costs little.
    walks : bool
        Whether the members walk; else their kernels are exact, whatever the recipe says.
    """

    n_draws: int
    prior: HyperparameterPrior
    is_asked_for: bool
    walks: bool


def fit_average(fitter: NodeFitter, averaging: Averaging) -> Fitted | None:
    """Average the hyperparameters of a fit over their posterior and condition every draw.

    None where it is not asked for and its forecast is above `PATIENCE` or the budget of the fit,
    the graph has more than `MOST_NODES`, or a kernel has several free parameters.

    Raises
    ------
    InvalidInputError
        It is asked for, but a kernel has several free parameters, or the covariance of the
        observations takes too much memory or is not accurate enough.
    """
    start, graph = time.perf_counter(), fitter.graph
    kept = FixedHyperparameters(
        "kernel" in fitter.fixed,
        fitter.outputscale if "outputscale" in fitter.fixed else None,
        fitter.noise if "noise" in fitter.fixed else None,
    )
    has_grids = kept.kernel or all(map(has_grid, fitter.kernels))
    if not averaging.is_asked_for and (graph.n_nodes > MOST_NODES or not has_grids):
        return None
    data = NodeObservations(graph, fitter.data.points, fitter.targets, fitter.settings.seed)
    dense = dense_route(data)
    forecast, refused = _cost(fitter, data, kept), ""
    if forecast is None:
        refused = f"covariances of {len(fitter.data)} observations take too much memory"
    elif dense is None and not _is_resolved(fitter, kept):
        refused = (
            f"the noise ratio is below {LEAST_RATIO:g} where the noise or the outputscale is kept"
        )
    if forecast is None or refused:
        if not averaging.is_asked_for:
            return None
        raise InvalidInputError(
            f"hyperparameters: expected 'maximum' on {graph.n_nodes} nodes, since {refused}, got "
            "'averaged'"
        )
    forecast = forecast.plus(_posteriors(fitter, 1 if dense is not None else averaging.n_draws))
    if averaging.is_asked_for:
        current_budget().check(forecast, "averaging over hyperparameters", "use fewer draws")
    elif forecast.seconds > PATIENCE or not current_budget().allows(forecast):
        return None
    moments = ChebyshevMoments if dense is None else SpectralMoments
    evidence = ObservedEvidence(graph, data.nodes, data.targets, moments)
    tolerance = tolerance_for(LEAST_RATIO)
    posterior = KernelPosterior(
        graph, lambda kernel: evidence.covariance(kernel, tolerance), fitter.targets,
        fitter.kernels, kept, averaging.prior,
    )  # fmt: skip
    found = posterior.average(averaging.n_draws)
    shares = zip(fitter.kernels, found.families, strict=True)
    words = (
        f"{len(found.draws)} draws of the hyperparameters from a grid of {found.n_evaluations} "
        f"kernels; {', '.join(f'{type(kernel).__name__} {share:.2f}' for kernel, share in shares)}"
    )
    step = Step("average", words, forecast.seconds, time.perf_counter() - start)
    members = []
    for number, draw in enumerate(found.draws):
        tell(f"member {number + 1} of {len(found.draws)}")
        members.append(_member(fitter, averaging, draw))
    process: NodeGP | MixtureGP = members[0]
    if len(members) > 1:
        process = MixtureGP.of(members, found.weights, fitter.data, "hyperparameters")
    return process, NodeSearch(1, found.n_evaluations, True, (step,)), found.n_effective


def _is_resolved(fitter: NodeFitter, kept: FixedHyperparameters) -> bool:
    """Whether a series of the covariance is accurate for the noise ratios that are looked at."""
    if None not in (kept.noise, kept.outputscale):
        return True
    unit = max(float(fitter.targets.var(axis=0).mean()), np.finfo(float).tiny)
    noise = unit if kept.noise is None else kept.noise
    return noise >= LEAST_RATIO * (unit if kept.outputscale is None else kept.outputscale)


def _member(fitter: NodeFitter, averaging: Averaging, draw: KernelDraw) -> NodeGP:
    """A draw given the data."""
    scales = Scales(draw.outputscale, draw.noise, np.nan)
    recipe: NodePriorRecipe = fitter.recipe
    if not averaging.walks and isinstance(recipe, WalkRecipe):
        recipe = recipe.exact
    return NodeGP.given(
        fitter.recipe, recipe.make(draw.kernel, scales), fitter.settings, scales, fitter.data,
        fitter.units, fitter.normalize,
    )  # fmt: skip


def _posteriors(fitter: NodeFitter, count: int) -> Forecast:
    """Cost of members at a kernel in the middle; a small graph's eigenvectors come once."""
    kernel = fitter.kernels[0]
    if kernel.theta.size and has_grid(kernel):
        kernel = kernel.with_theta(np.array([np.mean(distinguishable_range(fitter.graph, kernel))]))
    one = posterior_forecast(fitter.graph, kernel, 0.1, len(fitter.data), fitter.settings)
    return Forecast(count * one.seconds, one.bytes)


def _cost(
    fitter: NodeFitter, data: NodeObservations, kept: FixedHyperparameters
) -> Forecast | None:
    """Cost of the covariances of the observations on the grid; None where they are too large."""
    count, dense = len(fitter.kernels) * (COARSE[0] + FINE[0]), dense_route(data)
    if dense is not None:
        return dense.forecast(count)
    costs = []
    for kernel in fitter.kernels:
        if not kept.kernel and kernel.theta.size:
            kernel = kernel.with_theta(np.array([distinguishable_range(data.graph, kernel)[1]]))
        route = moments_route(data, kernel, LEAST_RATIO)
        if route is None:
            return None
        seconds = route.setup.seconds + GRID_SHARE * count * route.each.seconds
        costs.append(Forecast(seconds, route.setup.bytes))
    return max(costs)
