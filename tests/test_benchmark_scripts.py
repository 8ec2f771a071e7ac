"""Each script of the benchmarks has a smallest run; `make scripts` runs them all."""

from benchmarks.smallest import run, scripts, table


def test_every_script_has_a_smallest_run():
    assert sorted(table("arguments")) == scripts()
    assert set(table("needs")) <= set(scripts())


def test_a_script_that_fails_is_told():
    done = run("trace_fits.py", "neither")
    assert "neither" in done.fault
