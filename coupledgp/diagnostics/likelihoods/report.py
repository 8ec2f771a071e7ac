"""Reports on models whose observations follow a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.likelihoods.latent_kl import LatentKL
from coupledgp.diagnostics.likelihoods.reliability import Reliability
from coupledgp.diagnostics.likelihoods.sections import register_likelihoods
from coupledgp.diagnostics.scoring.calibration import SURE, SURE_OF_DETAIL
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.verdicts.result import NO_TARGETS
from coupledgp.diagnostics.verdicts.verdict import (
    FEWEST,
    HONESTY,
    MATTERS,
    SERIOUS,
    Advice,
    Colour,
    Verdict,
)
from coupledgp.random import IntArray

# Calibration error beyond chance from which chances are seriously off.
SERIOUS_ERROR = 0.1
RULE = (
    "The calibration error, a recalibration of the logits, a factor on them alone and the share of "
    "each class are each "
    f"beside 2000 draws of labels from the model, and off where {SURE_OF_DETAIL:.2%} of them or "
    f"fewer are as far (recalibration and factor: {SURE:.1%}). Red where the error is "
    f"{SERIOUS_ERROR} beyond chance, or recalibration "
    f"gains {SERIOUS} nats per point."
)


@dataclass(frozen=True)
class LikelihoodReport(PosteriorReport):
    """A `PosteriorReport` of observations under a likelihood, such as counts.

    `kl_per_point` is that of the function with the noise of one further observation (`LatentKL`);
    `nlpd` of discrete laws is minus the log chance of an observation; transforms are randomised.

    Attributes
    ----------
    divergence : LatentKL or None
        Distance from the exact kernel's posterior; None where there is none to be told.
    likelihood : str
        Name of the law of an observation.
    title : str
        Heading of the page.
    n_train : int
        Number of training rows.
    provenance : mapping of str to anything JSON holds
        Data, model, time and versions.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import compare
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> counts = np.random.default_rng(0).poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> model = cgp.GPRegressor(kernel="gaussian", likelihood="poisson", random_state=0)
    >>> report = compare(model.fit(X[::2], counts[::2]), X[1::2])
    >>> report.likelihood, report.n_train, report.divergence.sites
    ('Poisson', 10, 'own')
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison", "likelihood")
    beside_title: ClassVar[str] = "Beside the exact posterior"
    joint_distance: ClassVar[bool] = False
    divergence: LatentKL | None = None
    likelihood: str = ""
    title: str = "Posterior report"
    n_train: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "likelihood": self.likelihood,
            "n_train": self.n_train,
            "baselines": [asdict(one) for one in self.baselines],
            "divergence": None if self.divergence is None else asdict(self.divergence),
            "provenance": dict(self.provenance),
        }

    def lead(self) -> list[str]:
        """Numbers of rows, the law and the reference."""
        reference = "none" if self.reference is None else self.reference
        data = self.provenance.get("data")
        told = [] if data is None else [f"Data: {data}."]
        rows = f"{self.n_train or 'No'} training rows"
        return [
            *told,
            f"{rows}, {self.figures.n_test} test points; observations follow "
            f"a {self.likelihood} law.",
            f"Reference: {reference}.",
        ]


@dataclass(frozen=True)
class ClassReport(LikelihoodReport):
    """A report of a classifier; `nlpd` is its log loss, `rmse` the root of its Brier score.

    Attributes
    ----------
    laws : ClassLaws
        Chances of the classes at the test points.
    codes : IntArray (p,) or None
        Places of the labels among the classes; None without labels.
    reliability : Reliability or None
        Calibration of the chances; None without labels.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> labels = np.where(X[:, 0] < 3, "low", "high")
    >>> high = np.where(X[1::2, 0] < 3, 0.1, 0.9)
    >>> law = {"chances": np.stack([high, 1 - high], axis=1), "classes": ["high", "low"]}
    >>> report = audit(law, X[::2], labels[::2], X[1::2], labels[1::2])
    >>> type(report).__name__, report.to_dict()["classes"]
    ('ClassReport', ['high', 'low'])
    >>> round(report.nlpd, 6)  # the log loss, -log(0.9)
    0.105361
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("classes", "likelihood")
    rmse_is: ClassVar[str] = "root of Brier score"
    nlpd_is: ClassVar[str] = "log loss"
    laws: ClassLaws | None = field(default=None, repr=False)
    codes: IntArray | None = field(default=None, repr=False)
    reliability: Reliability | None = None

    def _judged(self) -> tuple[Verdict, Verdict, Verdict]:
        quality, _, adequacy = super()._judged()
        return quality, self._honesty(), adequacy

    def _honesty(self) -> Verdict:
        found = self.reliability
        if found is None:
            return Verdict(HONESTY, "grey", NO_TARGETS, "No labels.")
        if found.n_points < FEWEST:
            sentence = f"Not judged: {found.n_points} test points are too few."
            return Verdict(HONESTY, "grey", sentence, f"Fewer than {FEWEST} test points.")
        return chances_honesty(found)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to do next, the greatest gain first; with a recalibration of chances that are off.

        Nothing where gains are those at known rows.
        """
        found, own = self.reliability, super().advice
        if self._is_known or found is None or not found.is_off:
            return own
        if found.recalibration_gain < MATTERS:
            return own
        action = (
            f"Recalibrate the chances on rows put aside: multiply logits by {found.slope:.2g} and "
            f"add {found.shift:+.2g}."
        )
        advice = Advice(action, found.recalibration_gain, None, "estimated")
        return tuple(sorted([*own, advice], key=lambda one: -one.gain))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain Python values."""
        laws, found = self.laws, self.reliability
        return super().to_dict() | {
            "classes": None if laws is None else laws.classes.tolist(),
            "reliability": None if found is None else asdict(found),
        }


register_likelihoods()


def chances_honesty(found: Reliability) -> Verdict:
    """The verdict on chances."""
    if not found.is_off:
        return _verdict("green", f"Its chances are honest: {found.text()}.", found)
    serious = found.excess > SERIOUS_ERROR or found.recalibration_gain > SERIOUS
    colour: Colour = "red" if serious else "amber"
    return _verdict(colour, f"{fault(found)}: {found.text()}.", found)


def fault(found: Reliability) -> str:
    """How chances are off, in words."""
    if found.is_scale_off:
        if found.slope < 1:
            return f"Its chances are too sure (logits times {found.slope:.2g} fit better)"
        if found.slope > 1 and abs(found.slope - 1) > abs(found.shift):
            return (
                f"Its chances are not sure enough (logits times {found.slope:.2g} fit the labels "
                "better)"
            )
        side = "low" if found.shift > 0 else "high"
        return f"Its chances of {found.event} are too {side}"
    if found.class_p_value <= SURE_OF_DETAIL:
        return (
            f"Class {found.worst_class} has the mean chance {found.worst_class_chance:.3f} and the "
            f"share {found.worst_class_share:.3f}"
        )
    return "Its chances are off"


def _verdict(colour: Colour, sentence: str, found: Reliability) -> Verdict:
    return Verdict(HONESTY, colour, sentence, RULE, found.error, found.error_spread, "share")
