"""Gaussian process regression of fields on surfaces and networks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import place_numbers
from coupledgp.gp.fields import FieldGP, kernel_from
from coupledgp.gp.mixture import MixtureGP, restored_process
from coupledgp.gp.precise_fields import PreciseFieldGP
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header, Points
from coupledgp.gp.state import text_of
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.inference.fields.field_covariance import FieldCovariance
from coupledgp.inference.nodes.groups import telling_rows, warn_of_small
from coupledgp.inference.placement.objectives import Criterion
from coupledgp.inference.placement.result import Placement
from coupledgp.kernels.fields import (
    FieldKernel,
    KernelOfField,
    as_field_kernel,
    parse_field_kernels,
)
from coupledgp.models.estimator import (
    FittedModel,
    ProcessRegressor,
    plain_seed,
    restored_ndim,
    restored_parameters,
    restored_results,
)
from coupledgp.models.field_places import (
    as_operator,
    located,
    spread_out,
    warn_of_defaults,
    warn_of_edges,
    warn_of_insides,
    warn_of_parts,
)
from coupledgp.models.node_estimator import check_node_targets
from coupledgp.models.placement import asked_points, place_sensors, without_observed
from coupledgp.random import FloatArray, draw_seed
from coupledgp.search.fields.mixture import selection_from, selection_state
from coupledgp.search.fields.routes import ROUTES, RouteSettings, fit_field

# Fitted numbers that a file holds if the model has them.
STORED_RESULTS = ("n_evaluations_", "converged_")
HYPERPARAMETER_CHOICES = ("maximum", "averaged")


class LeaveOneOut(NamedTuple):
    """Predictive law of each observation given those at all other places.

    Attributes
    ----------
    mean : FloatArray (n,) or (n, n_outputs)
        Means, in units of y.
    std : FloatArray (n,) or (n, n_outputs)
        Standard deviations of the observations, noise included, in units of y.
    """

    mean: FloatArray
    std: FloatArray


class FieldGPRegressor(ProcessRegressor):
    """Gaussian process regression of a field on a surface or a network from sensors anywhere on it.

    `y = m + f(place) + e` with a constant m of nearly flat prior, `f ~ N(0, v K)` and noise e. On a
    surface K is a Whittle-Matern kernel along it, a stationary kernel of position, or their sum.
    Families of kernels have equal prior mass; within each, ranges, lengthscales, shares and noise
    ratios run over grids, the amplitude v is integrated out of the restricted likelihood (with the
    variance of the law that this gives), and the kernels of greatest evidence are mixed by it.
    Lindgren, Rue and Lindstrom (2011) for the surface.

    Parameters
    ----------
    operator
        `coupledgp.LaplaceOperator` of the surface or network, or a triangle mesh
        (`trimesh.Trimesh`), which stands for `LaplaceOperator.from_trimesh(mesh, max_edge="auto")`.
    kernel
        `"auto"`: along the surface, of position, and the sum, averaged by evidence; on a network
        along it, with alpha = 1 and 2. `"matern"`: along the surface or network alone.
        `"position"`: of position alone. Or a `coupledgp.kernels.WhittleMatern`, a
        `coupledgp.kernels.PositionKernel` or their sum, whose parameters that are None are
        averaged over.
    normalize_y
        Subtract the mean of y and divide by its standard deviation before fitting.
    random_state
        Seed of the frequencies of the precision route; None draws another one in each fit.
    route
        `"columns"`: the covariance of the observations, a mixture of kernels. `"precision"`: one
        kernel of greatest evidence by a sparse precision, with coupled Fourier features as the part
        of position; the cost hardly grows with the number of observations. `"auto"`: the latter
        beyond 400 places where the kernel allows it.
    hyperparameters
        `"averaged"`: kernels, variances and noise are mixed by their evidence, at any number of
        observations on the columns route. `"maximum"`: those of greatest evidence alone.
    n_frequencies, coupling
        Number of frequencies of these features, and their coupling. `"auto"`: of a Gaussian kernel
        a quadrature rule or orthogonal samples, whichever has the greater evidence; of others the
        latter.
    progress
        Show progress on stderr; None does so on a terminal.

    Attributes
    ----------
    kernels_, weights_
        Kernels of the members of the mixture, and their weights.
    selection_
        Families and members with their evidence; `selection_.explain()` tells them.
    kernel_
        Kernel of greatest weight.
    outputscale_, noise_
        Variances of the field, averaged over the surface, and of the noise, of the member of
        greatest weight, in units of y squared.
    operator_
        The operator.
    """

    def __init__(
        self,
        operator: Any,
        kernel: KernelOfField = "auto",
        normalize_y: bool = True,
        random_state: Any = None,
        *,
        route: str = "auto",
        n_frequencies: int = 192,
        coupling: CouplingLike = "auto",
        progress: bool | None = None,
        hyperparameters: str = "averaged",
    ) -> None:
        self.operator = operator
        self.kernel = kernel
        self.normalize_y = normalize_y
        self.random_state = random_state
        self.route = route
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.progress = progress
        self.hyperparameters = hyperparameters

    def fit(self, places: Any, y: ArrayLike) -> Self:
        """Compare kernels by their evidence, and condition the best on the observations.

        Parameters
        ----------
        places
            Places of n observations: positions (n, d) in the unit of the operator, each moved to
            the nearest place on it; numbers or labels (n,) of its given vertices; or
            `coupledgp.geometry.Locations` (`operator.at_faces(...)`, `operator.at_edges(...)`).
            Several observations at one place are fine.
        y
            Observations (n,), or (n, n_outputs): independent outputs that share the kernel and, in
            units of their own variance, amplitude and noise.

        Raises
        ------
        InvalidInputError
            A parameter, a place or an observation is invalid.

        Warns
        -----
        UserWarning
            A position is farther from the surface than a hundredth of its diameter; a part of the
            operator has no observation and keeps the prior, or fewer than 8 observed places, so
            that kernels and units are found without it; or the fitted range is shorter than five
            edges.
        """
        operator = as_operator(self.operator)
        families = parse_field_kernels(
            self.kernel, operator.dimension, operator.positions is not None
        )
        data, ndim, _ = self._checked(operator, places, y)
        averages = check_choice(self.hyperparameters, HYPERPARAMETER_CHOICES, "hyperparameters")
        settings = RouteSettings(
            check_choice(self.route, ROUTES, "route"),
            check_positive_int(self.n_frequencies, "n_frequencies"),
            self.coupling,
            draw_seed(self.random_state),
            self.normalize_y,
            averages == "averaged",
        )
        with named_exhaustion("fit"), reporter("fit", self.progress) as report:
            _, member = operator.components()
            on = member[data.points[:, 0].astype(np.int64)]
            along = any(family.surface is not None for family in families)
            telling = telling_rows(on if along else 0 * on, place_numbers(data.points))
            told = data if telling.all() else data.take(np.flatnonzero(telling))
            found = fit_field(FieldCovariance(operator), families, told, settings, report)
            process = found.process if told is data else found.process.conditioned(data)
        warn_of_parts(operator, data.points)
        warn_of_small(telling, on, "places")
        warn_of_defaults(found.selection)
        if not found.selection.is_default:
            warn_of_edges(operator, found.selection)
        kernels = [m.hyperparameters.kernel for m in members_of(process)]
        warn_of_insides(operator, data.points, kernels)
        results = {
            "selection_": found.selection,
            "n_evaluations_": found.n_evaluations,
            "converged_": found.converged,
        }
        self._fitted = FittedModel(process, ndim, results)
        return self

    def partial_fit(self, places: Any, y: ArrayLike) -> Self:
        """Add observations, kernels and weights kept; the first call is `fit`."""
        if not self.__sklearn_is_fitted__():
            return self.fit(places, y)
        with named_exhaustion("partial_fit"):
            data = self._further_data(places, y)
        return self._updated(data)

    def checked(self, places: Any, y: ArrayLike) -> tuple[Data, int, None]:
        """Return locations with targets (n, k), the number of dimensions of y, and None."""
        return self._checked(as_operator(self.operator), places, y)

    def _checked(
        self, operator: LaplaceOperator, places: Any, y: ArrayLike
    ) -> tuple[Data, int, None]:
        points = located(operator, places, "places")
        targets = check_node_targets(y, len(points))
        return Data.of(points, targets.reshape(len(points), -1)), targets.ndim, None

    def points(self, places: Any = None) -> Points:
        """Locations of places; of all given vertices if left out."""
        points = located(self.operator_, places, "places")
        warn_of_insides(self.operator_, points, self.kernels_)
        return points

    def _further_data(self, places: Any, y: ArrayLike) -> Data:
        data, _, _ = self._checked(self.operator_, places, y)
        n_outputs = self.process_.units.n_outputs
        if data.targets.shape[1] != n_outputs:
            raise InvalidInputError(
                f"y: expected {n_outputs} outputs as in the first fit, got {data.targets.shape[1]}"
            )
        return data

    @property
    def _members(self) -> tuple[FieldGP | PreciseFieldGP, ...]:
        return members_of(self.process_)

    @property
    def operator_(self) -> LaplaceOperator:
        """The operator."""
        return self._members[0].field_prior.operator

    @property
    def kernels_(self) -> tuple[FieldKernel, ...]:
        """Kernels of the members, those of greatest weight first."""
        return tuple(member.hyperparameters.kernel for member in self._members)

    @property
    def kernel_(self) -> FieldKernel:
        """Kernel of greatest weight."""
        return self.kernels_[0]

    @property
    def weights_(self) -> FloatArray:
        """Weights of the members."""
        process = self.process_
        return process.weights if isinstance(process, MixtureGP) else np.ones(1)

    def predict(
        self,
        places: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
    ) -> Any:
        """Predictive law of observations at places.

        Parameters
        ----------
        places
            p places as in `fit`; all given vertices if left out, where those that belong to no
            face or edge have NaN.
        return_std
            Also return the standard deviation (p,), exact at any number of places.
        return_cov
            Also return the covariance, from one solve a place.
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, n_outputs), and the standard deviation of the same shape if
            `return_std`, or the covariance (p, p) or (p, p, n_outputs) if `return_cov`. The mean
            of a mixture is the precision-weighted mean of its members.

        Raises
        ------
        InvalidInputError
            Both are asked for, a place is invalid, or the joint law does not fit in memory.
        """
        check_is_fitted(self)
        if places is None and not return_cov:
            vertices = self.operator_.given_vertices
            known = np.flatnonzero(vertices >= 0)
            if known.size < vertices.size:
                locations = self.operator_.at_vertices(self._labels(known))
                law = self._predict(locations, return_std, False, latent)
                if not return_std:
                    return spread_out(law, known, vertices.size)
                return tuple(spread_out(part, known, vertices.size) for part in law)
        return self._predict(places, return_std, return_cov, latent)

    def _labels(self, numbers: Any) -> Any:
        labels = self.operator_.labels
        return numbers if labels is None else [labels[k] for k in numbers.tolist()]

    def sample_y(
        self,
        places: Any = None,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draw from the posterior at places.

        Parameters
        ----------
        places
            p places as in `fit`; all given vertices if left out.
        n_samples
            Number of draws.
        random_state
            Seed of the draws.
        latent
            Draw functions f instead of noisy observations y.

        Returns
        -------
        FloatArray
            Samples (p, n_samples), or (p, n_outputs, n_samples) for targets of two dimensions. At
            more than 1500 places the part of position is drawn from 2048 coupled frequencies.
        """
        return self._sample_y(places, n_samples, draw_seed(random_state), latent)

    def log_density(self, places: Any, y: ArrayLike) -> FloatArray:
        """Log predictive density (p,), nats, of observations (p,) at places, each alone."""
        return self._log_density(places, y)

    def conditioned_on(self, places: Any, y: ArrayLike) -> Self:
        """Return the same model, kernels and weights included, given other data."""
        check_is_fitted(self)
        return self._conditioned_on(self._further_data(places, y))

    def prior_covariance(self, places: Any = None) -> FloatArray:
        """Prior covariance of the field at p places, units of y squared.

        Shape (p, p), or (p, p, n_outputs) for targets of two dimensions. It includes the variance
        of the unknown mean.
        """
        return self._prior_covariance(places)

    def next_sensors(
        self,
        k: int,
        criterion: Criterion = "mutual-information",
        candidates: Any = None,
        interest: Any = None,
        *,
        budget: float | str | None = None,
        random_state: Any = 0,
    ) -> Placement:
        """Places where the next sensors tell most, by a greedy search.

        Criteria, gains and errors are those of `GraphGPRegressor.next_sensors`. The covariance of
        all candidates and places of interest is formed; of more than some thousands of vertices a
        sample is taken, unless candidates are named.

        Parameters
        ----------
        k, criterion, budget, random_state
            As there.
        candidates
            m places where sensors may go, as in `fit`; None: all given vertices without an
            observation.
        interest
            Places whose values matter, as in `fit`; None: the given vertices for
            `"total-variance"`, else the candidates.

        Returns
        -------
        Placement
            `nodes` are labels or numbers of given vertices; numbers of rows of `candidates` where
            these were named.
        """
        check_is_fitted(self)
        process, operator = self.process_, self.operator_
        given = np.flatnonzero(operator.given_vertices >= 0)
        vertices = operator.at_vertices(self._labels(given)).points
        named = candidates is not None or interest is not None
        if candidates is None:
            free = without_observed(process, vertices)
            open_, names = vertices[free], given[free]
        else:
            open_ = asked_points(self.points, candidates, "candidates")
            names = np.arange(len(open_))
        wanted = vertices if criterion == "total-variance" else None
        wanted = wanted if interest is None else asked_points(self.points, interest, "interest")
        found = place_sensors(
            process, k, criterion, open_, wanted, named, budget, random_state, self.progress
        )
        chosen = names[found.nodes]
        return found.with_nodes(self._labels(chosen) if candidates is None else chosen)

    def leave_one_out(self) -> LeaveOneOut:
        """Law of each observation given those at all other places, from one factorisation.

        Observations at one place are left out together. Kernels, variances and weights are those
        of all observations.
        """
        check_is_fitted(self)
        process, record = self.process_, self.fitted_
        assert isinstance(process, (FieldGP, PreciseFieldGP, MixtureGP))
        mean, variance = process.left_out_law(place_numbers(process.data.points))
        assert variance is not None
        return LeaveOneOut(record.shaped(mean, 1), np.sqrt(record.shaped(variance, 1)))

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        results = self.fitted_.results
        if "selection_" in results:
            header["selection"] = selection_state(results["selection_"])
        header["results"] = {name: results[name] for name in STORED_RESULTS if name in results}
        return header, arrays

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = super()._stored_parameters()
        del parameters["operator"]
        return parameters

    def _plain(self, name: str, value: Any) -> Any:
        if name == "random_state":
            return plain_seed(value)
        if name == "coupling" and not isinstance(value, str):
            return text_of(value, "coupling")
        if name == "kernel" and not isinstance(value, str):
            return asdict(as_field_kernel(value))
        return value

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file."""
        process = restored_process(header, arrays)
        if not members_of(process):
            raise ModelFileError("process: expected a field, got another process")
        parameters = {**restored_parameters(cls, header)}
        if isinstance(parameters.get("kernel"), dict):
            parameters["kernel"] = kernel_from(parameters["kernel"])
        model = cls(members_of(process)[0].field_prior.operator, **parameters)
        results = restored_results(header, "results", STORED_RESULTS)
        if "selection" in header:
            results["selection_"] = selection_from(header["selection"])
        return model.holding(FittedModel(process, restored_ndim(header, process), results))


def members_of(process: GaussianProcess) -> tuple[FieldGP | PreciseFieldGP, ...]:
    """The fields that a process mixes, or the one that it is."""
    members = process.members if isinstance(process, MixtureGP) else (process,)
    return tuple(m for m in members if isinstance(m, (FieldGP, PreciseFieldGP)))
