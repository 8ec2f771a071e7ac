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
from coupledgp.gp.schema import require_type
from coupledgp.output import write_bytes

FORMAT, FORMAT_VERSION = "coupledgp-model", 1
# Types of the arrays of a file.
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8")
# Most levels of lists and objects in a header. A file's header may unfold into the free bytes and
# twice the file's size, at this many bytes a value.
DEEPEST, FREE_BYTES, VALUE_BYTES = 32, 2**26, 80


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
    write_bytes(path, content)


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
    except (SafetensorError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise ModelFileError(
            f"{path}: expected a file written by save_model, got one that is damaged or of "
            f"another kind ({error})"
        ) from error
    text = metadata.get("model", "")
    if metadata.get("sha256") != _digest(text, packed):
        raise ModelFileError(f"{path}: the file is damaged, its checksum does not fit its content")
    size = path.stat().st_size
    try:
        _check_types(packed)
        header = parsed_header(text, size)
        # One at a time: a file is held once.
        arrays = {name: torch.tensor(packed.pop(name)) for name in sorted(packed)}
        for name in _transposed(header, arrays):
            arrays[name] = arrays[name].T
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    return header, arrays


def parsed_header(text: str, file_size: int) -> Header:
    """The values of a header's text, none of which is a NaN, infinite or deeply nested.

    Raises
    ------
    ModelFileError
        The text is no JSON object of such values, or has more of them than a file of `file_size`
        bytes may unfold into.
    """
    n_values = sum(text.count(mark) for mark in ",[{:")
    if n_values * VALUE_BYTES > FREE_BYTES + 2 * file_size:
        raise ModelFileError(f"header: expected fewer values, got {n_values}")
    try:
        header = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"header: expected JSON, got another text ({error})") from None
    level, depth = [header], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ModelFileError(f"header: expected at most {DEEPEST} levels of values, got more")
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, (dict, list))
        ]
    found: Header = require_type(header, dict, "header")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) < float("inf") else _no_number(text)


def _check_types(packed: Arrays) -> None:
    """Refuse arrays of types that no file has."""
    for name, value in packed.items():
        if value.dtype.name not in DTYPES:
            wanted = ", ".join(DTYPES)
            raise ModelFileError(f"{name[:80]}: expected one of {wanted}, got {value.dtype}")


def _transposed(header: Header, arrays: Arrays) -> list[str]:
    """Names of the arrays that are stored transposed."""
    names = require_type(header.get("transposed"), list, "transposed")
    for name in names:
        if type(name) is not str or name not in arrays or arrays[name].ndim != 2:
            raise ModelFileError("transposed: expected names of matrices, got another value")
    return sorted(set(names))


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
