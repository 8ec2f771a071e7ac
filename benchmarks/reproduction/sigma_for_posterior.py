"""Sigma solved for the KL of the posterior, beside sigma solved for the variance of the kernel.

The models are graph GPs with a heat kernel and known hyperparameters. Half of the nodes is
observed, y is drawn from the exact GP, and the noise is 0.1 of the variance. Sigma is solved on an
Erdos-Renyi graph of 100 nodes in three ways: for the kernel's squared error (as in the papers), for
the KL to second order (`posterior_weights`), and by a search over swaps for the least simulated KL.
Printed is KL(exact || approximate) per hidden node over that of sigma for the kernel, with standard
errors over draws of the walkers.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/sigma_for_posterior.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from graph_common import mean_and_error, table, with_error
from study_options import Results, add_options, chosen, parse_options

from coupledgp.couplings import GeometricLaw, SigmaLengths, WalkerCoupling, parse_walker_coupling
from coupledgp.couplings.walkers.sigma import (
    REFERENCE_DEGREE,
    REFERENCE_NODES,
    erdos_renyi,
    solve_sigma,
)
from coupledgp.couplings.walkers.sigma_weights import posterior_weights
from coupledgp.diagnostics import gaussian_kl
from coupledgp.features import WalkFeatures, plan_hops, sample_walks
from coupledgp.features.walks.modulation import n_terms_for
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.kernels import HeatKernel, dense_spectrum
from coupledgp.random import FloatArray, IntArray
from data_loaders import graphs, meshes, traffic

NOISE, OBSERVED = 0.1, 0.5
ORDER = 30
NAMES = ("teapot", "idler_riser", "traffic", "eurosis", "arenas-email")
BESIDE = ("iid", "antithetic", "stratified", "stratified+systematic")
HOPS = {"stratified+systematic, 1 hop": 1, "stratified+systematic, 2 hops": 2}


@dataclass(frozen=True)
class Problem:
    """A graph, a kernel of mean diagonal one, and a split of the nodes."""

    graph: Graph
    kernel: HeatKernel
    seed: int

    @cached_property
    def gram(self) -> FloatArray:
        """Exact kernel, scaled to mean diagonal one."""
        values, vectors = dense_spectrum(self.graph)
        return self.scale * (vectors * self.kernel.spectral(values)) @ vectors.T

    @cached_property
    def scale(self) -> float:
        """One over the mean diagonal."""
        return 1 / float(self.kernel.spectral(dense_spectrum(self.graph).values).mean())

    @cached_property
    def split(self) -> tuple[IntArray, IntArray]:
        """Observed and hidden nodes."""
        order = np.random.default_rng(self.seed).permutation(self.graph.n_nodes)
        n_seen = round(OBSERVED * order.size)
        return order[:n_seen], order[n_seen:]

    @cached_property
    def y(self) -> FloatArray:
        """Observations drawn from the exact GP."""
        seen, _ = self.split
        root = np.linalg.cholesky(self._noisy(self.gram)[np.ix_(seen, seen)])
        return root @ np.random.default_rng(1 + self.seed).standard_normal(seen.size)

    @cached_property
    def exact(self) -> tuple[FloatArray, FloatArray]:
        """Exact predictive law at the hidden nodes."""
        return self.law(self.gram)

    def _noisy(self, gram: FloatArray) -> FloatArray:
        return gram + NOISE * np.eye(len(gram))

    def law(self, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predictive law of observations at the hidden nodes."""
        seen, asked = self.split
        noisy = self._noisy(gram)
        gain = np.linalg.solve(noisy[np.ix_(seen, seen)], noisy[np.ix_(seen, asked)]).T
        return gain @ self.y, noisy[np.ix_(asked, asked)] - gain @ noisy[np.ix_(seen, asked)]

    def kl(self, coupling: WalkerCoupling, m: int, p: float, seed: int, hops: int = 0) -> float:
        """KL per hidden node of one draw of walkers."""
        plan = plan_hops(self.graph, self.kernel, m, hops) if hops else None
        walks = sample_walks(self.graph, m, p, coupling, generator=seed, modulation=self.kernel)
        features = WalkFeatures(walks, self.kernel, plan) if plan else walks.features(self.kernel)
        gram = dense_gram(features, self.graph.n_nodes)
        return gaussian_kl(*self.exact, *self.law(self.scale * gram)) / self.split[1].size


def dense_gram(features: Any, n: int) -> FloatArray:
    """`Phi Phi'`, dense."""
    if isinstance(features, WalkFeatures):
        return features.matmat(features.rmatmat(np.eye(n)))
    return (features @ features.T).toarray()


def sigmas(kernel: HeatKernel, m: int, p: float, n_sweeps: int) -> dict[str, WalkerCoupling]:
    """Sigma by each of the three objectives."""
    reference = erdos_renyi(REFERENCE_NODES, REFERENCE_DEGREE)
    f = kernel.modulation(n_terms_for(kernel))
    survival = GeometricLaw(p).survival(f.size - 1)
    weights = posterior_weights(f, reference, NOISE, OBSERVED)
    start = solve_sigma(f, survival, ORDER, reference)
    found = {
        "sigma, kernel": start,
        "sigma, KL to second order": solve_sigma(f, survival, ORDER, reference, weights=weights),
        "sigma, search for the KL": searched(reference, kernel, start, m, p, n_sweeps),
    }
    return {name: with_sigma(sigma) for name, sigma in found.items()}


def with_sigma(sigma: IntArray) -> WalkerCoupling:
    """Lengths coupled by a permutation, steps independent."""
    return WalkerCoupling(SigmaLengths(permutation=tuple(sigma.tolist())))


def searched(
    reference: Graph, kernel: HeatKernel, start: IntArray, m: int, p: float, n_swaps: int
) -> IntArray:
    """Random swaps, kept when the mean KL of 16 draws of walkers (the same for all) falls."""
    problem, rng = Problem(reference, kernel, 0), np.random.default_rng(0)

    def loss(sigma: IntArray) -> float:
        return float(np.mean([problem.kl(with_sigma(sigma), m, p, seed) for seed in range(16)]))

    best, least = start, loss(start)
    for _ in range(n_swaps):
        swapped = best.copy()
        a, b = rng.choice(swapped.size, 2, replace=False)
        swapped[[a, b]] = swapped[[b, a]]
        value = loss(swapped)
        if value < least:
            best, least = swapped, value
    return best


def load(name: str) -> Graph:
    """A mesh, the road network or a community graph."""
    if name == "traffic":
        return traffic.load().graph
    if name in ("teapot", "fuze", "idler_riser", "busted", "unit_sphere"):
        return meshes.load(name).graph
    return graphs.load(name).graph


def main() -> None:
    """Print one table for each diffusion time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--times", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--walks", type=int, default=16)
    parser.add_argument("--halt", type=float, default=0.3)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--swaps", type=int, default=200)
    add_options(parser, ["sigma by three objectives", *BESIDE, *HOPS], walkers=True)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.names, arguments.times = arguments.names[:1], arguments.times[:1]
        arguments.walks, arguments.swaps, arguments.draws = 4, 1, 2
    m, p = arguments.walks, arguments.halt
    results = Results("n_walks", ("kl_per_point",))
    with reporter("sigma for the posterior") as tick:
        for t in arguments.times:
            kernel = HeatKernel(t)
            tick(f"t={t:g}: search")
            beside = chosen(arguments, dict(zip(BESIDE, BESIDE, strict=True)))
            methods = sigmas(kernel, m, p, arguments.swaps)
            methods |= {label: parse_walker_coupling(one) for label, one in beside.items()}
            if arguments.couplings is None:
                methods |= dict.fromkeys(HOPS, parse_walker_coupling("stratified+systematic"))
            rows = []
            for name in arguments.names:
                tick(f"t={t:g}: {name}")
                problem = Problem(load(name), kernel, 0)
                found = divergences(problem, methods, m, p, arguments.draws)
                rows.append([name, *cells(found)])
                for label, values in found.items():
                    for seed, value in enumerate(values):
                        results.add(f"{name} t={t:g}", label, m, seed, value)
            print(f"heat, t={t:g}, m={m}, p={p:g}, {arguments.draws} draws")
            print(table(["graph", "KL of sigma, kernel", *methods], rows), "\n")
    if arguments.couplings is not None:
        results.print_comparisons()
    results.write(arguments.output)


def divergences(
    problem: Problem, methods: dict[str, WalkerCoupling], m: int, p: float, n_draws: int
) -> dict[str, FloatArray]:
    """KL (n_draws,) of each method, draws of one seed for all."""
    return {
        name: np.array(
            [problem.kl(coupling, m, p, seed, HOPS.get(name, 0)) for seed in range(n_draws)]
        )
        for name, coupling in methods.items()
    }


def cells(found: dict[str, FloatArray]) -> list[str]:
    """KL of sigma for the kernel, and the ratio of each method to it."""
    base = found["sigma, kernel"]
    ratios = []
    for values in found.values():
        ratio = values.mean() / base.mean()
        error = np.std(values - ratio * base, ddof=1) / np.sqrt(base.size) / base.mean()
        ratios.append(with_error(float(ratio), float(error)))
    return [with_error(*mean_and_error(base)), *ratios]


if __name__ == "__main__":
    main()
