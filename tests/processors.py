"""The suite as other processors would run it: `python -m tests.processors [PYTEST OPTIONS]`.

OpenBLAS, MKL, torch, NumPy and numba choose their instructions when they are loaded, and round
otherwise with others. Each setting below makes all of them take those of another processor; one is
left out where this processor does not have its instructions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

OLD = ("SSE", "POPCNT", "X86_V2")  # what every 64-bit processor of today has


def available_settings() -> dict[str, dict[str, str]]:
    """Environment variables of each processor whose instructions this one has, by name."""
    has = {name for name, present in __cpu_features__.items() if present}
    newest = {"AVX512_SKX", "X86_V4"} & has
    found = {
        "oldest": {
            "OPENBLAS_CORETYPE": "Nehalem",
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
            "NPY_DISABLE_CPU_FEATURES": _without(has, OLD),
        }
    }
    if {"AVX2", "X86_V3"} & has:
        found["avx2"] = {
            "OPENBLAS_CORETYPE": "Haswell",
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "NUMBA_CPU_NAME": "haswell",
            "NPY_DISABLE_CPU_FEATURES": _without(has, (*OLD, "AVX2", "FMA3", "X86_V3")),
        }
    if newest:
        found["avx512"] = {"OPENBLAS_CORETYPE": "SkylakeX", "NUMBA_CPU_NAME": "skylake-avx512"}
    return found


def _without(has: set[str], kept: tuple[str, ...]) -> str:
    """Features that NumPy chooses by at run time and that are not kept, as it wants them named."""
    return " ".join(f for f in __cpu_dispatch__ if f in has and not f.startswith(kept))


def main(options: list[str]) -> int:
    """Run the suite with each setting; the number of those with which a test failed."""
    failed = []
    for name, settings in available_settings().items():
        print(f"== {name}: " + " ".join(f"{key}={value}" for key, value in settings.items()))
        command = [sys.executable, "-m", "pytest", *(options or ["-n", "2", "-q"])]
        environment = {**os.environ, **settings}
        done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], check=False)
        failed += [name] if done.returncode else []
    print(f"failed with: {', '.join(failed)}" if failed else "passed with each")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
