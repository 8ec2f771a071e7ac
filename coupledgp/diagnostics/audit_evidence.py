"""What the targets say of an audited law: baselines, calibration, residuals of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.residuals.reach import Reach
from coupledgp.diagnostics.rivals.tables import left_out_baselines, table_baselines
from coupledgp.diagnostics.scoring.calibration import EDGE
from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
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
    exchanged_correlation,
    residual_correlation_of,
)
from coupledgp.errors import NumericalError
from coupledgp.gp.columns import column_spread
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.random import FloatArray

# Parts of the test rows whose baselines are fitted to the other parts, without training rows.
FOLDS = 10
ALONE = (
    "No training rows are given, so that there is no exact process beside it. Rivals predict each "
    "tenth of the test rows from the others, which are their training rows."
)


def evidence_of(
    law: ForeignLaw,
    train: ForeignTable | None,
    test: ForeignTable,
    metadata: Mapping[str, Any],
    joint: Law | None,
    inputs: FloatArray | None = None,
    fitted: bool = False,
) -> Evidence:
    """What the targets say of a law.

    `metadata` are columns that the model does not see. `joint` is a law that knows how errors of
    points go together, if any does. `inputs` are the rows in the metric of the kernel, and None in
    unit variances. Without training rows the baselines of each part of the test rows are fitted to
    the others. The scale of a law that is `fitted` to the training rows is known up to an
    error only. Predictions are judged as they are stated.
    """
    own, y = law.law, test.y[:, None]
    known = test if train is None else train
    if train is None:
        baselines = left_out_baselines(test.X, test.y, FOLDS)
        reach = None
    else:
        baselines = table_baselines(train.X, train.y, test.X)
        reach = Reach.of(train.X, test.X, y - own.mean, test.names, own.std)
    n_train = None if train is None or not fitted else len(train.y)
    given: dict[str, Any] = {
        "mixture": law.own, "n_train": n_train, "metadata": metadata, "inputs": test.X,
        "names": test.names,
    }  # fmt: skip
    if joint is None:
        return replace(gather(y, own, baselines, is_joint=False, **given), reach=reach)
    shared = correlations(joint.cov)
    found = gather(
        y, own, baselines, correlation=shared, whiten=law.cov is not None, **given
    )  # fmt: skip
    if inputs is None:
        inputs = in_lengthscales(test.X, column_spread(known.X, True), test.X)
    return replace(found, misfit=_misfit(law, y, shared, inputs), reach=reach)


def _misfit(
    law: ForeignLaw, y: FloatArray, shared: FloatArray, inputs: FloatArray
) -> ResidualCorrelation | None:
    """Correlation of the residuals of nearest rows (p, d), at most `MAX_JUDGED` of them.

    Residuals of laws that are not normal are their normal scores.
    """
    rows = np.random.default_rng(0).permutation(len(y))[:MAX_JUDGED]
    if rows.size < MIN_NEIGHBOURS or not inputs.shape[1]:
        return None
    places = inputs[rows]
    _, near = cKDTree(places).query(places, k=2)
    # A row that has equal ones may find itself second.
    own = np.arange(rows.size)
    other = np.where(near[:, 1] == own, near[:, 0], near[:, 1])
    if isinstance(law.own, DrawnLaws):
        return exchanged_correlation(law.own.take(rows).scores_with(y[rows])[..., 0], other)
    std = law.law.std
    together = replace(law.law, cov=shared * std[:, None] * std[None])
    if law.own is not None:
        together = replace(law.law, mean=np.zeros_like(std), cov=shared)
        y = ndtri(np.clip(law.own.transforms(y), EDGE, 1 - EDGE))
    try:
        return residual_correlation_of(together.take(rows), y[rows], other)
    except NumericalError:
        return None
