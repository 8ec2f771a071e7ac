"""What the targets say of an audited law: baselines, calibration, residuals of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.rivals.tables import table_baselines
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import (
    MAX_JUDGED,
    MIN_NEIGHBOURS,
    correlations,
    gather,
)
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    residual_correlation_of,
)
from coupledgp.errors import NumericalError
from coupledgp.gp.columns import column_spread
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.random import FloatArray


def evidence_of(
    law: ForeignLaw,
    train: ForeignTable,
    test: ForeignTable,
    metadata: Mapping[str, Any],
    joint: Law | None,
    inputs: FloatArray | None = None,
) -> Evidence:
    """What the targets say of a law.

    `metadata` are columns that the model does not see. `joint` is a law that knows how errors of
    points go together, if any does. `inputs` are the rows in the metric of the kernel, and None in
    unit variances.
    """
    own, y = law.law, test.y[:, None]
    baselines = table_baselines(train.X, train.y, test.X)
    given: dict[str, Any] = {
        "n_train": len(train.y), "metadata": metadata, "inputs": test.X, "names": test.names
    }  # fmt: skip
    if joint is None:
        return gather(y, own, baselines, is_joint=False, **given)
    shared = correlations(joint.cov)
    found = gather(y, own, baselines, correlation=shared, **given)
    if inputs is None:
        inputs = in_lengthscales(test.X, column_spread(train.X, True), test.X)
    std = own.std
    together = replace(own, cov=shared * std[:, None] * std[None])
    return replace(found, misfit=_misfit(together, y, inputs))


def _misfit(law: Law, y: FloatArray, inputs: FloatArray) -> ResidualCorrelation | None:
    """Correlation of the residuals of nearest rows (p, d), at most `MAX_JUDGED` of them."""
    rows = np.random.default_rng(0).permutation(len(y))[:MAX_JUDGED]
    if rows.size < MIN_NEIGHBOURS:
        return None
    places = inputs[rows]
    _, near = cKDTree(places).query(places, k=2)
    # A row that has equal ones may find itself second.
    own = np.arange(rows.size)
    other = np.where(near[:, 1] == own, near[:, 0], near[:, 1])
    try:
        return residual_correlation_of(law.take(rows), y[rows], other)
    except NumericalError:
        return None
