"""Several quantities of a Dataset, each fitted by itself."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import clone

from coupledgp.errors import InvalidInputError

Model = TypeVar("Model")


def fit_each(model: Model, data: Any, **arguments: Any) -> dict[str, Model]:
    """Fit a model to each variable of a Dataset by itself, as if the others were not there.

    Parameters
    ----------
    model
        An estimator whose `fit` takes an `xarray.DataArray`, such as `GraphTimeGPRegressor`. It is
        cloned and stays as it is.
    data
        `xarray.Dataset` whose variables have the same two dimensions, nodes and times.
    arguments
        Further arguments of each `fit`.

    Returns
    -------
    dict
        A fitted estimator for each variable, by its name, in the order of the Dataset. Results of
        each have the name, units and other attributes of its variable.

    Raises
    ------
    InvalidInputError
        It is no Dataset, has no variables, or a variable cannot be fitted: the message begins with
        its name.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import coupledgp as cgp
    >>> times = np.datetime64("2026-03-02T06:00", "ns") + np.arange(40) * np.timedelta64(5, "m")
    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=(4, 40)), axis=1)
    >>> sizes = ("node", "time")
    >>> data = xarray.Dataset(
    ...     {"speed": (sizes, 50 + walk), "flow": (sizes, 900 - 40 * walk)},
    ...     {"node": [0, 1, 2, 3], "time": times},
    ... )
    >>> road = cgp.Graph.from_edges(range(3), range(1, 4))
    >>> list(cgp.fit_each(cgp.GraphTimeGPRegressor(road, progress=False), data))
    ['speed', 'flow']
    """
    variables = getattr(data, "data_vars", None)
    if variables is None:
        raise InvalidInputError(f"data: expected an xarray.Dataset, got {type(data).__name__}")
    if not len(variables):
        raise InvalidInputError("data: expected a Dataset with at least one variable, got none")
    fitted = {}
    for name, values in variables.items():
        one: Any = clone(model)
        try:
            fitted[str(name)] = one.fit(values, **arguments)
        except InvalidInputError as error:
            raise InvalidInputError(f"variable {str(name)!r}: {error}") from error
    return fitted
