"""Writing fitted models to files, and reading model files, without pickle.

A file holds the arrays from which predictions are computed, bit for bit and in the memory order
they were computed in, and the sufficient statistics, so that `partial_fit` can go on. Its header
holds the class, the constructor's parameters, fitted numbers and the names of the columns.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any, Literal

from coupledgp.core.process_estimator import ProcessEstimator
from coupledgp.core.stored import MODEL_CLASSES
from coupledgp.errors import InvalidInputError
from coupledgp.fields.estimator import FieldGPRegressor
from coupledgp.graphs.classifier import GraphGPClassifier
from coupledgp.graphs.regressors import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.ground.codec import read_file
from coupledgp.ground.devices import CPU, DeviceLike, parse_device
from coupledgp.ground.tensors import torch
from coupledgp.tables.classifier import GPClassifier
from coupledgp.tables.exact_regressor import ExactGPRegressor
from coupledgp.tables.lattice_regressor import LatticeGPRegressor
from coupledgp.tables.local_regressor import LocalGPRegressor
from coupledgp.tables.regressor import GPRegressor
from coupledgp.tables.sparse_spectrum import SparseSpectrumGPRegressor

MODEL_CLASSES.update(
    (kind.__name__, kind)
    for kind in (
        GPClassifier, GPRegressor, LatticeGPRegressor, LocalGPRegressor,
        SparseSpectrumGPRegressor, ExactGPRegressor,
        GraphGPRegressor, ExactGraphGPRegressor, FieldGPRegressor, GraphGPClassifier,
    )
)  # fmt: skip


def save_model(
    model: ProcessEstimator,
    path: str | os.PathLike[str],
    include_data: bool = False,
    row_digests: bool | Literal["inputs"] = True,
) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model
        Fitted estimator of one of the classes in `MODEL_CLASSES`.
    path
        File to write; one that exists is replaced.
    include_data
        Store the training rows too, which `exact_twin()` needs. Exact and local models and models
        on graphs predict from their observations and always store them.
    row_digests
        In a file without training rows, store a salted hash for each, by which reports find test
        rows that are training rows. No value can be computed from it, but guesses can be tested:
        of inputs, and by two bytes, at 65536 to 1, of the targets of known inputs. `"inputs"`
        stores nothing of targets, and a row of trained inputs then counts as a training row;
        False stores nothing.

    Raises
    ------
    InvalidInputError
        The model is of another class, or has a coupling or kernel that no text form names.
    CoupledGPError
        `include_data` is set, but the model was loaded from a file without data.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cgp.save_model(model, f"{folder}/model.safetensors", include_data=True)
    ...     Path(f"{folder}/model.safetensors").stat().st_size > 1000
    True
    """
    name = type(model).__name__
    if MODEL_CLASSES.get(name) is not type(model):
        raise InvalidInputError(f"model: expected one of {', '.join(MODEL_CLASSES)}, got {name}")
    model.save(path, include_data=include_data, row_digests=row_digests)


def load_model(path: str | os.PathLike[str], device: DeviceLike = None) -> Any:
    """Read a model that `save_model` wrote; its predictions are the same to the bit on the CPU.

    Arrays that a file does not hold, such as dense factors, are computed at the first prediction.
    There another machine, or another number of threads, may change the last digits.

    Parameters
    ----------
    path
        File to read. Reading runs no code from the file.
    device
        Where the model is used, whatever the device of its fit: None or `"cpu"`, `"cuda"`,
        `"cuda:1"`, `"auto"` or a `torch.device`. It becomes the model's parameter `device`.

    Returns
    -------
    ProcessEstimator
        The fitted model, of one of the classes in `MODEL_CLASSES`. Its `random_state` is None if it
        was anything but an int.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind or of an unknown version.
    InvalidInputError
        There is no such device, or the model is of a class that computes on the CPU alone.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.safetensors")
    ...     same = cgp.load_model(f"{folder}/model.safetensors")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    where = parse_device(device)
    import_module("coupledgp.time.estimator")  # which stands on this package
    model = read_file(path, ProcessEstimator)
    return model if where == CPU else _on(model, device, where)


def _on(model: Any, device: DeviceLike, where: torch.device) -> Any:
    """The model with its tensors on a device, and this device as its parameter."""
    if "device" not in model.get_params(deep=False):
        raise InvalidInputError(
            f"device: expected None, since {type(model).__name__} computes on the CPU, got {device}"
        )
    model.set_params(device=device)
    return model.holding(replace(model.fitted_, process=model.process_.on(where)))
