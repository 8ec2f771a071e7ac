"""Sizes of results as Dask counts them, where tasks return objects of this package.

Dask asks how many bytes a result takes in order to choose workers, to spill memory, and to count
what moves. It knows arrays; objects that hold arrays seem to take no memory unless it is told.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from coupledgp.batches.passes import Pass
from coupledgp.gp.protocol import Batch, Data
from coupledgp.ground.tensors import Tensor, is_module, torch
from coupledgp.inference.lattice.sums import LatticeSums
from coupledgp.inference.weights.statistics import DataStatistics, Moments
from coupledgp.inference.weights.stream import FeatureStream

SIZED = (
    Batch, Data, DataStatistics, FeatureStream, LatticeSums, Moments, Pass,
)  # fmt: skip


@cache
def tell_dask() -> None:
    """Register the sizes of this package's objects in this process."""
    from dask.sizeof import sizeof

    def of_tensors() -> None:
        sizeof.register(torch.Tensor, size_of)  # type: ignore[no-untyped-call]

    sizeof.register_lazy("torch", of_tensors)  # type: ignore[no-untyped-call]
    for kind in SIZED:
        sizeof.register(kind, size_of)  # type: ignore[no-untyped-call]


def size_of(value: Any) -> int:
    """Bytes of an object and of the arrays that it holds."""
    if isinstance(value, (np.ndarray, Tensor)):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value))
    if is_module(value):
        return sum(map(size_of, value.state_dict().values()))
    if is_dataclass(value):
        return sum(size_of(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Pass):
        return size_of(tuple(vars(value).values()))
    return sys.getsizeof(value)
