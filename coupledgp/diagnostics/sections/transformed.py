"""Comparisons of models of transformed targets: in the units of the transformed targets.

A divergence of two laws does not change when both are mapped by one increasing transform g. So the
laws of `z = g(y)`, which are Gaussian, are compared in place of those of y, and scores are those of
`g(y)`. The NLPD of y is that of z minus the mean of `log g'(y)`, for the model and the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from coupledgp.diagnostics.scoring.laws import check_targets
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.gp.transformed import TransformedGP, forward

REMARK = (
    "All figures are in units of the transformed targets; divergences are the same in units of y."
)


@dataclass(frozen=True)
class Comparison:
    """What is compared, in units in which laws are Gaussian where there are such.

    Attributes
    ----------
    model : Any
        The model, or the inner process of one of transformed targets.
    X : Any
        Test inputs, or points of that process.
    y : ArrayLike or None
        Targets, transformed with the model's.
    reference : Any
        Model to compare with, or its inner process; None for the exact one.
    original : Any
        The model as it was given.
    """

    model: Any
    X: Any
    y: ArrayLike | None
    reference: Any
    original: Any

    @classmethod
    def of(cls, model: Any, X: Any, y: ArrayLike | None, reference: Any) -> Comparison:
        """A comparison as it was asked for.

        A model and a reference of different transforms are left as they are: they are compared in
        units of y, by the moments of their laws.
        """
        process, other = process_of(model), process_of(reference)
        if not isinstance(process, TransformedGP):
            return cls(model, X, y, reference, model)
        if reference is not None:
            if not isinstance(other, TransformedGP) or other.transforms != process.transforms:
                return cls(model, X, y, reference, model)
            reference = other.inner
        points = Subject.of(model, X).points
        if y is not None:
            checked = check_targets(y, (len(points), len(process.transforms)))
            y = forward(checked, process.transforms)
        return cls(process.inner, points, y, reference, model)

    @property
    def subject(self) -> Subject:
        """The process that is compared, at its points, under the name of the model as given."""
        return replace(Subject.of(self.model, self.X), model=self.original)

    def report(self, found: PosteriorReport) -> PosteriorReport:
        """A report with a sentence on the units of its figures."""
        process = process_of(self.original)
        if self.model is self.original or process is None:
            return found
        remarks = (*found.remarks, process.remarks[-1], REMARK)
        return found.changed(remarks=remarks, target="transformed y")
