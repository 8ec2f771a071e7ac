"""What test points say of a model: the measurements on which verdicts rest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from coupledgp.diagnostics.residuals.columns import Carried
from coupledgp.diagnostics.residuals.counts import CountLaw
from coupledgp.diagnostics.residuals.findings import Finding, Findings
from coupledgp.diagnostics.residuals.shapes import Reach, Shapes
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.figures import Alternative
from coupledgp.diagnostics.scoring.scores import MeanOverPoints
from coupledgp.diagnostics.verdicts.adequacy import Cost
from coupledgp.diagnostics.verdicts.closing import Closing
from coupledgp.diagnostics.verdicts.neighbour_residuals import ResidualCorrelation, is_better
from coupledgp.diagnostics.verdicts.variations import Variation
from coupledgp.diagnostics.verdicts.verdict import EVIDENCE, HINTED, LOST, TOLD


@dataclass(frozen=True)
class Evidence:
    """Measurements at test points with targets.

    Attributes
    ----------
    baselines : tuple of BesideBaseline
        Simple predictions, and paired differences of the model from them; standard errors allow
        for errors that near points share.
    calibration : Calibration or None
        Coverage and probability integral transforms.
    misfit : ResidualCorrelation or None
        Correlation of the residuals of neighbours; None where no neighbours are known.
    cost : Cost or None
        How much better the reference predicts.
    variations : tuple of Variation
        Nearby hyperparameters and kernels on the same rows.
    refits : tuple of Alternative
        The model itself, fitted anew with more inducing points.
    closings : tuple of Closing
        Other draws of the same approximation, with their distance from the reference.
    conformal : dict of float to (float, float)
        By level, the share of targets in the conformal intervals of the model, and their mean width
        in units of y; empty where there are none.
    n_judged, n_points : int
        Number of points of calibration and misfit, and of all.
    beside_a_member : bool
        The reference is the exact process of a mixture's heaviest member, for want of the mixture
        of all.
    is_own : bool
        Whether the model is one of this package, whose parameters advice may name.
    rmse_is : str
        What the root mean squared error is called.
    remedies : (str, str)
        What to do where observations spread more, and less, than a law that is not normal says;
        empty: another scale of the standard deviations.
    findings : Findings
        Patterns of the residuals along columns.
    counts : CountLaw or None
        What a law of counts gains, where the targets are counts.
    shapes : Shapes or None
        What another scale, added noise and heavier tails gain; None of laws of several outputs,
        and of laws that are not normal.
    reach : Reach or None
        Test rows beyond the training rows; None where rows are no tables of numbers.
    transform : MeanOverPoints or None
        What a transform of the targets gains, chosen on the training rows; None where none was
        tried, or none is.
    carried : Carried or None
        A column that is related to the targets in training, and not at test.
    equal : tuple of str
        Columns that equal the targets but for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> evidence = report.evidence
    >>> [one.name for one in evidence.baselines], evidence.n_points
    (['mean', 'nearest', 'linear', 'plain process'], 30)
    >>> evidence.findings.text()
    'No pattern in 9 looks at the residuals of 30 rows.'
    """

    baselines: tuple[BesideBaseline, ...] = ()
    calibration: Calibration | None = None
    misfit: ResidualCorrelation | None = None
    cost: Cost | None = None
    variations: tuple[Variation, ...] = ()
    refits: tuple[Alternative, ...] = ()
    closings: tuple[Closing, ...] = ()
    conformal: dict[float, tuple[float, float]] = field(default_factory=dict)
    n_judged: int = 0
    n_points: int = 0
    beside_a_member: bool = False
    is_own: bool = True
    rmse_is: str = "RMSE"
    remedies: tuple[str, str] = ("", "")
    findings: Findings = field(default_factory=Findings)
    counts: CountLaw | None = None
    shapes: Shapes | None = None
    reach: Reach | None = None
    transform: MeanOverPoints | None = None
    carried: Carried | None = None
    equal: tuple[str, ...] = ()

    @property
    def better_refits(self) -> list[Alternative]:
        """Refits that are better beyond chance, by an amount that matters."""
        return [one for one in self.refits if is_better(one, LOST)]

    @property
    def better_variations(self) -> list[Variation]:
        """Nearby kernels that are better by evidence and at the test points.

        The one that the training rows choose is first: a kernel that varies along a column about
        the most likely of the others, or else that.
        """
        found = [
            one
            for one in self.variations
            if one.evidence_gain > EVIDENCE and is_better(one, HINTED if one.remedy else TOLD)
        ]
        return sorted(found, key=lambda one: (-one.choosing, -one.gain))

    def findings_on(self, concerns: str) -> list[Finding]:
        """Patterns of residuals that concern `"mean"` or `"spread"`, the greatest gain first."""
        return [one for one in self.findings.found if one.concerns == concerns]

    def to_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values."""
        return asdict(self)
