"""The Laplace operator of a surface, a network or points: stiffness, mass, and places on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.fields.checks import (
    MaxEdge,
    as_numbers,
    check_coordinates,
    edge_offsets,
    element_numbers,
)
from coupledgp.fields.columns import (
    ColumnLookup,
    PlaceColumns,
    corner_weights,
    face_normals,
    named_columns,
)
from coupledgp.fields.creases import CREASE_WIDTH, CutPlaces, bodies, crease_cut
from coupledgp.fields.locations import (
    Locations,
    as_points,
    at_corners,
    exact,
    nearest_places,
    refuse_far,
)
from coupledgp.fields.meshes import extent, point_parts, surface_parts
from coupledgp.fields.networks import local_metres, longest_way, network_parts, read_networkx
from coupledgp.graphs.graph import Graph, no_edges
from coupledgp.graphs.readers import Csr, Labels, assemble, check_labels, check_symmetric_csr
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.forms import is_point_table, table_points
from coupledgp.ground.validation import LARGEST, SMALLEST, check_positive, wrong
from coupledgp.random import FloatArray, IntArray

# Share of the squared diameter that diffusion covers in a graph's unit of time: fits start at
# lengths from a few hundredths of the diameter to half of it.
TIME_SHARE = 1e-3
# Difference of unit normals up to which a mesh is flat.
FLAT = 1e-6


@stored
@dataclass(frozen=True, eq=False, repr=False)
class LaplaceOperator:
    """The Laplace operator of a surface or network by linear finite elements.

    For a function f that is linear on the elements, `f' S f` is the integral of its squared
    gradient and `M` the lumped mass matrix: `M^-1 S` discretises minus the Laplacian, without flux
    across boundaries. Lengths are in the unit of the given positions or lengths. Use
    `from_trimesh`, `from_edges`, `from_networkx` or `from_points`.

    Attributes
    ----------
    stiffness : sparse.csr_array (n, n)
        S, symmetric, no positive entries off the diagonal, rows that add up to zero.
    mass : FloatArray (n,)
        Lumped mass, positive; its sum is the area or length.
    dimension : int
        2 for surfaces, 1 for networks.
    positions : FloatArray (n, d) or None
        Positions of the vertices.
    elements : IntArray (m, dimension + 1)
        Vertices of the triangles or segments, after any refinement.
    parents : IntArray (m,)
        The given face or edge that each element is a part of.
    given_vertices : IntArray (v,)
        The vertex of each given vertex or node: 0, 1, 2, ... unless several were given at the
        same position, which are one vertex, or some belong to no face or edge: -1 there. All
        vertices of refinement come after these.
    given_elements : IntArray (g, dimension + 1)
        The faces or edges as given, in numbers of the vertices; -1 for corners of faces without
        area that belong to no other face.
    labels : tuple or None
        Names of the given nodes of a network; None means their numbers.
    element_lengths, given_lengths : FloatArray (m,), (g,) or None
        Lengths of the segments and of the given edges of a network.
    centroids : FloatArray (g, 6) or None
        Places of the centroids of a mesh's given faces.
    origin : FloatArray (2,) or None
        Longitude and latitude of the centre, if positions were given in degrees; `positions` are
        then metres east and north of the centre.
    columns : PlaceColumns or None
        Columns of numbers that were given, see `with_columns`; `place_columns` has all.
    copies : IntArray (n,) or None
        Of a mesh cut by `with_creases`, the vertex before the cut that each vertex is a copy of;
        `given_vertices` has the first copy. None: the mesh is whole.

    Examples
    --------
    >>> import trimesh
    >>> import coupledgp as cgp
    >>> sphere = trimesh.creation.icosphere(subdivisions=2)
    >>> cgp.LaplaceOperator.from_trimesh(sphere, max_edge="auto").n_vertices >= len(sphere.vertices)
    True
    """

    stiffness: sparse.csr_array
    mass: FloatArray
    dimension: int
    positions: FloatArray | None
    elements: IntArray
    parents: IntArray
    given_vertices: IntArray
    given_elements: IntArray
    labels: Labels | None = None
    element_lengths: FloatArray | None = None
    given_lengths: FloatArray | None = None
    centroids: FloatArray | None = None
    origin: FloatArray | None = None
    columns: PlaceColumns | None = None
    copies: IntArray | None = None

    @classmethod
    def from_trimesh(cls, mesh: Any, max_edge: MaxEdge = None) -> LaplaceOperator:
        """The operator of a triangle mesh: intrinsic Delaunay cotangents, lumped mass.

        Sharp and Crane, "A Laplacian for nonmanifold triangle meshes" (2020). Open meshes, several
        bodies, edges shared by more than two faces and slivers are welcome. Vertices at the same
        position are one vertex, and a face that is given several times is one face; a face with
        two equal corners has no effect. Bodies that do not share vertices are independent.

        Parameters
        ----------
        mesh
            `trimesh.Trimesh`, `pyvista.PolyData`, `meshio.Mesh` or a mesh of open3d, anything with
            arrays `vertices` (v, 3) and `faces` (f, 3), or a pair of such arrays.
        max_edge
            Edges longer than this, in the mesh's unit, are split at their midpoints, all faces
            alike, until there are none; `"auto"` means the diameter / 25, None no refinement. The
            elements should be shorter than an eighth of the range of a field.

        Raises
        ------
        InvalidInputError
            The mesh is empty, has faces other than triangles, vertex numbers out of range or
            positions that are not finite, or no area; or `max_edge` is not positive or makes more
            than two million vertices.
        """
        return cls(**surface_parts(mesh, max_edge))._frozen()

    @classmethod
    def from_edges(
        cls,
        sources: Any,
        targets: Any,
        lengths: ArrayLike,
        *,
        positions: ArrayLike | None = None,
        courses: Sequence[Any] | None = None,
        labels: Iterable[Any] | None = None,
        n_nodes: int | None = None,
        max_edge: MaxEdge = None,
        is_geographic: bool = False,
    ) -> LaplaceOperator:
        """The operator of a network of edges with lengths, by linear elements.

        Parallel edges and loops are edges of their own; a loop is cut into three pieces at least.

        Parameters
        ----------
        sources, targets
            Ends of the edges (g,). Non-negative ints are node numbers (unless `labels` are given);
            anything else hashable is a label, numbered in order of appearance.
        lengths
            Positive finite lengths (g,).
        positions
            Positions (n_nodes, 2 or 3) of the nodes. They serve to project points and to draw;
            distances along the network come from `lengths` alone.
        courses
            Positions (k, 2 or 3) along each edge, or None for a straight line: on these lie the
            vertices that `max_edge` makes.
        labels
            Every node's label, in the order of `positions`. The ends are then labels.
        n_nodes
            Number of nodes, if some of the last ones have no edge. For node numbers only.
        max_edge
            Longer edges are cut into equal pieces that are not, in the unit of `lengths`;
            `"auto"` means the total length / max(4 g, 2000), None leaves edges whole. The pieces
            should be shorter than an eighth of the range of a field.
        is_geographic
            Positions are longitudes and latitudes in degrees. The operator has them in metres,
            projected about their centre (equirectangular), and `project` takes points in degrees.

        Raises
        ------
        InvalidInputError
            Arguments differ in length, a length is not positive and finite (the edge is named), a
            node is unknown, positions are not finite; or `max_edge` is not positive or makes more
            than two million pieces.
        """
        parts = network_parts(
            sources, targets, lengths, positions, courses, labels, n_nodes, max_edge, is_geographic
        )
        return cls(**parts)._frozen()

    @classmethod
    def from_networkx(
        cls, graph: Any, length: str = "length", max_edge: MaxEdge = None
    ) -> LaplaceOperator:
        """The operator of a networkx graph whose edges have lengths, such as OSMnx' road networks.

        The field has no direction. In a directed graph an edge and one in the other direction
        between the same nodes are one road if their lengths are equal, and their `geometry` where
        both have one; other parallel edges are roads of their own. Node attributes `x` and `y` are
        the positions, longitudes and latitudes if `graph.graph["crs"]` says so or, without that,
        if lengths fit better (`is_geographic` of `from_edges`). Shapely lines `geometry` are the
        courses of edges.

        Parameters
        ----------
        graph
            `networkx.Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`. Its nodes are the labels.
        length
            Edge attribute with the length.
        max_edge
            As in `from_edges`.

        Raises
        ------
        InvalidInputError
            An edge has no length, or one that is not positive and finite (the edge is named); or
            some of the nodes have no position.
        """
        roads = read_networkx(graph, length)
        return cls.from_edges(
            roads.sources, roads.targets, roads.lengths, positions=roads.positions,
            courses=None if roads.positions is None else roads.courses, labels=roads.nodes,
            max_edge=max_edge, is_geographic=roads.is_geographic,
        )  # fmt: skip

    @classmethod
    def from_points(cls, points: ArrayLike, n_neighbors: int = 30) -> LaplaceOperator:
        """The operator of points on a surface that has no triangles, such as a laser scan's.

        Sharp and Crane (2020), section 5.7: local Delaunay triangulations in tangent planes. It
        needs the package robust_laplacian (extra `geo`). Places are the points and the links
        between neighbours. Points at the same position are one vertex.

        Parameters
        ----------
        points
            Positions (n, 3), finite.
        n_neighbors
            Neighbours that make up a tangent plane, below the number of distinct points.

        Raises
        ------
        InvalidInputError
            Points have another shape or are not finite, are too few, or lie on no surface.
        MissingLibraryError
            robust_laplacian is not installed.
        """
        return cls(**point_parts(points, n_neighbors))._frozen()

    @property
    def n_vertices(self) -> int:
        """Number of vertices n, including those added by refinement."""
        return int(self.mass.size)

    @property
    def n_given(self) -> int:
        """Number of vertices or nodes that were given."""
        return int(self.given_vertices.size)

    @cached_property
    def measure(self) -> float:
        """Area of the surface or length of the network."""
        if self.element_lengths is not None:
            return float(self.element_lengths.sum())
        return float(self.mass.sum())

    @cached_property
    def extent(self) -> float | None:
        """Diagonal of the bounding box of the positions; None without positions."""
        return None if self.positions is None else extent(self.positions)

    @cached_property
    def diameter(self) -> float:
        """Size in the unit of lengths: of a surface, the diagonal of its bounding box.

        For a network, the largest distance along it from the vertex that is farthest from the first
        vertex, in the longest component: positions may have another unit than lengths.
        """
        if self.element_lengths is not None:
            return longest_way(self.elements, self.element_lengths, self.n_vertices)
        return float(self.extent or 0.0)

    @cached_property
    def normals(self) -> FloatArray:
        """Unit normals (g, 3) of the given faces of a surface; zeros of faces without area.

        Raises
        ------
        InvalidInputError
            The operator is no triangle mesh's.
        """
        if self.centroids is None or self.positions is None:
            raise InvalidInputError("normals: expected a mesh's faces, got an operator without")
        return face_normals(self.positions, self.given_elements)

    def with_columns(
        self, columns: Mapping[str, ArrayLike], on: str | None = None
    ) -> LaplaceOperator:
        """The operator with further columns of numbers at every place, for kernels of position.

        A curved mesh has the column `"normal"` anyway.

        A value of a vertex is interpolated along its elements. That of a face or edge holds
        within it, so that columns such as normals may jump at creases; a vertex has the mean over
        the elements that meet there. Columns of an earlier call are kept.

        Parameters
        ----------
        columns
            Names, and arrays (v,) or (v, k) for the given vertices or nodes, or (g,) or (g, k) for
            the given faces or edges: `{"thickness": mm, "material": names}`. Texts become a
            component for each kind.
        on
            `"vertices"` or `"elements"`, where there are as many of both.

        Raises
        ------
        InvalidInputError
            A column has another length, a value that is not finite, or the name of an earlier one.
        """
        sizes = {"vertices": self.n_given, "elements": len(self.given_elements)}
        known = self.columns
        found = named_columns(columns, on, sizes)
        taken = set(known.names if known else ()) & set(columns)
        if taken:
            raise InvalidInputError(f"columns: expected new names, got {sorted(taken)[0]!r} again")
        names = (*(known.names if known else ()), *(name for name, _, _ in found))
        counts = [*(known.sizes.tolist() if known else ()), *(a.shape[1] for _, _, a in found)]
        values = [known.corners] if known else []
        values += [self._at_corners(place, array) for _, place, array in found]
        made = PlaceColumns(names, np.array(counts), np.concatenate(values, axis=2))
        return replace(self, columns=made)._frozen()

    def with_creases(self, angle: float = 40.0, factor: float = 0.0) -> LaplaceOperator:
        """The operator of the mesh cut at creases, edges with a dihedral angle above `angle`.

        A vertex on creases becomes a copy for each smooth side of it, with places of its own. With
        `factor` 0 the sides are independent along the surface. Otherwise

            f' S f = int |grad f|^2 + factor / (1 - factor) / w * int_creases (f_+ - f_-)^2

        where f_+ and f_- are the values beside a crease, lumped at the ends of edges, and w is the
        diameter / 25. A layer of the width w whose conductivity is `factor / (1 - factor)` has that
        integral. The mass is that of the smooth sides.

        A given vertex on creases is the mean of its copies, of three at most. Places of the whole
        mesh are places of this one by `placed`, which `FieldGPRegressor` uses.

        Parameters
        ----------
        angle
            Angle between the normals of two faces, in degrees, above 0 and below 180.
        factor
            From 0, no link, to 1, the operator itself.

        Raises
        ------
        InvalidInputError
            The operator is no mesh's or is cut already, or an argument is out of range.
        """
        if self.centroids is None or self.positions is None or self.copies is not None:
            what = "one that is cut" if self.copies is not None else "an operator without faces"
            raise InvalidInputError(f"operator: expected that of a whole mesh, got {what}")
        if check_positive(angle, "angle") >= 180.0:
            raise wrong("angle", "degrees above 0 and below 180", angle)
        share = check_positive(factor, "factor") if factor != 0 else 0.0
        if share > 1.0:
            raise InvalidInputError(f"factor: expected a number from 0 to 1, got {factor}")
        cut = None if share == 1.0 else crease_cut(self.positions, self.elements, angle)
        if cut is None:
            return self
        stiffness, mass = cut.matrices(self.positions, share, CREASE_WIDTH * self.diameter)
        positions = self.positions[cut.copies]
        centroids = CutPlaces(cut.elements, cut.copies).of(self.centroids)
        return replace(
            self, stiffness=stiffness, mass=mass, positions=positions, elements=cut.elements,
            centroids=centroids, copies=cut.copies,
        )._frozen()  # fmt: skip

    def placed(self, points: FloatArray) -> FloatArray:
        """Places (p, 6) of the whole mesh, or of this one, as places of a mesh cut at creases.

        A place at a vertex is the mean of its copies. One on a crease is on the side that the row
        names. Operators that are not cut return the places as they are.
        """
        return points if self.copies is None else self._cut.of(points)

    @cached_property
    def _cut(self) -> CutPlaces:
        assert self.copies is not None
        return CutPlaces(self.elements, self.copies)

    def bodies(self) -> IntArray:
        """The connected component (n,) of each vertex, where creases do not count as cuts."""
        return bodies(self.stiffness, self.copies)

    def _at_corners(self, place: str, values: FloatArray) -> FloatArray:
        """Values (m, dimension + 1, k) at the corners of the elements, of given vertices or not."""
        if place == "elements":
            return np.repeat(values[self.parents][:, None], self.dimension + 1, axis=1)
        of_vertices = np.zeros((self.n_vertices, values.shape[1]))
        there = self.given_vertices >= 0
        # Several given vertices at one position are one vertex, with the mean of their values.
        count = np.bincount(self.given_vertices[there], minlength=self.n_vertices)
        np.add.at(of_vertices, self.given_vertices[there], values[there])
        of_vertices /= np.maximum(count, 1)[:, None]
        weights = corner_weights(
            self.elements, self.parents, self.given_elements, self.positions, self.element_lengths
        )
        corners = of_vertices[self.given_elements[self.parents]]
        return np.einsum("mkj,mjc->mkc", weights, corners)

    @cached_property
    def place_columns(self) -> PlaceColumns | None:
        """The normals of a curved mesh, unless a column `"normal"` was given, and given columns."""
        given = self.columns
        if self.centroids is None or (given is not None and "normal" in given.names):
            return given
        assert self.positions is not None
        normals = face_normals(self.positions, self.elements)
        if (np.ptp(normals, axis=0) < FLAT).all():
            return given
        corners = np.repeat(normals[:, None], self.dimension + 1, axis=1)
        if given is None:
            return PlaceColumns(("normal",), np.array([3]), corners)
        sizes, both = np.array([3, *given.sizes]), np.concatenate([corners, given.corners], axis=2)
        return PlaceColumns(("normal", *given.names), sizes, both)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return 0 if self.place_columns is None else len(self.place_columns.names)

    @cached_property
    def column_scales(self) -> FloatArray:
        """Standard deviation (c,) of each column over the surface or network."""
        assert self.place_columns is not None
        return self.place_columns.scales(self.elements, self.mass)

    def column_values(self, points: FloatArray) -> FloatArray:
        """Columns (p, k) at places (p, 2 (dimension + 1)), in units of their deviations."""
        assert self.place_columns is not None
        return self._lookup.at(points) / self.column_scales[self.place_columns.owner]

    @cached_property
    def _lookup(self) -> ColumnLookup:
        assert self.place_columns is not None
        return ColumnLookup.of(self.place_columns, self.elements, self.n_vertices)

    def components(self) -> tuple[int, IntArray]:
        """Number of connected components, and each vertex' component (n,)."""
        count, member = csgraph.connected_components(self.stiffness, directed=False)
        return int(count), member.astype(np.int64)

    def project(self, points: Any, within: float | None = None) -> Locations:
        """The nearest places on the surface or network of points in space.

        Parameters
        ----------
        points
            Points (p, d), in the unit of the positions; longitudes and latitudes if the positions
            were given so. Or a GeoDataFrame of points, whose coordinate system is minded.
        within
            Greatest distance at which a point is matched, in the unit of the positions, metres for
            longitudes and latitudes; None: any. `distances` of the result has all of them.

        Raises
        ------
        InvalidInputError
            The operator has no positions, `points` has another shape or is not finite, or points
            are farther away than `within`: the message counts and names them.
        """
        if self.positions is None:
            raise InvalidInputError(
                "points: expected nodes or places on edges, as this network has no positions"
            )
        if is_point_table(points):
            points = table_points(points, self.origin is not None, "points")
        given = as_numbers(points, "points")
        if given.ndim != 2 or given.shape[1] != self.positions.shape[1] or not len(given):
            raise wrong("points", f"shape (p, {self.positions.shape[1]})", given.shape)
        bad = np.flatnonzero(~np.isfinite(given).all(axis=1))
        if bad.size:
            raise InvalidInputError(
                f"points: expected finite positions, got {given[bad[0]].tolist()} in row {bad[0]} "
                f"({bad.size} such rows)"
            )
        check_coordinates(given, "points")
        if self.origin is not None:
            given = local_metres(given, self.origin)
        found = nearest_places(given, self.positions[self.elements])
        if within is not None:
            refuse_far(found.distances, check_positive(within, "within"))
        return Locations(as_points(self.elements[found.elements], found.weights), found.distances)

    def at_vertices(self, nodes: Any = None) -> Locations:
        """Places of given vertices or nodes.

        Parameters
        ----------
        nodes
            Their labels (p,), or their numbers if there are no labels; None means all given ones.

        Raises
        ------
        InvalidInputError
            A vertex or node is unknown, or belongs to no face or edge: there is no field there.
        """
        numbers = self._names.index(nodes)
        vertices = self.given_vertices[numbers]
        bad = np.flatnonzero(vertices < 0)
        if bad.size:
            what = "faces" if self.dimension == 2 else "edges"
            name = self._names.label(int(numbers[bad[0]]))
            raise InvalidInputError(
                f"nodes: expected nodes of {what}, got {name!r}, "
                f"which belongs to none ({bad.size} such nodes), so that the field has no value "
                "there; leave out those where `operator.given_vertices` is -1"
            )
        return exact(self.placed(at_corners(vertices, self.dimension + 1)))

    def at_faces(self, numbers: ArrayLike | None = None) -> Locations:
        """Places of the centroids of given faces; None means all faces.

        Raises
        ------
        InvalidInputError
            The operator is no mesh's, or a number is out of range.
        """
        if self.centroids is None:
            raise InvalidInputError("numbers: expected a mesh's faces, got an operator without")
        chosen = element_numbers(numbers, self.centroids.shape[0], "numbers")
        return exact(self.centroids[chosen])

    def at_edges(self, edges: ArrayLike, offsets: ArrayLike) -> Locations:
        """Places on given edges.

        Parameters
        ----------
        edges
            Numbers (p,) of edges in the order in which they were given.
        offsets
            Distances (p,) along the edge from its source, from zero to its length.

        Raises
        ------
        InvalidInputError
            The operator is no network's, a number is out of range, or an offset is beyond the
            ends of its edge.
        """
        if self.given_lengths is None:
            raise InvalidInputError("edges: expected a network's edges, got a surface")
        chosen = element_numbers(edges, self.given_lengths.size, "edges")
        lengths = self.given_lengths[chosen]
        along = edge_offsets(offsets, lengths, chosen)
        first = np.searchsorted(self.parents, chosen)
        count = np.searchsorted(self.parents, chosen, side="right") - first
        share = along / lengths * count
        piece = np.minimum(np.floor(share).astype(np.int64), count - 1)
        weight = share - piece
        weights = np.stack([1.0 - weight, weight], axis=1)
        return exact(as_points(self.elements[first + piece], weights))

    def as_graph(self) -> Graph:
        """The graph of the vertices with the same kernels as this operator.

        Its weights are `W = c M - S` with `c = max_i S_ii / M_i`, so that degrees are `c M` and
        `W~ = I - L / c` for `L = M^-1/2 S M^-1/2`; its scales `(mean mass / M_i)^1/2` turn a kernel
        `g(W~)` into `M^-1/2 g M^-1/2`, up to a factor. So a regularised Laplacian of exponent a and
        scale `c / k^2` is the Whittle-Matern covariance of alpha = a. Nodes are the vertices,
        `given_vertices` the numbers of the given ones; labels are kept if no vertices were added.

        On irregular triangulations c is large, and walks and series take as many steps: use kernels
        of whole exponents with `ExactGraphGPRegressor`, which factorises.
        """
        diagonal = self.stiffness.diagonal()
        c = float((diagonal / self.mass).max())
        # Rounding must not leave a negative weight where the maximum is.
        loops = sparse.diags_array(np.maximum(c * self.mass - diagonal, 0.0), format="csr")
        matrix = sparse.csr_array(loops + sparse.diags_array(diagonal) - self.stiffness)
        matrix.eliminate_zeros()
        matrix.sort_indices()
        csr = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
        plain = np.array_equal(self.given_vertices, np.arange(self.n_vertices))
        return Graph(
            csr,
            self.labels if plain else None,
            node_scale=np.sqrt(self.mass.mean() / self.mass),
            time_unit=max(c * self.diameter**2 * TIME_SHARE, 1.0),
        )

    def read_back(self) -> LaplaceOperator:
        """The operator of a file.

        Raises
        ------
        ModelFileError
            Its arrays do not fit each other, or a number of them is out of range.
        """
        corners = self.dimension + 1
        sizes = check_shapes(
            self, mass=("n",), positions=("n", "d"), elements=("m", corners), parents=("m",),
            given_vertices=("v",), given_elements=("g", corners), element_lengths=("m",),
            given_lengths=("g",), centroids=("g", 6), origin=(2,), copies=("n",),
        )  # fmt: skip
        n, m = sizes["n"], sizes["m"]
        if self.dimension not in (1, 2) or not n or not m or self.stiffness.shape != (n, n):
            raise ModelFileError(f"operator: expected elements of {n} vertices, got others")
        check_range(self, 0, n - 1, "elements", "copies")
        check_range(self, -1, n - 1, "given_vertices", "given_elements")
        check_range(self, 0, sizes["g"] - 1, "parents")
        check_range(self, SMALLEST, LARGEST, "mass", "element_lengths", "given_lengths")
        if self.dimension == 1 and (np.diff(self.parents) < 0).any():
            raise ModelFileError("parents: expected numbers in rising order, got others")
        own = self.stiffness
        check_symmetric_csr(own.indptr, own.indices, own.data, "stiffness")
        if self.labels is not None:
            check_labels(self.labels, sizes["v"])
        if self.columns is not None:
            check_range(self.columns, 1, 2**31, "sizes")
            shape = m, corners, int(self.columns.sizes.sum())
            check_shapes(self.columns, sizes=(len(self.columns.names),), corners=shape)
        return self._frozen()

    def __repr__(self) -> str:
        kind, parts, size = ("surface", "triangles", "area")
        if self.dimension == 1:
            kind, parts, size = ("network", "segments", "length")
        return (
            f"LaplaceOperator({kind}, {self.n_vertices} vertices, {self.n_given} of them given, "
            f"{self.elements.shape[0]} {parts}, {size} {self.measure:.4g})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> LaplaceOperator:
        return self  # nothing in it can change

    @cached_property
    def _names(self) -> Graph:
        """The given nodes without edges, which finds numbers of labels."""
        return Graph(assemble(*no_edges(), self.n_given), self.labels)

    def _frozen(self) -> LaplaceOperator:
        """The operator itself, with arrays that cannot be written to."""
        for name in ARRAYS:
            array = getattr(self, name)
            if array is not None:
                array.flags.writeable = False
        self.stiffness.data.flags.writeable = False
        return self


# Fields that are arrays or None.
ARRAYS = (
    "mass", "positions", "elements", "parents", "given_vertices", "given_elements",
    "element_lengths", "given_lengths", "centroids", "origin", "copies",
)  # fmt: skip
