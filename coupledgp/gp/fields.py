"""The Gaussian process of a field on a surface or a network, given observations at locations."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import canonical
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.node_state import labels_from, labels_state
from coupledgp.gp.protocol import Arrays, Header, Points, Want
from coupledgp.gp.schema import ROUNDING, Entries, check_number, check_shares
from coupledgp.gp.state import positive_scale
from coupledgp.graphs.assembly import check_labels, check_symmetric_csr
from coupledgp.ground.memory import check_memory
from coupledgp.inference.fields.covariance import FieldCovariance
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.linalg.matrices import cholesky_solve
from coupledgp.random import FloatArray

# Prior variance of the constant mean over the mean square of the normalised targets: as good as
# unknown.
MEAN_VARIANCE = 100.0
# Where targets say nothing of a kernel: range and lengthscale over the diameter, and the variances
# of the field and the noise in normalised units.
DEFAULT_LENGTH, DEFAULT_OUTPUTSCALE, DEFAULT_NOISE = 0.4, 1.0, 0.1
# Number of places beyond which draws are made by Matheron's rule, and number of frequencies of the
# part of position in them.
DENSE_SAMPLES, N_FREQUENCIES = 1500, 2048
# First part of the names of an operator's arrays in a file, and name under which the members of a
# mixture are given the covariances that they share.
OPERATOR, COVARIANCE = "operator.", "covariance of fields"


def operator_arrays(state: dict[str, Any]) -> Arrays:
    """Arrays of an operator's state under their names in a file."""
    return {f"{OPERATOR}{name}": value for name, value in state.items() if value is not None}


@dataclass(frozen=True)
class FieldHyperparameters:
    """Fitted kernel and variances, in normalised units.

    Attributes
    ----------
    kernel : FieldKernel
        Kernel of the field, of unit amplitude.
    outputscale : float
        Variance of the field, averaged over the surface.
    noise : float
        Variance of the noise.
    mean_variance : float
        Prior variance of the constant mean.
    """

    kernel: FieldKernel
    outputscale: float
    noise: float
    mean_variance: float


@dataclass(frozen=True, eq=False)
class FieldPrior(DensePrior):
    """`m + f` with a constant `m ~ N(0, b)` and a field `f ~ N(0, v K)`.

    Attributes
    ----------
    fields : FieldCovariance
        Covariances K on the operator.
    hyperparameters : FieldHyperparameters
        Kernel, v, b and the noise variance.
    """

    fields: FieldCovariance
    hyperparameters: FieldHyperparameters

    @property
    def operator(self) -> LaplaceOperator:
        """The surface or network."""
        return self.fields.operator

    @property
    def process_class(self) -> type[ExactGP]:
        return FieldGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between locations a (n, ...) and b (p, ...)."""
        hyper = self.hyperparameters
        if a is b:
            gram = self.fields.gram(hyper.kernel, a)
        # The columns of the covariance are solved for from the side with fewer locations, which
        # for predictions are the observations: their columns are kept.
        elif len(a) < len(b):
            gram = self.fields.cross(hyper.kernel, b, a).T
        else:
            gram = self.fields.cross(hyper.kernel, a, b)
        return hyper.outputscale * gram + hyper.mean_variance

    def variance(self, points: Points) -> FloatArray:
        hyper = self.hyperparameters
        return hyper.outputscale * self.fields.variance(hyper.kernel, points) + hyper.mean_variance

    def sample(self, points: Points, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (p, n_samples) of mean and field at locations (p, ...), normalised units."""
        hyper = self.hyperparameters
        field = self.fields.sample(hyper.kernel, points, n_samples, rng, N_FREQUENCIES)
        constant = np.sqrt(hyper.mean_variance) * rng.standard_normal(n_samples)
        return np.sqrt(hyper.outputscale) * field + constant


@dataclass(frozen=True, eq=False, repr=False)
class FieldGP(ExactGP):
    """A field with a constant mean given observations, by a Cholesky factor of their covariance.

    Points are locations (p, 2 (dimension + 1)), see `coupledgp.geometry.Locations`.
    """

    @property
    def field_prior(self) -> FieldPrior:
        """The prior of the mean and the field."""
        prior = self.dense_prior
        assert isinstance(prior, FieldPrior)
        return prior

    @property
    def hyperparameters(self) -> FieldHyperparameters:  # type: ignore[override]
        return self.field_prior.hyperparameters

    def row_keys(self, points: Points) -> Points:
        """Rows (p, m) of numbers that are equal for equal places, whatever their elements."""
        return canonical(points)

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,) or covariance (p, p), by one factorisation."""
        if want == "covariance":
            self._check_joint_size(len(points))
        return super().latent_law(points, want)

    def _check_joint_size(self, n_wanted: int) -> None:
        """Refuse a joint law that does not fit in memory, before it is computed."""
        n_vertices = self.field_prior.operator.n_vertices
        check_memory(
            8.0 * n_wanted * (5 * n_wanted + 3 * n_vertices),
            f"places: the joint law of {n_wanted} places",
            "ask for fewer places, for return_std, or for sample_y",
        )

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f in normalised units.

        At more than `DENSE_SAMPLES` places draws of the prior are corrected by the observations
        (Matheron's rule): the part of the surface is exact, that of position is drawn from
        `N_FREQUENCIES` coupled frequencies, whose covariance has a relative error of about
        `N_FREQUENCIES^-1/2`.
        """
        if len(points) <= DENSE_SAMPLES:
            return super().latent_samples(points, n_samples, rng)
        n_outputs = self.alpha.shape[1]
        count, n_rows = n_outputs * n_samples, len(self.rows)
        both = np.concatenate([points, self.rows.points])
        drawn = self.field_prior.sample(both, count, rng)
        relative = self.rows.relative_noise
        scale = np.sqrt(self.noise.variance * (1.0 if relative is None else relative[:, None]))
        seen = drawn[len(points) :] + scale * rng.standard_normal((n_rows, count))
        targets = np.repeat(self.units.normalized(self.rows.targets), n_samples, axis=1)
        weights = cholesky_solve(targets - seen, self.factor)
        drawn = drawn[: len(points)]
        drawn += self.dense_prior.covariance(points, self.rows.points) @ weights
        return drawn.reshape(len(points), n_outputs, n_samples)

    def state(self) -> tuple[Header, Arrays]:
        prior, hyper = self.field_prior, self.hyperparameters
        header: Header = {"hyperparameters": asdict(hyper), "process": type(self).__name__}
        arrays = operator_arrays(prior.operator.state())
        header["labels"] = labels_state(prior.operator.labels)
        return self._completed(header, arrays)

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> FieldGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        covariance = arrays.get(COVARIANCE) or restored_covariance(entries)
        prior = FieldPrior(covariance, field_hyperparameters_from(entries, covariance.operator))
        process = cls.restored(prior, entries)
        check_places(process.rows.points, covariance.operator)
        return process

    @classmethod
    def shared_parts(cls, header: Header, arrays: Arrays) -> Arrays:
        """The covariances on the operator of a file, which all members of a mixture share."""
        return {COVARIANCE: restored_covariance(Entries(header, arrays))}


def restored_covariance(entries: Entries) -> FieldCovariance:
    """Covariances on the operator of a file."""
    state: dict[str, np.ndarray | None] = {
        name.removeprefix(OPERATOR): np.asarray(value)
        for name, value in entries.arrays.items()
        if name.startswith(OPERATOR)
    }
    dimension = check_operator(entries, OPERATOR)
    labels = labels_from(entries.value("labels"))
    n_given = entries.sizes["vertices given"]
    if labels is not None:
        labels = check_labels(labels, n_given)
    return FieldCovariance(LaplaceOperator.from_state(state | {"dimension": dimension}, labels))


def check_operator(entries: Entries, prefix: str) -> np.ndarray:
    """Refuse arrays that are no `LaplaceOperator.state()`; return its dimension, an array ()."""
    dimension = entries.integers(f"{prefix}dimension", low=1, high=2)
    corners, n = int(dimension) + 1, len(entries.scales(f"{prefix}mass", "vertices"))
    check_symmetric_csr(
        entries.integers(f"{prefix}stiffness_indptr", n + 1, low=0, high=2**62),
        entries.integers(f"{prefix}stiffness_indices", "entries", low=0, high=n - 1),
        entries.floats(f"{prefix}stiffness_data", "entries"),
        f"{prefix}stiffness",
    )
    entries.integers(f"{prefix}elements", "elements", corners, low=0, high=n - 1)
    entries.integers(f"{prefix}given_vertices", "vertices given", low=-1, high=n - 1)
    given = entries.integers(f"{prefix}given_elements", "given", corners, low=-1, high=n - 1)
    parents = entries.integers(f"{prefix}parents", "elements", low=0, high=len(given) - 1)
    if f"{prefix}copies" in entries.arrays:
        entries.integers(f"{prefix}copies", "vertices", low=0, high=n - 1)
    if f"{prefix}column_sizes" in entries.arrays:
        check_columns(entries, prefix, corners)
    own = {
        "positions": ("vertices", "axes"), "element_lengths": ("elements",),
        "given_lengths": ("given",), "centroids": ("given", 6), "origin": (2,),
    }  # fmt: skip
    for name, shape in own.items():
        if f"{prefix}{name}" in entries.arrays:
            take = entries.scales if name.endswith("lengths") else entries.floats
            take(f"{prefix}{name}", *shape)
    if corners == 2 and (np.diff(parents) < 0).any():
        raise ModelFileError(f"{prefix}parents: expected numbers in rising order, got others")
    if not n or not len(parents):
        raise ModelFileError(f"{prefix}elements: expected at least one, got none")
    return np.asarray(dimension)


def check_columns(entries: Entries, prefix: str, corners: int) -> None:
    """Refuse arrays that are no columns of an operator."""
    sizes = entries.integers(f"{prefix}column_sizes", "columns", low=1, high=2**31)
    entries.floats(f"{prefix}column_corners", "elements", corners, int(sizes.sum()))
    text = entries.integers(f"{prefix}column_names", "letters", low=0, high=255)
    try:
        names = json.loads(bytes(text.tolist()))
    except ValueError:
        names = None
    if not isinstance(names, list) or [type(n) for n in names] != [str] * len(sizes):
        raise ModelFileError(f"{prefix}column_names: expected a name for each column, got others")


def check_places(points: FloatArray, operator: LaplaceOperator) -> None:
    """Refuse rows of observations that are no places on an operator."""
    corners = operator.elements.shape[1]
    if points.shape[1] != 2 * corners:
        raise ModelFileError(f"X: expected {2 * corners} columns, got {points.shape[1]}")
    numbers, weights = points[:, :corners], points[:, corners:]
    whole = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < operator.n_vertices)
    if not whole.all() or (weights < -ROUNDING).any():
        raise ModelFileError("X: expected vertices of the operator and their weights, got others")
    check_shares(weights, "X")


def field_hyperparameters_from(entries: Entries, operator: LaplaceOperator) -> FieldHyperparameters:
    """Hyperparameters of a field on an operator."""
    name = "hyperparameters"
    kernel = kernel_from(entries.value(name, "kernel"))
    if kernel.surface is not None:
        kernel.surface.check(operator.dimension)
        if kernel.surface.alpha is None or kernel.surface.range_ is None:
            raise ModelFileError(f"{name}.kernel: expected a range and an alpha, got none")
        positive_scale(entries, name, "kernel", "surface", "range_")
    if kernel.position is not None:
        check_position(kernel.position, operator, f"{name}.kernel")
        if kernel.position.lengthscale is None:
            raise ModelFileError(f"{name}.kernel: expected a lengthscale, got none")
        positive_scale(entries, name, "kernel", "position", "lengthscale")
    variances = ("outputscale", "noise", "mean_variance")
    return FieldHyperparameters(kernel, *(positive_scale(entries, name, v) for v in variances))


def check_position(kernel: PositionKernel, operator: LaplaceOperator, name: str) -> None:
    """Refuse a kernel of positions or columns that an operator of a file does not have."""
    if len(kernel.columns or ()) not in (0, operator.n_columns):
        raise ModelFileError(f"{name}.columns: expected {operator.n_columns} lengths, got others")
    if operator.positions is None and not any(kernel.columns or ()):
        raise ModelFileError(f"{name}: expected positions, got an operator without")


def kernel_from(state: Header) -> FieldKernel:
    """The kernel of fields in the form of `asdict`."""
    surface, position = state["surface"], state["position"]
    share = state["share"]
    if share is not None:
        check_number(share, "kernel.share", low=0.0, high=1.0)
    return FieldKernel(
        None if surface is None else WhittleMatern(**surface),
        None if position is None else _position_from(position),
        share,
    )


def _position_from(state: Header) -> PositionKernel:
    """A kernel of position in the form of `asdict`."""
    columns = state.get("columns")
    if columns is not None:
        if not isinstance(columns, (list, tuple)):
            raise ModelFileError(f"kernel.columns: expected a list of lengths, got {columns!r:.80}")
        for value in columns:
            check_number(value, "kernel.columns", low=0.0)
        columns = tuple(columns)
    return PositionKernel(**{**state, "columns": columns})
