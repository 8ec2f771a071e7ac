"""The field of `coupledgp demo`: sensors on an embedded mesh, as a table that a person has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.field_run import FieldDomain
from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.readers.domains import DomainOptions, read_domain
from coupledgp.cli.readers.tables import write_table
from coupledgp.cli.shared.domain import run
from coupledgp.ground.output import write_text, written_whole
from coupledgp.ground.validation import json_values
from coupledgp.random import FloatArray

NAME = "field"
SHAPE, N_SENSORS, NOISE = "annulus", 40, 0.1


def write_field(folder: Path, page: Path, figures: Path, seed: int) -> None:
    """Write sensors, the mesh with the field, and the page and the figures of the fit.

    The table of sensors and the mesh are `field-sensors.csv` and `field.ply` in the folder.
    """
    domain = read_domain(Path(SHAPE), DomainOptions())
    assert domain is not None
    values = folder / f"{NAME}-sensors.csv"
    positions, y = sensors(domain.mesh, seed)
    columns = dict(zip("xyz", positions.T, strict=True))
    with written_whole(values) as whole:
        write_table(pa.table({**columns, "value": y}), whole, values)
    options = InterpolateOptions(
        graph=Path(SHAPE), output=folder / f"{NAME}.ply", values=values, report=page, seed=seed
    )
    result = run(FieldDomain(domain, options, []))
    write_text(figures, json.dumps(json_values(result), indent=2) + "\n")


def sensors(mesh: object, seed: int) -> tuple[FloatArray, FloatArray]:
    """Positions (n, 3), uniform by area, and noisy values (n,) of a wave around the mesh."""
    import trimesh

    positions, _ = trimesh.sample.sample_surface(mesh, N_SENSORS, seed=seed)
    x, y, z = positions.T
    field = 20 + 3 * np.cos(2 * np.arctan2(y, x)) + 2 * z
    noise = np.random.default_rng(seed).standard_normal(N_SENSORS)
    return np.asarray(positions), np.asarray(field + NOISE * noise)
