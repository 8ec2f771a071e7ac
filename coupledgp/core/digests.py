"""Digests of training rows, by which a model recognises these rows without storing their values.

A row has eight bytes: six of the BLAKE2b hash of its inputs and two of that of inputs and targets,
both keyed by a salt, itself a hash of all rows. Nothing can be computed from them, but guesses can
be tested, by whoever has the file:

* inputs of a row: a wrong guess passes with probability n / 2^48;
* a target of known inputs: a wrong guess passes with probability 1 / 65536, so that of a list of
  65536 possible targets all but the right one and about one more are excluded;
* anything, if all other rows are known: the salt confirms a right guess of all rows, as does a fit
  of the same model to these rows, whose numbers are in the file anyway.

Digests of inputs alone, whose salt is a hash of the inputs, say nothing on targets. Rows of few
possible values, such as one category and one rounded number, are found by trying all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray

INPUT_BYTES, TARGET_BYTES = 6, 2
TARGET_BITS = np.uint64(8 * TARGET_BYTES)
SALT_BYTES = 16


@stored
@dataclass(frozen=True, eq=False)
class RowDigests:
    """Digests of the rows that a model was fitted to.

    Attributes
    ----------
    salt : bytes
        Key of the hashes, 16 bytes; itself a hash of all rows of the fit, so that the same fit
        writes the same file.
    values : NDArray of uint64 (n,)
        Sorted digests, in an order that says nothing on the order of the rows; the last two bytes
        are zero in those of inputs alone.
    with_targets : bool
        Whether they are digests of targets too.
    """

    salt: bytes
    values: NDArray[np.uint64]
    with_targets: bool = True

    @classmethod
    def of(
        cls,
        keys: NDArray[np.generic],
        targets: FloatArray | None,
        salt: bytes | None = None,
    ) -> RowDigests:
        """Digests of rows, by the given salt or by one made from the rows.

        Parameters
        ----------
        keys
            Rows (n, m) that are equal for equal inputs, as of `GaussianProcess.row_keys`.
        targets
            Targets (n, k); None for digests of inputs alone.
        salt
            Key of the hashes, 16 bytes.
        """
        inputs = _bytes(keys)
        values = inputs[:, :0] if targets is None else _bytes(targets)
        if salt is None:
            salt = blake2b(inputs.tobytes() + values.tobytes(), digest_size=SALT_BYTES).digest()
        whole, found = targets is not None, np.sort(_digests(inputs, values, salt))
        return cls(salt, found if whole else _of_inputs(found), whole)

    @property
    def of_inputs(self) -> RowDigests:
        """Digests of the inputs alone, under the salt that these have: a hash of targets too."""
        return RowDigests(self.salt, _of_inputs(self.values), False)

    def joined(self, other: RowDigests) -> RowDigests:
        """These digests and others of the same salt; of inputs alone if either has no targets."""
        if not (self.with_targets and other.with_targets):
            both = np.concatenate([_of_inputs(self.values), _of_inputs(other.values)])
            return RowDigests(self.salt, np.sort(both), False)
        return RowDigests(self.salt, np.sort(np.concatenate([self.values, other.values])))

    def found(
        self, keys: NDArray[np.generic], targets: FloatArray | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows (p,) have the inputs of a training row, and which (p,) its targets, too.

        Keys (p, m) and targets (p, k) are as in `of`. Without targets, and by digests of inputs
        alone, both are the same.
        """
        targets = targets if self.with_targets else None
        inputs = _bytes(keys)
        values = _digests(inputs, inputs[:, :0] if targets is None else _bytes(targets), self.salt)
        same_inputs = np.isin(values >> TARGET_BITS, self.values >> TARGET_BITS)
        return same_inputs, same_inputs if targets is None else np.isin(values, self.values)

    def read_back(self) -> RowDigests:
        """The digests, of a file, which have a salt of the usual length."""
        if len(self.salt) != SALT_BYTES:
            raise ModelFileError(f"salt: expected {SALT_BYTES} bytes, got {len(self.salt)}")
        return self


def _of_inputs(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Digests (n,) without the bytes of targets."""
    return values >> TARGET_BITS << TARGET_BITS


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
