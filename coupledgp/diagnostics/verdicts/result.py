"""Results of a comparison of two predictive laws as plain data, with a verdict in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from coupledgp.diagnostics.residuals.shapes import MANY
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.divergences import KernelErrors
from coupledgp.diagnostics.scoring.figures import Accuracy, Alternative, Figures, Predictions
from coupledgp.diagnostics.scoring.overlap import Overlap
from coupledgp.diagnostics.verdicts.adequacy import SAME, adequacy
from coupledgp.diagnostics.verdicts.advising import advise
from coupledgp.diagnostics.verdicts.closing import closest
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.diagnostics.verdicts.quality import (
    as_alternative,
    linear_badge,
    name_of,
    quality,
)
from coupledgp.diagnostics.verdicts.verdict import (
    ADEQUACY,
    FEWEST,
    HONESTY,
    QUALITY,
    Advice,
    Verdict,
)
from coupledgp.ground.visible import name_of_targets

NO_TARGETS = "Not judged: there are no targets to judge it by."
EQUAL = "Column `{}` equals y but for rounding: leave it out if new rows do not have it."
# Predictions that anybody could make.
NAIVE = ("mean", "nearest")


def _figure(name: str) -> Any:
    """An attribute that is a figure."""
    return property(lambda report: report.figures.get(name), doc=f"Figure `{name}`.")


@dataclass(frozen=True)
class ComparisonResult:
    """Figures of a comparison, also as attributes: `report.kl_per_point`; see `Figures`.

    `PosteriorReport` lists its attributes.
    """

    figures: Figures
    predictions: Predictions = field(repr=False)
    model: str
    reference: str | None
    accuracy: Accuracy = field(default_factory=lambda: Accuracy("dense"))
    kernel_errors: KernelErrors | None = field(default=None, repr=False)
    remarks: tuple[str, ...] = ()
    overlap: Overlap | None = None
    # The evidence, or what gathers it when it is first read: most of a comparison's time.
    gather: Evidence | Callable[[], Evidence | None] | None = field(default=None, repr=False)
    # The reader's name of y.
    target: str = field(default="y", kw_only=True)
    # What the points of the figures are, in words.
    points_are: ClassVar[str] = "test points"
    # Headings of scores beside a reference, and without one.
    beside_title: ClassVar[str] = "Beside the reference"
    alone_title: ClassVar[str] = "Scores"
    # Whether divergences are those of joint laws of observations.
    joint_distance: ClassVar[bool] = True
    # What the root mean squared error and the NLPD are called.
    rmse_is: ClassVar[str] = "RMSE"
    nlpd_is: ClassVar[str] = "NLPD"

    n_test = _figure("n_test")
    n_outputs = _figure("n_outputs")
    n_scored = _figure("n_scored")
    kl_per_point = _figure("kl_per_point")
    reverse_kl_per_point = _figure("reverse_kl_per_point")
    prior_kl_per_point = _figure("prior_kl_per_point")
    kernel_rmse = _figure("kernel_rmse")
    kernel_relative_error = _figure("kernel_relative_error")
    rmse = _figure("rmse")
    reference_rmse = _figure("reference_rmse")
    nlpd = _figure("nlpd")
    reference_nlpd = _figure("reference_nlpd")
    nlpd_joint = _figure("nlpd_joint")
    reference_nlpd_joint = _figure("reference_nlpd_joint")
    coverage = _figure("coverage")
    reference_coverage = _figure("reference_coverage")
    mae = _figure("mae")
    reference_mae = _figure("reference_mae")
    crps = _figure("crps")
    reference_crps = _figure("reference_crps")
    sharpness = _figure("sharpness")
    reference_sharpness = _figure("reference_sharpness")
    interval_width = _figure("interval_width")
    reference_interval_width = _figure("reference_interval_width")
    pit = _figure("pit")
    reference_pit = _figure("reference_pit")
    standard_errors = _figure("standard_errors")
    reference_standard_errors = _figure("reference_standard_errors")
    differences = _figure("differences")

    def __getstate__(self) -> dict[str, Any]:
        """Everything, with the evidence gathered."""
        return vars(self) | {"gather": self.evidence}

    @cached_property
    def evidence(self) -> Evidence | None:
        """What the verdicts are based on; None without targets."""
        return self.gather() if callable(self.gather) else self.gather

    def changed(self, **changes: Any) -> Self:
        """The same result with other values of some attributes, evidence still to be gathered."""
        return replace(self, gather=vars(self).get("evidence", self.gather), **changes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a reader should see before any figure."""
        known = () if self.overlap is None else self.overlap.warnings
        equal = () if self.evidence is None else self.evidence.equal
        return (*known, *(EQUAL.format(name) for name in equal))

    @property
    def has_other_reference(self) -> bool:
        """Whether there is a reference from which the model differs by more than rounding.

        An exact model is its own reference: it has no distance from it.
        """
        kl = self.figures.kl_per_point
        if kl is None:
            return False
        bounds = self.accuracy.bounds.get("kl_per_point", (0.0, 0.0))
        return kl + bounds[1] >= SAME

    @property
    def has_others(self) -> bool:
        """Whether there is anything else to pick: baselines, a reference."""
        scored = self.has_other_reference and bool(self.figures.differences)
        return bool(self.baselines or scored)

    @property
    def scores_title(self) -> str:
        """Heading of the scores."""
        return self.beside_title if self.has_other_reference else self.alone_title

    @property
    def baselines(self) -> tuple[BesideBaseline, ...]:
        """Simple predictions, and the paired differences of the model from them."""
        return () if self.evidence is None else self.evidence.baselines

    @property
    def calibration(self) -> Calibration | None:
        """Coverage with its chance, and a test of the transforms; None without targets."""
        return None if self.evidence is None else self.evidence.calibration

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Answers to the three questions: quality, honesty, adequacy.

        Where more than one in twenty of the scored rows are training rows, the first two are not
        judged: the model has seen the answers.
        """
        found = tuple(one.named(self.target) for one in self._judged())
        if not self._is_known:
            return found
        return tuple(one if one.question == ADEQUACY else self._of_known(one) for one in found)

    def _judged(self) -> tuple[Verdict, Verdict, Verdict]:
        """The three verdicts, whether or not the model has seen the answers."""
        return judged(self.figures, self.accuracy, self.evidence)

    @property
    def _is_known(self) -> bool:
        return self.overlap is not None and self.overlap.is_large

    def _of_known(self, one: Verdict) -> Verdict:
        """A verdict in grey, since the model was fitted to many of the scored rows."""
        assert self.overlap is not None
        if not one.is_given:
            return one
        sentence = (
            f"Not judged: {self.overlap.n_rows} of {self.overlap.n_test} test rows are training "
            "rows, which leave_out_overlap=True or --leave-out-overlap leaves out."
        )
        reason = "More than one in twenty test rows are training rows."
        return Verdict(one.question, "grey", sentence, reason)

    @property
    def badges(self) -> tuple[Verdict, ...]:
        """Whether it is better than a linear model, where there is one at rows that are new."""
        if self.evidence is None or self._is_known:
            return ()
        found = linear_badge(self.evidence, self.figures.rmse)
        return () if found is None else (found.named(self.target),)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to do next, the greatest gain first; nothing where gains are those at known rows."""
        return () if self._is_known else advised(self.figures, self.evidence)

    def with_overlap(self, overlap: Overlap) -> Self:
        """The same result, and what is known of test rows that are training rows."""
        return self.changed(overlap=overlap, remarks=(*self.remarks, *overlap.remarks))

    def with_target(self, y: Any, model: Any = None) -> Self:
        """The same result with a name of the targets, of a column y of pandas or of a fit."""
        name = name_of_targets(y, getattr(model, "target_names_", ()))
        return self.changed(target=name) if name and self.target == "y" else self

    def verdict(self) -> str:
        """Return the warnings, the three verdicts, and the first thing to do next, in words.

        Where no verdict could be given it says why of each.
        """
        found = self.conclusions() or [one.text() for one in self.verdicts]
        return " ".join([*self.warnings, *found])

    @property
    def headline(self) -> str:
        """How far predictions are typically off, beside naive ones and the best other way."""
        own, naive = self.figures.rmse, [one for one in self.baselines if one.name in NAIVE]
        if own is None or not naive or self.rmse_is != "RMSE":
            return ""
        least, best = min(naive, key=lambda one: one.rmse), self._best_rival()
        other = (
            "" if best.name == name_of(least) else f", the best rival, {best.name}, {best.rmse:.3g}"
        )
        n = self.figures.n_scored or self.figures.n_test
        name = "" if self.target == "y" else f" of {self.target}"
        return (
            f"Typical error{name} {own:.3g} at {n} {self.points_are}; {name_of(least)} "
            f"{least.rmse:.3g}{other}."
        )

    def _best_rival(self) -> Alternative:
        """What gains the most in place of the model, or loses the least."""
        evidence = self.evidence
        assert evidence is not None
        tried = map(as_alternative, evidence.baselines)
        return max((*tried, *evidence.refits), key=lambda one: one.gain)

    def conclusions(self) -> list[str]:
        """Return the verdicts that could be given and what to do next, a sentence each."""
        sentences = [one.text() for one in self.verdicts if one.is_given]
        return sentences + [f"To do next: {one.text()}" for one in self.advice[:1]]


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
