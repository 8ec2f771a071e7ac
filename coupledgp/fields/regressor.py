"""Gaussian process regression of fields on surfaces and networks.

Where to measure next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.estimator import ANSWERS, ProcessRegressor
from coupledgp.core.frames import place_index
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.options import estimator, points_named
from coupledgp.core.process import Data, Points
from coupledgp.core.stored import (
    FittedModel,
)
from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.estimator import (
    as_operator,
    located,
    members_of,
    refined_places,
    spread_out,
    warn_of_defaults,
    warn_of_edges,
    warn_of_insides,
    warn_of_parts,
)
from coupledgp.fields.locations import location_positions, place_numbers
from coupledgp.fields.precise_process import PreciseFieldGP
from coupledgp.fields.process import FieldGP
from coupledgp.fields.routes import (
    CREASES,
    ROUTES,
    RouteSettings,
    fit_whole_or_cut,
    placed_on,
)
from coupledgp.graphs.groups import informative_rows, warn_of_small
from coupledgp.graphs.targets import OMIT, node_data
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.kernels.fields import (
    FieldKernel,
    KernelOfField,
    parse_field_kernels,
)
from coupledgp.random import FloatArray, IntArray, draw_seed

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.maps import RoadMap, SurfaceMap

HYPERPARAMETER_CHOICES = ("maximum", "averaged")


class LeaveOneOut(NamedTuple):
    """Predictive law of each observation given the observations at all other places.

    Attributes
    ----------
    mean : FloatArray (n,) or (n, n_outputs)
        Means, in units of y.
    std : FloatArray (n,) or (n, n_outputs)
        Standard deviations of the observations, noise included, in units of y.
    """

    mean: FloatArray
    std: FloatArray


@points_named("places", "partial_fit", *ANSWERS)
@estimator
class FieldGPRegressor(ProcessRegressor):
    """Gaussian process regression of a field on a surface or a network from sensors anywhere on it.

    `y = m + f(place) + e` with a constant m of nearly flat prior, `f ~ N(0, v K)` and noise e. On a
    surface K is a Whittle-Matern kernel along it, a stationary kernel of position, or their sum;
    the kernel of position is also one of position, normal and columns of the operator together.
    Families of kernels have equal prior mass; within each, ranges, lengthscales, shares and noise
    ratios run over grids, the amplitude v is integrated out of the restricted likelihood (with the
    variance of the law that this gives), and the kernels of greatest evidence are mixed by it. For
    the surface see Lindgren, Rue and Lindstrom (2011).

    Parameters
    ----------
    operator
        `coupledgp.LaplaceOperator` of the surface or network; a triangle mesh, which stands for
        `LaplaceOperator.from_trimesh(mesh, max_edge="auto")`; or a networkx graph, for
        `LaplaceOperator.from_networkx(graph, max_edge="auto")`.
    kernel
        `"auto"`: along the surface, of position, and the sum, averaged by evidence, with and
        without normals and columns; on a network along it, with alpha = 1 and 2. `"matern"`: along
        the surface or network alone. `"position"`: of position alone. Or a
        `coupledgp.kernels.WhittleMatern`, a `coupledgp.kernels.PositionKernel` or their sum;
        parameters that are None are averaged over.
    random_state
        Seed of the frequencies of the precision route; None draws another one in each fit.
    route
        `"columns"`: the covariance of the observations, a mixture of kernels. `"precision"`: one
        kernel of greatest evidence by a sparse precision, with coupled Fourier features as the part
        of position; the cost hardly grows with the number of observations. `"auto"`: the latter
        beyond 400 places where the kernel allows it.
    hyperparameters
        `"averaged"`: kernels, variances and noise are mixed by their evidence, at any number of
        observations on the columns route. `"maximum"`: the kernel of greatest evidence alone.
    n_frequencies, coupling
        Number of frequencies of these features, and their coupling. `"auto"`: of a Gaussian kernel
        a quadrature rule or orthogonal samples, whichever has the greater evidence; of others the
        latter.
    creases
        `"auto"`: a mesh that edges with a dihedral angle above 40 degrees separate into patches is
        fitted whole and cut there (`LaplaceOperator.with_creases`), and the cut is kept where its
        log evidence is better by 5. Patches of 1 % of the area have to make up 90 % of it, with two
        observed places for each. `"ignored"`: the operator as it is.

    Attributes
    ----------
    kernels_, weights_
        Kernels of the members of the mixture, and their weights.
    selection_
        Families and members with their evidence; `selection_.explain()` lists them.
    kernel_
        Kernel of greatest weight.
    outputscale_, noise_
        Variances of the field, averaged over the surface, and of the noise, of the member of
        greatest weight, in units of y squared.
    column_shares_
        By the name of each column, the lengthscales that one standard deviation of it counts for,
        averaged over the members by weight; zero of columns without effect.
    operator_
        The operator, cut at creases if that was chosen; `operator_.copies` is None otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> import trimesh
    >>> import coupledgp as cgp
    >>> part = trimesh.creation.box((4.0, 2.0, 1.0))
    >>> sensors, _ = trimesh.sample.sample_surface(part, 30, seed=0)
    >>> kernel = cgp.kernels.PositionKernel("gaussian", lengthscale=2.0)
    >>> field = cgp.FieldGPRegressor(part, kernel).fit(sensors, 20 + 5 * sensors[:, 0])
    >>> mean, std = field.predict([[2.0, 0.0, 0.0]], return_std=True)
    >>> bool(abs(mean[0] - 30.0) < 1.0)
    True
    """

    operator: Any
    kernel: KernelOfField = "auto"
    normalize_y: bool = True
    random_state: Any = None
    _: KW_ONLY
    route: str = "auto"
    n_frequencies: int = 192
    coupling: CouplingLike = "auto"
    hyperparameters: str = "averaged"
    creases: str = "auto"

    _stored: ClassVar[tuple[str, ...]] = (*ProcessRegressor._stored, "selection_")

    def fit(self, places: Any, y: ArrayLike) -> Self:
        """Compare kernels by their evidence, and condition the best on the observations.

        Parameters
        ----------
        places
            Places of n observations: positions (n, d) in the unit of the operator, each moved to
            the nearest place on it, or a GeoDataFrame of points; numbers or labels (n,) of its
            given vertices; or `coupledgp.geometry.Locations` (`operator.at_faces(...)`,
            `operator.at_edges(...)`). Several observations at one place are fine.
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
        return self._assigned(lambda: self._fit(places, y), y, self.operator, y=y)

    def check_parameters(self) -> None:
        check_choice(self.hyperparameters, HYPERPARAMETER_CHOICES, "hyperparameters")
        check_choice(self.route, ROUTES, "route")
        check_positive_int(self.n_frequencies, "n_frequencies")
        check_choice(self.creases, CREASES, "creases")
        check_choice(self.missing, ("raise", OMIT), "missing")

    def _fit(self, places: Any, y: ArrayLike) -> FittedModel:
        operator = as_operator(self.operator)
        families = parse_field_kernels(
            self.kernel, operator.dimension, operator.positions is not None, operator.n_columns
        )
        data, ndim, _ = self._checked(operator, places, y)
        settings = RouteSettings(
            self.route, self.n_frequencies, self.coupling, draw_seed(self.random_state),
            self.normalize_y, self.hyperparameters == "averaged",
        )  # fmt: skip
        with reporter("fit", self.progress):
            on = operator.bodies()[data.points[:, 0].astype(np.int64)]
            along = any(family.surface is not None for family in families)
            usable = informative_rows(on if along else 0 * on, place_numbers(data.points))
            used = data if usable.all() else data.take(np.flatnonzero(usable))
            found, operator = fit_whole_or_cut(operator, families, used, settings, self.creases)
            data = placed_on(operator, data)
            process = found.process if usable.all() else found.process.conditioned(data)
        warn_of_parts(operator, data.points)
        warn_of_small(usable, on, "places")
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
        return FittedModel(process, ndim, results)

    def checked(self, places: Any, y: ArrayLike) -> tuple[Data, int, None]:
        """Return locations with targets (n, k), the number of dimensions of y, and None."""
        return self._checked(as_operator(self.operator), places, y)

    def _checked(
        self, operator: LaplaceOperator, places: Any, y: ArrayLike
    ) -> tuple[Data, int, None]:
        return *node_data(located(operator, places, "places"), y, self.missing), None

    def _further_data(self, places: Any, y: ArrayLike) -> Data:
        return self._check_outputs(self._checked(self.operator_, places, y)[0])

    @property
    def operator_(self) -> LaplaceOperator:
        """The Laplace operator that the functions are defined on."""
        return self._members[0].field_prior.operator

    @property
    def _members(self) -> tuple[FieldGP | PreciseFieldGP, ...]:
        return members_of(self.process_)

    def points(self, places: Any = None) -> Points:
        """Locations of places; of all given vertices if left out."""
        points = located(self.operator_, places, "places")
        kernels = [member.hyperparameters.kernel for member in self._members]
        warn_of_insides(self.operator_, points, kernels)
        return points

    def _plain(self, name: str, value: Any) -> Any:
        return self.operator_ if name == "operator" else super()._plain(name, value)

    @property
    def kernels_(self) -> tuple[FieldKernel, ...]:
        """Kernels of the members, by falling weight."""
        return tuple(member.hyperparameters.kernel for member in self._members)

    @property
    def kernel_(self) -> FieldKernel:
        """Kernel of greatest weight."""
        return self.kernels_[0]

    @property
    def column_shares_(self) -> dict[str, float]:
        """Lengthscales that one standard deviation of each column counts for, by its name."""
        columns = self.operator_.place_columns
        if columns is None:
            return {}
        total = np.zeros(columns.sizes.size)
        for weight, kernel in zip(self.weights_, self.kernels_, strict=True):
            if kernel.position is not None and kernel.position.columns:
                assert kernel.position.lengthscale is not None
                lengths = np.array(kernel.position.columns)
                total += weight * lengths / kernel.position.lengthscale
        return dict(zip(columns.names, total.tolist(), strict=True))

    @property
    def weights_(self) -> FloatArray:
        """Weights (n_members,) of the members."""
        return self.member_weights_

    def predict(
        self,
        X: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
        exposure: ArrayLike | None = None,
    ) -> Any:
        """Predict as every estimator does, at all given vertices if places are left out.

        Given vertices that belong to no face or edge have NaN then.
        """
        check_is_fitted(self)
        if X is None and not return_cov:
            vertices = self.operator_.given_vertices
            known = np.flatnonzero(vertices >= 0)
            if known.size < vertices.size:
                locations = self.operator_.at_vertices(self._labels(known))
                law = super().predict(locations, return_std, latent=latent, exposure=exposure)
                if not return_std:
                    return spread_out(law, known, vertices.size)
                return tuple(spread_out(part, known, vertices.size) for part in law)
        return super().predict(X, return_std, return_cov, latent=latent, exposure=exposure)

    def _labels(self, numbers: Any) -> Any:
        labels = self.operator_.labels
        return numbers if labels is None else [labels[k] for k in numbers.tolist()]

    def _indexed(self, X: Any) -> tuple[Any, Any]:
        if X is None:
            X = self._labels(np.flatnonzero(self.operator_.given_vertices >= 0))
        X, index = super()._indexed(X)
        return X, place_index(self.operator_, X) if index is None else index

    def _picture(self, X: Any) -> Any:
        return self.field_map().picture()

    def field_map(
        self,
        *,
        latent: bool = False,
        names: Sequence[str] = (),
        left_out: ArrayLike | None = None,
        unit: str = "",
    ) -> SurfaceMap | RoadMap:
        """The law on the whole surface or along all roads, with the sensors, to be drawn.

        Parameters
        ----------
        latent
            Leave the noise out.
        names
            Names (n,) of the sensors.
        left_out
            Observations (n,) minus their predictions from the others, a third quantity of the map.
        unit
            Unit of y, which stands on colour bars.

        Raises
        ------
        InvalidInputError
            The operator has no positions, or y had several outputs.
        """
        from coupledgp.diagnostics.render.maps import RoadMap, SurfaceMap  # slow

        operator, process = self.operator_, self.process_
        if operator.positions is None or process.units.n_outputs > 1:
            raise InvalidInputError("operator: expected positions, and one output, for a map")
        mean, variance = process.law(refined_places(operator).points, "variance", latent=latent)
        assert variance is not None
        law = mean[:, 0], np.sqrt(variance[:, 0])
        data = process.data
        sensors = location_positions(data.points, operator.positions)
        errors: FloatArray | None = None if left_out is None else np.asarray(left_out)
        if operator.dimension == 2:
            parts = operator.positions, operator.elements, *law
            return SurfaceMap(*parts, sensors, data.targets[:, 0], names, errors, unit)
        lines = list(operator.positions[operator.elements])
        law = tuple(part[operator.elements].mean(axis=1) for part in law)
        return RoadMap(lines, *law, sensors, data.targets[:, 0], names, errors, unit)

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

    def check_restored(self) -> None:
        if not members_of(self.process_):
            raise ModelFileError("process: expected a field, got another process")


# Gains that are equal to so many digits are ties, of which the first candidate is taken.
TIED = 1e-9


class NextSensors(NamedTuple):
    """Places for further measurements, in the order of their choice.

    Attributes
    ----------
    rows : IntArray (k,)
        Numbers of rows of the candidates, or of nodes or vertices where these were left out.
    variance : FloatArray (k + 1,)
        Mean posterior variance of f at all candidates, in units of y squared, before the first and
        after each measurement.
    """

    rows: IntArray
    variance: FloatArray


def next_sensors(model: Any, k: int, candidates: Any = None) -> NextSensors:
    """Choose places whose measurements leave the least variance, one after another.

    With the posterior covariance C of f at the candidates and the noise variance s each step takes
    the place j of largest `sum_i C_ij^2 / (C_jj + s)`, the fall of the total variance, and replaces
    C by `C - C_j C_j' / (C_jj + s)` (Cohn, 1996). Values do not matter. Time O(m^3 + k m^2) and
    memory O(m^2) for m candidates.

    Parameters
    ----------
    model
        A fitted Gaussian regressor of one output.
    k
        Number of places.
    candidates
        Places (m, ...) that may be measured and whose values matter, as `model.predict` takes
        them; None: all nodes of a graph, all given vertices of a field.

    Raises
    ------
    InvalidInputError
        There are fewer candidates than k, or several outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> path = cgp.Graph.from_edges(np.arange(8), np.arange(1, 9))
    >>> model = cgp.ExactGraphGPRegressor(path, "matern", optimizer=None).fit([0, 1], [0.1, 0.2])
    >>> cgp.next_sensors(model, 2).rows.tolist()
    [7, 4]
    """
    check_positive_int(k, "k")
    covariance = model.predict(candidates, return_cov=True, latent=True)[1]
    if covariance.ndim != 2 or len(covariance) < k:
        raise InvalidInputError(
            f"candidates: expected {k} or more, and one output, got a covariance of shape "
            f"{covariance.shape}"
        )
    noise = model.predict(candidates, return_std=True)[1] ** 2 - covariance.diagonal()
    rows: list[int] = []
    variance = [float(covariance.diagonal().mean())]
    for _ in range(k):
        gain = np.square(covariance).sum(axis=0) / (covariance.diagonal() + noise)
        gain[rows] = 0.0
        best = int(np.argmax(gain >= (1 - TIED) * gain.max()))
        column = covariance[:, best] / np.sqrt(covariance[best, best] + noise[best])
        covariance = covariance - np.outer(column, column)
        rows.append(best)
        variance.append(float(covariance.diagonal().mean()))
    return NextSensors(np.array(rows), np.array(variance))
