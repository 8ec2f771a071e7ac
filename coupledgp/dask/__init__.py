"""Fits and predictions on the workers of a Dask cluster, with the results of one machine."""

from coupledgp.dask.front import fit as fit
from coupledgp.dask.front import predict as predict
