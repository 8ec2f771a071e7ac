"""Objects come back from files to the bit, and hostile files are refused for little memory."""

import json
import struct
import tracemalloc
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from scipy import sparse

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground import codec
from coupledgp.ground.codec import decoded, encoded, stored, stored_as
from coupledgp.random import FloatArray, IntArray
from tests.model_files import signed, signed_text


class Pair(NamedTuple):
    low: float
    high: float


@stored
@dataclass(frozen=True)
class Leaf:
    scale: FloatArray
    kind: Literal["a", "b"] = "a"
    limit: float | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self):
        if (self.scale <= 0).any():
            raise InvalidInputError("scale: expected numbers above zero, got others")


@stored
@dataclass(frozen=True)
class Branch:
    leaves: tuple[Leaf, ...]
    gaps: FloatArray = field(metadata={"finite": False}, default_factory=lambda: np.ones(1))
    nodes: IntArray = field(default_factory=lambda: np.arange(3))
    free: Any = None
    range: Pair = field(default_factory=lambda: Pair(0.0, 1.0))
    cache: Any = field(default=None, metadata={"stored": False})
    derived: float = field(init=False, default=0.0)


class Angle:
    def __init__(self, degrees):
        self.degrees = degrees


stored(Pair)
stored_as(Angle, lambda angle: f"{angle.degrees!r} degrees", lambda t: Angle(float(t.split()[0])))
LEAF = Leaf(np.array([1.0, 2.0]))


def again(value, hint=Any):
    return decoded(encoded(value), hint)


def leaf(**changes):
    own = {"scale": {"array": "0"}, "kind": "a", "limit": None, "names": {"tuple": []}}
    return {"Leaf": own | changes}


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -(2**62), 2.0, -0.0, 0.1 + 0.2, 5e-324, "Größe \U0001f600", [1, [2.0, None]],
        (1, ("a",), ()), {"a": 1, "b": {"c": (2,)}}, {1: "a", ("x", 2): "b"}, frozenset({"u", "v"}),
    ],
)  # fmt: skip
def test_plain_values_come_back_with_their_types(value):
    found = again(value)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        np.float64(0.1) * np.arange(6).reshape(2, 3), np.arange(4, dtype=np.int32), np.array(3.5),
        np.zeros((0, 4)), np.array([True, False]), np.arange(6.0).reshape(3, 2).T,
        np.array([1 + 2j, -0.5j]), np.array(["a", "longer"], dtype=object),
        np.float32(0.1) * np.ones(2, dtype=np.float32), np.arange(3, dtype=np.uint8),
    ],
)  # fmt: skip
def test_arrays_come_back_to_the_bit_and_in_their_order(array):
    found = again(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.flags.f_contiguous == array.flags.f_contiguous
    assert found.tolist() == array.tolist()
    assert found.flags.writeable


def test_tensors_matrices_and_objects_by_text_come_back():
    tensor = again(torch.arange(3.0, dtype=torch.float64))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    matrix = sparse.random_array((5, 7), density=0.4, format="csr", rng=np.random.default_rng(0))
    assert (again(matrix) != matrix).nnz == 0
    assert again(matrix).shape == (5, 7)
    assert again([Angle(0.1)])[0].degrees == 0.1


def test_dataclasses_come_back_with_what_they_share():
    other = Leaf(np.array([3.0]), "b", 0.5, ("x", "y"))
    branch = Branch((LEAF, other, LEAF), np.array([np.nan, np.inf]), free={"k": LEAF}, cache=other)
    object.__setattr__(branch, "derived", 7.0)
    found = again(branch, Branch)
    assert found.leaves[0] is found.leaves[2] is found.free["k"]
    assert found.leaves[1].names == ("x", "y")
    assert found.leaves[1].limit == 0.5
    assert np.isnan(found.gaps[0])
    assert np.isinf(found.gaps[1])
    assert found.cache is None
    assert found.derived == 0.0
    assert found.range == Pair(0.0, 1.0)


def test_equal_arrays_are_written_once():
    large = np.arange(1000.0)
    assert len(encoded([large, large.copy()])) < 1.2 * large.nbytes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "model: expected a value that a file can hold"),
        ({"a": {"b": lambda: 0}}, "^b: expected a value"),
        (Branch((LEAF,), free=Exception("x")), "free: expected a value"),
    ],
)
def test_what_has_no_form_is_refused_when_it_is_written(value, message):
    with pytest.raises(InvalidInputError, match=message):
        encoded(value)


def test_names_are_taken_once():
    other = dataclass(type("Leaf", (), {"__module__": "elsewhere"}))
    for taken in (other, type("dict", (), {}), type("Angle", (), {"__module__": "elsewhere"})):
        with pytest.raises(InvalidInputError, match="name of its own"):
            stored(taken)


ONE = np.ones(1)
HOSTILE = {
    "a class that is not known": ({"os.system": "true"}, {}, "class that is known"),
    "two classes": ({"Leaf": {}, "Branch": {}}, {}, "one class"),
    "no fields": ({"Leaf": {}}, {}, "Leaf: expected scale"),
    "a further field": (leaf(more=1), {"0": ONE}, "Leaf: expected scale.*more"),
    "a text for an array": (leaf(scale="x"), {"0": ONE}, r"Leaf\.scale: expected"),
    "an array of other numbers": (leaf(), {"0": np.ones(1, dtype=np.int64)}, r"Leaf\.scale"),
    "a choice that is none": (leaf(kind="c"), {"0": ONE}, r"Leaf\.kind"),
    "a truth value for a number": (leaf(limit=True), {"0": ONE}, r"Leaf\.limit"),
    "a list for a tuple": (leaf(names=["a"]), {"0": ONE}, r"Leaf\.names"),
    "a number for a text": (leaf(names={"tuple": [1]}), {"0": ONE}, r"Leaf\.names"),
    "out of range": (leaf(), {"0": -ONE}, "above zero"),
    "NaN": (leaf(), {"0": np.nan * ONE}, "finite"),
    "an infinity": (leaf(), {"0": np.array([1.0, np.inf])}, "finite"),
    "a float that is none": (leaf(limit={"float": "inf"}), {"0": ONE}, "finite"),
    "no such array": (leaf(scale={"array": "9"}), {"0": ONE}, "name of an array"),
    "an array's name that is none": (leaf(scale={"array": 0}), {"0": ONE}, "name of an array"),
    "the tree as an array": ({"array": "tree"}, {}, "name of an array"),
    "an object before it is made": ({"same": 0}, {}, "number of an object"),
    "another object": ([leaf(), leaf(scale={"same": 0})], {"0": ONE}, r"Leaf\.scale"),
    "no pairs": ({"complex": {"array": "0"}}, {"0": np.ones(3)}, "pairs"),
    "a tensor of texts": ({"tensor": "a"}, {}, "expected an array"),
    "a text form that is a number": ({"Angle": 3}, {}, "Angle: expected str"),
    "a text form that is wrong": ({"Angle": "x"}, {}, "could not convert"),
    "a long text form": ({"Angle": "1" * 2**17}, {}, "shorter"),
    "keys that are lists": ({"pairs": [[[], 1]]}, {}, "unhashable"),
    "pairs of one": ({"pairs": [[1]]}, {}, "length 1"),
    "a set of lists": ({"frozenset": [[]]}, {}, "unhashable"),
    "a dict of a list": ({"dict": []}, {}, "expected a dict"),
    "a matrix of no arrays": ({"csr": [1, 2, 3, [4, 4]]}, {}, "csr"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_trees_are_refused_with_a_sentence(name):
    tree, arrays, message = HOSTILE[name]
    with pytest.raises(ModelFileError, match=message) as caught:
        decoded(signed(tree, arrays))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format":"coupledgp","format":"coupledgp","version":3,"value":1}', "twice"),
        ('{"format":"coupledgp","version":4,"value":1}', "format version 3, got 4"),
        ('{"format":"other","version":3,"value":1}', "another kind"),
        ('{"format":"coupledgp","version":3,"value":NaN}', "finite"),
        ('{"format":"coupledgp","version":3,"value":1e999}', "finite"),
        (f'{{"format":"coupledgp","version":3,"value":{2**70}}}', "64 bits"),
        (f'{{"format":"coupledgp","version":3,"value":{"9" * 5000}}}', "limit"),
        ('{"format":"coupledgp","version":3,"value":"ä"}', "ascii"),
        ("[" * 10**5, "recursion"),
        ('{"format":"coupledgp","version":3,"value":' + "[" * 90 + "]" * 90 + "}", "levels"),
        ("[]", "another kind"),
        ("no JSON", "Expecting value"),
    ],
)  # fmt: skip
def test_hostile_texts_are_refused(text, message):
    with pytest.raises(ModelFileError, match=message):
        decoded(signed_text(text, {}))


@pytest.mark.parametrize(
    ("parts", "shape"),
    [
        ((np.ones(2), np.array([0, 5]), np.array([0, 1, 2])), [2, 3]),
        ((np.ones(2), np.array([0, -1]), np.array([0, 1, 2])), [2, 3]),
        ((np.ones(2), np.array([0, 1]), np.array([0, 2, 1])), [2, 3]),
        ((np.ones(2), np.array([0, 1]), np.array([0, 1, 3])), [2, 3]),
        ((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), [2, 2**60]),
        ((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), [2**60, 3]),
        ((np.ones(2), np.array([0.0, 1.0]), np.array([0, 1, 2])), [2, 3]),
    ],
)
def test_matrices_that_are_none_are_refused(parts, shape):
    arrays = {str(k): part for k, part in enumerate(parts)}
    with pytest.raises(ModelFileError, match="csr"):
        decoded(signed({"csr": [*({"array": name} for name in arrays), shape]}, arrays))


def described(**arrays):
    """Bytes of a file that describes arrays and holds 64 bytes."""
    top = json.dumps(arrays).encode()
    return struct.pack("<Q", len(top)) + top + bytes(64)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00" * 8, b"\xff" * 16, struct.pack("<Q", 2**62) + b"{}", b"PK\x03\x04" * 9,
        described(a={"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 64]}),
        described(a={"dtype": "F64", "shape": [2**62], "data_offsets": [0, 64]}),
        described(a={"dtype": "F64", "shape": [0, 2**40], "data_offsets": [0, 0]},
                  b={"dtype": "U8", "shape": [64], "data_offsets": [0, 64]}),
        described(a={"dtype": "F64", "shape": [8], "data_offsets": [0, 2**63]}),
        described(a={"dtype": "F64", "shape": [-1], "data_offsets": [0, 64]}),
        described(a={"dtype": "V9", "shape": [64], "data_offsets": [0, 64]}),
        described(a={"dtype": "U8", "shape": [1] * 60 + [64], "data_offsets": [0, 64]}),
        described(a={"dtype": "U8", "shape": [64], "data_offsets": [0, 64]}),
    ],
)  # fmt: skip
def test_files_of_other_kinds_are_refused(content):
    with pytest.raises(ModelFileError):
        decoded(content)


def test_damage_shows():
    content = bytearray(encoded(LEAF))
    content[-1] ^= 1
    with pytest.raises(ModelFileError, match="damaged"):
        decoded(bytes(content))
    for stop in range(0, len(content), 97):
        with pytest.raises(ModelFileError):
            decoded(bytes(content[:stop]))


COSTLY = {
    "empty lists": ("[" + "[]," * 10**6 + "[]]", {}),
    "objects": ('[{"Leaf":{}}' + ',{"Leaf":{}}' * 10**6 + "]", {}),
    "one array as many": (
        '[{"complex":{"array":"0"}}' + ',{"complex":{"array":"0"}}' * 1000 + "]",
        {"0": np.ones((10**5, 2))},
    ),
    "wide text": ('"' + "a" * 4 * 10**6 + '\\ud83d\\ude00"', {}),
}


@pytest.mark.parametrize("name", COSTLY)
def test_a_file_costs_at_most_ten_times_its_size(name):
    tree, arrays = COSTLY[name]
    content = signed_text(f'{{"format":"coupledgp","version":3,"value":{tree}}}', arrays)
    tracemalloc.start()
    try:
        decoded(content)
    except ModelFileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 10 * len(content) + codec.FREE_BYTES
