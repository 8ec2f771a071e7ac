"""Model files taken apart and put together again with a checksum that fits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from coupledgp.ground import codec


def opened(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """The tree of a file's value, and its arrays."""
    arrays = safetensors.numpy.load(path.read_bytes())
    tree = json.loads(arrays.pop(codec.TREE).tobytes())
    del arrays[codec.CHECKSUM]
    return tree["value"], arrays


def signed(value: Any, arrays: dict[str, np.ndarray], version: int = codec.VERSION) -> bytes:
    """Bytes of a file of a tree and arrays, whose checksum fits."""
    text = json.dumps({"format": codec.FORMAT, "version": version, "value": value})
    return signed_text(text, arrays)


def signed_text(text: str, arrays: dict[str, np.ndarray]) -> bytes:
    """Bytes of a file of a text in the place of the tree."""
    arrays = arrays | {codec.TREE: np.frombuffer(text.encode(), dtype=np.uint8)}
    digest = np.frombuffer(codec._digest(arrays), dtype=np.uint8)
    return bytes(safetensors.numpy.save(arrays | {codec.CHECKSUM: digest}))


def objects(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Fields of all objects of a class in a tree, which may be changed."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (dict, list)):
            yield from objects(one, kind)
            if key == kind:
                yield one


def changed(path: Path, kind: str, /, **fields: Any) -> None:
    """Put other fields into the first object of a class of a file."""
    value, arrays = opened(path)
    for name, field in fields.items():
        if isinstance(field, np.ndarray):
            arrays[f"new {name}"] = field
            fields[name] = {"array": f"new {name}"}
    next(objects(value, kind)).update(fields)
    path.write_bytes(signed(value, arrays))
