"""Exponentials of many numbers in compiled loops, several in one instruction of the processor.

`exp(-x) = 2^m exp(r)` with m the nearest integer to `-x / log 2` and `|r| <= log(2) / 2`. A
polynomial of degree 12 gives `exp(r)` to rounding, and the bits of a float64 hold m. Compilers
leave a call of the library's exponential for each number, which takes five times as long.
"""

from __future__ import annotations

import math

import numpy as np

from coupledgp.ground.compiled import FUSED, part

# Added to a number below 2^51 it leaves the nearest integer in the last bits of the sum.
ROUNDER = 1.5 * 2.0**52
# Bits of the sum for the integer zero, less the bias of the exponent of a float64.
ZERO = int(np.float64(ROUNDER).view(np.int64)) - 1023
# Largest argument: beyond it `2^m` would have no normal number.
LARGEST = 700.0
# log 2 as a sum whose first part has few bits, so that products with integers are exact.
HIGH, LOW = 0.693145751953125, 1.42860682030941723212e-6
PER_LOG2 = 1.0 / math.log(2.0)
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1.0 / math.factorial(k) for k in range(2, 13))


@part(FUSED)
def exponentials(values, n, out, bits):  # type: ignore[no-untyped-def]
    """Write `exp(-x)` of n values x >= 0 into `out`, at least exp(-700); `bits` is int64 (n,)."""
    powers = bits.view(np.float64)
    for j in range(n):
        x = -min(values[j], LARGEST)
        powers[j] = x * PER_LOG2 + ROUNDER
        m = powers[j] - ROUNDER
        r = (x - m * HIGH) - m * LOW
        high = C6 + r * (C7 + r * (C8 + r * (C9 + r * (C10 + r * (C11 + r * C12)))))
        out[j] = 1.0 + r * (1.0 + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * high)))))
    for j in range(n):
        bits[j] = (bits[j] - ZERO) << 52
    for j in range(n):
        out[j] *= powers[j]
