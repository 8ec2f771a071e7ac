"""The estimator that `coupledgp fit` makes of its options, and how it is described."""

from __future__ import annotations

from typing import Any

from coupledgp.cli.commands.latent_tasks import is_gaussian
from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.shared.declare import refuse
from coupledgp.cli.shared.options import number_or_auto, selection_of
from coupledgp.cli.shared.parameters import parameters_of
from coupledgp.ground.validation import check_choice
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.models import GPRegressor, SparseSpectrumGPRegressor
from coupledgp.spectra import Spectrum

CHOICES = (
    "auto", "exact", "additive", "trees", "transformed", "local", "hybrid", "features",
    "sparse-spectrum", "lattice",
)  # fmt: skip
# Names of models of the command line that are called otherwise in Python.
NAMES = {"features": "sparse-spectrum"}
# Options that only the sparse-spectrum model has.
SPARSE = (
    "kernel", "features", "n_frequencies", "coupling", "kl_target", "frequencies", "objective",
    "ard", "dtype", "max_iter", "n_restarts",
)  # fmt: skip
MODEL_PARAMETERS = (
    "kernel", "features", "n_frequencies", "coupling", "frequencies", "objective", "ard", "dtype",
    "random_state",
)  # fmt: skip
Model = SparseSpectrumGPRegressor | GPRegressor


def chosen_name(options: FitOptions) -> str:
    """Name of the model: the given one, else sparse-spectrum if it alone has an option in use.

    Raises
    ------
    InvalidInputError
        The model is unknown or does not have an option that was given.
    """
    if _is_expression(options):
        others = tuple(name for name in SPARSE if name != "kernel")
        refuse(options, others, "expected a plain --kernel beside it")
        if options.model not in (None, "auto", "exact"):
            refuse(options, ("kernel",), f"expected a plain one beside --model {options.model}")
        return "auto"
    if not is_gaussian(options.likelihood):
        if options.model not in (None, "auto"):
            refuse(options, ("model",), f"expected auto beside --likelihood {options.likelihood}")
        refuse(options, SPARSE, f"expected none beside --likelihood {options.likelihood}")
        return "auto"
    if options.model is None:
        return "sparse-spectrum" if options.given & set(SPARSE) else "auto"
    check_choice(options.model, CHOICES, "--model")
    if options.model != "sparse-spectrum":
        why = f"expected --model sparse-spectrum beside it, got {options.model}"
        refuse(options, SPARSE, why)
    return options.model


def _is_expression(options: FitOptions) -> bool:
    """Whether the kernel is an expression, which sparse-spectrum models do not take."""
    return not isinstance(parse_kernel(options.kernel, name="--kernel"), Spectrum)


def make_model(name: str, options: FitOptions) -> Model:
    """The unfitted estimator of a name, from the options of the command."""
    kind: type[Model] = GPRegressor if name != "sparse-spectrum" else SparseSpectrumGPRegressor
    shared = {
        "random_state": options.seed,
        "missing": "indicator",
        "device": options.device,
        **parameters_of(kind, options),
    }
    if name != "sparse-spectrum":
        if not is_gaussian(options.likelihood):
            shared |= {"likelihood": options.likelihood, "device": None}
        kernel = options.kernel if _is_expression(options) else None
        return GPRegressor(NAMES.get(name, name), options.seconds, kernel=kernel, **shared)
    sparse = {key: getattr(options, key) for key in SPARSE}
    sparse["n_frequencies"] = number_or_auto(options.n_frequencies, "--n-frequencies")
    return SparseSpectrumGPRegressor(**sparse, **shared)


def describe_model(model: Model) -> dict[str, Any]:
    """Settings of a fitted model, and the reasons for a choice, as plain values."""
    transform = {"target_transform": model.process_.summary().get("target_transform")}
    if isinstance(model, GPRegressor):
        choice = model.choice_
        members = [
            {"name": m.name, "weight": m.weight, "log_density": m.log_density}
            for m in choice.members
        ]
        settings = {"name": model.model, "budget": model.budget, "random_state": model.random_state}
        scored = {"n_scored": choice.n_scored, "scored_by": choice.scored_by}
        return {**settings, **transform, **scored, "members": members, "forecast": model.forecast_}
    return {
        "name": "sparse-spectrum",
        **{name: getattr(model, name) for name in MODEL_PARAMETERS},
        "n_frequencies": model.n_frequencies_,
        "coupling": str(model.features_.coupling),
        "drawn": model.drawn_.to_dict(),
        **transform,
    }


def describe_search(model: Model) -> dict[str, Any]:
    """End of the search for hyperparameters, and the choice that `"auto"` made."""
    converged = None if isinstance(model, GPRegressor) else bool(model.converged_)
    return {
        "selection": selection_of(model),
        "converged": converged,
        "n_evaluations": int(model.n_evaluations_),
    }
