"""Digests of training rows, by which a model knows them again without holding them.

A row has eight bytes: six of the BLAKE2b hash of its inputs and two of that of inputs and targets,
both keyed by a salt. Nothing of a row can be computed from them, and digests of other data have
another salt, so that files cannot be matched with each other. Whoever has a file and guesses a
whole row can check the guess: that is what they are for, and rows of few possible values, such as
one category and one rounded number, can be found by trying all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

from coupledgp.gp.protocol import Arrays
from coupledgp.gp.schema import Entries
from coupledgp.random import FloatArray

# Bytes of the hash of the inputs, and of inputs and targets. Of 10^6 training rows and 10^4 test
# rows that are others, one pair or fewer in 10^4 such comparisons agrees in six bytes.
INPUT_BYTES, TARGET_BYTES = 6, 2
# Bits of a digest that belong to the targets.
TARGET_BITS = np.uint64(8 * TARGET_BYTES)
# Names of the arrays of a file.
VALUES, SALT = "row_digests", "row_salt"


@dataclass(frozen=True, eq=False)
class RowDigests:
    """Digests of the rows that a model was fitted to.

    Attributes
    ----------
    salt : bytes
        Key of the hashes, 16 bytes; itself a hash of all rows of the fit, so that the same fit
        writes the same file.
    values : NDArray of uint64 (n,)
        Sorted digests, in an order that says nothing on the order of the rows.
    """

    salt: bytes
    values: NDArray[np.uint64]

    @classmethod
    def of(
        cls, keys: NDArray[np.generic], targets: FloatArray, salt: bytes | None = None
    ) -> RowDigests:
        """Digests of rows, by a salt of their own unless one is given.

        Parameters
        ----------
        keys
            Rows (n, m) that are equal for equal inputs, as of `GaussianProcess.row_keys`.
        targets
            Targets (n, k).
        salt
            Key of the hashes, 16 bytes.
        """
        inputs, values = _bytes(keys), _bytes(targets)
        if salt is None:
            salt = blake2b(inputs.tobytes() + values.tobytes(), digest_size=16).digest()
        return cls(salt, np.sort(_digests(inputs, values, salt)))

    def joined(self, other: RowDigests) -> RowDigests:
        """These digests and others of the same salt."""
        return RowDigests(self.salt, np.sort(np.concatenate([self.values, other.values])))

    def found(
        self, keys: NDArray[np.generic], targets: FloatArray | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows have the inputs of a training row, and which its targets too; both (p,).

        Keys (p, m) and targets (p, k) are as in `of`. Without targets both are the same.
        """
        inputs = _bytes(keys)
        values = _digests(inputs, inputs[:, :0] if targets is None else _bytes(targets), self.salt)
        same_inputs = np.isin(values >> TARGET_BITS, self.values >> TARGET_BITS)
        return same_inputs, same_inputs if targets is None else np.isin(values, self.values)

    def arrays(self) -> Arrays:
        """Arrays of a file."""
        return {VALUES: self.values.view(np.int64), SALT: np.frombuffer(self.salt, dtype=np.uint8)}

    @classmethod
    def from_entries(cls, entries: Entries) -> RowDigests | None:
        """Digests of a file; None where it has none."""
        if VALUES not in entries.arrays:
            return None
        salt = entries.integers(SALT, 16, low=0, high=255, dtypes=(torch.uint8,)).numpy()
        low, high = -(2**63), 2**63 - 1
        values = entries.integers(VALUES, "digests", low=low, high=high, dtypes=(torch.int64,))
        return cls(salt.tobytes(), values.numpy().view(np.uint64))


def _bytes(rows: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Bytes (n, b) of rows (n, m) of numbers; zeros of either sign are the same."""
    numbers = np.ascontiguousarray(rows + 0)
    return numbers.view(np.uint8).reshape(len(numbers), -1)


def _digests(
    keys: NDArray[np.uint8], targets: NDArray[np.uint8], salt: bytes
) -> NDArray[np.uint64]:
    """Digests (n,) of rows whose inputs and targets are given as bytes."""
    parts = []
    for key, target in zip(keys, targets, strict=True):
        inputs = blake2b(key, digest_size=INPUT_BYTES, key=salt)
        both = blake2b(key, digest_size=TARGET_BYTES, key=salt)
        both.update(target)
        parts += [inputs.digest(), both.digest()]
    joined = np.frombuffer(b"".join(parts), dtype=">u8")
    digests: NDArray[np.uint64] = joined.astype(np.uint64)
    return digests
