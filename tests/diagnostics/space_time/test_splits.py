"""Splits hide what their plan says, the same for the same seed."""

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.diagnostics.space_time.splits import SensorReadings, SpaceTimeSplit, SplitPlan
from coupledgp.errors import InvalidInputError
from tests.diagnostics.space_time.cases import readings, road

PLAN = SplitPlan(sensors=0.25, cells=0.1, gap=10.0, gap_sensors=0.5, horizon=4.0)


def timed(n_times=600):
    seconds = 300.0 * np.arange(n_times)
    values = np.zeros((12, n_times))
    return SensorReadings(values, seconds, np.arange(12), road(), seconds % 86400)


def test_a_plan_hides_sensors_gaps_cells_and_the_last_times():
    split = PLAN.draw(readings(), 3)
    sensors, gaps = split.of_kind("hidden sensor"), split.of_kind("gap")
    out = sensors.any(axis=1)
    assert out.sum() == 3
    assert split.hidden[out].all()
    assert sensors[out, :56].all()
    np.testing.assert_array_equal(split.ahead, [0] * 56 + [1, 2, 3, 4])
    ahead = split.of_kind("forecast")
    assert ahead[~out, 56:].all()
    assert not ahead[out].any()
    assert split.hidden[:, 56:].all()
    with_gap = gaps.any(axis=1)
    assert with_gap.sum() == 4  # half of nine others, rounded
    for row in gaps[with_gap]:
        columns = np.flatnonzero(row)
        assert columns.size == 10
        assert np.ptp(columns) == 9
        assert columns[-1] < 56
    cells = split.of_kind("scattered")
    assert 0 < cells.sum() < 0.3 * cells.size
    assert not (cells & (gaps | sensors | ahead)).any()
    np.testing.assert_array_equal(
        split.hidden, (split.kind >= 0) | (out[:, None] & (split.ahead > 0))
    )


def test_seeds():
    again, other = PLAN.draw(readings(), 3), PLAN.draw(readings(), 4)
    np.testing.assert_array_equal(again.kind, PLAN.draw(readings(), 3).kind)
    assert (again.kind != other.kind).any()


def test_timestamps_have_six_hours_and_an_hour_by_default():
    split = SplitPlan().draw(timed(), 0)
    assert split.ahead.max() == 12
    assert set(split.of_kind("gap").sum(axis=1)) == {0, 72}
    texts = SplitPlan(gap="90min", horizon="30min").draw(timed(), 0)
    assert texts.ahead.max() == 6
    assert set(texts.of_kind("gap").sum(axis=1)) == {0, 18}


def test_numbers_have_shares_of_the_span_by_default():
    split = SplitPlan().draw(readings(200), 0)
    assert split.ahead.max() == 2
    assert set(split.of_kind("gap").sum(axis=1)) == {0, 10}


def test_irregular_times_hide_by_length_of_time():
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 60))
    split = PLAN.draw(replace(readings(), times=times), 0)
    for row in split.of_kind("gap"):
        if row.any():
            assert np.ptp(times[row]) < 10.0


def test_a_split_of_masks():
    masks = {name: np.zeros((2, 5), dtype=bool) for name in ("a", "b")}
    masks["a"][0, :3], masks["b"][0, 2:] = True, True
    split = SpaceTimeSplit.of_masks(masks)
    np.testing.assert_array_equal(split.kind[0], [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(split.ahead, 0)
    assert not split.of_kind("other").any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SplitPlan(sensors=1.5), "sensors: expected a share"),
        (lambda: SplitPlan(gap=-1.0), "gap: expected a number >= 0"),
        (lambda: SplitPlan(horizon="soon").draw(timed(), 0), "horizon: expected"),
        (lambda: SplitPlan(gap="6h").draw(readings(), 0), "gap: expected a number, as times are"),
        (lambda: SpaceTimeSplit.of_masks({}), "masks: expected boolean arrays"),
        (lambda: SpaceTimeSplit.of_masks({"a": np.zeros((2, 2))}), "masks: expected boolean"),
        (lambda: PLAN.draw(readings(), 0).check(timed()), "splits: expected masks of shape"),
        (
            lambda: SpaceTimeSplit.of_masks({"a": np.ones((12, 60), bool)}).check(readings()),
            "some that are left, got 0",
        ),
        (lambda: replace(readings(), times=np.zeros(60)), "times: expected finite numbers"),
        (lambda: replace(readings(), values=np.full((12, 60), np.inf)), "values: expected numbers"),
        (lambda: replace(readings(), sites=np.arange(3)), "values: expected shape"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
