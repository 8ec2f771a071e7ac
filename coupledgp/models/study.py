"""Studies of a fitted model: its couplings side by side, and the report a person sends on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics import compare, nlpd, rmse
from coupledgp.diagnostics.figures import kl_per_point
from coupledgp.diagnostics.geometry import Geometry
from coupledgp.diagnostics.laws import check_targets, law_of
from coupledgp.diagnostics.provenance import versions
from coupledgp.diagnostics.study import CouplingStudy, Spread, StudyRow
from coupledgp.diagnostics.study_report import StudyReport
from coupledgp.errors import InvalidInputError
from coupledgp.features.transformers import seed_from_random_state
from coupledgp.models.redraw import kept_hyperparameters, redrawn, size_name
from coupledgp.models.selection_cases import kind_of
from coupledgp.progress import reporter
from coupledgp.random import FloatArray
from coupledgp.validation import check_positive_int


def coupling_study(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    *,
    couplings: Sequence[str],
    sizes: Sequence[int],
    n_draws: int = 8,
    random_state: Any = 0,
    reference: Any = None,
    progress: bool | None = None,
) -> CouplingStudy:
    """Compare couplings and sizes at a fitted model's hyperparameters and training data.

    Parameters
    ----------
    model
        Fitted `SparseSpectrumGPRegressor` or `GraphGPRegressor`; its coupling and size do not
        matter.
    X_test, y_test
        Test points and, if there are any, targets.
    couplings
        Texts.
    sizes
        Numbers of frequencies or walkers.
    n_draws
        Draws of each, 2 or more.
    random_state
        Seed; the draws of every coupling and size have the same seeds.
    reference
        Fitted exact model; None: `model.exact_twin()`, O(n^3) for n training rows.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        An argument is invalid; nothing is computed then.
    """
    name = size_name(model)
    kind = kind_of(model)
    if isinstance(couplings, str) or not len(couplings):
        raise InvalidInputError(f"couplings: expected a list of texts, got {couplings!r}")
    names = [kind.check_coupling(coupling) for coupling in couplings]
    counts = sorted({check_positive_int(size, "sizes") for size in sizes})
    if not counts:
        raise InvalidInputError("sizes: expected at least one number, got none")
    check_positive_int(n_draws, "n_draws", minimum=2)
    seed = seed_from_random_state(random_state)
    data = training_data(model)
    kept = kept_hyperparameters(model)
    with reporter("study", progress) as report:
        report("exact GP")
        exact = law_of(model.exact_twin() if reference is None else reference, X_test, "reference")
        y = None if y_test is None else check_targets(y_test, exact.mean.shape)
        rows = []
        for size in counts:
            for coupling in dict.fromkeys(names):
                report(f"{coupling}, {name}={size}")
                drawn = [redrawn(model, kept, coupling, size, seed + k) for k in range(n_draws)]
                laws = [law_of(_fitted(other, data, model), X_test, "model") for other in drawn]
                rows.append(_row(coupling, size, laws, exact, y))
    return CouplingStudy(
        name, tuple(rows), len(data[1]), len(exact.mean),
        None if y is None else rmse(y, exact.mean),
        None if y is None else nlpd(y, exact.mean, exact.std),
    )  # fmt: skip


def _fitted(other: Any, data: tuple[Any, FloatArray], model: Any) -> Any:
    other.fit(*data)
    if hasattr(model, "feature_names_in_"):  # the rows kept have no names
        other.feature_names_in_ = model.feature_names_in_
    return other


def _row(coupling: str, size: int, laws: list[Any], exact: Any, y: FloatArray | None) -> StudyRow:
    divergence = Spread.of([kl_per_point(exact, law) for law in laws])
    scores: tuple[Spread | None, Spread | None] = (None, None)
    if y is not None:
        scores = (
            Spread.of([rmse(y, law.mean) for law in laws]),
            Spread.of([nlpd(y, law.mean, law.std) for law in laws]),
        )
    return StudyRow(coupling, size, len(laws), divergence, *scores)


def training_data(model: Any) -> tuple[Any, FloatArray]:
    """What the model was fitted to, as its `fit` takes it."""
    if hasattr(model, "nodes_"):
        return model.nodes_, model.y_train_
    return model.X_train_, model.y_train_


def posterior_report(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    *,
    couplings: Sequence[str] = (),
    sizes: Sequence[int] = (),
    n_draws: int = 8,
    random_state: Any = 0,
    geometry: Any = None,
    title: str | None = None,
    data: str | None = None,
    progress: bool | None = None,
) -> StudyReport:
    """Everything there is to say about a fitted model's posterior, on one page.

    Parameters
    ----------
    model
        Fitted `SparseSpectrumGPRegressor` or `GraphGPRegressor`.
    X_test, y_test
        Test points and, if there are any, targets.
    couplings, sizes
        Also compare these with each other (`coupling_study`); sizes default to a quarter of the
        model's, its own and four times as many.
    n_draws, random_state
        Of that comparison.
    geometry
        For graphs: a trimesh mesh whose faces or vertices are the nodes, or positions (n_nodes, 2).
        Mean, standard deviation and error are drawn on it.
    title, data
        Heading of the page, and what the data are, in words.
    progress
        Show progress on stderr; None does so on a terminal.

    Returns
    -------
    StudyReport
        With `to_html(path)`, `to_json(path)`, `to_dict()`, and all figures of `compare`.

    Raises
    ------
    InvalidInputError
        An argument is invalid.
    """
    start = time.perf_counter()
    name = size_name(model)
    drawn = None if geometry is None else Geometry.of(geometry, model.graph)
    base = compare(model, X_test, y_test, progress=progress)
    study = None
    if len(couplings):
        own = model.n_frequencies_ if name == "n_frequencies" else model.n_walks_
        chosen = list(sizes) or sorted({max(own // 4, 1), own, 4 * own})
        study = coupling_study(
            model, X_test, y_test, couplings=couplings, sizes=chosen, n_draws=n_draws,
            random_state=random_state, progress=progress,
        )  # fmt: skip
    return StudyReport(
        **vars(base),
        study=study,
        picture=None if drawn is None else _on_geometry(drawn, model, X_test, y_test),
        title=title or f"Posterior of a {type(model).__name__}",
        provenance={
            "data": data or "not stated",
            "training rows": len(training_data(model)[1]),
            "model": repr(model),
            "hyperparameters": _hyperparameters(model),
            "seed of the study": random_state,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - start, 2),
            **versions(),
        },
    )


def _hyperparameters(model: Any) -> str:
    if hasattr(model, "kernel_"):
        kernel = repr(model.kernel_)
    else:
        kernel = "lengthscale=" + np.array2string(np.asarray(model.lengthscale_), precision=4)
    parts = (f"{n}={np.array2string(np.asarray(getattr(model, n + '_')), precision=4)}"
             for n in ("outputscale", "noise"))  # fmt: skip
    return ", ".join([kernel, *parts])


def _on_geometry(geometry: Geometry, model: Any, X_test: Any, y_test: ArrayLike | None) -> Any:
    """The law at every node, the observed nodes, and the error where a target is known."""
    mean, std = model.predict(return_std=True)
    index = model.graph.index
    errors = np.full(len(mean), np.nan)
    if y_test is not None:
        errors[index(X_test)] = np.asarray(y_test, dtype=np.float64) - mean[index(X_test)]
    return geometry.with_law(mean, std, errors, np.unique(index(model.nodes_)))
