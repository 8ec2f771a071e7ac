"""What a fit assigns to an estimator: one record, last."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Generic, TypeVar

from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from coupledgp.ground.validation import check_positive_int

Record = TypeVar("Record")


def seed_from_random_state(random_state: Any) -> int:
    """Turn scikit-learn's `random_state` into one int seed; an int stays itself."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return check_positive_int(random_state, "random_state", minimum=0)
    return int(check_random_state(random_state).randint(2**31 - 1))


class InputColumns:
    """How the columns of an input become numbers: what each kind of table states of its own."""


class Fitted(Generic[Record]):
    """Part of an estimator whose fit assigns one record last.

    An error or an interrupt before that leaves the estimator as it was.
    """

    _fitted: Record | None = None

    @property
    def fitted_(self) -> Record:
        """The record of the last fit, replaced as a whole by the next fit."""
        if self._fitted is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet")
        return self._fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None
