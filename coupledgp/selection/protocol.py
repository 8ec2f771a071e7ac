"""The methods of an estimator by which a coupling and a size are chosen for it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from coupledgp.couplings.frequencies.registry import describe_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data, GaussianProcess

AUTO = "auto"


@runtime_checkable
class Selectable(Protocol):
    """An estimator with a coupling and a number of features.

    Attributes
    ----------
    size_parameter : str
        Parameter that is the number of features.
    candidate_couplings : tuple of str
        Couplings that are compared unless others are given.
    """

    size_parameter: str

    @property
    def candidate_couplings(self) -> tuple[str, ...]:
        """Couplings that are compared unless others are given."""

    def parse_coupling(self, coupling: Any, name: str) -> Any:
        """Return a coupling from its text form or an object; `name` is the argument's."""

    def checked(self, X: Any, y: ArrayLike) -> tuple[Data, int, Any]:
        """Return checked data, the number of dimensions of y, and the columns of X.

        The data hold points (n, d) of a table or node numbers (n,), and targets (n, k). The columns
        are None on graphs.
        """

    def modelled(self, data: Data, columns: Any) -> Data:
        """Return checked data with the targets of the process, transformed if so set."""

    def size_range(self, data: Data) -> tuple[int, int]:
        """Smallest and largest size that is tried on data."""

    def exact_process(
        self, data: Data, seed: int, progress: bool | None, columns: Any = None
    ) -> GaussianProcess:
        """Fit the exact process of the same settings on data, whose columns `checked` gave."""

    def approximation(
        self, exact: GaussianProcess, coupling: Any, size: int, seed: int
    ) -> GaussianProcess:
        """Return the process of this estimator at the hyperparameters and data of an exact one."""

    def chosen(self, coupling: Any, size: int) -> Any:
        """Return an unfitted copy with a coupling and a size as its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor, as in scikit-learn."""


def check_selectable(model: Any) -> Any:
    """Return a model with a coupling and a size.

    Raises
    ------
    InvalidInputError
        The model has neither.
    """
    if isinstance(model, Selectable):
        return model
    raise InvalidInputError(
        "model: expected a SparseSpectrumGPRegressor or a GraphGPRegressor, "
        f"got {type(model).__name__}"
    )


def named_couplings(model: Any, couplings: Any) -> dict[str, Any]:
    """Couplings to compare, each once, by different names.

    Texts stay texts, objects stay objects.

    Raises
    ------
    InvalidInputError
        `couplings` is no list of couplings that the model takes.
    """
    if isinstance(couplings, str) or not len(couplings):
        raise InvalidInputError(
            f"couplings: expected a list of texts or objects, got {couplings!r}"
        )
    named: dict[str, Any] = {}
    known: list[Any] = []
    for coupling in couplings:
        parsed = model.parse_coupling(coupling, "couplings")
        if parsed in known:
            continue
        known.append(parsed)
        text = describe_coupling(parsed)
        # Different objects may be described alike, where a description is cut short.
        name = text if text not in named else f"{text} ({len(known)})"
        named[name] = text if isinstance(coupling, str) else coupling
    return named


def with_parameters(model: Any, **changes: Any) -> Any:
    """An unfitted copy with some parameters changed; the graph is shared, not copied."""
    return type(model)(**{**model.get_params(deep=False), **changes})


def is_auto(value: Any) -> bool:
    """Whether a parameter is `"auto"`."""
    return isinstance(value, str) and value == AUTO
