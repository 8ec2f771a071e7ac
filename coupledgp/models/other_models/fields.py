"""Other models of a field on a surface or network: along it, by position, rougher and smoother."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coupledgp.diagnostics.rivals.rival import Rival
from coupledgp.geometry.locations import place_numbers
from coupledgp.gp.fields import FieldGP
from coupledgp.gp.precise_fields import PreciseFieldGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.ground.progress import reporter
from coupledgp.inference.fields.covariance import FieldCovariance
from coupledgp.kernels.fields import (
    FieldKernel,
    PositionKernel,
    WhittleMatern,
    parse_field_kernels,
)
from coupledgp.search.fields.routes import RouteSettings, fit_field

# Seconds of a fit of one family on one core of a server of 2023: at least, for each product of
# vertices and places, and for each cube of places.
FIT_SECONDS, COLUMN_SECONDS, CUBIC_SECONDS = 1.0, 1e-5, 2e-8
# Frequencies of the part of position where places are many.
N_FREQUENCIES, COUPLING = 192, "auto"


@dataclass(frozen=True, eq=False)
class FieldTask:
    """Observations of a field.

    Attributes
    ----------
    process : GaussianProcess
        The process of the model: one of a field, or a mixture of such.
    seed : int
        Seed of all alternatives.
    """

    process: GaussianProcess
    seed: int

    def rivals(self) -> list[Rival]:
        """Kernels along the surface or network, of position, and of both."""
        member = field_member(self.process)
        assert member is not None
        operator = member.field_prior.operator
        placed, network = operator.positions is not None, operator.dimension == 1
        found: dict[str, tuple[str, list[FieldKernel]]] = {}
        where = "network" if network else "surface"
        for alpha in (1, 2) if network else (2, 4):
            text = f"along the {where}, alpha={alpha}"
            kernel = FieldKernel(WhittleMatern(alpha=alpha))
            found[text] = (f"kernel=WhittleMatern(alpha={alpha})", [kernel])
        for name in ("matern-3/2", "matern-5/2", "gaussian") if placed else ():
            kernel = FieldKernel(None, PositionKernel(name))
            found[f"position, {name}"] = (f"kernel=PositionKernel('{name}')", [kernel])
        if placed:
            kernel = FieldKernel(WhittleMatern(), PositionKernel("matern-3/2"))
            text = "kernel=WhittleMatern() + PositionKernel('matern-3/2')"
            found[f"{where} and position, matern-3/2"] = (text, [kernel])
        families = parse_field_kernels("auto", operator.dimension, placed, operator.n_columns)
        found["families mixed by evidence"] = ("kernel='auto'", families)
        return [self._of(name, *found[name], operator) for name in found]

    def _of(self, name: str, text: str, families: list[FieldKernel], operator: Any) -> Rival:
        """Families of kernels as a rival."""
        n_places = int(place_numbers(self.process.data.points).max()) + 1
        seconds = FIT_SECONDS + COLUMN_SECONDS * n_places * operator.n_vertices / 10
        seconds += CUBIC_SECONDS * min(n_places, 400) ** 3
        settings = RouteSettings("auto", N_FREQUENCIES, COUPLING, self.seed, True)

        def fit(given: Data, limit: float) -> GaussianProcess | str:
            with reporter("fit") as report:
                found = fit_field(FieldCovariance(operator), families, given, settings, report)
            if str(found.process) == str(self.process):
                return "it is the model itself"
            return found.process

        return Rival(f"kernel {name}", fit, f"Use {text}.", len(families) * seconds)


def field_member(process: GaussianProcess) -> FieldGP | PreciseFieldGP | None:
    """The process of a field, or the first of a mixture; None for any other."""
    first = process.first
    return first if isinstance(first, FieldGP | PreciseFieldGP) else None
