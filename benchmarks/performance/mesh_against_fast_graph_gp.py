"""Walk sampling, one training step and test error against the fast-graph-gp package, in one run.

Nodes are the faces of a mesh, the signal is the z component of their normals, and 5 % are hidden.
fast-graph-gp (0.1.3; `pip install fast-graph-gp`) is used as in its documentation: walks on the
normalised Laplacian, diffusion kernel, its own solver defaults, Adam. Its walks store steps 0..9;
ours do the same where walks and training steps are timed. Our RMSE is that of the default model
with the same kernel family, heat, after its own fit. Ratios above one are in favour of coupledgp.

    COUPLEDGP_DATA=FOLDER python benchmarks/performance/mesh_against_fast_graph_gp.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import gpytorch
import numpy as np
import torch

import coupledgp as cgp
from coupledgp.inference.nodes.evidence import IterativeEvidence, Scales
from coupledgp.inference.nodes.objectives import ExactKernelObjective, FixedHyperparameters
from coupledgp.inference.nodes.routes import NodeObservations, cheapest_route
from coupledgp.kernels import HeatKernel
from data_loaders import meshes

N_WALKS, P_HALT, N_STEPS = 16, 0.1, 10


def timed(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The last result and the median seconds of some calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def rmse(a: np.ndarray, b: np.ndarray) -> float:
    """Root mean squared difference."""
    return float(np.sqrt(np.mean((a - b) ** 2)))


def theirs(
    graph: cgp.Graph, y: np.ndarray, train: np.ndarray, test: np.ndarray, n_train_steps: int
) -> dict[str, float]:
    """fast-graph-gp: seconds of sampling and of a training step, and RMSE after training."""
    import linear_operator
    from grf_gp.kernels.diffusion import DiffusionGRFKernel
    from grf_gp.model import GRFGP
    from grf_gp.sampler import GRFSampler
    from grf_gp.utils.config import set_gp_defaults

    set_gp_defaults(linear_operator.settings, gpytorch.settings)
    laplacian = torch.eye(graph.n_nodes) - torch.tensor(
        graph.normalized_adjacency.toarray(), dtype=torch.float32
    )
    sampler = GRFSampler(laplacian, N_WALKS, P_HALT, N_STEPS, seed=1, use_tqdm=False)
    matrices, sampling = timed(sampler.sample_random_walk_matrices, 1)
    print(f"fast-graph-gp: sampling {sampling:.2f} s", file=sys.stderr, flush=True)
    if n_train_steps == 0:
        return {"sampling_s": sampling}
    mean, scale = y[train].mean(), y[train].std()
    x = torch.tensor(train)
    targets = torch.tensor((y[train] - mean) / scale, dtype=torch.float32)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = GRFGP(x, targets, likelihood, DiffusionGRFKernel(matrices, N_STEPS))
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    likelihood.train()

    def step() -> None:
        optimizer.zero_grad()
        loss = -mll(model(x), targets)
        loss.backward()
        optimizer.step()

    _, seconds = timed(step, n_train_steps)
    print(f"fast-graph-gp: training step {seconds:.2f} s", file=sys.stderr, flush=True)
    model.eval()
    likelihood.eval()
    predicted = model.predict(torch.tensor(test)).mean.numpy() * scale + mean
    return {"sampling_s": sampling, "training_step_s": seconds, "rmse": rmse(predicted, y[test])}


def ours(
    graph: cgp.Graph, y: np.ndarray, train: np.ndarray, test: np.ndarray, fit: bool
) -> dict[str, float]:
    """coupledgp: the same, the training step being one evidence with its gradient."""

    def sample(coupling: str) -> Any:
        return cgp.features.sample_walks(
            graph, N_WALKS, P_HALT, coupling, max_length=N_STEPS - 1, generator=1
        )

    sample("iid"), sample("stratified+systematic")  # compilation
    _, iid = timed(lambda: sample("iid"), 9)
    _, coupled = timed(lambda: sample("stratified+systematic"), 9)
    if not fit:
        return {"sampling_iid_s": iid, "sampling_s": coupled}
    start = time.perf_counter()
    gp = cgp.GraphGPRegressor(graph, "heat", N_WALKS, random_state=0)
    gp.fit(train, y[train])
    fit_seconds = time.perf_counter() - start
    print(f"coupledgp: fit {fit_seconds:.2f} s", file=sys.stderr, flush=True)
    centred = (y[train] - y[train].mean()) / y[train].std()
    # The parameters fast-graph-gp starts from, so that both steps are the same task; tolerance 1e-2
    # of conjugate gradients is its default too.
    prior = gp.first_process_.recipe.make(HeatKernel(1.31)).prior
    scales = Scales(1.72, 0.69, 0.0)

    def step() -> np.ndarray:
        kernel = HeatKernel(prior.kernel.time * 1.001)
        evidence = IterativeEvidence(prior.at(kernel), train, centred, tolerance=1e-2)
        return evidence.gradient(scales)

    step()  # compilation, and the walks
    _, walked = timed(step, 5)
    return {
        "sampling_iid_s": iid,
        "sampling_s": coupled,
        "training_step_s": fitted_step(graph, train, centred),
        "training_step_walks_s": walked,
        "training_step_of_fit_s": fit_seconds / gp.n_evaluations_,
        "fit_s": fit_seconds,
        "rmse": rmse(gp.predict(test), y[test]),
    }


def fitted_step(graph: cgp.Graph, train: np.ndarray, centred: np.ndarray) -> float:
    """Median seconds of a step of the default fit: evidence and gradient in all parameters.

    At about the diffusion time and the noise ratio that fast-graph-gp starts from. Moments that
    all steps share are computed by the first, which is not timed; `training_step_of_fit_s`, the
    seconds of a fit over its steps, has them, the posterior and wide kernels too.
    """
    data = NodeObservations(graph, train, centred[:, None], 0)
    route = cheapest_route(data, HeatKernel(1.31), 0.69 / 1.72, 40)
    assert route is not None
    evidence = route.make()
    objective = ExactKernelObjective(evidence, HeatKernel(1.31), FixedHyperparameters())
    scale = objective._ratio(HeatKernel(1.31), np.zeros(2))[0]
    times = iter(np.log(1.31) + 1e-3 * np.arange(12))

    def step() -> np.ndarray:
        return objective.at(np.array([next(times), np.log(0.69 / 1.72 / scale)])).gradient

    step()
    return timed(step, 9)[1]


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mesh", default="torus")
    parser.add_argument(
        "--train-steps", type=int, default=20, help="their Adam steps; 0 times sampling only"
    )
    arguments = parser.parse_args()
    data = meshes.load(arguments.mesh)
    graph, y = data.graph, data.normal_z
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    n_test = round(0.05 * graph.n_nodes)
    test, train = order[:n_test], order[n_test:]
    mine = ours(graph, y, train, test, arguments.train_steps > 0)
    print(f"coupledgp: {mine}", file=sys.stderr, flush=True)
    other = theirs(graph, y, train, test, arguments.train_steps)
    result: dict[str, Any] = {
        "mesh": arguments.mesh,
        "n_nodes": graph.n_nodes,
        "threads": torch.get_num_threads(),
        "coupledgp": mine,
        "fast_graph_gp": other,
        "times_faster": {name: other[name] / mine[name] for name in other if name.endswith("_s")},
        "sampling_iid_times_faster": other["sampling_s"] / mine["sampling_iid_s"],
    }
    if "rmse" in other:
        for name in ("training_step_walks", "training_step_of_fit"):
            result[f"{name}_times_faster"] = other["training_step_s"] / mine[f"{name}_s"]
        result["rmse_ratio"] = other["rmse"] / mine["rmse"]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
