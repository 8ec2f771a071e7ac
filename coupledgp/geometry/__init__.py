"""Geometry: Laplace operators of surfaces, networks and points, with lengths in the user's unit."""

from coupledgp.geometry.locations import Locations as Locations
from coupledgp.geometry.operator import LaplaceOperator as LaplaceOperator
