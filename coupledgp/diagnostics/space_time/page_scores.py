"""Scores and terms of a model as a page tells them."""

from __future__ import annotations

from typing import Any

from coupledgp.diagnostics.space_time.record import (
    AHEAD,
    MODEL_NAME,
    HourScore,
    KindScore,
    TermShare,
)
from coupledgp.diagnostics.space_time.result import SpaceTimeEvaluation
from coupledgp.diagnostics.space_time.scoring import ALL, BY_DAY, BY_STEP, LEVEL, PART_HOURS
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic, White

# Steps ahead that a page tells besides the last.
TOLD_STEPS = (1, 3, 6, 12)
KERNEL_NAMES = {
    Constant: "constant", White: "white", Matern12: "matern-1/2", Matern32: "matern-3/2",
    Periodic: "periodic",
}  # fmt: skip


def page_scores(
    evaluation: SpaceTimeEvaluation | None,
) -> tuple[tuple[KindScore, ...], tuple[HourScore, ...]]:
    """Scores by kind of the model and its rivals, and those of the model by time of day."""
    if evaluation is None:
        return (), ()
    own = evaluation.models[0]
    table = evaluation.table()
    last = max((int(row["value"]) for row in table if row["group"] == BY_STEP), default=0)
    scores, hours = [], []
    for row in table:
        is_ahead = row["kind"] == AHEAD
        if row["group"] == BY_DAY and row["model"] == own:
            start = float(row["value"].split("-")[0])
            hours.append(HourScore(row["kind"], start, start + PART_HOURS, row["n"], row["rmse"],
                                   {LEVEL: row["coverage_95"]}))  # fmt: skip
        elif row["group"] == (BY_STEP if is_ahead else ALL):
            steps = int(row["value"]) if is_ahead else None
            if steps is None or steps in (*TOLD_STEPS, last):
                scores.append(_kind_score(row, MODEL_NAME if row["model"] == own else "", steps))
    return tuple(scores), tuple(hours)


def _kind_score(row: dict[str, Any], name: str, ahead: int | None) -> KindScore:
    return KindScore(
        row["kind"], name or row["model"], row["n"], row["rmse"], row["mae"], row["crps"],
        row["nlpd"], {LEVEL: row["coverage_95"]}, ahead, row["gain"], row["gain_error"],
        row["coverage_error"], row["ratio_error"],
    )  # fmt: skip


def term_shares(model: Any) -> tuple[TermShare, ...]:
    """Terms of the model and its noise."""
    found = []
    for one in model.terms_:
        kernel = one.kernel
        name = next(
            (text for kind, text in KERNEL_NAMES.items() if isinstance(kernel, kind)),
            type(kernel).__name__,
        )
        length = getattr(kernel, "lengthscale", getattr(kernel, "decay", None))
        found.append(
            TermShare(one.where, name, one.variance, length, getattr(kernel, "period", None))
        )
    return (*found, TermShare("noise", "white", float(model.noise_)))
