"""Meshes and networks that are easy to reason about."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import trimesh

from coupledgp.random import FloatArray, IntArray


def plain(vertices, faces) -> SimpleNamespace:
    """A mesh as nothing but arrays, which no library cleans."""
    return SimpleNamespace(vertices=np.asarray(vertices, float), faces=np.asarray(faces))


def soup(mesh: trimesh.Trimesh) -> SimpleNamespace:
    """The mesh as an STL file stores it: every face has corners of its own."""
    return plain(
        mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(3 * len(mesh.faces)).reshape(-1, 3)
    )


def slivers() -> trimesh.Trimesh:
    """A closed box whose sides are cut into needles and caps: nine decades of areas."""
    heights = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 9)])
    square = np.array([[0, 0], [1, 0], [1, 1], [0.3, 1], [0, 1.0]])
    vertices = np.array([[*xy, z] for z in heights for xy in square])
    k, faces = len(square), []
    for level in range(len(heights) - 1):
        for a in range(k):
            b = (a + 1) % k
            low, high = level * k, (level + 1) * k
            faces += [[low + a, low + b, high + b], [low + a, high + b, high + a]]
    top = len(vertices) - k
    faces += [[0, a + 1, a] for a in range(1, k - 1)]
    faces += [[top, top + a, top + a + 1] for a in range(1, k - 1)]
    return trimesh.Trimesh(vertices, faces, process=False)


def three_pages() -> trimesh.Trimesh:
    """Three squares that share one edge: not a manifold."""
    pages = [[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]]
    vertices = [[0, 0, 0], [0, 0, 1.0]] + [[x, y, z] for x, y in pages for z in (0.0, 1.0)]
    faces = [f for a in (2, 4, 6) for f in ([0, a, a + 1], [0, a + 1, 1])]
    return trimesh.Trimesh(vertices, faces, process=False)


def town() -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Sources, targets, lengths and positions of a network with a loop and parallel edges."""
    positions = np.array([[0, 0], [3, 0], [3, 4], [0, 4], [8, 4.0]])
    sources = np.array([0, 1, 2, 3, 0, 2, 4])
    targets = np.array([1, 2, 3, 0, 1, 4, 4])
    return sources, targets, np.array([3.0, 4.0, 3.5, 4.0, 5.0, 5.0, 2.4]), positions
