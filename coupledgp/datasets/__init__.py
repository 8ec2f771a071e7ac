"""Data sets for examples, tests and benchmarks: one module for each family, with its own `load`.

`uci` has regression tables, `classification` tables with classes, `graphs` edge lists, `meshes`
triangle meshes and `traffic` a road network with measured speeds, and (`traffic_series`) speeds of
sensors over months.

A set comes from a local folder, from a download or from an installed package, in this order; a
family may lack one of the three. The attribute `source` of the result says which it was. Downloads
and files in R's format need the extra `data`: `pip install "coupledgp[data]"`.
"""

from typing import TYPE_CHECKING

from coupledgp.ground.lazy import attach

if TYPE_CHECKING:
    from coupledgp.datasets import classification as classification
    from coupledgp.datasets import graphs as graphs
    from coupledgp.datasets import meshes as meshes
    from coupledgp.datasets import traffic as traffic
    from coupledgp.datasets import traffic_series as traffic_series
    from coupledgp.datasets import uci as uci
    from coupledgp.datasets.uci import RegressionData as RegressionData
else:
    __all__, __getattr__, __dir__ = attach(__name__)
