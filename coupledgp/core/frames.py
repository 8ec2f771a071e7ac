"""Predictive laws as data frames of pandas, with the names of their points as index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.random import FloatArray

if TYPE_CHECKING:
    import pandas as pd

LAW_COLUMNS = ("mean", "std", "lower", "upper")


def law_frame(
    mean: FloatArray,
    std: FloatArray,
    ends: FloatArray,
    index: Any,
    outputs: Sequence[str] = (),
) -> pd.DataFrame:
    """Return laws of p points as a frame.

    Parameters
    ----------
    mean, std, ends
        Shapes (p,) and (p, 2), or (p, k) and (p, k, 2) for k outputs.
    index
        Index of pandas; or the levels of one, of p names each, by their own names; None: numbers.
    outputs
        Names (k,) of the outputs; empty: numbers.
    """
    import pandas as pd  # slow to import

    parts = np.stack([mean, std, ends[..., 0], ends[..., 1]], axis=-1)
    columns = pd.Index(LAW_COLUMNS)
    if parts.ndim == 3:
        own = outputs if len(outputs) == parts.shape[1] else range(parts.shape[1])
        columns = pd.MultiIndex.from_product([own, LAW_COLUMNS], names=["output", "law"])
    frame = pd.DataFrame(parts.reshape(len(parts), -1), columns=columns)
    if isinstance(index, dict):
        levels = [pd.Index(one, tupleize_cols=False) for one in index.values()]
        index = pd.MultiIndex.from_arrays(levels, names=list(index))
        index = index if index.nlevels > 1 else levels[0].rename(index.names[0])
    return frame if index is None else frame.set_axis(index)
