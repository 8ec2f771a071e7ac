"""Shared by the reproductions on graphs: kernel errors of walks, statistics and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from record import Finding

from coupledgp.couplings import (
    GeometricLaw,
    LengthLaw,
    MatchedLaw,
    WalkerCouplingLike,
    parse_walker_coupling,
)
from coupledgp.couplings.walkers.lengths import SigmaLengths
from coupledgp.features import WalkFeatures, plan_hops, sample_walks, walked_series
from coupledgp.graphs import Graph
from coupledgp.graphs.hops import HopNodes
from coupledgp.graphs.walk_lengths import n_terms_for
from coupledgp.kernels import GraphKernel, dense_spectrum
from coupledgp.random import FloatArray

LIMIT = 3.0  # standard errors; of 90 cells without any difference one in ten passes it by chance
PAPER_GRAPHS = ("cora", "eurosis", "eu-core", "arenas-email")
COMMUNITY_GRAPHS = (
    "karate",
    "dolphins",
    "polbooks",
    "football",
    "news_2cl1",
    "news_2cl2",
    "eu-core",
    "databases",
    "arenas-email",
    "eurosis",
    "citeseer",
    "cora",
)
PAPER_MESHES = ("teapot", "fuze", "unit_sphere", "idler_riser", "busted", "torus")
N_PROBES = 64
TAIL_TOLERANCE = 1e-6

LawLike = float | str


@dataclass(frozen=True, eq=False)
class Target:
    """A kernel on a graph, and what its estimates are measured against.

    The squared Frobenius norm of an error E is estimated by `|E V|^2 / k` with k = 64 random sign
    columns V, fresh in every draw, or computed exactly (V the identity) on graphs of at most 256
    nodes.
    """

    graph: Graph
    kernel: GraphKernel

    @cached_property
    def K(self) -> FloatArray:  # noqa: N802
        """The exact kernel, dense."""
        values, vectors = dense_spectrum(self.graph)
        return (vectors * self.kernel.spectral(values)) @ vectors.T

    @cached_property
    def squared_norm(self) -> float:
        """`|K|_F^2`."""
        return float((self.kernel.spectral(dense_spectrum(self.graph).values) ** 2).sum())

    @cached_property
    def series(self) -> FloatArray:
        """Modulation coefficients up to a tail of 1e-6."""
        return self.kernel.modulation(n_terms_for(self.kernel))

    def probes(self, seed: int) -> FloatArray:
        """The columns V of a draw, scaled so that the mean of `|E V|^2` is `|E|_F^2`."""
        n = self.graph.n_nodes
        if n <= 256:
            return np.eye(n)
        signs = np.random.default_rng([seed, 7]).choice([-1.0, 1.0], (n, N_PROBES))
        return signs / np.sqrt(N_PROBES)

    def squared_error(self, features: Any, V: FloatArray, exact: FloatArray) -> float:
        """`|Phi Phi' - K|_F^2 / |K|_F^2`; `exact` is `K V`."""
        return float(((features @ (features.T @ V) - exact) ** 2).sum()) / self.squared_norm


def law_for(law: LawLike, series: FloatArray) -> LengthLaw:
    """Geometric lengths of a chance of halting, or those matched to a series."""
    return MatchedLaw(series) if isinstance(law, str) else GeometricLaw(law)


def mean_length(law: LawLike, series: FloatArray) -> float:
    """Expected steps of a walker that carries a series."""
    return float(law_for(law, series).survival(series.size - 1)[1:].sum())


def coupling_errors(
    targets: Mapping[str, Target],
    n_walks: int,
    law: LawLike,
    couplings: Mapping[str, WalkerCouplingLike],
    seeds: Iterable[int],
) -> dict[tuple[str, str], FloatArray]:
    """Squared relative errors of each draw, for every kernel and coupling of one graph.

    One draw of walks serves all kernels, but for what is solved for or matched to one of them:
    sigma and matched lengths.
    """
    n_terms = max(target.series.size for target in targets.values())
    found: dict[tuple[str, str], list[float]] = {}
    for seed in seeds:
        V = next(iter(targets.values())).probes(seed)
        exact = {name: target.K @ V for name, target in targets.items()}
        for label, coupling in couplings.items():
            lengths = parse_walker_coupling(coupling).lengths
            shared = None
            for name, target in targets.items():
                if shared is None or isinstance(law, str) or isinstance(lengths, SigmaLengths):
                    shared = sample_walks(
                        target.graph,
                        n_walks,
                        coupling=coupling,
                        length_law=law_for(law, target.series),
                        max_length=n_terms - 1,
                        generator=seed,
                        modulation=target.series,
                    )
                phi = shared.features(target.series)
                error = target.squared_error(phi, V, exact[name])
                found.setdefault((name, label), []).append(error)
    return {key: np.array(values) for key, values in found.items()}


def hop_errors(
    target: Target,
    n_walks: int,
    law: LawLike,
    coupling: WalkerCouplingLike,
    hops: int,
    nodes: HopNodes,
    seeds: Iterable[int],
) -> FloatArray:
    """Squared relative errors of each draw with exact hops; matched means to the walked series."""
    plan = plan_hops(target.graph, target.series, n_walks, hops, nodes)
    rest = walked_series(target.series, plan, TAIL_TOLERANCE)
    errors = []
    for seed in seeds:
        V = target.probes(seed)
        walks = sample_walks(
            target.graph,
            n_walks,
            coupling=coupling,
            length_law=law_for(law, rest),
            max_length=rest.size - 1,
            generator=seed,
            modulation=rest,
        )
        features = WalkFeatures(walks, target.series, plan)
        gap = features.matmat(features.rmatmat(V)) - target.K @ V
        errors.append(float((gap**2).sum()) / target.squared_norm)
    return np.array(errors)


def relative_error(products: FloatArray, exact: FloatArray) -> float:
    """`|(K^ - K) V|_F / |K V|_F` from products with the columns V."""
    return float(np.linalg.norm(products - exact) / np.linalg.norm(exact))


def root_ratio(squares: FloatArray, base: FloatArray) -> tuple[float, float]:
    """`sqrt(mean(squares) / mean(base))` and its standard error, draw by draw in pairs.

    By the delta method: half the ratio times the standard error of the mean of
    `squares / mean(squares) - base / mean(base)`.
    """
    ratio = float(np.sqrt(squares.mean() / base.mean()))
    return ratio, 0.5 * ratio * standard_error(squares / squares.mean() - base / base.mean())


def root_mean(squares: FloatArray) -> tuple[float, float]:
    """`sqrt(mean(squares))` and its standard error."""
    root = float(np.sqrt(squares.mean()))
    return root, 0.5 * standard_error(squares) / root


def standard_error(values: FloatArray) -> float:
    """Standard error of a mean; NaN of a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def mean_and_error(values: Sequence[float] | FloatArray) -> tuple[float, float]:
    """Mean and its standard error."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), standard_error(array)


def with_error(value: float, error: float) -> str:
    """`value (error)`: two significant digits of the error, and as many decimals of the value."""
    if not np.isfinite(error) or error == 0:
        return f"{value:.3g}"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2e} ({error:.0e})"
    decimals = int(min(max(1 - np.floor(np.log10(abs(error))), 0), 4))
    return f"{value:.{decimals}f} ({error:.{decimals}f})"


def n_errors(gap: float, error: float) -> str:
    """A gap in standard errors, signed."""
    return f"{gap / error:+.1f}" if error > 0 else "0"


def claim(distances: FloatArray, others: Sequence[str] = ("iid", "antithetic")) -> str:
    """How often sigma is better, equal or worse by two standard errors; one column an other."""
    parts = []
    for other, column in zip(others, distances.T, strict=True):
        better, worse = int((column < -2).sum()), int((column > 2).sum())
        equal = column.size - better - worse
        parts.append(f"against {other}: better {better}, within two s.e. {equal}, worse {worse}")
    return "sigma, cells by two standard errors: " + "; ".join(parts)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """A value as text, numbers to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class JsonLines:
    """A file of one JSON object a line; nothing is written without a path."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.write_text("", encoding="utf-8")

    def write(self, **record: Any) -> None:
        """Append one record."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


@dataclass(frozen=True)
class Cell:
    """One graph and chance of halting: errors over that of i.i.d. walkers, each with its error.

    `gaps` are sigma less i.i.d. and sigma less antithetic, in standard errors of the difference.
    """

    graph: str
    p_halt: float
    ratios: dict[str, tuple[float, float]]
    gaps: tuple[float, float]


def record_cells(finding: Finding, cells: list[Cell], protocol: str) -> None:
    """Mean ratios of each graph over chances of halting, and whether sigma is never worse."""
    for graph in dict.fromkeys(cell.graph for cell in cells):
        own = [cell for cell in cells if cell.graph == graph]
        for coupling in own[0].ratios:
            values = np.array([cell.ratios[coupling] for cell in own])
            error = float(np.sqrt((values[:, 1] ** 2).sum()) / len(own))
            finding.figure(f"{graph}: {coupling} over iid, mean over p", values[:, 0].mean(), error)
    for other, column in zip(
        ("iid", "antithetic"), np.array([c.gaps for c in cells]).T, strict=True
    ):
        better, worse = int((column < -LIMIT).sum()), int((column > LIMIT).sum())
        finding.claim(
            f"sigma nowhere worse than {other} by more than {LIMIT:g} standard errors "
            f"({len(cells)} cells: better in {better}, worse in {worse})",
            worse == 0,
        )
        finding.claim(f"sigma clearly better than {other} somewhere", better > 0)
    finding.note(protocol)
