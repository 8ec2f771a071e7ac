"""The number of frequencies for a target of the KL, in closed form before anything is drawn.

An exact GP of some rows gives the hyperparameters, and a pilot of the table the form Q of its
posterior. Independent frequencies have an expected KL of V / m. A draw for the posterior is made
from the pilot's pool at sizes below V / target, by bisection, and its own Q tells its KL. The least
size whose expected KL lies below the target is taken; it is for the caller to
measure the KL of the fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.core.posterior_draw import (
    LEAST_DRAWN_ROWS,
    LEAST_PER_DIMENSION,
    PILOT_QUERIES,
    PILOT_ROWS,
    POOL,
    WeighedPool,
)
from coupledgp.core.posterior_form import PosteriorForm
from coupledgp.core.process import Data
from coupledgp.couplings.frequencies.registry import DEFAULT_COUPLING, POSTERIOR
from coupledgp.tables.coupling_search import Selection, Trial
from coupledgp.tables.member_kinds import HeldOutRows

# Expected KL, nats per point, of as many frequencies as are tried at most, above which no number
# serves; and growth of V from a pilot of half the rows, above which a pilot does not tell V.
HOPELESS, MOST_GROWTH = 0.3, 1.5
# Scrambles of the pool that V is the mean over, and frequencies of each.
SCRAMBLES, POOL_SIZE = 4, 1024
# First size of a draw over that of independent frequencies, most draws, and the ratio below which
# two sizes are alike: KLs of draws scatter by as much.
FIRST_SHARE, MOST_DRAWS, STEP = 0.35, 4, 2**0.25


def expected_selection(
    model: Any, data: Data, columns: Any, seed: int, progress: bool | None
) -> Selection | None:
    """Choose the least number of frequencies whose expected KL meets the model's target.

    Returns None where the closed form does not serve: features that are not Fourier features, a
    coupling that was named, fewer than 200 rows, or a pilot too small for the table.
    """
    if not model.has_closed_form or len(data) < LEAST_DRAWN_ROWS:
        return None
    rows = HeldOutRows.of(model, data, PILOT_QUERIES, PILOT_ROWS, seed, progress, columns)
    rng = np.random.default_rng(seed)
    form = model.posterior_form(rows.exact, data, rng, PILOT_ROWS)
    dim = data.points.shape[1]
    growth, error = _variance(form, dim, rng)
    half = model.posterior_form(rows.exact, data, rng, PILOT_ROWS // 2)
    if len(data) > PILOT_ROWS and growth > MOST_GROWTH * _variance(half, dim, rng)[0]:
        return None
    search = _Sizes(form, dim, growth, error, model.kl_target, rng)
    first, last = rows.first_size, rows.last_size
    best = search.independent(DEFAULT_COUPLING, first, last)
    least = LEAST_PER_DIMENSION * dim
    if model.frequencies != "sampled" and best.size > least and growth <= HOPELESS * last:
        best = search.drawn(least, best)
    return Selection(
        best, best.kl_per_point <= model.kl_target, model.kl_target, tuple(search.trials),
        model.size_parameter, form.n_rows, form.n_queries, len(data),
        model.chosen(best.coupling, best.size), expected=True,
    )  # fmt: skip


def _variance(form: PosteriorForm, dim: int, rng: np.random.Generator) -> tuple[float, float]:
    """V, nats per query times frequencies, and its standard error."""
    pools = [POOL.sample(POOL_SIZE, dim, form.spectrum, rng) for _ in range(SCRAMBLES)]
    found = [form.diagonal(form.atoms(pool)).mean() - form.of_kernel for pool in pools]
    own = np.maximum(found, 0.0) / form.n_queries
    return float(own.mean()), float(own.std(ddof=1) / np.sqrt(SCRAMBLES))


class _Sizes:
    """Expected KLs of sizes, and the trials that were made of them."""

    def __init__(
        self,
        form: PosteriorForm,
        dim: int,
        variance: float,
        error: float,
        target: float,
        rng: np.random.Generator,
    ) -> None:
        self.form, self.dim, self.variance, self.error = form, dim, variance, error
        self.target, self.rng = target, rng
        self.trials: list[Trial] = []

    def independent(self, coupling: str, first: int, last: int) -> Trial:
        """The least number of frequencies of the kernel's law, or the largest that is tried."""
        size = int(np.clip(np.ceil(self.variance / self.target), first, last))
        self.trials.append(Trial(coupling, size, self.variance / size, self.error / size))
        return self.trials[-1]

    def drawn(self, least: int, best: Trial) -> Trial:
        """The least number of frequencies drawn for the posterior, if fewer than those of a trial.

        Each size is where the KL of the last, falling as 1 / m, would meet the target; at most
        four are drawn, each of which costs some fits of hyperparameters.
        """
        low, high, size = least, best.size, max(least, int(FIRST_SHARE * best.size))
        pool = WeighedPool.of(self.form, self.dim, high, self.rng)
        for _ in range(MOST_DRAWS):
            draw = pool.draw(size, self.rng)
            trial = Trial(POSTERIOR, size, draw.kl_per_point, 0.0)
            self.trials.append(trial)
            if trial.kl_per_point <= self.target:
                best, high = trial, size
            else:
                low = size + 1
            size = int(np.clip(np.ceil(size * trial.kl_per_point / self.target), low, high))
            if high <= STEP * low or size in {trial.size for trial in self.trials[1:]}:
                break
        if best.kl_per_point <= self.target:
            return best
        return min(self.trials, key=lambda trial: trial.kl_per_point)
