"""The spectrum of `W~`: by Lanczos where the graph is large, dense where it is small."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.graphs.graph import Graph
from coupledgp.random import FloatArray, Seed, as_rng


class Eigenpairs(NamedTuple):
    """Eigenvalues (k,) of `W~`, ascending, and their eigenvectors (n_nodes, k)."""

    values: FloatArray
    vectors: FloatArray


@lru_cache(maxsize=4)
def dense_spectrum(graph: Graph) -> Eigenpairs:
    """All eigenvalues and eigenvectors of `W~`, O(n^3); cached for the last four graphs.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import dense_spectrum
    >>> triangle = cgp.Graph.from_edges([0, 1, 2], [1, 2, 0])
    >>> dense_spectrum(triangle).values.round(6).tolist()
    [-0.5, -0.5, 1.0]
    """
    values, vectors = linalg.eigh(graph.normalized_adjacency.toarray(), overwrite_a=True)
    return Eigenpairs(np.clip(values, -1.0, 1.0), vectors)


class SpectralDensity(NamedTuple):
    """A quadrature of the mean diagonal: `mean_i g(W~)_ii ~ sum_k weights_k g(eigenvalues_k)`.

    The eigenvalues are Ritz values, approximate ones; both arrays have shape (k,).
    """

    eigenvalues: FloatArray
    weights: FloatArray


def lanczos_density(
    graph: Graph, n_steps: int = 24, n_probes: int = 4, generator: Seed = 0
) -> SpectralDensity:
    """Estimate the density of eigenvalues of `W~` from random sign vectors.

    Exact for polynomials of degree below `2 n_steps` but for the probes' noise, which is of
    relative order `sqrt(2 / (n_probes n_nodes))`. Golub and Meurant (2010), chapter 11.

    Parameters
    ----------
    graph
        The graph.
    n_steps
        Number of Lanczos steps of each probe: products with `W~`.
    n_probes
        Number of random sign vectors.
    generator
        Seed of the sign vectors.
    """
    # One probe after the other: the vectors of all steps of one are alive at a time.
    rng = as_rng(generator)
    parts = [_one_probe(graph, n_steps, rng) for _ in range(n_probes)]
    return SpectralDensity(
        np.concatenate([part.eigenvalues for part in parts]),
        np.concatenate([part.weights for part in parts]) / n_probes,
    )


def ritz_values(graph: Graph, n_values: int, generator: Seed = 0) -> FloatArray:
    """Ritz values (r,) of `W~` from one random sign vector, at most `n_values`, ascending."""
    return np.sort(_one_probe(graph, n_values, as_rng(generator)).eigenvalues)


def _one_probe(graph: Graph, n_steps: int, rng: np.random.Generator) -> SpectralDensity:
    """Gauss rule of one random sign vector, by Lanczos with full reorthogonalisation.

    The block method of `inference.linalg.lanczos` rounds differently, and the basis of a repeated
    eigenvalue, hence the draws of a posterior on a regular graph, follows the last bits of this.
    """
    matrix = graph.normalized_adjacency
    basis = [rng.choice([-1.0, 1.0], graph.n_nodes) / np.sqrt(graph.n_nodes)]
    diagonal, off = [], []
    for step in range(min(n_steps, graph.n_nodes)):
        vector = matrix @ basis[step]
        diagonal.append(float(basis[step] @ vector))
        for _ in range(2):  # once leaves rounding of the size of the removed part
            for past in basis:
                vector -= (past @ vector) * past
        norm = float(np.linalg.norm(vector))
        if norm < 1e-10 or step + 1 == min(n_steps, graph.n_nodes):
            break
        off.append(norm)
        basis.append(vector / norm)
    values, vectors = linalg.eigh_tridiagonal(np.array(diagonal), np.array(off))
    return SpectralDensity(np.clip(values, -1.0, 1.0), vectors[0] ** 2)
