"""Objects as files: trees of dataclasses, with their arrays, in safetensors.

A class is registered by `stored`, and its fields are written by name; `stored_as` registers one
that a text stands for. A file is a tree of JSON and the arrays to which it points. Reading makes
objects of registered classes alone, of fields that have the types of their annotations; ranges are
checked by the classes themselves as they are made. Nothing is run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from scipy import sparse

from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError
from coupledgp.ground.output import write_bytes
from coupledgp.ground.tensors import Tensor, torch

FORMAT, VERSION = "coupledgp", 3
# Names of the arrays of a file that hold its tree and its checksum.
TREE, CHECKSUM = "tree", "sha256"
# Most bytes of the description of all arrays, levels of a tree, bits of an integer, and characters
# of a text that stands for an object.
MOST_DESCRIBED, DEEPEST, MOST_BITS, LONGEST_FORM = 2**22, 64, 64, 2**16
# A tree may unfold into the free bytes and six times the file's size, at so many bytes a value.
FREE_BYTES, VALUE_BYTES = 2**26, 150
# Most characters of the reason for which a file is refused.
LONGEST_MESSAGE = 500
# Arrays may be used for so many times the bytes of the file, since objects may copy them.
MOST_USES = 6
FAULTS = (
    CoupledGPError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    RuntimeError, AssertionError, safetensors.SafetensorError,
)  # fmt: skip

Class = TypeVar("Class", bound=type)


class Form(NamedTuple):
    """A class that a value of another form stands for, and the way there and back."""

    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    hint: Any


CLASSES: dict[str, type] = {}
FORMS: dict[str, Form] = {}
# Types of values that are those of JSON.
PLAIN = {type(None), bool, int, float, str}
# Tags of values that are no classes.
TAGS = (
    "dict", "pairs", "tuple", "frozenset", "float", "bytes", "array", "transposed", "complex",
    "objects", "texts", "tensor", "csr", "same",
)  # fmt: skip


def stored(kind: Class) -> Class:
    """Register a dataclass or named tuple, whose instances are written by the fields of `__init__`.

    A field of metadata `{"stored": False}` is left out and takes its default; one of metadata
    `{"finite": False}` may hold NaN and infinities. An object with a method `as_stored()` is
    written as the stored object that this returns, a record of what it is made of; one with a
    method `read_back()` becomes, once read, what this returns: itself after further checks, or the
    object of which it is the record.
    """
    _refuse_taken(kind)
    CLASSES[kind.__name__] = kind
    return kind


def stored_as(
    kind: type, write: Callable[[Any], Any], read: Callable[[Any], Any], hint: Any = str
) -> None:
    """Register a class, with those derived from it, for whose instances a value stands.

    Parameters
    ----------
    kind
        The class.
    write, read
        Functions that make a value of an instance, None where none stands for it, and an equal
        instance of a value.
    hint
        Type of the value.
    """
    _refuse_taken(kind)
    FORMS[kind.__name__] = Form(kind, write, read, hint)


def _refuse_taken(kind: type) -> None:
    name = kind.__name__
    own = CLASSES.get(name, FORMS[name].kind if name in FORMS else kind)
    if name in TAGS or (own.__module__, own.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InvalidInputError(f"kind: expected a class of a name of its own, got {kind!r}")


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Annotation of each stored field, and whether its numbers are finite."""
    if is_dataclass(kind):
        own: list[Field[Any]] = [f for f in fields(kind) if f.init]
        finite = {
            f.name: f.metadata.get("finite", True) for f in own if f.metadata.get("stored", True)
        }
    else:
        finite = dict.fromkeys(kind._fields, True)
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):  # fields that are not stored may need a library
        stated = {k: v for k, v in vars(base).get("__annotations__", {}).items() if k in finite}
        holder, names = types.SimpleNamespace(__annotations__=stated), sys.modules[base.__module__]
        hints |= get_type_hints(holder, vars(names))
    return {name: (hints[name], flag) for name, flag in finite.items()}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in args)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if origin is np.ndarray:
        wanted = get_args(args[1])[0]
        own = isinstance(value, np.ndarray)
        is_any = wanted is Any or not isinstance(wanted, type)
        return own and (is_any or np.issubdtype(value.dtype, wanted))
    if origin is tuple and type(value) is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return _all_fit(value, args[0])
        return len(value) == len(args) and all(map(_fits, value, args))
    if origin is not None and isinstance(origin, type):
        if not isinstance(value, origin) or (isinstance(value, str) and origin is not str):
            return False
        held: Any = value
        if issubclass(origin, Mapping):
            return _all_fit(held, args[0]) and _all_fit(held.values(), args[1])
        is_many = issubclass(origin, (Sequence, frozenset)) and len(args) == 1
        return not is_many or _all_fit(held, args[0])
    if hint in (None, type(None)):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if hint is Any:
        return True
    return (
        not isinstance(hint, type)
        or getattr(hint, "_is_protocol", False)
        or isinstance(value, hint)
    )


def _all_fit(values: Any, hint: Any) -> bool:
    """Whether all values are of a type; of those of one class, one, unless they hold others."""
    kinds = {type(value): value for value in values}
    return all(_fits(one, hint) for one in (kinds.values() if kinds.keys() <= PLAIN else values))


def _check(value: Any, hint: Any, where: str) -> Any:
    """Return a value of an annotated type."""
    if not _fits(value, hint):
        wanted = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
        raise ModelFileError(f"{where}: expected {wanted:.80}, got {type(value).__name__}")
    return value


def check_shapes(record: Any, /, **shapes: tuple[int | str, ...]) -> dict[str, int]:
    """Refuse arrays of a record, those that are None left out, that have other shapes.

    A letter stands for the same size in all of them; the sizes are returned by their letters.
    """
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        array = getattr(record, name)
        if array is None:
            continue
        found = tuple(array.shape)
        pairs = zip(shape, found, strict=False)
        wanted = [sizes.setdefault(k, n) if isinstance(k, str) else k for k, n in pairs]
        if len(shape) != len(found) or tuple(wanted) != found:
            known = ", ".join(str(sizes.get(str(k), k)) for k in shape)
            raise ModelFileError(f"{name}: expected shape ({known}), got {found}")
    return sizes


def check_range(record: Any, low: float, high: float, /, *names: str) -> None:
    """Refuse arrays and numbers of a record, those that are None left out, beyond a range."""
    for name in names:
        value = getattr(record, name)
        if value is None or not np.size(value):
            continue
        least, most = (value.min(), value.max()) if np.ndim(value) else (value, value)
        if not (low <= least and most <= high):
            raise ModelFileError(f"{name}: expected numbers from {low:g} to {high:g}, got others")


def encoded(value: Any) -> bytes:
    """Bytes of a file from which `decoded` makes an equal value.

    Raises
    ------
    InvalidInputError
        The value holds an object of a class that is not registered, or that no text form names.
    """
    writer = _Writer()
    tree = {"format": FORMAT, "version": VERSION, "value": writer.node(value, "model")}
    text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    arrays = writer.arrays | {TREE: np.frombuffer(text.encode(), dtype=np.uint8)}
    digest = np.frombuffer(_digest(arrays), dtype=np.uint8)
    return bytes(safetensors.numpy.save(arrays | {CHECKSUM: digest}))


def decoded(content: bytes, hint: Any = Any) -> Any:
    """The value of `encoded`, of an annotated type.

    Raises
    ------
    ModelFileError
        The content is damaged, of another kind or of an unknown version, or holds what no model
        does.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            return _check(_Reader(content).value, hint, "model")
    except FAULTS as error:
        shown = textwrap.shorten(str(error), LONGEST_MESSAGE, placeholder=" ...")
        raise ModelFileError(f"cannot restore the model in this file: {shown}") from error


def write_file(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value, whole or not at all; see `encoded`."""
    write_bytes(path, encoded(value))


def read_file(path: str | os.PathLike[str], hint: Any = Any) -> Any:
    """Read a value that `write_file` wrote; see `decoded`."""
    try:
        return decoded(Path(path).read_bytes(), hint)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error


def _digest(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Checksum of the names, types, shapes and values of arrays."""
    found = hashlib.sha256()
    for name in sorted(set(arrays) - {CHECKSUM}):
        value = arrays[name]
        found.update(f"\n{name} {value.dtype} {value.shape}\n".encode(errors="replace"))
        found.update(value.reshape(-1).view(np.uint8).data)
    return found.digest()


def named(text: Any, where: str, value: Any) -> Any:
    """The text that names an object; refuse an object that none names."""
    if text is None:
        raise InvalidInputError(
            f"{where}: expected an object with a text form that names it, since a file holds text "
            f"only, got {value!r:.200}; register it under a name"
        )
    return text


class _Writer:
    """Values as nodes of a tree; what occurs twice is written once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._names: dict[bytes, str] = {}
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no other object takes the identity of one

    def node(self, value: Any, where: str) -> Any:
        if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if type(value) in (list, tuple, frozenset):
            parts = sorted(value) if type(value) is frozenset else value
            if not {*map(type, parts)} <= PLAIN - {float}:
                parts = [self.node(one, where) for one in parts]
            return list(parts) if type(value) is list else {type(value).__name__: list(parts)}
        if isinstance(value, (dict, types.MappingProxyType)):
            if all(type(key) is str for key in value):
                return {"dict": {key: self.node(one, key) for key, one in value.items()}}
            return {"pairs": [[self.node(part, where) for part in pair] for pair in value.items()]}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, Tensor):
            return {"tensor": self._array(value.detach().cpu().numpy(), where)}
        if isinstance(value, sparse.csr_array):
            parts = (value.data, value.indices, value.indptr)
            return {"csr": [*(self._array(one, where) for one in parts), [*map(int, value.shape)]]}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        if id(value) in self._known:
            return {"same": self._known[id(value)]}
        plain = value.as_stored() if hasattr(value, "as_stored") else value
        kind: Any = type(plain)
        title: str = kind.__name__
        known: Any = CLASSES.get(title)
        if known is kind:
            own = {
                name: self.node(_check(getattr(plain, name), hint, f"{title}.{name}"), name)
                for name, (hint, _) in _fields(kind).items()
            }
            node = {title: own}
        else:
            name, form = _form_of(kind)
            if form is None:
                raise InvalidInputError(
                    f"{where}: expected a value that a file can hold, got {value!r:.200}"
                )
            plain = form.write(value)
            node = {name: self.node(named(plain, where, value), where)}
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        return node

    def _array(self, value: NDArray[Any], where: str) -> Any:
        if value.dtype.kind in "OU":
            tag = "objects" if value.dtype.kind == "O" else "texts"
            return {tag: [self.node(one, where) for one in value.tolist()]}
        if value.dtype.kind == "c":
            return {"complex": self._array(_pairs(value), where)}
        tag = "array"
        if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
            tag, value = "transposed", value.T
        value = np.asarray(value, order="C")
        key = hashlib.sha256(f"{value.dtype} {value.shape}".encode())
        key.update(value.reshape(-1).view(np.uint8).data)
        name = self._names.setdefault(key.digest(), str(len(self._names)))
        self.arrays[name] = value
        return {tag: name}


def _form_of(kind: type) -> tuple[str, Form | None]:
    for base in kind.__mro__:
        form = FORMS.get(base.__name__)
        if form is not None and form.kind is base:
            return base.__name__, form
    return "", None


def _pairs(value: NDArray[Any]) -> NDArray[Any]:
    return np.stack([value.real, value.imag], axis=-1)


class _Reader:
    """The value of a file's bytes."""

    def __init__(self, content: bytes) -> None:
        length = int.from_bytes(content[:8], "little")
        if not 0 < length <= min(len(content) - 8, MOST_DESCRIBED):
            raise ModelFileError("expected a file written by save_model, got another or a part")
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, value in safetensors.numpy.load(content).items():
            if math.prod(max(n, 1) for n in value.shape) > len(content) or value.ndim > 8:
                raise ModelFileError(f"array {name:.40}: expected a shape of the file's size")
            self._arrays[name] = value
        if not {TREE, CHECKSUM} <= self._arrays.keys():
            raise ModelFileError("expected a file written by save_model, got one of another kind")
        if self._arrays[CHECKSUM].tobytes() != _digest(self._arrays):
            raise ModelFileError("the file is damaged, its checksum does not fit its content")
        del self._arrays[CHECKSUM]
        tree = _parsed(str(self._arrays.pop(TREE).data, "ascii"), len(content))
        if type(tree) is not dict or tree.get("format") != FORMAT:
            raise ModelFileError("expected a file written by save_model, got one of another kind")
        if tree.get("version") != VERSION:
            found = str(tree.get("version"))
            raise ModelFileError(f"expected format version {VERSION}, got {found:.20}")
        self._made: list[Any] = []
        self._finite: dict[str, bool] = {}
        self._free = FREE_BYTES + MOST_USES * len(content)
        self.value = self._value(tree.get("value"), True, 0)

    def _value(self, node: Any, finite: bool, depth: int) -> Any:
        if depth > DEEPEST:
            raise ModelFileError(f"expected at most {DEEPEST} levels of values, got more")
        if type(node) is list:
            return self._values(node, finite, depth)
        if type(node) is not dict:
            return node
        if len(node) != 1:
            raise ModelFileError(f"expected one class, got {len(node)}")
        tag, own = next(iter(node.items()))
        if tag in CLASSES:
            return self._kept(self._instance(CLASSES[tag], own, depth))
        if tag in FORMS:
            plain = self._value(own, finite, depth + 1)
            if isinstance(plain, str) and len(plain) > LONGEST_FORM:
                raise ModelFileError(f"{tag}: expected a shorter text, got {len(plain)} characters")
            return self._kept(FORMS[tag].read(_check(plain, FORMS[tag].hint, tag)))
        if tag not in TAGS:
            raise ModelFileError(f"expected a class that is known, got {tag:.60}")
        return self._tagged(tag, own, finite, depth)

    def _values(self, nodes: list[Any], finite: bool, depth: int) -> list[Any]:
        if {*map(type, nodes)} <= PLAIN:
            return nodes
        return [self._value(one, finite, depth + 1) for one in nodes]

    def _kept(self, value: Any) -> Any:
        self._made.append(value)
        return value

    def _instance(self, kind: type, own: Any, depth: int) -> Any:
        known = _fields(kind)
        if type(own) is not dict or own.keys() != known.keys():
            found = ", ".join(own)[:200] if type(own) is dict else "none"
            raise ModelFileError(f"{kind.__name__}: expected {', '.join(known)}, got {found}")
        values = {}
        for name, (hint, finite) in known.items():
            value = self._value(own[name], finite, depth + 1)
            values[name] = _check(value, hint, f"{kind.__name__}.{name}")
        made = kind(**values)
        return made.read_back() if hasattr(made, "read_back") else made

    def _tagged(self, tag: str, own: Any, finite: bool, depth: int) -> Any:
        if tag == "dict":
            items = _list(own, dict).items()
            return {key: self._value(one, finite, depth + 1) for key, one in items}
        if tag == "float":
            if finite or own not in ("nan", "inf", "-inf"):
                raise ModelFileError(f"expected a finite number, got {own!s:.20}")
            return float(own)
        if tag == "bytes":
            return bytes.fromhex(own)
        if tag in ("array", "transposed"):
            value = self._array(own, finite)
            return value if tag == "array" else value.T
        if tag == "same":
            if type(own) is not int or not 0 <= own < len(self._made):
                raise ModelFileError("same: expected the number of an object, got another value")
            return self._made[own]
        if tag in ("complex", "tensor"):
            value = self._value(own, finite, depth + 1)
            if not isinstance(value, np.ndarray):
                raise ModelFileError(f"{tag}: expected an array, got {type(value).__name__}")
            if tag == "tensor":
                return torch.from_numpy(value)
            if value.dtype != np.float64 or value.ndim < 1 or value.shape[-1] != 2:
                raise ModelFileError("complex: expected pairs of float64, got others")
            return np.asarray(value[..., 0] + 1j * value[..., 1])
        parts = self._values(_list(own), finite, depth)
        if tag == "pairs":
            return dict(parts)
        if tag == "objects":
            found = np.empty(len(parts), dtype=object)
            found[:] = parts
            return found
        if tag == "csr":
            return _csr(*parts)
        if tag == "texts":
            self._use(4 * len(parts) * max(map(len, parts), default=0))
            return np.array([str(one) for one in parts])
        return tuple(parts) if tag == "tuple" else frozenset(parts)

    def _use(self, n_bytes: int) -> None:
        self._free -= n_bytes
        if self._free < 0:
            raise ModelFileError("expected arrays that are smaller or used fewer times")

    def _array(self, name: Any, finite: bool) -> NDArray[Any]:
        if type(name) is not str or name not in self._arrays:
            raise ModelFileError(f"expected the name of an array, got {name!s:.40}")
        value = self._arrays[name]
        self._use(value.nbytes)
        if finite and value.dtype.kind == "f" and value.size:
            if name not in self._finite:
                low, high = float(value.min()), float(value.max())
                self._finite[name] = math.isfinite(low) and math.isfinite(high)
            if not self._finite[name]:
                raise ModelFileError("expected finite numbers in an array, got NaN or inf")
        return value


def _list(value: Any, kind: type = list) -> Any:
    if type(value) is not kind:
        raise ModelFileError(f"expected a {kind.__name__}, got {type(value).__name__}")
    return value


def _csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sparse.csr_array:
    """A matrix in row form whose pointers and columns are those of its shape."""
    n_rows, n_columns = (int(n) for n in shape)
    if not all(isinstance(one, np.ndarray) and one.ndim == 1 for one in (data, indices, indptr)):
        raise ModelFileError("csr: expected arrays, got other values")
    is_whole = indices.dtype in (np.int32, np.int64) and indptr.dtype == indices.dtype
    if not is_whole or data.size != indices.size or indptr.size != n_rows + 1:
        raise ModelFileError("csr: expected arrays of one matrix, got others")
    if indptr[0] != 0 or indptr[-1] != data.size or (np.diff(indptr) < 0).any():
        raise ModelFileError("csr: expected rising pointers to rows, got others")
    # A caller may make vectors of that length.
    if not 0 <= n_columns <= 8 * (data.nbytes + indptr.nbytes + 2**17):
        raise ModelFileError(f"csr: expected fewer columns, got {n_columns}")
    if indices.size and not (indices.min() >= 0 and indices.max() < n_columns):
        raise ModelFileError(f"csr: expected columns below {n_columns}, got others")
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, n_columns))


def _parsed(text: str, size: int) -> Any:
    """The values of a text of JSON, of a size in memory that goes with the file's."""
    n_values = sum(map(text.count, ",[{:"))
    if n_values * VALUE_BYTES > FREE_BYTES + 6 * size:
        raise ModelFileError(f"tree: expected fewer values, got {n_values}")
    return json.loads(
        text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite,
        parse_constant=_finite,
    )  # fmt: skip


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFileError("tree: expected a name once, got it twice")
    return found


def _integer(text: str) -> int:
    value = int(text)
    if value.bit_length() > MOST_BITS:
        raise ModelFileError(f"tree: expected integers of {MOST_BITS} bits, got a larger one")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ModelFileError(f"tree: expected a finite number, got {text:.20}")
    return value
