"""Geometry: Laplace operators of surfaces, networks and points, with lengths in the user's unit."""

from typing import TYPE_CHECKING

from coupledgp.ground.lazy import attach

if TYPE_CHECKING:
    from coupledgp.geometry.locations import Locations as Locations
    from coupledgp.geometry.operator import LaplaceOperator as LaplaceOperator
else:
    __all__, __getattr__, __dir__ = attach(__name__)
