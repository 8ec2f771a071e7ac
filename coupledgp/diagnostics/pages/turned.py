"""Maps as scenes of PyVista, which can be turned, and as meshes of PyVista with values."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.pages.place_map import EDGES, GREY, RINGS, view
from coupledgp.diagnostics.pages.scale import Quantity
from coupledgp.diagnostics.pages.scene import Scene
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import named_extras

# Width of a panel and height of a window, and sizes of lines and dots, in pixels.
PANEL, HEIGHT, LINE, DOT = 560, 480, 5, 12
# Light of surfaces, of which the shade is too faint to mistake a colour for another.
LIGHT = {"ambient": 0.55, "diffuse": 0.5}


def mesh_of(scene: Scene) -> Any:
    """The places of a scene as a `pyvista.PolyData`, with its quantities by name as data.

    Raises
    ------
    MissingLibraryError
        PyVista is not installed.
    """
    with named_extras():
        import pyvista
    corners = np.insert(scene.cells, 0, scene.cells.shape[1], axis=1).ravel()
    kind = "faces" if scene.kind == "faces" else "lines"
    mesh = pyvista.PolyData(np.array(scene.positions), **{kind: corners})
    data = mesh.cell_data if scene.at_cells else mesh.point_data
    for one in _known(scene):
        data[one.name] = one.values
    return mesh


def turned(scene: Scene | None) -> Any:
    """A `pyvista.Plotter` with a panel for each quantity; sensors are dots.

    Panels are turned together. Of a map with times it has the first one that the page shows.

    Raises
    ------
    InvalidInputError
        There is no scene.
    MissingLibraryError
        PyVista is not installed.
    """
    if scene is None:
        raise InvalidInputError(
            "backend: expected 'matplotlib' for a picture that is no map on a mesh, on roads or of "
            "nodes, got 'pyvista'"
        )
    mesh, known = mesh_of(scene), _known(scene)
    import pyvista

    plotter = pyvista.Plotter(
        shape=(1, len(known)), border=False, window_size=[PANEL * len(known), HEIGHT]
    )
    plotter.set_background("white")
    for k, one in enumerate(known):
        plotter.subplot(0, k)
        _add(plotter, mesh.copy(deep=False), scene, one)
    plotter.link_views()
    if scene.kind != "faces":
        plotter.enable_parallel_projection()
        plotter.view_xy()
        plotter.camera.zoom(0.75)  # above the colour bar
    else:
        plotter.view_vector(view()[2], viewup=(0, 0, 1))
    return plotter


def _add(plotter: Any, mesh: Any, scene: Scene, one: Quantity) -> None:
    """Draw a quantity with its colour bar, and the sensors in its colours."""
    scale = one.scale
    colours = {"cmap": scale.palette, "clim": (scale.low, scale.high), "nan_color": GREY}
    dots = {"style": "points", "render_points_as_spheres": True, "point_size": DOT}
    dots |= {"ambient": 0.25, "diffuse": 0.8, "specular": 0.4}
    form: dict[str, Any] = dots if scene.kind == "points" else {"line_width": LINE, **LIGHT}
    if scene.kind == "points":
        plotter.add_mesh(mesh.copy(deep=False), color=EDGES, name=f"{one.name} edges")
    drawn = plotter.add_mesh(
        mesh, scalars=one.name, show_scalar_bar=False, name=one.name, **colours, **form
    )
    title = "\n".join([*filter(None, (one.title, scale.note)), ""])  # off the numbers
    plotter.add_scalar_bar(
        title, mapper=drawn.mapper, color="black", fmt="%.4g", n_labels=4, title_font_size=16,
        label_font_size=14, width=0.7, position_x=0.15,
    )  # fmt: skip
    if scene.sensors is None:
        return
    places = np.array(scene.sensors.positions)
    values = _first(scene, scene.sensors.values.get(one.name))
    look = {"color": "white"} if values is None else {"scalars": values, **colours}
    if scene.kind == "points":  # a ring around the node, from behind it
        places[:, 2] -= 0.05 * mesh.length
        look, dots = {"color": RINGS}, dots | {"point_size": 1.6 * DOT}
    plotter.add_mesh(
        type(mesh)(places), name=f"{one.name} sensors", show_scalar_bar=False, **look, **dots
    )


def _known(scene: Scene) -> list[Quantity]:
    """Quantities that are known anywhere, at the time that is shown first."""
    shown = [one._replace(values=_first(scene, one.values)) for one in scene.quantities]
    return [one for one in shown if np.isfinite(one.values).any()]


def _first(scene: Scene, values: Any) -> Any:
    """Values (v,), or those of (v, T) at the time that is shown first."""
    return values if scene.frames is None or values is None else values[:, scene.frames.first]
