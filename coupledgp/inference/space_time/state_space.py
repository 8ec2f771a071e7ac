"""The sum of several kernels of time as one Markov process on a time axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.kernels.time import TimeKernel
from coupledgp.random import FloatArray, symmetric_root

# Steps of an axis that differ by less are one step: relative, and in ulps of its largest time.
SAME_STEP, SAME_ULPS = 1e-9, 8.0


@dataclass(frozen=True, eq=False)
class StateSpace:
    """States of all kernels one below another, of variance one each, on an axis of n times.

    Matrices of states are block diagonal and kept as their 2w + 1 middle diagonals: entry (o, k) is
    that of row k and column `k + o - w`. d states; K distinct steps.

    Attributes
    ----------
    outputs : FloatArray (n_kernels, d)
        h of each kernel; zero at the states of the others.
    stationary : FloatArray (2w + 1, d)
        P of the states.
    steps : IntArray (n,)
        Number of the step that leads from each time to the next; of the last time 0.
    transitions, innovations : FloatArray (K, 2w + 1, d)
        A and Q of each distinct step.
    """

    outputs: FloatArray
    stationary: FloatArray
    steps: NDArray[np.int64]
    transitions: FloatArray
    innovations: FloatArray

    @property
    def n_states(self) -> int:
        """Number d of the states."""
        return self.outputs.shape[1]

    def stationary_times(self, vectors: FloatArray) -> FloatArray:
        """Return `P h` of vectors h (d, k)."""
        width = self.stationary.shape[0] // 2
        padded = np.pad(vectors, ((width, width), (0, 0)))
        shifted = [padded[o : o + self.n_states] for o in range(2 * width + 1)]
        return np.asarray(
            sum(d[:, None] * v for d, v in zip(self.stationary, shifted, strict=True))
        )

    def roots(self) -> tuple[FloatArray, FloatArray]:
        """Matrices R with `R R'` = P, (1, 2w + 1, d), and with `R R'` = Q, (K, 2w + 1, d)."""
        return _roots(self.stationary[None]), _roots(self.innovations)


def state_space(kernels: list[TimeKernel], times: FloatArray) -> StateSpace:
    """Return the process of several kernels on an axis (n,) of rising times."""
    sizes = [kernel.output.size for kernel in kernels]
    width = max([size - 1 for size in map(_block_size, kernels)], default=0)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n_states = int(starts[-1])
    lengths, steps = distinct_steps(times)
    outputs = np.zeros((len(kernels), n_states))
    stationary = np.zeros((1, 2 * width + 1, n_states))
    transitions = np.zeros((lengths.size, 2 * width + 1, n_states))
    innovations = np.zeros_like(transitions)
    for c, (kernel, first) in enumerate(zip(kernels, starts[:-1].tolist(), strict=True)):
        outputs[c, first : first + kernel.output.size] = kernel.output
        _put(stationary, kernel.stationary[None], first, width)
        _put(transitions, kernel.transition(lengths), first, width)
        _put(innovations, kernel.innovation(lengths), first, width)
    return StateSpace(outputs, stationary[0], steps, transitions, innovations)


def distinct_steps(times: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the distinct steps (K,), K > 0, of an axis, and the number of each time's step (n,).

    Steps that differ by rounding are one, of their mean length, so that the length of the axis is
    kept.
    """
    if times.size < 2:
        return np.ones(1), np.zeros(times.size, dtype=np.int64)
    found = np.diff(times)
    order = np.argsort(found, kind="stable")
    ascending = found[order]
    rounding = SAME_ULPS * np.finfo(float).eps * np.abs(times).max()
    is_new = np.diff(ascending) > SAME_STEP * ascending[:-1] + rounding
    label = np.concatenate([[0], np.cumsum(is_new)])
    lengths = np.bincount(label, ascending) / np.bincount(label)
    steps = np.zeros(times.size, dtype=np.int64)
    steps[order] = label
    return lengths, steps


def _block_size(kernel: TimeKernel) -> int:
    """Size of the largest block on the diagonal of a kernel's matrices of states."""
    links = np.abs(kernel.transition(np.array([0.1, 1.0, 3.7]))).sum(axis=0)
    links = links + np.abs(kernel.stationary)
    rows, columns = np.nonzero(links)
    return int(np.abs(rows - columns).max(initial=0)) + 1


def _put(banded: FloatArray, dense: FloatArray, first: int, width: int) -> None:
    """Write blocks (K, d, d) into diagonals (K, 2w + 1, d), from state `first` on."""
    size = dense.shape[-1]
    for offset in range(max(-width, 1 - size), min(width, size - 1) + 1):
        diagonal = np.diagonal(dense, offset, -2, -1)
        start = first + max(-offset, 0)
        banded[:, offset + width, start : start + diagonal.shape[-1]] = diagonal


def _roots(banded: FloatArray) -> FloatArray:
    """Return the diagonals of R, `R R'` being covariances given by diagonals (K, 2w + 1, d).

    The covariance is scaled to a diagonal of ones first, so that small and large variances beside
    each other both keep their digits; negative eigenvalues, which are rounding, count as zero.
    """
    width = banded.shape[1] // 2
    roots = np.zeros_like(banded)
    for rows in _components(banded, width):
        block = np.zeros((banded.shape[0], rows.size, rows.size))
        for a, row in enumerate(rows):
            for b, column in enumerate(rows):
                block[:, a, b] = banded[:, column - row + width, row]
        scale = np.sqrt(np.maximum(np.diagonal(block, 0, 1, 2), np.finfo(float).tiny))
        root = symmetric_root(block / scale[:, :, None] / scale[:, None, :])
        _put(roots, scale[:, :, None] * root, int(rows[0]), width)
    return roots


def _components(banded: FloatArray, width: int) -> list[NDArray[np.int64]]:
    """Runs of states that are linked by a nonzero entry."""
    n_states = banded.shape[2]
    linked = np.zeros(max(n_states - 1, 0), dtype=bool)
    for offset in range(1, width + 1):
        for row in np.flatnonzero(np.abs(banded[:, width + offset]).max(axis=0)):
            linked[row : row + offset] = True
    return np.split(np.arange(n_states), np.flatnonzero(~linked) + 1)
