"""Generators. All draws are made by NumPy on the CPU in float64, whatever the device or dtype.

One stream for every backend keeps a seed's result the same for float32 and float64, for CPU and
GPU, and for any number of threads.
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError

if TYPE_CHECKING:
    import torch

Seed: TypeAlias = "int | np.integer | torch.Generator | np.random.Generator | None"
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

_HALF_ULP = 2.0**-53


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """The symmetric root `A = V diag(l)^1/2 V'` of covariances C (..., n, n), with `A A = C`.

    Draws `A z` hang continuously on C, so they are the same on every processor. A root of the form
    `V diag(l)^1/2` is not continuous: signs of eigenvectors, and all of those of a repeated
    eigenvalue, are decided by rounding. A singular C, where a Cholesky factor fails, has a root as
    well; eigenvalues below zero, which are rounding errors, count as zero.
    """
    values, vectors = np.linalg.eigh(covariance)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))


def as_rng(generator: Seed) -> np.random.Generator:
    """Return a NumPy generator for any accepted kind of seed.

    Parameters
    ----------
    generator
        A non-negative int is a seed (0 included). A `torch.Generator` or a
        `numpy.random.Generator` supplies randomness and is advanced. `None` takes a seed from
        torch's default generator, so that `torch.manual_seed` governs it, or from the operating
        system where torch is not imported.

    Raises
    ------
    InvalidInputError
        `generator` is of another type, or a negative int.
    """
    if isinstance(generator, np.random.Generator):
        return generator
    if isinstance(generator, (int, np.integer)) and not isinstance(generator, bool):
        if generator < 0:
            raise InvalidInputError(f"generator: expected a seed >= 0, got {generator}")
        return np.random.default_rng(int(generator))
    torch: Any = sys.modules.get("torch")
    if generator is None and torch is None:
        return np.random.default_rng()
    if torch is not None and (generator is None or isinstance(generator, torch.Generator)):
        device = "cpu" if generator is None else generator.device
        seed = torch.randint(2**63 - 1, (), generator=generator, device=device)
        return np.random.default_rng(int(seed))
    raise InvalidInputError(
        "generator: expected an int seed, a torch.Generator, a numpy.random.Generator or None, "
        f"got {type(generator).__name__}"
    )


def draw_seed(random_state: Any) -> int:
    """Draw a seed from what scikit-learn calls a random state; the same int gives the same seed.

    Parameters
    ----------
    random_state
        An int, a `numpy.random.RandomState`, a `numpy.random.Generator`, or None for NumPy's
        global state.

    Raises
    ------
    InvalidInputError
        `random_state` is something else.
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if random_state is None:
        return int(np.random.randint(2**31 - 1))  # noqa: NPY002  # the state scikit-learn shares
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    try:
        return int(np.random.RandomState(operator.index(random_state)).randint(2**31 - 1))
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"random_state: expected an int, a RandomState, a Generator or None, "
            f"got {random_state!r}"
        ) from None


def open_uniforms(rng: np.random.Generator, shape: int | tuple[int, ...]) -> FloatArray:
    """Draw uniforms in the open interval (0, 1) whose complements `1 - u` are exact.

    The values are odd multiples of 2^-53, so neither 0 nor 1 occurs (an inverse CDF stays finite)
    and `1 - u` has no rounding error (antithetic draws keep their law exactly).
    """
    return rng.integers(0, 2**52, size=shape).astype(np.float64) * 2.0**-52 + _HALF_ULP
