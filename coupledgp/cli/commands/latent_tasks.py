"""Classes and likelihoods on the command line: estimators, scores and their plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.shared.declare import refuse
from coupledgp.cli.shared.domain import heading
from coupledgp.cli.shared.evaluate import BATCH_ROWS, Rows, Stopwatch, scores
from coupledgp.cli.shared.parameters import parameters_of
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.models import GPClassifier
from coupledgp.random import FloatArray

# Options of regressors, which have no meaning for classes.
OF_NUMBERS = ("noise_column", "target_transform", "model", "kl_target", "coupling", "frequencies",
              "objective", "features", "n_frequencies", "ard", "dtype", "max_iter", "n_restarts",
              "exposure", "device")  # fmt: skip
# Options that compare with an exact GP, and one of normal laws alone.
OF_NORMAL = ("exact_rows", "how", "noise_column", "target_transform")


def is_gaussian(name: str) -> bool:
    """Whether a likelihood of a name is the Gaussian one.

    Raises
    ------
    InvalidInputError
        There is none of this name.
    """
    return LIKELIHOODS.parse(name, "--likelihood").is_gaussian


def check_options(options: FitOptions, labelled: bool) -> None:
    """Refuse options that have no meaning for classes, or under a likelihood."""
    if labelled:
        refuse(options, OF_NUMBERS, f"expected none for classes, which {options.target!r} holds")
    why = f"expected none beside --likelihood {options.likelihood}"
    refuse(options, OF_NORMAL, why if not labelled else "expected none for classes")


def make_classifier(options: FitOptions) -> GPClassifier:
    """The unfitted classifier of the options of the command."""
    kernel = options.kernel if "kernel" in options.given else None
    return GPClassifier(
        kernel,
        options.seconds,
        random_state=options.seed,
        missing="indicator",
        **parameters_of(GPClassifier, options),
    )


def latent_scores(model: Any, rows: Rows) -> dict[str, Any] | None:
    """Scores of a classifier, or of a regressor under a likelihood, on test rows."""
    if not rows.is_labelled:
        exposure = rows.weights.get("exposure")
        return scores(model.process_, model.points(rows.X), rows.y, "test", exposure)
    starts = range(0, len(rows), BATCH_ROWS)
    parts = [model.predict_log_proba(rows.X[k : k + BATCH_ROWS]) for k in starts]
    return class_scores(model.classes_, np.concatenate(parts), rows.y, "test")


def class_scores(classes: Any, logs: FloatArray, y: Any, kind: str) -> dict[str, Any]:
    """Log loss, Brier score and accuracy of log chances (p, K) of labels (p,), and of shares.

    Raises
    ------
    InvalidInputError
        A label is none of the classes.
    """
    strange = ~np.isin(y, classes)
    if strange.any():
        raise InvalidInputError(
            f"y: expected classes {classes.tolist()} of the fit, got {y[strange][0]!r}"
        )
    numbers = np.searchsorted(classes, y)
    seen = np.eye(len(classes))[numbers]
    shares = seen.mean(axis=0)
    known = shares[shares > 0]
    return {
        f"n_{kind}": len(y),
        "log_loss": -float(logs[np.arange(len(y)), numbers].mean()),
        "log_loss_of_shares": -float(known @ np.log(known)),
        "brier": float(np.square(np.exp(logs) - seen).sum(axis=1).mean()),
        "accuracy": float((logs.argmax(axis=1) == numbers).mean()),
        "most_frequent": float(shares.max()),
    }


def describe_law(model: Any) -> dict[str, Any]:
    """Law, hyperparameters and compared kernels of a fitted model, as plain values."""
    process, choice = model.process_, model.choice_
    classes = getattr(model, "classes_", None)
    return {
        "likelihood": type(process.likelihood).__name__,
        "parameters": process.likelihood.parameters,
        "classes": None if classes is None else classes.tolist(),
        "inference": process.inference,
        "kernels": [
            {"name": each.name, "log_loss": each.log_loss, "is_chosen": each.is_chosen}
            for each in choice.kernels
        ],
        "explanation": model.explain().splitlines(),
        "forecast": model.forecast_,
        "random_state": model.random_state,
    }


def describe_latent(
    model: Any, n_train: int, n_columns: int, scored: dict[str, Any] | None, clock: Stopwatch
) -> dict[str, Any]:
    """Data, settings and results of a fit of classes or under a likelihood, as plain values."""
    evidence = float(model.log_marginal_likelihood_value_)
    return {
        **heading(),
        "data": {"n_train": n_train, "n_columns": n_columns},
        "columns": model.encoding_.describe(),
        "model": describe_law(model),
        "log_evidence": evidence,
        "log_evidence_per_row": evidence / n_train,
        "converged": bool(model.converged_),
        "n_evaluations": int(model.n_evaluations_),
        "scores": scored,
        "seconds": clock.seconds,
    }
