"""Transforms of targets, as the estimators of tables take them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.features.sklearn import Columns, seed_from_random_state
from coupledgp.gp.protocol import Data
from coupledgp.gp.transformed import TransformedGP, forward
from coupledgp.gp.transforms import TARGET_TRANSFORMS, Identity, TargetTransform
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import forward_array, plain_array, real_array
from coupledgp.models.record import FittedModel
from coupledgp.search.tables.transforms import fit_transforms
from coupledgp.selection.protocol import is_auto, with_parameters
from coupledgp.spectra import parse_spectrum

TransformLike: TypeAlias = TargetTransform | str | None


def fit_transformed(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    sample_noise: ArrayLike | None,
    **further: Any,
) -> FittedModel:
    """Fit an estimator of tables to transformed targets, and put the transforms around its process.

    Parameters
    ----------
    model
        Estimator whose `target_transform` is not None; it is not changed.
    X, y, sample_weight, sample_noise
        Data, as its `fit` takes them.
    further
        Further arguments of its `fit`.

    Raises
    ------
    InvalidInputError
        The transform is unknown, a target is not in its domain, or `sample_noise` is given.
    """
    data, _, columns = model.checked(X, y, sample_weight, sample_noise)
    transforms = chosen_transforms(model, data, columns)
    plain = with_parameters(model, target_transform=None)
    plain.targets_are_given = True
    if all(transform == Identity() for transform in transforms):
        record: FittedModel = plain.fit(X, y, sample_weight, **further).fitted_
        return record
    targets = forward_array(real_array(plain_array(y, "y"), "y"))
    values = forward(targets.reshape(len(targets), -1), transforms).reshape(targets.shape)
    record = plain.fit(X, values, sample_weight, **further).fitted_
    return replace(record, process=TransformedGP.of(record.process, transforms, data))


def chosen_transforms(model: Any, data: Data, columns: Columns) -> tuple[TargetTransform, ...]:
    """A transform for each output of data, as the `target_transform` of an estimator says.

    Raises
    ------
    InvalidInputError
        The transform is unknown, a target is not in its domain, or the noise of rows is known.
    """
    given = parse_target_transform(model.target_transform)
    if data.weights is not None and data.weights.level is not None:
        raise InvalidInputError(
            "sample_noise: expected None beside target_transform, since it is in units of y and "
            "the noise is that of transformed targets; give sample_weight"
        )
    rng = np.random.default_rng(seed_from_random_state(model.random_state))
    kernel = parse_spectrum(model._transform_kernel, "kernel")
    with reporter("fit", model.progress) as report:
        return fit_transforms(given, data, kernel, model.ard, rng, report, columns.groups)


def parse_target_transform(value: Any) -> TargetTransform | None:
    """Return a transform from its text form or an object; None for "auto"."""
    return None if is_auto(value) else TARGET_TRANSFORMS.parse(value, "target_transform")
