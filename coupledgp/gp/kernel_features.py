"""Gaussian processes of tables with the features of an expression of kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import numpy as np

from coupledgp.couplings import parse_coupling
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.kernel_prior import KernelPrior, expression_state, prior_from
from coupledgp.gp.mixture import as_member
from coupledgp.gp.protocol import Arrays, Data, Header, Points, Want
from coupledgp.gp.schema import Entries, require_type
from coupledgp.gp.state import (
    data_arrays,
    data_from,
    scalars,
    statistics_from,
    statistics_state,
    tensors,
    text_of,
    units_from,
)
from coupledgp.gp.tables import Box
from coupledgp.gp.weight_space import FeaturePrior, WeightSpaceGP, posterior_from
from coupledgp.ground.progress import Progress, silent
from coupledgp.ground.tensors import torch
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.kernels.feature_terms import ExpressionFeatures
from coupledgp.random import FloatArray

# Beginning of the names of arrays of a file.
NAME = "terms."


@dataclass(frozen=True, eq=False)
class KernelFeaturePrior(FeaturePrior):
    """`f(x) = sqrt(V) phi(x) . w`, `w ~ N(0, I)`, with features of each term of an expression.

    Attributes
    ----------
    expression : KernelPrior
        The expression with its hyperparameters, bounded by the rows.
    """

    expression: KernelPrior = field(kw_only=True)

    @classmethod
    def of(
        cls,
        prior: KernelPrior,
        points: Points,
        n_frequencies: int,
        coupling: Any,
        rng: np.random.Generator,
    ) -> KernelFeaturePrior:
        """Features of a bounded prior, under the laws of the columns of rows (n, D).

        Raises
        ------
        InvalidInputError
            A term has no features.
        """
        features = ExpressionFeatures.of(
            prior.rows, prior.theta, prior.standardised(points), n_frequencies, coupling, rng,
        )  # fmt: skip
        return cls._around(prior, features)

    @classmethod
    def _around(cls, prior: KernelPrior, features: ExpressionFeatures) -> KernelFeaturePrior:
        own = prior.hyperparameters
        unit = own.outputscale if own.outputscale > 0 else 1.0
        features = replace(features, covariance=prior.rows, theta=prior.theta, unit=unit)
        hyper = replace(own, outputscale=unit)
        made, scales = cast(Any, features), cast(Any, hyper)
        return cls(made, prior.center, scales, prior.likelihood, expression=prior)

    @property
    def features(self) -> ExpressionFeatures:
        """The features of standardised rows."""
        return cast(Any, self.feature_map)

    def at(self, vector: FloatArray) -> KernelFeaturePrior:
        """The prior at hyperparameters (1 + q,) of other variances and the same lengthscales."""
        return self._around(replace(self.expression, vector=vector), self.features)

    @property
    def stationary(self) -> Any:
        """The expression as a prior."""
        return self.expression

    is_fitted = False
    is_single = False

    def in_double(self) -> FeaturePrior:
        return self

    def drawn_for(self, *arguments: Any) -> NoReturn:
        """Refused: terms have frequencies of the kernel's law.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError("coupling: expected a law of frequencies beside an expression")

    def stream(self, points: Points) -> FeatureStream:
        own = self.expression
        return FeatureStream(self.feature_map, points, own.center, own.spread)

    def given(self, *arguments: Any, **options: Any) -> KernelFeatureGP:
        found = super().given(*arguments, **options)
        return KernelFeatureGP(**vars(found))

    def phase(self, data: Data) -> float:
        points = next(iter(data.batches)).points
        return 1.0 + self.expression.extent(points)


@as_member
@dataclass(frozen=True, eq=False, repr=False)
class KernelFeatureGP(WeightSpaceGP):
    """Features of an expression given data, O(n M^2).

    Outside of the range of the rows the law has the variance that eigenfunctions leave out there.
    Draws of functions do not have it.
    """

    @property
    def _prior(self) -> KernelFeaturePrior:
        assert isinstance(self.feature_prior, KernelFeaturePrior)
        return self.feature_prior

    def latent_law(
        self, points: Points, want: Want, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray | None]:
        mean, spread = super().latent_law(points, want, report)
        prior = self._prior.expression
        inputs = prior.standardised(points)
        assert prior.box is not None
        outside = np.flatnonzero(prior.box.excludes(inputs))
        if spread is None or not outside.size:
            return mean, spread
        lost = self.feature_prior.hyperparameters.outputscale * self._prior.features.lost(
            inputs[outside]
        )
        spread = spread.copy()
        if want == "variance":
            spread[outside] += np.maximum(lost.diagonal(), 0.0)
        else:
            spread[np.ix_(outside, outside)] += lost
        return mean, spread

    def redrawn(self, coupling: Any, size: int, seed: int) -> WeightSpaceGP:
        prior, rng = self._prior, np.random.default_rng(seed)
        drawn = KernelFeaturePrior.of(
            prior.expression, self.data.points, size, parse_coupling(coupling), rng
        )
        return drawn.given(self.data, self.units, self.normalize)

    def updated(self, data: Data) -> WeightSpaceGP:
        return KernelFeatureGP(**vars(super().updated(data)))

    def on(self, device: torch.device) -> KernelFeatureGP:
        return self

    def state(self) -> tuple[Header, Arrays]:
        prior, features = self._prior, self._prior.features
        header, arrays = expression_state(prior.expression)
        own_header, own_arrays = statistics_state(self.statistics)
        names = sorted(features.arrays)
        box = prior.expression.box
        assert box is not None
        arrays |= own_arrays | {f"{NAME}{k}": features.arrays[n] for k, n in enumerate(names)}
        arrays |= {"box.low": box.low, "box.high": box.high}
        arrays |= {f"posterior.{k}": v for k, v in tensors(self.posterior).items()}
        arrays |= {"y_mean": self.units.offset, "y_scale": self.units.scale}
        if self.rows is not None:
            arrays |= data_arrays(self.rows)
        header |= own_header | {
            "process": type(self).__name__,
            "n_rows": self.statistics.n_rows,
            "posterior": scalars(self.posterior),
            "terms": names,
            "n_frequencies": features.n_frequencies,
            "coupling": text_of(parse_coupling(features.coupling), "coupling"),
            "normalize": self.normalize,
            "scalars": {"log_marginal_likelihood_value_": self.log_evidence},
        }
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> KernelFeatureGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        dim = arrays["expression.center"].shape[0]
        prior = prior_from(entries, dim)
        ends = (entries.floats(f"box.{name}", dim) for name in ("low", "high"))
        prior = replace(prior, box=Box(*ends))
        names = require_type(header.get("terms"), list, "terms")
        if any(f"{NAME}{k}" not in arrays for k in range(len(names))):
            raise ModelFileError("terms: expected names of arrays of the file, got others")
        stored = {str(n): np.asarray(arrays[f"{NAME}{k}"]) for k, n in enumerate(names)}
        features = ExpressionFeatures(
            prior.rows, prior.theta, stored, 1.0,
            entries.integer("n_frequencies", low=1, high=2**31),
            parse_coupling(entries.text("coupling")),
        )  # fmt: skip
        try:
            own = KernelFeaturePrior._around(prior, features)
            entries.sizes["M"] = own.features.n_features
        except (KeyError, ValueError, IndexError, InvalidInputError) as error:
            raise ModelFileError(
                f"terms: expected those of the kernel, got others ({error})"
            ) from None
        statistics = statistics_from(entries, torch.float64)
        rows = data_from(entries) if "X" in arrays else None
        units = units_from(entries)
        posterior, normalize = posterior_from(entries), entries.flag("normalize")
        return cls(own, statistics, posterior, units, normalize, rows)
