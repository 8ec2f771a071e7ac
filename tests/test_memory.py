"""Peak memory of `fit`, measured in separate processes: it must not grow with the number of rows.

Growth is counted from the state in which the table is in memory. The features of all rows would be
sixteen times as large as the table.
"""

import json
import subprocess
import sys

import pytest

pytest.importorskip("resource")

DIM, N_FREQUENCIES = 8, 64
SHORT, LONG = 30_000, 230_000

SCRIPT = """
import json, resource, sys
import numpy as np
import torch
from coupledgp import SparseSpectrumGPRegressor

n, dim, m = map(int, sys.argv[1:])
torch.set_num_threads(1)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def fit(X, y, optimizer):
    return SparseSpectrumGPRegressor(
        n_frequencies=m, random_state=0, optimizer=optimizer, lengthscale=2.0, max_iter=1,
        n_restarts=0, progress=False,
    ).fit(X, y)

rng = np.random.default_rng(0)
X = np.empty((n, dim))
rng.standard_normal(out=X)
y = np.empty(n)
np.sin(X[:, 0], out=y)
extra = []
for optimizer in (None, "lbfgs"):  # the lesser peak first: it is never forgotten
    fit(X[:3000], y[:3000], optimizer)  # whatever is loaded and allocated once
    before = resident()
    gp = fit(X, y, optimizer)
    assert np.shares_memory(gp.X_train_, X)
    del gp
    extra.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
print(json.dumps(extra))
"""


def extra_bytes(n: int) -> list[int]:
    """Growth of peak resident memory by a fit, without and with an optimizer, in bytes."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, (n, DIM, N_FREQUENCIES))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return list(json.loads(result.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fit_is_flat_in_the_number_of_rows() -> None:
    features = 8 * 2 * N_FREQUENCIES * (LONG - SHORT)
    for optimizer, short, long in zip(
        ("none", "lbfgs"), extra_bytes(SHORT), extra_bytes(LONG), strict=True
    ):
        # The allocator alone makes differences of some 30 MiB either way.
        assert long - short < features / 4, (
            f"optimizer {optimizer}: {(long - short) / 2**20:.0f} MiB more for {LONG - SHORT} more "
            f"rows, whose features are {features / 2**20:.0f} MiB"
        )
