"""Files of meshes with fields, and of roads.

| function | files |
|---|---|
| `write_mesh(path, mesh, mean=mean, std=std)` | .vtu, .vtk, .ply, .glb, .gltf |
| `read_roads(path)` | .gpkg, .geojson, .shp, .graphml, .gml, networkx graphs |
| `write_roads(path, roads, mean=mean, std=std)` | .gpkg, .geojson |
| `write_time_map(path, layers, times)` | .gpkg, .geojson: a law over places and times |

VTK files and roads need the extra `geo` (meshio, geopandas, pyogrio):
`pip install "coupledgp[geo]"`.
"""

from coupledgp.formats.meshes import write_mesh as write_mesh
from coupledgp.formats.road_files import read_roads as read_roads
from coupledgp.formats.road_output import TimeLayer as TimeLayer
from coupledgp.formats.road_output import write_roads as write_roads
from coupledgp.formats.road_output import write_time_map as write_time_map
from coupledgp.formats.roads import RoadNetwork as RoadNetwork
