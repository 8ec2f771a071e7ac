"""The picture of the README and of the first page: `python docs/picture.py`."""

from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import trimesh
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from PIL import Image
from sklearn.datasets import load_diabetes

import coupledgp as cgp

FILE = Path(__file__).parent / "static" / "picture.png"
BLUE, ORANGE = "#2a78c2", "#d9652b"


def table(axis: plt.Axes) -> None:
    """Draw a function of one column with its interval."""
    rng = np.random.default_rng(4)
    x = np.sort(np.concatenate([rng.uniform(0, 4, 30), rng.uniform(6, 10, 22)]))
    y = np.sin(1.4 * x) + 0.3 * x + 0.25 * rng.normal(size=x.size)
    model = cgp.ExactGPRegressor("matern-5/2", random_state=0).fit(x[:, None], y)
    grid = np.linspace(-0.3, 10.3, 300)[:, None]
    for level, shade in ((0.95, 0.15), (0.5, 0.3)):
        low, high = model.predict_interval(grid, level)
        axis.fill_between(grid[:, 0], low, high, color=BLUE, alpha=shade, lw=0)
    axis.plot(grid[:, 0], model.predict(grid), color=BLUE, lw=1.5)
    axis.plot(x, y, "o", ms=3, color="#333333")
    axis.set(title="A table, with honest intervals", xticks=[], yticks=[])


def part(axis: plt.Axes) -> None:
    """Draw a field on a torus from forty sensors."""
    mesh = trimesh.creation.torus(1.0, 0.45, major_sections=64, minor_sections=32)
    sensors, seen = trimesh.sample.sample_surface(mesh, 40, seed=3)
    warm = 20 + 5 * np.sin(1.5 * np.arctan2(sensors[:, 1], sensors[:, 0])) + 4 * sensors[:, 2]
    field = cgp.FieldGPRegressor(mesh, random_state=0).fit(sensors, warm)
    mean = field.predict()
    levels = mpl.colors.Normalize(mean.min(), mean.max())
    normals = mesh.face_normals @ np.array([0.3, -0.5, 0.8])
    light = np.clip(0.72 + 0.28 * normals, 0.3, 1.0)[:, None]
    colours = mpl.colormaps["viridis"](levels(mean[mesh.faces].mean(axis=1)))
    colours[:, :3] *= light
    axis.add_collection3d(Poly3DCollection(mesh.vertices[mesh.faces], facecolors=colours))
    view = np.array([0.35, -0.61, 0.71])
    front = mesh.face_normals[seen] @ view > 0.1
    axis.plot(*(sensors[front] + 0.03 * view).T, "o", ms=3.5, color="white", mec="black", zorder=9)
    axis.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), zlim=(-1.05, 1.05))
    axis.view_init(45, -60)
    axis.set_box_aspect((1, 1, 1), zoom=1.2)
    axis.set_axis_off()


def distance(axis: plt.Axes) -> None:
    """Draw how far the posterior of features is from the exact one, by coupling."""
    X, y = load_diabetes(return_X_y=True)
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=64, random_state=0)
    model.fit(X[:330], y[:330])
    names = {
        "iid": "independent",
        "orthogonal+pnc": "orthogonal+pnc",
        "posterior": "drawn for the posterior",
    }
    sizes = [8, 16, 32, 64, 128]
    study = cgp.coupling_study(
        model, X[330:], couplings=list(names), sizes=sizes, n_draws=24, random_state=0
    )
    frame = study.summary()
    for (name, label), colour in zip(names.items(), ("#888888", BLUE, ORANGE), strict=True):
        rows = frame[frame["coupling"] == name]
        axis.loglog(rows["size"], rows["kl_per_point"], "o-", ms=4, color=colour, label=label)
    axis.set(title="How far from the exact process?", xlabel="frequencies drawn")
    axis.set_ylabel("KL per point, nats")
    axis.set_xticks(sizes, map(str, sizes))
    axis.minorticks_off()
    axis.legend(frameon=False)


def main() -> None:
    """Draw the three parts and write the file."""
    plt.rcParams |= {"font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"}
    plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    figure = plt.figure(figsize=(11, 3.1), facecolor="white")
    table(figure.add_axes((0.015, 0.06, 0.30, 0.82)))
    part(figure.add_axes((0.335, -0.06, 0.28, 1.0), projection="3d"))
    figure.text(0.475, 0.9, "Forty sensors on a part", ha="center", size=10, weight="bold")
    distance(figure.add_axes((0.70, 0.16, 0.29, 0.72)))
    FILE.parent.mkdir(exist_ok=True)
    with BytesIO() as file:
        figure.savefig(file, dpi=110)
        Image.open(file).convert("RGB").quantize(128).save(FILE, optimize=True)


if __name__ == "__main__":
    main()
