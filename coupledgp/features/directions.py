"""Couplings that serve positive features and harm Fourier features (MATH section 3)."""

from __future__ import annotations

from coupledgp.couplings.frequencies.registry import DirectionsAndNorms
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.ground.warned import warn


def check_directions(made: object, name: str = "coupling") -> None:
    """Warn of Fourier features with simplex directions, and refuse at most d frequencies of them.

    All estimators call it before a fit; a coupling or a map by itself is never refused. The d
    corners of a simplex sum to zero, so they span d - 1 dimensions. Cosine features are even, so
    that obtuse angles bring nothing: their errors are 1.40, 1.26 and 1.19 times those of orthogonal
    directions in 2, 5 and 13 dimensions, at the distance of one lengthscale.

    Parameters
    ----------
    made
        Features that a model is to use; anything but Fourier features passes.
    name
        Name of the argument in messages.

    Raises
    ------
    InvalidInputError
        At most d frequencies are drawn, so that one direction of the inputs reaches no feature.

    Warns
    -----
    UserWarning
        Directions are from a simplex, in two dimensions or more.
    """
    if not isinstance(made, FourierFeatures) or not _has_simplex(made):
        return
    coupling = made.coupling
    assert isinstance(coupling, DirectionsAndNorms)
    n_drawn = coupling.n_drawn(made.n_frequencies)
    if n_drawn <= made.dim == coupling.directions.ambient_dim(made.dim):
        raise InvalidInputError(
            f"{name}: {str(coupling)!r} leaves one direction of the inputs unseen by Fourier "
            f"features unless more than {made.dim} frequencies are drawn in {made.dim} dimensions, "
            f"got {n_drawn}; use 'orthogonal' or more frequencies"
        )
    warn(
        f"{name}: {str(coupling)!r} serves Laplace features; the errors of Fourier features are "
        "larger with it than with 'orthogonal'"
    )


def _has_simplex(made: FeatureMap) -> bool:
    """Whether the frequencies have the directions of a simplex; one dimension has no such thing."""
    coupling = made.coupling
    return (
        made.dim > 1
        and isinstance(coupling, DirectionsAndNorms)
        and coupling.directions.sums_to_zero
    )
