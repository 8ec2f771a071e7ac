"""What estimators of functions on a surface or network share: operator, places and files.

Gaussian process regression of fields on surfaces and networks.

Where to measure next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.estimator import ANSWERS, ProcessRegressor
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.options import estimator, points_named
from coupledgp.core.process import Data, GaussianProcess, Points
from coupledgp.core.stored import FittedModel
from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.fields import LaplaceOperator, Locations
from coupledgp.fields.grid import FieldSelection
from coupledgp.fields.locations import at_corners, location_positions, place_numbers
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.fields.routes import CREASES, ROUTES, RouteSettings, fit_whole_or_cut, placed_on
from coupledgp.graphs.observations import OMIT, informative_rows, node_data, warn_of_small
from coupledgp.ground.forms import MESHES, SCENES, is_mesh, is_point_table, table_points
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, check_positive_int, real_array, wrong
from coupledgp.ground.visible import warn
from coupledgp.kernels.fields import FieldKernel, KernelOfField, parse_field_kernels
from coupledgp.random import FloatArray, IntArray, draw_seed

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.maps import RoadMap, SurfaceMap

# Distance of a sensor from the surface, relative to the diameter, beyond which a warning is given.
FAR_SHARE = 0.01
# Edges that a range should be long, and the number of edges below which a warning is given: there
# the variance of finite elements is more than a tenth too large.
EDGES_A_RANGE, FEWEST_EDGES = 8.0, 5.0
# Edges that a range should be long where there are places inside edges, for alpha = 1; and the
# weight of the lighter end of an edge from which a place is inside.
EDGES_INSIDE, LEAST_WEIGHT = 4.0, 1e-6


def members_of(process: GaussianProcess) -> tuple[FieldGP | PreciseFieldGP, ...]:
    """The fields that a process mixes, or the one that it is."""
    members: tuple[GaussianProcess, ...] = (process,)
    if isinstance(process, MixtureGP):
        members = tuple(process.members)
    return tuple(m for m in members if isinstance(m, (FieldGP, PreciseFieldGP)))


def as_operator(value: Any) -> LaplaceOperator:
    """The operator of a mesh, with edges of at most the diameter / 25, or of a network.

    Raises
    ------
    InvalidInputError
        The value is none of these.
    """
    if isinstance(value, LaplaceOperator):
        return value
    if is_mesh(value):
        return LaplaceOperator.from_trimesh(value, max_edge="auto")
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        return LaplaceOperator.from_networkx(value, max_edge="auto")
    raise InvalidInputError(
        "operator: expected a coupledgp.LaplaceOperator (from_trimesh, from_edges, from_networkx, "
        f"from_points), {MESHES}, or a networkx graph whose edges have lengths, got "
        f"{type(value).__name__}; {SCENES}"
    )


def refined_places(operator: LaplaceOperator) -> Locations:
    """Places of all vertices, including those added by refinement."""
    points = at_corners(np.arange(operator.n_vertices), operator.dimension + 1)
    return Locations(points, np.zeros(operator.n_vertices))


def located(operator: LaplaceOperator, places: Any, name: str) -> Points:
    """Locations of places that are given in any of the ways of `FieldGPRegressor.fit`.

    On a mesh cut at creases they may also be locations of the whole mesh.
    """
    return operator.placed(_located(operator, places, name))


def _located(operator: LaplaceOperator, places: Any, name: str) -> Points:
    if places is None:
        return operator.at_vertices().points
    if isinstance(places, Locations):
        return checked_locations(operator, places, name)
    if is_point_table(places):
        places = table_points(places, operator.origin is not None, name)
    if hasattr(places, "columns"):  # of a table whose columns are named as axes, in any order
        axes = [str(column).strip().lower() for column in places.columns]
        places = np.asarray(places)
        if sorted(axes) == ["x", "y", "z"][: len(axes)]:
            places = places[:, np.argsort(axes)]
    array = places if isinstance(places, (list, tuple)) else np.asarray(places)
    if are_labels(operator, array):
        return operator.at_vertices(array).points
    try:
        positions = real_array(array, name)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, "positions as numbers", places) from None
    return projected(operator, positions, name)


def checked_locations(operator: LaplaceOperator, places: Locations, name: str) -> Points:
    """Locations on the operator; places that lie outside of it are refused."""
    wanted, points = 2 * (operator.dimension + 1), places.points
    if points.shape[1] != wanted or not len(places):
        raise InvalidInputError(
            f"{name}: expected locations of this operator, rows of {wanted} numbers, got shape "
            f"{points.shape}"
        )
    corners = points[:, : wanted // 2]
    if corners.min() < 0 or corners.max() >= operator.n_vertices:
        raise InvalidInputError(
            f"{name}: expected locations of this operator, which has {operator.n_vertices} "
            f"vertices, got one at vertex {int(corners.max())}: they are of another operator"
        )
    return points


def are_labels(operator: LaplaceOperator, places: Any) -> bool:
    """Whether places are vertices: a list of one dimension, or of labels that are tuples."""
    if np.ndim(places) != 2:
        if isinstance(places, np.ndarray) and places.dtype.kind == "f" and places.ndim == 1:
            raise InvalidInputError(
                f"places: expected positions of shape (p, d), or ints or labels of vertices (p,), "
                f"got an array of floats of shape {places.shape}"
            )
        return True
    known = operator.labels
    if known is None or not any(isinstance(label, tuple) for label in known):
        return False
    return all(isinstance(place, tuple) for place in places) and set(places) <= set(known)


def projected(operator: LaplaceOperator, positions: FloatArray, name: str) -> Points:
    """The nearest places of positions (p, d); see `check_distances`."""
    found = operator.project(positions)
    check_distances(operator, found.distances, name, "row {}".format, positions)
    return found.points


def check_distances(
    operator: LaplaceOperator,
    distances: FloatArray,
    name: str,
    row_name: Callable[[int], str],
    positions: FloatArray | None = None,
) -> None:
    """Warn of positions at distances (p,) that are far for the operator's size.

    `positions` (p, d) in the operator's system tell a unit in which all of them are one place.

    Raises
    ------
    InvalidInputError
        All positions are farther away than the operator is large: the unit or the origin differs.
        Or all are far for its size, and one place beside it: the unit is larger.
    """
    extent = operator.extent or operator.diameter
    if distances.min() > extent:
        raise InvalidInputError(
            f"{name}: expected positions near the {kind_of(operator)}, whose size is "
            f"{extent:.4g}, got none nearer than {distances.min():.4g}: check their unit, "
            "their origin and the order of the columns"
        )
    far = np.flatnonzero(distances > FAR_SHARE * extent)
    spread = 0.0 if positions is None else float(np.linalg.norm(np.ptp(positions, axis=0)))
    if distances.size > 2 and 0 < spread < FAR_SHARE * extent:
        said = (
            f"{name}: expected positions all over a {kind_of(operator)} whose size is "
            f"{extent:.4g}, got {distances.size} within {spread:.3g} of each other: check their "
            "unit"
        )
        if far.size == distances.size:
            raise InvalidInputError(said)
        warn(said)
    if far.size:
        worst = int(far[np.argmax(distances[far])])
        warn(
            f"{name}: {far.size} of {distances.size} positions are farther from the "
            f"{kind_of(operator)} than {FAR_SHARE:.0%} of its size; {row_name(worst)} lies "
            f"{distances[worst]:.4g} away, which is the farthest, and was moved to the nearest "
            "place on it: check the unit and the origin of the positions"
        )


def warn_of_parts(operator: LaplaceOperator, points: Points) -> None:
    """Warn of components without observations, which keep the prior along the surface."""
    count, member = operator.components()
    if count == 1:
        return
    seen = np.unique(member[points[:, : operator.dimension + 1].astype(np.int64)])
    alone = ~np.isin(member, seen)
    if alone.any():
        warn(
            f"places: {count - seen.size} of {count} components, with {int(alone.sum())} of "
            f"{operator.n_vertices} vertices, have no observation: along the {kind_of(operator)} "
            "nothing is known there, and their intervals are wide"
        )


def kind_of(operator: LaplaceOperator) -> str:
    """The word for an operator's domain."""
    return "surface" if operator.dimension == 2 else "network"


def warn_of_defaults(selection: FieldSelection) -> None:
    """Warn where no kernel was fitted."""
    if selection.is_default:
        warn(f"y: {selection.reason}: no evidence stands behind the intervals")


def warn_of_insides(
    operator: LaplaceOperator, points: Points, kernels: Sequence[FieldKernel]
) -> None:
    """Warn of places inside long edges, where only the vertices have the law of alpha = 1."""
    shortest = min(
        (k.surface.range_ or np.inf for k in kernels if k.surface and k.surface.alpha == 1),
        default=np.inf,
    )
    if operator.element_lengths is None or not np.isfinite(shortest):
        return
    inside = (points[:, 2:].min(axis=1) > LEAST_WEIGHT) & (points[:, 0] != points[:, 1])
    ends = np.sort(points[inside, :2].astype(np.int64), axis=1)
    if not len(ends):
        return
    keys = np.sort(operator.elements, axis=1) @ [operator.n_vertices, 1]
    order = np.argsort(keys)
    element = order[np.searchsorted(keys[order], ends @ [operator.n_vertices, 1])]
    longest = float(operator.element_lengths[element].max())
    if longest > shortest / EDGES_INSIDE:
        warn(
            f"places: some lie inside edges of length {longest:.4g}, longer than a quarter of the "
            f"range ({shortest:.4g}); between vertices the field is interpolated, and its "
            f"intervals are too narrow: use max_edge={shortest / EDGES_A_RANGE:.3g}"
        )


def warn_of_edges(operator: LaplaceOperator, selection: FieldSelection) -> None:
    """Warn where kernels of more than half the weight have a range of few edges."""
    edge = typical_edge(operator)
    # With alpha = 1 the law at the vertices of a network is exact, however long its edges are.
    short = [
        (member.weight, member.kernel.surface.range_)
        for member in selection.members
        if member.kernel.surface is not None
        and member.kernel.surface.alpha != 1
        and member.kernel.surface.range_ is not None
        and member.kernel.surface.range_ < FEWEST_EDGES * edge
    ]
    if sum(weight for weight, _ in short) > 0.5:
        shortest = min(length for _, length in short)
        warn(
            f"operator: the fitted range ({shortest:.4g}) is shorter than {FEWEST_EDGES:.0f} "
            f"edges (median length {edge:.4g}), where finite elements are inaccurate; refine with "
            f"max_edge={shortest / EDGES_A_RANGE:.3g}"
        )


def typical_edge(operator: LaplaceOperator) -> float:
    """Median length of the edges of the elements."""
    if operator.element_lengths is not None:
        return float(np.median(operator.element_lengths))
    assert operator.positions is not None
    corners = operator.positions[operator.elements]
    return float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)))


def place_index(operator: LaplaceOperator, places: Any) -> dict[str, Any] | None:
    """Names of places of a field: labels or numbers of vertices, or coordinates as they are given.

    None for locations on a network without positions.
    """
    if isinstance(places, Locations):
        if operator.positions is None:
            return None
        found = location_positions(places.points, operator.positions)
    elif are_labels(operator, places if isinstance(places, (list, tuple)) else np.asarray(places)):
        return {"vertex" if operator.dimension == 2 else "node": list(places)}
    else:
        found = real_array(places, "places")
    degrees = operator.origin is not None and not isinstance(places, Locations)
    names = ("longitude", "latitude") if degrees else ("x", "y", "z")
    return dict(zip(names, found.T, strict=False))


def spread_out(values: FloatArray, known: Any, size: int) -> FloatArray:
    """Values (p, ...) at the places `known` (p,) of a list of `size`, NaN elsewhere."""
    out = np.full((size, *values.shape[1:]), np.nan)
    out[known] = values
    return out


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
            given vertices; or `coupledgp.fields.Locations` (`operator.at_faces(...)`,
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
