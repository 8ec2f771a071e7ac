"""Kernels of fields on surfaces and networks: along the surface, of position, and their sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_choice, check_positive, wrong
from coupledgp.metrics import Metric
from coupledgp.spectra import Spectrum, parse_spectrum

# Whole numbers alpha by the dimension of the operator. On a surface alpha = 1 has no limit: its
# variance grows without bound as the mesh is refined.
ALPHAS = {1: (1, 2), 2: (2, 4)}
# Kernels of position that are compared where none is named.
POSITION_KERNELS = ("matern-5/2", "gaussian")
# Ranges from which one is chosen, and the least that is tried, relative to the diameter.
RANGES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
LEAST_SCALE = 0.002


@stored
@dataclass(frozen=True)
class WhittleMatern:
    """Whittle-Matern kernel along a surface or a network, `K = P (M P)^(alpha - 1)` up to scale.

    `P = (kappa^2 M + S)^-1` with the stiffness S and the mass M of a `LaplaceOperator`. The
    smoothness is `nu = alpha - d / 2` in dimension d, the range `sqrt(8 nu) / kappa`: the distance
    at which the correlation on a large flat surface is about .14. K is divided by its mean variance
    over the surface, so that the output scale is the mean variance of the field. Lindgren, Rue and
    Lindstrom (2011); exact at the vertices of networks for alpha = 1, Bolin, Simas and Wallin
    (2024).

    Parameters
    ----------
    range_
        Range, in the unit of length of the operator; None: averaged over a grid by evidence.
    alpha
        2 or 4 on a surface, 1 or 2 on a network; None: both, averaged by evidence.

    Raises
    ------
    InvalidInputError
        The range is not positive, or alpha is none of 1, 2 and 4.

    Examples
    --------
    >>> from coupledgp.kernels import WhittleMatern
    >>> kernel = WhittleMatern(range_=30.0, alpha=2)
    >>> round(kernel.kappa(dimension=2), 4)  # sqrt(8) / 30, since nu is 1 on a surface
    0.0943
    """

    range_: float | None = None
    alpha: int | None = None

    def __post_init__(self) -> None:
        if self.range_ is not None:
            object.__setattr__(self, "range_", check_positive(self.range_, "range_"))
        if self.alpha not in (None, 1, 2, 4) or isinstance(self.alpha, bool):
            raise wrong("alpha", "1, 2 or 4", self.alpha)

    def check(self, dimension: int) -> None:
        """Refuse an alpha that an operator of this dimension does not take."""
        if self.alpha is not None and self.alpha not in ALPHAS[dimension]:
            kind, (low, high) = {1: "network", 2: "surface"}[dimension], ALPHAS[dimension]
            raise InvalidInputError(
                f"alpha: expected {low} or {high} on a {kind}, got {self.alpha}"
            )

    def kappa(self, dimension: int) -> float:
        """`sqrt(8 nu) / range`, per unit of length; range and alpha have to be known."""
        assert self.alpha is not None
        assert self.range_ is not None
        return float(np.sqrt(8.0 * (self.alpha - dimension / 2)) / self.range_)

    def __add__(self, other: PositionKernel) -> FieldKernel:
        return _sum(self, other)


@stored
@dataclass(frozen=True)
class PositionKernel:
    """Stationary kernel of the straight distance between positions, of variance one.

    Parameters
    ----------
    kernel
        `"matern-5/2"`, `"gaussian"` or another kernel that `ExactGPRegressor` takes as a text;
        None: the Matern-5/2 and the Gaussian kernel, averaged by evidence.
    lengthscale
        Lengthscale, in the unit of length of the operator; None: averaged over a grid by evidence.
    columns
        `()`: the position alone. None: with columns of the operator (normals, and those of
        `with_columns`), whose lengths are averaged over a grid by evidence. Or the length, in the
        unit of the operator, that one standard deviation of each column counts for, zero for one
        without effect: `|x - x'|^2 + sum_j columns_j^2 |c_j - c_j'|^2 / sd_j^2` is the squared
        distance then.

    Raises
    ------
    InvalidInputError
        No kernel has this name, the lengthscale is not positive, or the length of a column is
        negative or not finite.

    Examples
    --------
    >>> from coupledgp.kernels import PositionKernel
    >>> kernel = PositionKernel("gaussian", lengthscale=5.0)
    >>> kernel.spectrum.kernel([0.0, 1.0]).round(3).tolist()  # at distances in lengthscales
    [1.0, 0.607]
    """

    kernel: str | None = None
    lengthscale: float | None = None
    columns: tuple[float, ...] | None = ()

    def __post_init__(self) -> None:
        if self.kernel is not None and self.spectrum.metric != Metric.L2:
            raise InvalidInputError(
                "kernel: expected a function of the straight distance between positions, got "
                f"{self.kernel!r}, which changes where the axes are turned"
            )
        if self.lengthscale is not None:
            object.__setattr__(self, "lengthscale", check_positive(self.lengthscale, "lengthscale"))
        if self.columns is not None:
            lengths = tuple(0.0 if v == 0 else check_positive(v, "columns") for v in self.columns)
            object.__setattr__(self, "columns", lengths)

    def check(self, n_columns: int) -> None:
        """Refuse lengths of other columns than those of an operator."""
        if self.columns and len(self.columns) != n_columns:
            raise InvalidInputError(
                f"columns: expected a length of each of the operator's {n_columns} columns, got "
                f"{len(self.columns)}"
            )

    @property
    def has_columns(self) -> bool:
        """Whether columns have an effect, or may have one."""
        return self.columns is None or any(self.columns)

    @property
    def spectrum(self) -> Spectrum:
        """The kernel of unit lengthscale; its name has to be known."""
        return parse_spectrum(self.kernel or "", "kernel")

    def __add__(self, other: WhittleMatern) -> FieldKernel:
        return _sum(other, self)


@stored
@dataclass(frozen=True)
class FieldKernel:
    """`share * K_surface + (1 - share) * K_position`, or one of the two alone.

    Attributes
    ----------
    surface : WhittleMatern or None
        Kernel along the surface or the network.
    position : PositionKernel or None
        Kernel of position.
    share : float or None
        Share of the surface in the variance, strictly between 0 and 1 for a sum; None: averaged
        over a grid by evidence.

    Examples
    --------
    >>> from coupledgp.kernels import PositionKernel, WhittleMatern
    >>> kernel = WhittleMatern(range_=30.0, alpha=2) + PositionKernel("gaussian", lengthscale=5.0)
    >>> kernel.family
    'sum'
    >>> str(kernel)
    'Whittle-Matern, range 30, alpha 2 + gaussian of position, lengthscale 5'
    """

    surface: WhittleMatern | None = None
    position: PositionKernel | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if self.surface is None and self.position is None:
            raise InvalidInputError("kernel: expected a surface kernel, a position kernel or both")
        if self.surface is None or self.position is None:
            object.__setattr__(self, "share", 0.0 if self.surface is None else 1.0)
        elif self.share is not None and not 0 < self.share < 1:
            raise wrong("share", "a number between 0 and 1", self.share)

    @property
    def family(self) -> str:
        """`"surface"`, `"position"` or `"sum"`."""
        if self.position is None:
            return "surface"
        return "position" if self.surface is None else "sum"

    def __str__(self) -> str:
        parts = []
        if self.surface is not None:
            parts.append(
                f"{_percent(self.share)}Whittle-Matern, range {_length(self.surface.range_)}, "
                f"alpha {self.surface.alpha}"
            )
        if self.position is not None:
            rest = None if self.share is None else 1 - self.share
            parts.append(
                f"{_percent(rest)}{self.position.kernel} of position, lengthscale "
                f"{_length(self.position.lengthscale)}{_columns(self.position)}"
            )
        return " + ".join(parts)


KernelOfField: TypeAlias = str | WhittleMatern | PositionKernel | FieldKernel
NAMES = ("auto", "matern", "position")


def parse_field_kernels(
    kernel: KernelOfField, dimension: int, placed: bool, n_columns: int = 0
) -> list[FieldKernel]:
    """Families of kernels that a text or an object stands for.

    Parameters
    ----------
    kernel
        `"auto"` (on a surface its own kernel, that of position and their sum; on a network its own
        kernel with alpha 1 and 2; where there are columns, those of position with and without
        them), `"matern"`, `"position"`, or a kernel.
    dimension
        Dimension of the operator.
    placed
        Whether the operator's vertices have positions.
    n_columns
        Number of the operator's columns.

    Raises
    ------
    InvalidInputError
        The kernel is none of these, or needs positions that are not known.
    """
    if isinstance(kernel, str):
        check_choice(kernel, NAMES, "kernel")
        if kernel == "auto":
            return _every_family(dimension, placed, n_columns > 0)
        part = WhittleMatern() if kernel == "matern" else PositionKernel()
        found = [as_field_kernel(part)]
    else:
        found = [as_field_kernel(kernel)]
    for family in found:
        if family.surface is not None:
            family.surface.check(dimension)
        if family.position is None:
            continue
        family.position.check(n_columns)
        if not (placed or (n_columns and family.position.has_columns)):
            raise InvalidInputError(
                "kernel: expected one along the network, since its vertices have no positions"
            )
    return found


def _every_family(dimension: int, placed: bool, with_columns: bool) -> list[FieldKernel]:
    """Families of `"auto"`; those with columns beside those without."""
    surface, plain, free = WhittleMatern(), PositionKernel(), PositionKernel(columns=None)
    if dimension == 1 or not placed:
        alone = [FieldKernel(WhittleMatern(alpha=alpha)) for alpha in ALPHAS[dimension]]
        joined = [FieldKernel(family.surface, free) for family in alone]
        return alone + (joined if with_columns else [])
    found = [FieldKernel(None, plain), FieldKernel(surface), FieldKernel(surface, plain)]
    if with_columns:
        found += [FieldKernel(None, free), FieldKernel(surface, free)]
    return found


def as_field_kernel(kernel: Any) -> FieldKernel:
    """A kernel as the sum that it is, or as the only part of one."""
    if isinstance(kernel, WhittleMatern):
        return FieldKernel(kernel)
    if isinstance(kernel, PositionKernel):
        return FieldKernel(None, kernel)
    if isinstance(kernel, FieldKernel):
        return kernel
    raise InvalidInputError(
        f"kernel: expected {', '.join(map(repr, NAMES))}, a WhittleMatern, a PositionKernel or "
        f"their sum, got {type(kernel).__name__}"
    )


def _sum(surface: WhittleMatern, position: PositionKernel) -> FieldKernel:
    if not isinstance(surface, WhittleMatern) or not isinstance(position, PositionKernel):
        raise InvalidInputError("kernel: expected the sum of a WhittleMatern and a PositionKernel")
    return FieldKernel(surface, position)


def _percent(share: float | None) -> str:
    return "" if share is None or share == 1.0 else f"{100 * share:.3g} % "


def _columns(position: PositionKernel) -> str:
    if not position.columns or not any(position.columns):
        return ""
    lengths = ", ".join(f"{value:.4g}" for value in position.columns)
    return f", columns as lengths {lengths}"


def _length(value: float | None) -> str:
    return "free" if value is None else f"{value:.4g}"
