"""Errors of an approximate kernel between pairs of test points, for a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Largest number of points in the map: a picture of a few hundred pixels shows no more of them.
MAX_POINTS = 150


@dataclass(frozen=True)
class KernelErrors:
    """Kernel of the reference and error of the model's, in units of the reference's mean variance.

    Points are sorted by the leading eigenvector of the reference's kernel, so that similar ones lie
    side by side.

    Attributes
    ----------
    exact, error : FloatArray (p, p)
    """

    exact: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, approximate: FloatArray, exact: FloatArray) -> KernelErrors:
        """Errors between two prior covariances (n, n), at 150 evenly spaced points at most."""
        kept = np.linspace(0, len(exact) - 1, min(len(exact), MAX_POINTS)).astype(int)
        small, own = exact[np.ix_(kept, kept)], approximate[np.ix_(kept, kept)]
        scale = float(np.diagonal(small).mean())
        order = np.argsort(np.linalg.eigh(small)[1][:, -1], kind="stable")
        places = np.ix_(order, order)
        return cls(small[places] / scale, (own - small)[places] / scale)
