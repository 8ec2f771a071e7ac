"""The container of a saved model: arrays and a JSON header in one safetensors file.

Its metadata hold `format`, `format_version`, `model` (the header, JSON) and `sha256` (of that text
and all arrays). Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError, safe_open

from coupledgp.errors import ModelFileError
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.output import written_whole

FORMAT, FORMAT_VERSION = "coupledgp-model", 1


def pack(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of the file.

    Transposed arrays are stored in their order in memory, and their names are in the header.
    """
    transposed, packed = [], {}
    for name in sorted(arrays):
        value = arrays[name]
        value = value.cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
            transposed.append(name)
            value = value.T
        packed[name] = np.ascontiguousarray(value)
    text = json.dumps({**header, "transposed": transposed}, allow_nan=False)
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "model": text,
        "sha256": _digest(text, packed),
    }
    return bytes(safetensors.numpy.save(packed, metadata))


def write(path: str | os.PathLike[str], header: Header, arrays: Arrays) -> None:
    """Write a file, whole or not at all."""
    content = pack({"coupledgp": version("coupledgp"), **header}, arrays)
    with written_whole(path) as temporary:
        temporary.write_bytes(content)


def read(path: Path) -> tuple[Header, dict[str, torch.Tensor]]:
    """Return the header and the arrays, of any shape, of a file.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind or of an unknown version.
    """
    path.open("rb").close()  # a missing or forbidden file is the system's error, not a damaged one
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata)
            packed = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except SafetensorError as error:
        raise ModelFileError(
            f"{path}: expected a file written by save_model, got one that is damaged or of "
            f"another kind ({error})"
        ) from error
    text = metadata.get("model", "")
    if metadata.get("sha256") != _digest(text, packed):
        raise ModelFileError(f"{path}: the file is damaged, its checksum does not fit its content")
    header: Header = json.loads(text)
    arrays = {name: torch.tensor(value) for name, value in packed.items()}
    arrays |= {name: arrays[name].T for name in header["transposed"]}
    return header, arrays


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"{path}: expected a file written by save_model, got another safetensors file"
        )
    found = metadata.get("format_version")
    if found != str(FORMAT_VERSION):
        raise ModelFileError(
            f"{path}: expected format version {FORMAT_VERSION}, got {found}; coupledgp "
            f"{version('coupledgp')} does not know it, another release does"
        )


def _digest(text: str, packed: dict[str, Any]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(packed.items()):
        digest.update(f"\n{name} {value.dtype} {value.shape}\n".encode())
        digest.update(value.reshape(-1).view(np.uint8))
    return digest.hexdigest()
