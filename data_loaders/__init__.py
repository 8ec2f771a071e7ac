"""The modules of `coupledgp.datasets` by the name that they have in this repository.

`data_loaders.uci` and `coupledgp.datasets.uci` are one module object, however either is imported.
A wheel has `coupledgp.datasets` only, so that no package of this common name is installed.
"""

import sys

from coupledgp.datasets import (
    RegressionData,
    classification,
    files,
    graphs,
    meshes,
    traffic,
    traffic_series,
    uci,
)

__all__ = [
    "RegressionData",
    "classification",
    "files",
    "graphs",
    "meshes",
    "traffic",
    "traffic_series",
    "uci",
]

# `import data_loaders.uci` looks here first, before it would look for a file of that name.
for _module in (classification, files, graphs, meshes, traffic, traffic_series, uci):
    sys.modules[_module.__name__.replace("coupledgp.datasets", __name__)] = _module
