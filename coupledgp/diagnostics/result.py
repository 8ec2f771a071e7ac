"""Results of a comparison of two predictive laws as plain data, with a verdict in words."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from coupledgp.diagnostics.kernel_errors import KernelErrors
from coupledgp.diagnostics.overlap import Overlap
from coupledgp.diagnostics.score_table import PREFIXES, score_names
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict
from coupledgp.random import FloatArray

# Words for a divergence below a bound, in nats per point. A shift of each prediction by 0.045, 0.14
# and 0.45 of its standard deviation gives 1e-3, 1e-2 and 1e-1.
DISTANCES = (
    (1e-3, "indistinguishable from"),
    (1e-2, "close to"),
    (1e-1, "visibly different from"),
)
# A difference in NLPD, in nats per point, too small to matter: half a per cent in density. It is
# told all the same where it exceeds chance and this smaller one, which nobody could use.
SAME_NLPD, NO_NLPD = 0.005, 1e-5


@dataclass(frozen=True)
class Accuracy:
    """Method by which figures were computed, and bounds and standard errors of them.

    Attributes
    ----------
    method : str
        `"dense"`: exact to rounding. `"stochastic"`: by iterative solves.
    bounds : dict of str to (float, float)
        By figure, the distances below and above it within which the true value lies, for solves
        that stop at a tolerance. `differences.nlpd` is the mean of that paired difference. For
        figures of several values, as `coverage`, each value lies within them.
    standard_errors : dict of str to float
        By figure, the standard error of random probes, widened by Student's law of
        `settings["n_probes"] - 1` degrees of freedom so that two of them hold 95.4 %, or that of
        scoring a random subset of the points.
    unbounded : list of str
        Figures that move with the solver or the subset and have neither. A figure that is in none
        of the three is exact to rounding. The standard errors of scores over points, which are
        estimates themselves, are never listed.
    settings : dict
        Tolerances, sizes and work of the stochastic method.
    """

    method: str
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    standard_errors: dict[str, float] = field(default_factory=dict)
    unbounded: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str, share: bool = False) -> str:
        """Return the error of a figure as a text such as `(se 0.001, bounds -1e-5 +2e-5)`.

        It is `(no bound)` for a figure whose error is not known, and empty for one without. Errors
        of a `share` are in per cent.
        """
        unit, text = (100.0, " %") if share else (1.0, "")
        parts = []
        if name in self.standard_errors:
            parts.append(f"se {unit * self.standard_errors[name]:.1g}{text}")
        if name in self.unbounded:
            parts.append("no bound")
        if any(self.bounds.get(name, ())):
            below, above = self.bounds[name]
            parts.append(f"bounds -{unit * below:.1g}{text} +{unit * above:.1g}{text}")
        return f"({', '.join(parts)})" if parts else ""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Figures:
    """All figures of a comparison. None means that it could not be computed from what was given.

    Scores that were registered (`register_score`) are attributes as well, under their name and
    `reference_` and their name.

    Attributes
    ----------
    n_test, n_outputs : int
        Test points and outputs.
    n_scored : int or None
        Number of test points that are scored, if not all of them are; the joint NLPD is that of
        all.
    kl_per_point : float or None
        `KL(reference || model)` of the joint predictive laws, nats per point and output. None
        where there is no reference.
    reverse_kl_per_point : float or None
        `KL(model || reference)` of the joint predictive laws, nats per point and output.
    prior_kl_per_point : float or None
        `KL(reference || model)` of the prior laws of observations, nats per point and output.
    kernel_rmse, kernel_relative_error : float or None
        Errors of the model's prior covariance of f at the test points: root mean squared error
        over entries (units of y squared), and Frobenius norm relative to the reference's.
    rmse, reference_rmse : float or None
        Root mean squared error, units of y.
    nlpd, reference_nlpd : float or None
        Marginal negative log predictive density, nats per point.
    nlpd_joint, reference_nlpd_joint : float or None
        Negative log predictive density of all points jointly, nats per point.
    mae, reference_mae, crps, reference_crps : float or None
        Mean absolute error and continuous ranked probability score, units of y.
    sharpness, reference_sharpness : float or None
        Root mean predictive variance, units of y.
    coverage, reference_coverage : dict of float to float, or None
        Share of targets inside the central interval of each nominal level.
    interval_width, reference_interval_width : dict of float to float, or None
        Mean width of those intervals, units of y.
    pit, reference_pit : tuple of float, or None
        Shares of the probability integral transforms in ten equal bins.
    standard_errors, reference_standard_errors : dict of str to float, or None
        Standard errors of `"rmse"`, `"mae"`, `"nlpd"` and `"crps"` over test points taken as
        independent; each None for a single point.
    differences : dict or None
        Losses of the model minus losses of the reference, `"squared_error"`, `"absolute_error"`,
        `"nlpd"` and `"crps"`: mean over points and its standard error, as `{"mean": ...,
        "standard_error": ...}`.
    """

    n_test: int
    n_outputs: int
    kl_per_point: float | None = None
    reverse_kl_per_point: float | None = None
    prior_kl_per_point: float | None = None
    kernel_rmse: float | None = None
    kernel_relative_error: float | None = None
    rmse: float | None = None
    reference_rmse: float | None = None
    nlpd: float | None = None
    reference_nlpd: float | None = None
    nlpd_joint: float | None = None
    reference_nlpd_joint: float | None = None
    coverage: dict[float, float] | None = None
    reference_coverage: dict[float, float] | None = None
    mae: float | None = None
    reference_mae: float | None = None
    crps: float | None = None
    reference_crps: float | None = None
    sharpness: float | None = None
    reference_sharpness: float | None = None
    interval_width: dict[float, float] | None = None
    reference_interval_width: dict[float, float] | None = None
    pit: tuple[float, ...] | None = None
    reference_pit: tuple[float, ...] | None = None
    standard_errors: dict[str, float | None] | None = None
    reference_standard_errors: dict[str, float | None] | None = None
    differences: dict[str, dict[str, float | None]] | None = None
    n_scored: int | None = None

    def __init__(
        self,
        n_test: int,
        n_outputs: int,
        kl_per_point: float | None = None,
        reverse_kl_per_point: float | None = None,
        **others: Any,
    ) -> None:
        given = {
            "n_test": n_test,
            "n_outputs": n_outputs,
            "kl_per_point": kl_per_point,
            "reverse_kl_per_point": reverse_kl_per_point,
        } | others
        names = dict.fromkeys([*(item.name for item in fields(self)), *score_names()])
        if unknown := sorted(set(others) - set(names)):
            raise TypeError(f"Figures: expected names of figures and scores, got {unknown}")
        # The dataclass is frozen: attributes are set past it.
        vars(self).update(names | given)

    def get(self, name: str) -> Any:
        """Return the figure of a name; None if it was not computed."""
        return vars(self).get(name)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures by name."""
        return deepcopy(vars(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Figures) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # figures hold dicts

    def __repr__(self) -> str:
        return f"Figures({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass(frozen=True)
class Predictions:
    """Means and standard deviations of both laws at each test point, and targets.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
        Means and standard deviations of the model, p test points and k outputs, in units of y.
    reference_mean, reference_std : FloatArray (p, k) or None
        Means and standard deviations of the reference, in units of y, if there is one.
    y : FloatArray (p, k) or None
        Targets, if there are any.
    """

    mean: FloatArray
    std: FloatArray
    reference_mean: FloatArray | None
    reference_std: FloatArray | None
    y: FloatArray | None

    def laws(self) -> Iterator[tuple[str, FloatArray, FloatArray]]:
        """The prefix of its names, means and standard deviations of each law there is."""
        yield PREFIXES[0], self.mean, self.std
        if self.reference_mean is not None and self.reference_std is not None:
            yield PREFIXES[1], self.reference_mean, self.reference_std


@dataclass(frozen=True)
class ComparisonResult:
    """Figures of a comparison, also as attributes: `report.kl_per_point`; see `Figures`.

    Attributes
    ----------
    figures : Figures
    predictions : Predictions
    model : str
        Text of the estimator.
    reference : str or None
        Text of the reference, if there is one.
    accuracy : Accuracy
        Method of the computation, and bounds and standard errors of the figures.
    kernel_errors : KernelErrors or None
        Errors of the kernel between pairs of test points, for a picture.
    remarks : tuple of str
        Sentences that a reader needs beside single figures.
    overlap : Overlap or None
        How many test rows are training rows; None where none were looked for.
    """

    figures: Figures
    predictions: Predictions = field(repr=False)
    model: str
    reference: str | None
    accuracy: Accuracy = field(default_factory=lambda: Accuracy("dense"))
    kernel_errors: KernelErrors | None = field(default=None, repr=False)
    remarks: tuple[str, ...] = ()
    overlap: Overlap | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a reader should see before any figure."""
        return () if self.overlap is None else self.overlap.warnings

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Answers to the three questions: quality, honesty, adequacy."""
        return ()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What to do next, the greatest gain first."""
        return ()

    def with_overlap(self, overlap: Overlap) -> Self:
        """The same result, and what is known of test rows that are training rows."""
        return replace(self, overlap=overlap, remarks=(*self.remarks, *overlap.remarks))

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no field here: the figures answer for them. While a
        # report is unpickled it has none yet.
        figures = vars(self).get("figures")
        if figures is not None and name in vars(figures):
            return figures.get(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def verdict(self) -> str:
        """Return the main figures in words, after warnings that concern them all."""
        return " ".join([*self.warnings, *self.conclusions()])

    def conclusions(self) -> list[str]:
        """Return the main figures in words, without the warnings, paragraph by paragraph.

        There is none on the reference where there is no reference.
        """
        f = self.figures
        kl = f.kl_per_point
        if kl is None:
            return []
        distance = next((words for bound, words in DISTANCES if kl < bound), "far from")
        amount = f"{kl:.3g} nats per point {self.accuracy.text('kl_per_point')}".strip()
        sentences = [f"The posterior is {distance} the reference: {amount}{_shift(kl)}."]
        if f.nlpd is not None and f.reference_nlpd is not None:
            sentences.append(self._prediction(f.nlpd - f.reference_nlpd))
        if f.coverage and f.reference_coverage:
            level = max(f.coverage)
            sentences.append(
                f"The {100 * level:.0f} % intervals of the model hold "
                f"{100 * f.coverage[level]:.3g} % of the targets, those of the reference "
                f"{100 * f.reference_coverage[level]:.3g} %."
            )
        return [" ".join(sentences)]

    def _prediction(self, gain: float) -> str:
        """Return the sentence on predictions, the reference's NLPD being smaller by `gain`."""
        error = (self.figures.differences or {}).get("nlpd", {}).get("standard_error")
        if error is None and self.figures.n_test == 1:
            return "One point does not say which of them predicts better."
        if abs(gain) < max(NO_NLPD, 2 * (error or 0.0)):
            return "The reference would not predict better."
        better = "better" if gain > 0 else "worse"
        spread = "" if error is None else f" (standard error {error:.1g})"
        small = ", which is little" if abs(gain) < SAME_NLPD else ""
        return f"The reference predicts {better}, by {abs(gain):.3g}{spread} nats per point{small}."


def _shift(kl: float) -> str:
    """Express a divergence as a shift of the means: z standard deviations give `z^2 / 2` nats."""
    if kl < 1e-12:
        return ""
    return f", as if each prediction were off by {(2 * kl) ** 0.5:.2g} of its standard deviation"
