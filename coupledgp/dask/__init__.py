"""Fits and predictions on the workers of a Dask cluster, with the results of one machine."""

from typing import TYPE_CHECKING

from coupledgp.ground.lazy import attach

if TYPE_CHECKING:
    from coupledgp.dask.front import fit as fit
    from coupledgp.dask.front import predict as predict
else:
    __all__, __getattr__, __dir__ = attach(__name__)
