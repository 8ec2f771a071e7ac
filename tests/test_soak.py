"""What a round of fitting, predicting, saving and loading leaves behind, and the slope of a run."""

import gc
import tracemalloc

import numpy as np
import pytest

from benchmarks.soak import WORK, rounds, slope

# A model that stayed alive would leave more: its features alone take 200 kB.
LEFT_BEHIND = 50_000


@pytest.mark.parametrize(("name", "n_settling"), [("features", 2), ("graph", 4)])
def test_a_round_leaves_nothing_behind(name, n_settling, tmp_path):
    def left_after(number: int) -> int:
        WORK[name](np.random.default_rng(number), tmp_path)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    WORK[name](np.random.default_rng(0), tmp_path)  # what is loaded once
    tracemalloc.start()
    try:
        held = [left_after(number) for number in range(n_settling + 2)]
    finally:
        tracemalloc.stop()
    # The spectra of the last few graphs are kept, of so many and no more.
    assert min(held[-2:]) - held[-3] < LEFT_BEHIND


def test_rounds_tell_the_state_of_the_process():
    found = list(rounds(["features"], 60.0, 2))
    assert [row["round"] for row in found] == [1, 2]
    assert all(row["resident_mb"] > 50 and row["files"] > 2 for row in found)


def test_the_slope_is_that_of_the_second_half(rng):
    values = np.concatenate([np.linspace(0, 1e6, 50), 7 + 0.25 * np.arange(50)])
    assert slope(values) == pytest.approx((0.25, 0.0), abs=1e-10)
    noisy = [slope(rng.normal(size=400))[0] for _ in range(200)]
    errors = [slope(rng.normal(size=400))[1] for _ in range(200)]
    assert np.mean(errors) == pytest.approx(np.std(noisy), rel=0.25)
