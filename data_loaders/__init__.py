"""Data sets for examples, tests and benchmarks: one module a family, each with its own `load`.

A set comes from a local folder, from a download or from an installed package, in this order of
preference as far as the family has them; `RegressionData.source` says which it was.
"""

from data_loaders import uci
from data_loaders.uci import RegressionData

__all__ = ["RegressionData", "uci"]
