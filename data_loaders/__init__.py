"""Loaders of the data sets of tests and benchmarks, one module for each family.

`uci` has regression tables, `classification` tables with classes, `graphs` edge lists, `meshes`
triangle meshes and `traffic` a road network with measured speeds, and (`traffic_series`) speeds of
sensors over months. A set comes from the folder that `COUPLEDGP_DATA` names, from a download or
from an installed package, in this order; the attribute `source` of the result says which it was.
"""
