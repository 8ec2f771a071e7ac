"""Gaussian processes of fields on surfaces, networks and roads, with lengths in the user's unit.

Files of meshes with fields, and of roads:

| function | files |
|---|---|
| `write_mesh(path, mesh, mean=mean, std=std)` | .vtu, .vtk, .ply |
| `read_roads(path)` | .gpkg, .geojson, .shp, .graphml, .gml, networkx graphs |
| `write_roads(path, roads, mean=mean, std=std)` | .gpkg, .geojson |
| `write_time_map(path, layers, times)` | .gpkg, .geojson: a law over places and times |

VTK files and roads need the extra `geo` (meshio, geopandas, pyogrio):
`pip install "coupledgp[geo]"`.
"""

from typing import TYPE_CHECKING

from coupledgp.ground.extras import attach

if TYPE_CHECKING:
    from coupledgp.fields.locations import Locations as Locations
    from coupledgp.fields.operator import LaplaceOperator as LaplaceOperator
    from coupledgp.fields.output import TimeLayer as TimeLayer
    from coupledgp.fields.output import write_mesh as write_mesh
    from coupledgp.fields.output import write_roads as write_roads
    from coupledgp.fields.output import write_time_map as write_time_map
    from coupledgp.fields.road_files import read_roads as read_roads
    from coupledgp.fields.roads import RoadNetwork as RoadNetwork
else:
    __all__, __getattr__, __dir__ = attach(__name__, {
        "locations": "Locations",
        "operator": "LaplaceOperator",
        "road_files": "read_roads",
        "output": "TimeLayer write_mesh write_roads write_time_map",
        "roads": "RoadNetwork",
    })  # fmt: skip
