"""The container of a saved model: arrays and a JSON header in one safetensors file.

Its metadata hold `format`, `format_version`, `model` (the header, JSON) and `sha256` (of that text
and all arrays). Nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from coupledgp.errors import CoupledGPError, ModelFileError
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import check_integer, require_type
from coupledgp.ground.output import write_bytes
from coupledgp.linalg.matrices import as_numpy

FORMAT, FORMAT_VERSION = "coupledgp-model", 2
# Types of the arrays of a file, by their names in safetensors.
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32",
    "I8": "int8", "U8": "uint8",
}  # fmt: skip
# Most characters of the reason for which a file was refused.
LONGEST_MESSAGE = 500
# Bytes that hold the length of the header of a safetensors file, and the name of its metadata.
LENGTH_BYTES, METADATA = 8, "__metadata__"
# Most arrays of a file, dimensions of one, and entries of one, axes of no length left out.
MOST_ARRAYS, MOST_DIMENSIONS, MOST_ENTRIES = 2**15, 8, 2**40
# Most levels of lists and objects in a header. A file's header may unfold into the free bytes and
# twice the file's size, at this many bytes a value.
DEEPEST, FREE_BYTES, VALUE_BYTES = 32, 2**26, 80
# Characters of a header up to which their width does not matter; texts of JSON, and their escapes
# of characters, before which is an even number of backslashes.
SHORT = 2**22
TEXT, ESCAPE = re.compile(r'"(?:[^"\\]++|\\.)*+"'), re.compile(r"(?<!\\)(?:\\\\)*+\\u")


def pack(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of the file.

    Transposed arrays are stored in their order in memory, and their names are in the header.
    """
    transposed, packed = [], {}
    for name in sorted(arrays):
        value = arrays[name]
        value = as_numpy(value)
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


def read(path: Path) -> tuple[Header, dict[str, NDArray[Any]]]:
    """Return the header and the arrays, of any shape, of a file.

    Nothing is allocated before the description of all arrays was found to be that of the bytes
    that the file has, and each array is read into memory of its own: a file is held once.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind or of an unknown version.
    """
    with path.open("rb") as file:
        try:
            return _contents(file, os.fstat(file.fileno()).st_size)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None


def _contents(file: BufferedReader, size: int) -> tuple[Header, dict[str, NDArray[Any]]]:
    """The header and the arrays of an open file of so many bytes."""
    described, start = _described(file, size)
    metadata = described.pop(METADATA, None) or {}
    _check_format(metadata)
    places = _places(described, size - start)
    text = metadata.pop("model", "")
    digest, arrays = hashlib.sha256(text.encode(errors="replace")), {}
    for name, place in places.items():
        value = _array(file, start, place)
        digest.update(_mark(name, value))
        digest.update(value.reshape(-1).view(np.uint8))
        arrays[name] = value
    if metadata.get("sha256") != digest.hexdigest():
        raise ModelFileError("the file is damaged, its checksum does not fit its content")
    header = parsed_header(text, size)
    for name in _transposed(header, arrays):
        arrays[name] = arrays[name].T
    return header, arrays


class Place(NamedTuple):
    """Where an array is in a file: its first byte behind the header, its type and its shape."""

    first: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The position behind the last byte."""
        return self.first + self.dtype.itemsize * math.prod(self.shape)


def _described(file: BufferedReader, size: int) -> tuple[dict[str, Any], int]:
    """Descriptions of the arrays in a safetensors file's header, and where their bytes begin."""
    wanted = "expected a file written by save_model, got one that is damaged or of another kind"
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    start = LENGTH_BYTES + length
    if not 0 < length <= size - LENGTH_BYTES:
        raise ModelFileError(f"{wanted} (a header of {length} bytes in {size})")
    try:
        described = parsed_header(_text(file.read(length)), size)
    except (UnicodeDecodeError, ModelFileError) as error:
        raise ModelFileError(f"{wanted} ({error})") from None
    metadata = described.get(METADATA) or {}
    texts = metadata.values() if isinstance(metadata, dict) else (metadata,)
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in texts):
        raise ModelFileError(f"{METADATA}: expected texts by name, got another value")
    if len(described) > MOST_ARRAYS:
        raise ModelFileError(f"expected at most {MOST_ARRAYS} arrays, got {len(described)}")
    return described, start


def _text(content: bytes) -> str:
    """The text of a header; one that is long has a byte for each character."""
    if len(content) > SHORT and not content.isascii():
        raise ModelFileError("header: expected no characters beyond ASCII, got some")
    return content.decode()


def _places(described: dict[str, Any], n_bytes: int) -> dict[str, Place]:
    """Places of arrays, by rising names, which are all bytes of the file behind its header."""
    places = {name: _place(name, described[name]) for name in sorted(described)}
    free = 0
    for place in sorted(places.values(), key=lambda place: (place.first, place.stop)):
        if place.first != free:
            raise ModelFileError(f"expected arrays next to each other, got a gap at byte {free}")
        free = place.stop
    if free != n_bytes:
        raise ModelFileError(f"the file is damaged: expected {free} bytes of arrays, got {n_bytes}")
    return places


def _place(name: str, stated: Any) -> Place:
    """The place of an array by its description in the header: type, shape and ends of its bytes."""
    name = name[:80]
    values = require_type(stated, dict, name)
    code = values.get("dtype")
    if code not in DTYPES:
        raise ModelFileError(f"{name}: expected one of {', '.join(DTYPES)}, got {code!r:.40}")
    shape = require_type(values.get("shape"), list, name)
    ends = require_type(values.get("data_offsets"), list, name)
    if len(shape) > MOST_DIMENSIONS or len(ends) != 2:
        raise ModelFileError(
            f"{name}: expected at most {MOST_DIMENSIONS} dimensions, got {len(shape)}"
        )
    for number in (*shape, *ends):
        check_integer(number, name, 0, 2**62)
    place = Place(ends[0], np.dtype(DTYPES[code]), tuple(shape))
    if place.stop != ends[1] or math.prod(max(n, 1) for n in shape) > MOST_ENTRIES:
        raise ModelFileError(f"{name}: expected bytes {ends} for shape {shape}, got another number")
    return place


def _array(file: BufferedReader, start: int, place: Place) -> Any:
    """An array, read into memory of its own."""
    value: Any = np.empty(place.shape, dtype=place.dtype)
    if value.nbytes:
        file.seek(start + place.first)
        if file.readinto(value.reshape(-1).view(np.uint8)) != value.nbytes:
            raise ModelFileError("the file is damaged: it ended while it was read")
    return value


@contextmanager
def restoring(path: Path, what: str) -> Iterator[None]:
    """Let every error by which the content of a file is no model be a `ModelFileError`.

    Raises
    ------
    ModelFileError
        The message names the file, and says why in at most `LONGEST_MESSAGE` characters.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except (CoupledGPError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
            RuntimeError, AssertionError) as error:  # fmt: skip
        shown = textwrap.shorten(str(error), LONGEST_MESSAGE, placeholder=" ...")
        raise ModelFileError(f"{path}: cannot restore the {what} in this file: {shown}") from error


def parsed_header(text: str, file_size: int) -> Header:
    """The values of a header's text, none of which is a NaN, infinite or deeply nested.

    Raises
    ------
    ModelFileError
        The text is no JSON object of such values, or has more of them than a file of `file_size`
        bytes may unfold into.
    """
    n_values = sum(text.count(mark) for mark in ",[{:")
    if n_values * VALUE_BYTES + 3 * _n_wide(text) > FREE_BYTES + 2 * file_size:
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


def _n_wide(text: str) -> int:
    """Characters that may take four bytes, since an escaped one is in the same text of JSON."""
    if len(text) <= SHORT or "\\u" not in text:
        return 0
    found = (match.group() for match in TEXT.finditer(text))
    return sum(len(own) - 6 * own.count("\\u") for own in found if ESCAPE.search(own))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) < float("inf") else _no_number(text)


def _transposed(header: Header, arrays: Arrays) -> list[str]:
    """Names of the arrays that are stored transposed."""
    names = require_type(header.get("transposed"), list, "transposed")
    for name in names:
        if type(name) is not str or name not in arrays or arrays[name].ndim != 2:
            raise ModelFileError("transposed: expected names of matrices, got another value")
    return sorted(set(names))


def _check_format(metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError("expected a file written by save_model, got another safetensors file")
    found = metadata.get("format_version")
    if found != str(FORMAT_VERSION):
        raise ModelFileError(
            f"expected format version {FORMAT_VERSION}, got {found!s:.20}; coupledgp "
            f"{version('coupledgp')} does not know it, another release does"
        )


def _digest(text: str, packed: dict[str, Any]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(packed.items()):
        digest.update(_mark(name, value))
        digest.update(value.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _mark(name: str, value: NDArray[Any]) -> bytes:
    """Bytes of an array's name, type and shape, which enter the checksum before its values."""
    return f"\n{name} {value.dtype} {value.shape}\n".encode(errors="replace")
