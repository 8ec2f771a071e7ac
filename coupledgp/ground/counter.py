"""Counter-based random numbers: a uniform is a function of (seed, node, stream, walker).

No state is carried from one draw to the next, so a walker's path is the same for any number of
threads, any chunking and any subset of nodes. The function is three rounds of the splitmix64
finaliser (Steele, Lea and Flood, 2014), one for each coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.compiled import part
from coupledgp.random import FloatArray, IntArray

UIntArray = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
STREAM = np.uint64(0xD1342543DE82EF95)
MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
ONE = np.uint64(1)
SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(12))
HALF_ULP = 2.0**-53
ULP = 2.0**-52


@part
def mix(x):  # type: ignore[no-untyped-def]
    """The splitmix64 finaliser: a bijection of 64-bit words whose every bit depends on all."""
    x = (x ^ (x >> SHIFTS[0])) * MULTIPLY_1
    x = (x ^ (x >> SHIFTS[1])) * MULTIPLY_2
    return x ^ (x >> SHIFTS[2])


@part
def node_key(seed, node):  # type: ignore[no-untyped-def]
    """The key of a node, from which the keys of its streams follow."""
    return mix(mix(seed) + (np.uint64(node) + ONE) * GOLDEN)


@part
def key_of_stream(key, stream):  # type: ignore[no-untyped-def]
    """The key of a stream of the node that has a `node_key`.

    A stream is one step of the node's walkers, or one draw of their lengths.
    """
    return mix(key ^ (np.uint64(stream) + ONE) * STREAM)


@part
def stream_key(seed, node, stream):  # type: ignore[no-untyped-def]
    """The key of a node's stream."""
    return key_of_stream(node_key(seed, node), stream)


@part
def shift_of(walker):  # type: ignore[no-untyped-def]
    """The number that a walker adds to the key of a stream."""
    return (np.uint64(walker) + ONE) * GOLDEN


@part
def as_uniform(bits):  # type: ignore[no-untyped-def]
    """A uniform in (0, 1): an odd multiple of 2^-53, so that `1 - u` is exact."""
    return np.float64(bits >> SHIFTS[3]) * ULP + HALF_ULP


@part
def uniform(key, walker):  # type: ignore[no-untyped-def]
    """The uniform of a walker in the stream of a key."""
    return as_uniform(mix(key + shift_of(walker)))


def _mix_array(x: UIntArray) -> UIntArray:
    x = (x ^ (x >> SHIFTS[0])) * MULTIPLY_1
    x = (x ^ (x >> SHIFTS[1])) * MULTIPLY_2
    return x ^ (x >> SHIFTS[2])


def counter_uniforms(seed: int, nodes: IntArray, stream: int, n_walks: int) -> FloatArray:
    """The uniforms of walkers 0..n_walks-1 of each node in one stream, shape (nodes, walkers).

    Plain numpy; the same bits as `uniform(stream_key(seed, node, stream), walker)`.
    """
    seed_key = _mix_array(np.array([seed], dtype=np.uint64))
    node_key = _mix_array(seed_key + (nodes.astype(np.uint64) + ONE) * GOLDEN)
    key = _mix_array(node_key ^ (np.array([stream], dtype=np.uint64) + ONE) * STREAM)
    walkers = (np.arange(n_walks, dtype=np.uint64) + ONE) * GOLDEN
    bits = _mix_array(key[:, None] + walkers[None, :])
    uniforms: FloatArray = (bits >> SHIFTS[3]).astype(np.float64) * ULP + HALF_ULP
    return uniforms


# Steps of walkers are streams 1, 2, ... below 2^16; their second uniforms and the draws of
# lengths start here.
SECOND_STREAMS = 2**16
LENGTH_STREAMS = 2**32


@dataclass(frozen=True)
class LengthUniforms:
    """Source of the uniforms behind the lengths of the walkers of some nodes.

    Calling it with a number k = 0, 1, ... gives the k-th independent draw, shape
    (n_nodes, n_walks), in the open interval (0, 1).
    """

    seed: int
    nodes: IntArray
    n_walks: int

    def __call__(self, draw: int) -> FloatArray:
        return counter_uniforms(self.seed, self.nodes, LENGTH_STREAMS + draw, self.n_walks)
