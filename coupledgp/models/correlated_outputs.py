"""Regression of several correlated outputs, of which rows may miss any."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp import container
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries, require_type
from coupledgp.gp.units import Units
from coupledgp.gp.weight_space import WeightSpaceGP
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import (
    check_magnitude,
    check_positive_int,
    plain_array,
    real_array,
)
from coupledgp.ground.warned import warn
from coupledgp.inference.weights.coregional import (
    Coregionalisation,
    OutputSums,
    OutputWeights,
    fitted_outputs,
    patterns_of,
)
from coupledgp.models.estimator import check_probabilities, interval_ends
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor
from coupledgp.random import FloatArray, draw_seed

# Shares of an output's own kernel, and of the correlations of the data, at the start; share of
# these correlations.
OWN, SHARED, SHRUNK = 0.5, 0.5, 0.9
# Matrices of the weights that are alive at once, and most weights.
MATRICES, MOST_WEIGHTS = 4, 12_000
# Start of the names of the arrays of a single output in a file, most outputs there, and eigenvalues
# that are rounding.
PREFIX, MOST_OUTPUTS, ROUNDING = "output {}: ", 64, 1e-9
# Fewest rows of an output, and of two outputs whose correlation is looked at.
LEAST_ROWS, LEAST_BOTH = 3, 5


class CorrelatedOutputsGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression of Q correlated outputs; y may be NaN where one was not measured.

    `cov(f_q(x), f_t(x')) = sum_r B_r,qt k_r(x, x')`, a kernel r of each output, whose features and
    lengthscales are those of a model of this output alone on the rows that have it; noise has a
    covariance S between the outputs of a row. B_r and S have the greatest evidence of all entries;
    a prior as of ten rows pulls correlations of the noise to zero. The posterior given these is
    exact in the space of the weights, whatever is missing (`inference.weights.coregional`). With
    diagonal B_r and S the outputs are models of their own.

    Parameters
    ----------
    model : SparseSpectrumGPRegressor
        Unfitted model of one output; each output has a clone. Its frequencies are sampled, and it
        has no `target_transform`. Cost grows with the cube of Q^2 times its features: a small
        number of frequencies, such as 64, is enough for the start.
    max_iter : int
        Most iterations of the search for covariances and noise; each factors all weights.

    Attributes
    ----------
    models_
        The models of single outputs (Q,).
    covariances_
        B (Q, Q, Q), of each kernel, in units of y.
    correlation_
        Correlations (Q, Q) of the functions at one x.
    noise_, noise_covariance_
        Noise variance (Q,) of each output, and covariance (Q, Q), in units of y squared.
    log_marginal_likelihood_value_
        Log evidence of all entries in their units.
    log_evidence_apart_
        The same of independent outputs, by the models of single outputs.
    n_iter_, converged_
        Iterations of the search, and whether it converged.
    n_outputs_
        Number Q of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 0]])
    >>> cgp.CorrelatedOutputsGPRegressor().fit(X, Y).predict([[1.5]]).shape
    (1, 2)
    """

    def __init__(self, model: Any = None, max_iter: int = 200) -> None:
        self.model = model
        self.max_iter = max_iter

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the models of single outputs, then what outputs share.

        Parameters
        ----------
        X
            Inputs (n, d), as the model takes them.
        y
            Targets (n, Q), NaN where an output was not measured.

        Raises
        ------
        InvalidInputError
            y has fewer than two outputs or one with too few values, or the model is of another
            kind.
        MemoryLimitError
            The precision of all weights does not fit.

        Warns
        -----
        ConvergenceWarning
            The search stopped at `max_iter`.
        """
        base = SparseSpectrumGPRegressor(n_frequencies=64) if self.model is None else self.model
        steps = check_positive_int(self.max_iter, "max_iter")
        targets = _targets(y)
        n, Q = targets.shape
        if Q < 2:
            raise InvalidInputError(f"y: expected two outputs or more, shape (n, Q), got {Q}")
        if not isinstance(base, SparseSpectrumGPRegressor):
            raise InvalidInputError(
                "model: expected a SparseSpectrumGPRegressor, whose features all outputs share, "
                f"got {type(base).__name__}"
            )
        models = []
        for q in range(Q):
            there = np.flatnonzero(~np.isnan(targets[:, q]))
            if there.size < LEAST_ROWS:
                raise InvalidInputError(
                    f"y: output {q + 1}: expected {LEAST_ROWS} values or more, got {there.size}"
                )
            models.append(clone(base).fit(_safe_indexing(X, there), targets[there, q]))
            _process(models[-1])
        sizes = tuple(_process(model).feature_map.n_features for model in models)
        weights = Q * sum(sizes)
        if weights > MOST_WEIGHTS:
            raise InvalidInputError(
                f"model: expected at most {MOST_WEIGHTS} weights of {Q} outputs and as many "
                f"kernels, got {weights}: use fewer frequencies"
            )
        n_patterns = len(patterns_of(targets)[0])
        check_memory(
            8.0 * (MATRICES * weights**2 + (n + n_patterns * sum(sizes)) * sum(sizes)),
            f"y: {Q} outputs with {weights} weights", "use fewer frequencies",
        )  # fmt: skip
        moments = [Units.of(column[~np.isnan(column), None], True) for column in targets.T]
        units = Units(*(np.array([getattr(one, part)[0] for one in moments])
                        for part in ("offset", "scale")))  # fmt: skip
        z = units.normalized(targets)
        features = _features(models, X)
        sums = OutputSums.of(features, z)
        with reporter("fit", getattr(base, "progress", None)) as report:
            found, n_iter, converged = fitted_outputs(
                _started(models, units, z, sizes), sums, steps, report
            )
        if not converged:
            warn(
                f"the evidence of the outputs still rose at iteration {n_iter}; its law is used",
                ConvergenceWarning,
            )
        self.models_, self._units, self._weights = models, units, found
        self.n_iter_, self.converged_ = n_iter, converged
        self.n_features_in_ = models[0].n_features_in_
        return self

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Add rows; kernels, covariances, noise and units are kept. The first call is `fit`."""
        if not hasattr(self, "models_"):
            return self.fit(X, y)
        targets = self._further(y)
        features = _features(self.models_, X)
        if len(features) != len(targets):
            raise InvalidInputError(f"y: expected {len(features)} rows, got {len(targets)}")
        sums = OutputSums.of(features, self._units.normalized(targets))
        old = self._weights
        self._weights = OutputWeights.given(old.law, old.sums.with_more(sums))
        return self

    def _further(self, y: ArrayLike) -> FloatArray:
        targets = _targets(y)
        if targets.shape[1] != self.n_outputs_:
            raise InvalidInputError(
                f"y: expected {self.n_outputs_} outputs as in the fit, got {targets.shape[1]}"
            )
        return targets

    @property
    def n_outputs_(self) -> int:
        """Number Q of the outputs."""
        check_is_fitted(self, "models_")
        return self._weights.law.n_outputs

    @property
    def covariances_(self) -> FloatArray:
        """B (Q, Q, Q) of each kernel, in units of y."""
        scale = self._scale
        return np.asarray(self._weights.law.covariances * np.outer(scale, scale))

    @property
    def _scale(self) -> FloatArray:
        check_is_fitted(self, "models_")
        return self._units.scale

    @property
    def correlation_(self) -> FloatArray:
        """Correlations (Q, Q) of the functions at one x, a priori."""
        total = self.covariances_.sum(axis=0)
        roots = np.sqrt(total.diagonal())
        return np.asarray(total / np.outer(roots, roots))

    @property
    def noise_(self) -> FloatArray:
        """Noise variance (Q,) of each output, in units of y squared."""
        return self.noise_covariance_.diagonal().copy()

    @property
    def noise_covariance_(self) -> FloatArray:
        """Covariance (Q, Q) of the noise of the outputs of a row, in units of y squared."""
        scale = self._scale
        return np.asarray(self._weights.law.noise * np.outer(scale, scale))

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log evidence of all entries in their units, nats."""
        counts = self._weights.sums.n_entries
        return self._weights.log_evidence - float(counts @ np.log(self._scale))

    @property
    def log_evidence_apart_(self) -> float:
        """Log evidence of the entries of the fit under models of single outputs, nats."""
        return sum(model.log_marginal_likelihood_value_ for model in self.models_)

    def law(
        self, X: Any, latent: bool = False, given: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means (p, Q) and covariances (p, Q, Q) of the outputs at each row, in units of y.

        Parameters
        ----------
        X
            Inputs (p, d).
        latent
            Of the functions, without noise.
        given
            Outputs (p, Q) that are known at these rows, NaN where not: laws are given them, each
            row alone. Known observations have the variance zero.

        Raises
        ------
        InvalidInputError
            X or `given` do not fit the data of the fit.
        """
        features = _features(self.models_ if hasattr(self, "models_") else _refused(self), X)
        mean = self._units.mean(self._weights.means(features))
        scale = np.outer(self._scale, self._scale)
        covariance = self._weights.covariances(features) * scale
        if given is None:
            return mean, covariance + (0.0 if latent else self.noise_covariance_)
        known = self._further(given)
        if len(known) != len(mean):
            raise InvalidInputError(f"given: expected {len(mean)} rows, got {len(known)}")
        return _conditioned(mean, covariance, self.noise_covariance_, known, latent)

    def predict(
        self, X: Any, return_std: bool = False, *, latent: bool = False,
        given: ArrayLike | None = None,
    ) -> Any:  # fmt: skip
        """Predictive means (p, Q), and standard deviations (p, Q); arguments as of `law`."""
        if not return_std and given is None:
            check_is_fitted(self, "models_")
            return self._units.mean(self._weights.means(_features(self.models_, X)))
        mean, covariance = self.law(X, latent, given)
        if not return_std:
            return mean
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        return mean, np.sqrt(np.maximum(variances, 0.0))

    def predict_interval(
        self, X: Any, level: float = 0.95, *, given: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Ends (p, Q) of the intervals that hold an observation with the probability `level`."""
        low, high = np.moveaxis(self.predict_quantiles(X, interval_ends(level), given=given), 2, 0)
        return low, high

    def predict_quantiles(
        self, X: Any, quantiles: ArrayLike = (0.05, 0.5, 0.95), *, given: ArrayLike | None = None
    ) -> FloatArray:
        """Quantiles (p, Q, q) of observations at probabilities (q,) in (0, 1)."""
        chances = check_probabilities(quantiles, "quantiles")
        mean, std = self.predict(X, True, given=given)
        return np.asarray(mean[..., None] + std[..., None] * ndtri(chances))

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = None, *, latent: bool = False
    ) -> FloatArray:
        """Draws (p, Q, n_samples), joint over rows and outputs."""
        check_is_fitted(self, "models_")
        check_positive_int(n_samples, "n_samples")
        rng = np.random.default_rng(draw_seed(random_state))
        weights = self._weights.drawn(n_samples, rng)
        drawn = np.einsum("pm,qms->pqs", _features(self.models_, X), weights)
        found = self._units.samples(drawn)
        if not latent:
            root = np.linalg.cholesky(self.noise_covariance_)
            found = found + np.einsum("qt,pts->pqs", root, rng.standard_normal(found.shape))
        return np.asarray(found)

    def log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        """Log predictive density (p,), nats, of the known outputs of each row, jointly."""
        mean, covariance = self.law(X)
        targets = self._further(y)
        out = np.zeros(len(mean))
        for row, (error, C) in enumerate(zip(targets - mean, covariance, strict=True)):
            there = ~np.isnan(error)
            if there.any():
                root = np.linalg.cholesky(C[np.ix_(there, there)])
                z = np.linalg.solve(root, error[there])
                out[row] = -0.5 * float(z @ z) - float(np.log(root.diagonal()).sum())
                out[row] -= 0.5 * there.sum() * np.log(2.0 * np.pi)
        return out

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Mean coefficient of determination over the outputs, of the entries that are known."""
        from sklearn.metrics import r2_score

        targets, mean = self._further(y), self.predict(X)
        found = []
        for q in range(targets.shape[1]):
            there = ~np.isnan(targets[:, q])
            weight = None if sample_weight is None else np.asarray(sample_weight)[there]
            found.append(r2_score(targets[there, q], mean[there, q], sample_weight=weight))
        return float(np.mean(found))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; see `coupledgp.save_model`."""
        container.write(path, *self.state())

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of a file: models of single outputs without rows, and the rest."""
        check_is_fitted(self, "models_")
        law, sums = self._weights.law, self._weights.sums
        headers: list[Header] = []
        arrays: Arrays = {
            "output_covariances": law.covariances, "output_noise": law.noise,
            "output_patterns": sums.patterns.astype(np.int64),
            "output_grams": sums.grams, "output_crosses": sums.crosses,
            "output_squares": sums.squares, "output_counts": sums.counts,
            "output_offset": self._units.offset, "output_scale": self._units.scale,
        }  # fmt: skip
        for q, model in enumerate(self.models_):
            header, own = model._state(False)
            headers.append(header)
            arrays |= {f"{PREFIX.format(q)}{name}": value for name, value in own.items()}
        header = {
            "class": type(self).__name__, "outputs": headers, "max_iter": int(self.max_iter),
            "n_iter": int(self.n_iter_), "converged": bool(self.converged_),
        }  # fmt: skip
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Self:
        """Return the fitted model of `state`."""
        entries = Entries(header, arrays)
        headers = require_type(entries.value("outputs"), list, "outputs")
        Q = len(headers)
        if not 2 <= Q <= MOST_OUTPUTS:
            raise ModelFileError(f"outputs: expected 2 to {MOST_OUTPUTS} models, got {Q}")
        models = []
        for q, own in enumerate(headers):
            prefix = PREFIX.format(q)
            parts = {name.removeprefix(prefix): value for name, value in arrays.items()
                     if name.startswith(prefix)}  # fmt: skip
            models.append(SparseSpectrumGPRegressor.from_state(
                require_type(own, dict, "outputs"), parts
            ))  # fmt: skip
        sizes = tuple(_process(model).feature_map.n_features for model in models)
        M = sum(sizes)
        covariances = entries.floats("output_covariances", Q, Q, Q)
        grams = entries.floats("output_grams", "patterns", M, M)
        noise = entries.floats("output_noise", Q, Q)
        named = {
            "output_covariances": covariances, "output_grams": grams, "output_noise": noise[None],
        }  # fmt: skip
        for name, found in named.items():
            least = np.linalg.eigvalsh(found)
            if not (least[:, 0] >= -ROUNDING * np.abs(least[:, -1])).all():
                raise ModelFileError(f"{name}: expected covariances, got a negative eigenvalue")
        if not (np.linalg.eigvalsh(noise)[0] > 0 and np.linalg.eigvalsh(covariances).min() > 0):
            raise ModelFileError("output_noise: expected matrices of full rank, got others")
        law = Coregionalisation(covariances, noise, sizes)
        sums = OutputSums(
            entries.integers("output_patterns", "patterns", Q, low=0, high=1) == 1, grams,
            entries.floats("output_crosses", "patterns", Q, M),
            entries.floats("output_squares", "patterns", Q, Q),
            entries.floats("output_counts", "patterns", low=0.0),
        )  # fmt: skip
        model = cls(clone(models[0]), entries.integer("max_iter", low=1, high=2**40))
        model.models_, model._weights = models, OutputWeights.given(law, sums)
        model._units = Units(entries.floats("output_offset", Q), entries.scales("output_scale", Q))
        model.n_iter_ = entries.integer("n_iter", low=0, high=2**40)
        model.converged_ = entries.flag("converged")
        model.n_features_in_ = models[0].n_features_in_
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        return tags


def _refused(model: CorrelatedOutputsGPRegressor) -> list[Any]:
    check_is_fitted(model, "models_")
    return []


def _targets(y: ArrayLike) -> FloatArray:
    """Targets (n, Q), NaN where they are missing."""
    found = real_array(plain_array(y, "y"), "y")
    if found.ndim != 2:
        raise InvalidInputError(f"y: expected the shape (n, Q), got {found.shape}")
    infinite = np.argwhere(np.isinf(found))
    if len(infinite):
        row, output = infinite[0]
        raise InvalidInputError(
            f"y: output {output + 1}, row {row + 1}: expected a finite number, or NaN where it is "
            f"missing, got {found[row, output]}"
        )
    check_magnitude(found[~np.isnan(found)], "y")
    return np.asarray(found, dtype=np.float64)


def _process(model: SparseSpectrumGPRegressor) -> WeightSpaceGP:
    process = model.process_
    if not isinstance(process, WeightSpaceGP):
        raise InvalidInputError(
            "model: expected one whose process is a WeightSpaceGP (a single kernel, sampled "
            "frequencies, no average of hyperparameters, no target_transform), got a "
            f"{type(process).__name__}"
        )
    return process


def _features(models: list[Any], X: Any) -> FloatArray:
    """Features (n, M) of all kernels, of unit outputscale."""
    parts = []
    for model in models:
        stream = _process(model).feature_prior.stream(model.points(X))
        parts.append(np.concatenate([f.double().cpu().numpy() for _, _, f in stream]))
    return np.concatenate(parts, axis=1)


def _started(
    models: list[Any], units: Units, z: FloatArray, sizes: tuple[int, ...]
) -> Coregionalisation:
    """Covariances and noise from the models of single outputs and correlations of the data."""
    Q = len(models)
    R = np.eye(Q)
    for q in range(Q):
        for t in range(q):
            both = ~np.isnan(z[:, q]) & ~np.isnan(z[:, t])
            if both.sum() >= LEAST_BOTH and z[both, q].std() > 0 and z[both, t].std() > 0:
                R[q, t] = R[t, q] = SHRUNK * np.corrcoef(z[both, q], z[both, t])[0, 1]
    values, vectors = np.linalg.eigh(R)
    R = (vectors * np.maximum(values, 0.05)) @ vectors.T
    own = np.array([_process(model).hyperparameters.outputscale for model in models])
    noise = np.array([_process(model).hyperparameters.noise for model in models])
    roots = np.sqrt(own)
    covariances = np.stack([
        SHARED / Q * R * np.outer(roots, roots) + OWN * np.diag(own * (np.arange(Q) == r))
        for r in range(Q)
    ])  # fmt: skip
    roots = np.sqrt(noise)
    return Coregionalisation(
        covariances, (OWN * np.eye(Q) + SHARED * R) * np.outer(roots, roots), sizes
    )


def _conditioned(
    mean: FloatArray, covariance: FloatArray, noise: FloatArray, known: FloatArray, latent: bool
) -> tuple[FloatArray, FloatArray]:
    """Laws (p, Q), (p, Q, Q) given known outputs of each row; rows of one pattern go together."""
    mean, covariance = mean.copy(), covariance.copy()
    observed = ~np.isnan(known)
    patterns, number = np.unique(observed, axis=0, return_inverse=True)
    number = number.reshape(-1)
    for k, pattern in enumerate(patterns):
        rows = np.flatnonzero(number == k)
        F = covariance[rows]
        whole = F if latent else F + noise
        if pattern.any():
            S = F[:, pattern][:, :, pattern] + noise[np.ix_(pattern, pattern)]
            gain = np.linalg.solve(S, whole[:, pattern]).transpose(0, 2, 1)
            error = known[rows][:, pattern] - mean[rows][:, pattern]
            mean[rows] += np.einsum("pqk,pk->pq", gain, error)
            whole = whole - gain @ whole[:, pattern]
        if not latent:
            whole[:, pattern] = 0.0
            whole[:, :, pattern] = 0.0
            block = mean[rows]
            block[:, pattern] = known[rows][:, pattern]
            mean[rows] = block
        covariance[rows] = whole
    return mean, covariance
