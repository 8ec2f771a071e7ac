"""What each worker of the clusters does first: torch has one thread, as with spawned workers."""

import torch
from distributed import Worker


def dask_setup(worker: Worker) -> None:
    """Called by the worker."""
    torch.set_num_threads(1)
