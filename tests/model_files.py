"""Model files taken apart and put together again with a checksum that fits."""

import json
import struct
from pathlib import Path

import numpy as np
from safetensors import safe_open

from coupledgp.gp.container import _digest

# Names of types in safetensors.
CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint64": "U64",
}  # fmt: skip


def opened(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a file."""
    with safe_open(path, "numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def signed(metadata, text: str, arrays) -> bytes:
    """Bytes of a file whose checksum fits."""
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    metadata = {**metadata, "model": text, "sha256": _digest(text, arrays)}
    header, first = {"__metadata__": metadata}, 0
    for name, value in arrays.items():
        stop = first + value.nbytes
        code = CODES[value.dtype.name]
        header[name] = {"dtype": code, "shape": [*value.shape], "data_offsets": [first, stop]}
        first = stop
    top = json.dumps(header).encode()
    return struct.pack("<Q", len(top)) + top + b"".join(v.tobytes() for v in arrays.values())
