"""Makes sure that tests run the present code of compiled functions."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import coupledgp
from coupledgp.ground import compiled

ROOT = Path(str(coupledgp.__file__)).parent


def compiled_modules() -> list[ModuleType]:
    """Modules that define compiled functions."""
    paths = [
        path.relative_to(ROOT.parent).with_suffix("")
        for path in sorted(ROOT.rglob("*.py"))
        if "from coupledgp.ground.compiled import" in path.read_text(encoding="utf-8")
    ]
    return [import_module(".".join(path.parts)) for path in paths]


def compiled_functions() -> list[compiled.Lazy]:
    """Every function that numba compiles, parts included."""
    return [
        value
        for module in compiled_modules()
        for value in vars(module).values()
        if isinstance(value, compiled.Lazy) and value.__module__ == module.__name__
    ]


def forget_stale_code() -> None:
    """Remove cached machine code that is older than any source of compiled functions.

    numba compiles a cached function again when its own file has changed, not when the file of a
    part or a constant of it has: broken laws of steps would pass their tests.
    """
    steps = import_module("coupledgp.couplings.walkers.steps")  # numbers of the laws
    sources = [compiled, steps, *compiled_modules()]
    changed = max(Path(str(module.__file__)).stat().st_mtime for module in sources)
    folders = {function.dispatcher.stats.cache_path for function in compiled_functions()}
    for cached in [file for folder in folders - {None} for file in Path(folder).glob("*.nbc")]:
        if cached.stat().st_mtime < changed:
            cached.unlink(missing_ok=True)
