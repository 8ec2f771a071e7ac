"""Likelihoods by name, for model files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import check_positive
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import Bernoulli, NegativeBinomial, Poisson, Probit
from coupledgp.likelihoods.gaussian import Gaussian, StudentT
from coupledgp.registry import Registry

LIKELIHOODS: Registry[Likelihood] = Registry(
    Likelihood,
    "coupledgp.likelihoods",
    {
        "gaussian": Gaussian(1.0),
        "bernoulli": Bernoulli(),
        "negative-binomial": NegativeBinomial(),
        "poisson": Poisson(),
        "probit": Probit(),
        "student-t": StudentT(),
    },
)


def register_likelihood(
    name: str, made: Likelihood | Callable[[], Likelihood], *, replace: bool = False
) -> None:
    """Make a likelihood known under `name`, whatever its own parameters; see `Registry.register`.

    A file stores the name of its class and the parameters.

    Examples
    --------
    >>> from coupledgp.likelihoods import Poisson, available_likelihoods, register_likelihood
    >>> class Accidents(Poisson):  # a law of one's own, which model files may name from now on
    ...     pass
    >>> register_likelihood("accidents", Accidents)
    >>> "accidents" in available_likelihoods()
    True
    """
    LIKELIHOODS.register(name, made, replace=replace)


def available_likelihoods() -> list[str]:
    """Names of every likelihood now registered.

    Examples
    --------
    >>> from coupledgp.likelihoods import available_likelihoods
    >>> available_likelihoods()[:3]
    ['gaussian', 'bernoulli', 'negative-binomial']
    """
    return LIKELIHOODS.available()


def likelihood_state(likelihood: Likelihood) -> dict[str, Any]:
    """Name and parameters of a likelihood, for a header.

    Raises
    ------
    InvalidInputError
        No likelihood of its class is registered.
    """
    for name, known in LIKELIHOODS.items():
        if type(known) is type(likelihood):
            return {"name": name, "parameters": likelihood.parameters}
    raise InvalidInputError(
        f"model: expected a likelihood that a file can name, got {likelihood!r}; register its "
        "class with register_likelihood"
    )


def likelihood_from(name: str, parameters: dict[str, Any]) -> Likelihood:
    """The likelihood of a name and parameters of a header.

    Raises
    ------
    InvalidInputError
        The name is not registered, or the parameters are not positive numbers of that class.
    """
    checked = {key: check_positive(value, key) for key, value in parameters.items()}
    return LIKELIHOODS.parse(name, "likelihood").with_parameters(checked)


stored_as(Likelihood, likelihood_state, lambda own: likelihood_from(**own), dict)
