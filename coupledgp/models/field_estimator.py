"""What estimators of functions on a surface or network share: the operator, points and files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from coupledgp.errors import ModelFileError
from coupledgp.geometry import LaplaceOperator
from coupledgp.gp.fields import FieldGP, kernel_from
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.mixture import MixtureGP, restored_process
from coupledgp.gp.precise_fields import PreciseFieldGP
from coupledgp.gp.protocol import Arrays, GaussianProcess, Header, Points
from coupledgp.kernels.fields import as_field_kernel
from coupledgp.models.field_places import located, warn_of_insides
from coupledgp.models.process_estimator import ProcessEstimator
from coupledgp.models.stored import restored_parameters


class FieldEstimator(ProcessEstimator):
    """An estimator of one function or several on a surface or network."""

    @property
    def operator_(self) -> LaplaceOperator:
        """The Laplace operator that the functions are defined on."""
        return self._members[0].field_prior.operator

    @property
    def _members(self) -> tuple[FieldGP | PreciseFieldGP, ...]:
        return members_of(self.process_)

    def points(self, places: Any = None) -> Points:
        """Locations of places; of all given vertices if left out."""
        points = located(self.operator_, places, "places")
        kernels = [member.hyperparameters.kernel for member in self._members]
        warn_of_insides(self.operator_, points, kernels)
        return points

    def _plain(self, name: str, value: Any) -> Any:
        if name == "kernel":
            return value if isinstance(value, str) else asdict(as_field_kernel(value))
        return super()._plain(name, value)

    @classmethod
    def _unfitted(cls, header: Header, arrays: Arrays) -> tuple[Any, GaussianProcess]:
        """The estimator of a file before it holds its process, and the process."""
        process = restored_process(header, arrays)
        if not members_of(process):
            raise ModelFileError("process: expected a field, got another process")
        parameters = {**restored_parameters(cls, header)}
        if isinstance(parameters.get("kernel"), dict):
            parameters["kernel"] = kernel_from(parameters["kernel"])
        make: Any = cls
        return make(members_of(process)[0].field_prior.operator, **parameters), process


def members_of(process: GaussianProcess) -> tuple[FieldGP | PreciseFieldGP, ...]:
    """The fields that a process mixes, or the one that it is."""
    members: tuple[GaussianProcess, ...] = (process,)
    if isinstance(process, MixtureGP):
        members = tuple(process.members)
    elif isinstance(process, LatentGP):
        members = process.functions
    return tuple(m for m in members if isinstance(m, (FieldGP, PreciseFieldGP)))
