"""The three verdicts of a comparison, from its figures, their errors and the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coupledgp.diagnostics.residuals.reach import MANY
from coupledgp.diagnostics.verdicts.adequacy import adequacy
from coupledgp.diagnostics.verdicts.advising import advise
from coupledgp.diagnostics.verdicts.closing import closest
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.diagnostics.verdicts.quality import quality
from coupledgp.diagnostics.verdicts.rules import FEWEST
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, HONESTY, QUALITY, Advice, Verdict

if TYPE_CHECKING:
    from coupledgp.diagnostics.scoring.figures import Accuracy, Figures

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
    found = _of_reach(quality(evidence, figures.rmse), evidence)
    return found if found.colour == "grey" else _of_enough(found, evidence)


def _of_reach(one: Verdict, evidence: Evidence) -> Verdict:
    """A verdict with the rows beyond the training rows; it is not green where these are many."""
    reach = evidence.reach
    if reach is None or not reach.is_far:
        return one
    found = replace(one, sentence=f"{one.sentence} {reach.text()}")
    if one.colour != "green":
        return found
    reason = f"More than one in {MANY} test rows lies beyond the training rows. {one.reason}"
    return replace(found, colour="grey", reason=reason)


def _honesty(figures: Figures, evidence: Evidence | None) -> Verdict:
    if evidence is None or evidence.calibration is None:
        return Verdict(HONESTY, "grey", NO_TARGETS, "No targets.")
    spreads = evidence.findings_on("spread")
    found = honesty(
        evidence.calibration, figures.interval_width, spreads, evidence.shapes, evidence.counts
    )
    return _of_enough(found, evidence) if found.colour == "green" else found


def _of_enough(one: Verdict, evidence: Evidence) -> Verdict:
    """A verdict, in grey where test points are too few for standard errors, or to find a fault."""
    if not 0 < evidence.n_points < FEWEST:
        return one
    sentence = (
        f"Not judged: {evidence.n_points} test points are too few. At these "
        f"{one.sentence[:1].lower()}{one.sentence[1:]}"
    )
    reason = f"Fewer than {FEWEST} test points. {one.reason}"
    return replace(one, colour="grey", sentence=sentence, reason=reason)


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
