"""glTF 2.0 files of a mesh with coloured vertices and attributes of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray, IntArray

# Red, green, blue and opacity of a place without a value.
GREY = (0xC9, 0xCE, 0xD3, 0xFF)
# A dull surface that is seen from both sides and shows the vertices' colours as they are.
MATERIAL = {
    "name": "values",
    "doubleSided": True,
    "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
}
COLOUR = "_LINEAR_COLOUR"


def gltf_bytes(
    vertices: FloatArray,
    faces: IntArray,
    values: Mapping[str, FloatArray],
    colours: NDArray[np.uint8] | None,
    binary: bool,
) -> bytes:
    """Return the bytes of a .glb file, or of a .gltf file that holds its buffers itself.

    Attributes are named by an underscore and capitals, as the standard asks of an application's own
    ones, and are in single precision, as are coordinates: they are stored relative to the mesh's
    centre, which the node's translation holds. Colours (v, 4) are stored in linear light, in which
    the standard reads them.
    """
    import trimesh

    exchange: Any = trimesh.exchange.gltf

    centre = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    mesh = trimesh.Trimesh(vertices - centre, faces, process=False)
    for name, value in values.items():
        mesh.vertex_attributes[f"_{name.upper()}"] = value
    if colours is not None:
        mesh.vertex_attributes[COLOUR] = linear_light(colours)
    scene = trimesh.Scene()
    placed = np.eye(4)
    placed[:3, 3] = centre
    scene.add_geometry(mesh, node_name="mesh", geom_name="mesh", transform=placed)
    if binary:
        return bytes(
            exchange.export_glb(scene, include_normals=False, tree_postprocessor=_finished)
        )
    files = exchange.export_gltf(
        scene, include_normals=False, merge_buffers=True, embed_buffers=True,
        tree_postprocessor=_finished,
    )  # fmt: skip
    return bytes(files["model.gltf"])


def _finished(tree: dict[str, Any]) -> None:
    """Name the colours as the standard does, and give the mesh its material."""
    tree["materials"] = [MATERIAL]
    (part,) = tree["meshes"][0]["primitives"]
    part["material"] = 0
    if COLOUR in part["attributes"]:
        part["attributes"]["COLOR_0"] = part["attributes"].pop(COLOUR)


def value_colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values (n,), viridis from the least to the greatest; grey without value."""
    from matplotlib import colormaps

    known = np.isfinite(values)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 1.0)
    spread = high - low
    levels = np.where(known, values - low, 0.0) / (spread if spread > 0 else 1.0)
    rgba: NDArray[np.uint8] = colormaps["viridis"](levels, bytes=True)
    rgba[~known] = GREY
    return rgba


def linear_light(colours: NDArray[np.uint8]) -> FloatArray:
    """Colours (n, 4) from 0 to 1 in linear light, from those of a screen (sRGB, IEC 61966-2-1)."""
    shares = colours / 255.0
    rgb = shares[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.concatenate([linear, shares[:, 3:]], axis=1)
