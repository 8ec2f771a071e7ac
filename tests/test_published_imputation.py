"""The published tasks of imputation: masks, errors, and a run on files in their real formats."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published_imputation import hidden_cells, main

P, N = 8, 2 * 288


def test_single_readings_are_hidden_by_chance():
    hidden = hidden_cells("point", (60, 4000), np.random.default_rng(0))
    assert hidden.mean() == pytest.approx(0.25, abs=0.004)


def test_faults_last_one_to_four_hours():
    hidden = hidden_cells("block", (200, 4000), np.random.default_rng(0))
    lengths = []
    for row in hidden:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
        lengths.append(edges[1::2] - edges[::2])
    every = np.concatenate(lengths)
    # Single readings beside a fault lengthen it, and faults may overlap.
    long = every[every >= 12]
    assert (long < 60).mean() > 0.9
    assert long.size == pytest.approx(200 * 4000 * 0.0015, rel=0.15)
    # The shortest long run of a sensor is about its one length.
    shortest = np.array([one[one >= 12].min() for one in lengths])
    assert shortest.min() <= 14
    assert 40 <= shortest.max() <= 55


@pytest.mark.long
def test_a_run_on_files_as_they_are_published(tmp_path, capsys):
    """`metr-la.h5` as pandas writes it, and a table of distances."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    speeds = 60 + 5 * np.sin(np.arange(N) / 20)[:, None] + rng.normal(size=(N, P))
    speeds[100, 3] = 0.0  # missing
    sensors = [str(773869 + k) for k in range(P)]
    times = np.datetime64("2012-03-01T00:00") + 5 * np.arange(N) * np.timedelta64(1, "m")
    with h5py.File(tmp_path / "metr-la.h5", "w") as file:
        group = file.create_group("df")
        group["axis0"] = group["block0_items"] = np.array(sensors, dtype="S6")
        group["axis1"] = times.astype("M8[ns]").astype(np.int64)
        group["axis1"].attrs["kind"] = b"datetime64"
        group["block0_values"] = speeds
    rows = [f"{a},{b},{100.0 * abs(i - k)}" for i, a in enumerate(sensors)
            for k, b in enumerate(sensors) if abs(i - k) < 3]  # fmt: skip
    (tmp_path / "distances.csv").write_text("from,to,cost\n" + "\n".join(rows) + "\n")
    main(["--speeds", str(tmp_path / "metr-la.h5"), "--graph", str(tmp_path / "distances.csv"),
          "--masks", "block", "--days", "1.5"])  # fmt: skip
    told = capsys.readouterr().out
    assert f"{P} sensors, 432 steps" in told
    found = {
        cells[3]: float(cells[4]) for cells in (
            [one.strip() for one in line.split("|")] for line in told.splitlines()
            if line.startswith("| block")
        )
    }  # fmt: skip
    values = speeds[:432].T.copy()
    values[values == 0] = np.nan
    hidden = hidden_cells("block", values.shape, np.random.default_rng([31, 0]))
    hidden &= np.isfinite(values)
    error = []
    for row, away in zip(values, hidden, strict=True):
        there = np.flatnonzero(np.isfinite(row) & ~away)
        error.append(np.interp(np.flatnonzero(away), there, row[there]) - row[away])
    expected = np.abs(np.concatenate(error)).mean()
    assert found["linear in time"] == pytest.approx(expected, abs=1e-3)
    assert found["GraphTimeGPRegressor"] < found["mean of the sensor"]
