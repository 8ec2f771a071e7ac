"""The three verdicts of a comparison, from its figures, their errors and the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coupledgp.diagnostics.verdicts.adequacy import adequacy
from coupledgp.diagnostics.verdicts.advising import advise
from coupledgp.diagnostics.verdicts.closing import closest
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.diagnostics.verdicts.quality import quality
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, HONESTY, QUALITY, Advice, Verdict

if TYPE_CHECKING:
    from coupledgp.diagnostics.figures import Accuracy, Figures

NO_TARGETS = "Not judged: there are no targets to judge it by."


def judged(
    figures: Figures, accuracy: Accuracy, evidence: Evidence | None
) -> tuple[Verdict, Verdict, Verdict]:
    """Whether the model is good, its intervals are honest, and the approximation is close."""
    return (_quality(figures, evidence), _honesty(figures, evidence),
            _adequacy(figures, accuracy, evidence))  # fmt: skip


def _quality(figures: Figures, evidence: Evidence | None) -> Verdict:
    if evidence is None:
        return Verdict(QUALITY, "grey", NO_TARGETS, "No targets.")
    return quality(evidence, figures.rmse)


def _honesty(figures: Figures, evidence: Evidence | None) -> Verdict:
    if evidence is None or evidence.calibration is None:
        return Verdict(HONESTY, "grey", NO_TARGETS, "No targets.")
    widths = figures.interval_width or {}
    return honesty(evidence.calibration, widths[max(widths)] if widths else None)


def _adequacy(figures: Figures, accuracy: Accuracy, evidence: Evidence | None) -> Verdict:
    kl = figures.kl_per_point
    if kl is None:
        return Verdict(
            ADEQUACY, "grey", "Not judged: no kernel is stated, so that there is no exact process.",
            "No reference.",
        )  # fmt: skip
    errors = (*accuracy.bounds.get("kl_per_point", (0.0, 0.0)),
              accuracy.standard_errors.get("kl_per_point", 0.0))  # fmt: skip
    cost, closer = None, ""
    if evidence is not None:
        cost, closer = evidence.cost, closest(evidence.closings, kl)
    member = evidence is not None and evidence.beside_a_member
    return adequacy(kl, errors, accuracy.text("kl_per_point"), cost, closer, member)


def advised(figures: Figures, evidence: Evidence | None) -> tuple[Advice, ...]:
    """What to do next, the greatest gain first; nothing without targets."""
    return () if evidence is None else advise(evidence, figures.rmse, figures.nlpd)
