"""Makes sure that tests run the present code of the compiled walk engine."""

from pathlib import Path

from coupledgp import counter
from coupledgp.couplings.walkers import steps
from coupledgp.features.walks import compiled_steps as walk_steps
from coupledgp.features.walks import engine as walk_engine
from coupledgp.features.walks import visits as walk_visits


def forget_stale_code() -> None:
    """Remove cached machine code of walks that is older than any of its sources.

    numba compiles a cached function again when its own file has changed, but not when the file of
    an inlined function has. Without this, broken laws of steps would pass their tests.
    """
    sources = (counter, steps, walk_engine, walk_steps, walk_visits)
    changed = max(Path(str(module.__file__)).stat().st_mtime for module in sources)
    for cached in Path(walk_engine._walk_rows.stats.cache_path).glob("walk_*.nbc"):
        if cached.stat().st_mtime < changed:
            cached.unlink(missing_ok=True)
