"""Classes of sixteen tables beside rivals: log loss, Brier score, calibration error, CPU seconds.

* ours: `GPClassifier()` with its defaults;
* boosting, stopped: scikit-learn's `HistGradientBoostingClassifier` with its defaults, and with
  early stopping on a tenth of the rows;
* logistic: `LogisticRegression` on standardised columns;
* gpc: scikit-learn's `GaussianProcessClassifier` with a lengthscale a column, on `--gpc-rows` rows;
* svgp: gpytorch's variational classifier of 128 inducing points, for as long as ours took;
* gpboost: boosted trees with a Gaussian process where it is installed.

Tables of UCI have their classes, or their target above its median; generated ones draw labels
with chances `sigmoid(scale (f - median))`. Columns: log loss in nats, Brier score (sum over
classes), the expected calibration error of ten bins of the greatest chance, accuracy, and CPU
seconds. The goals are counted at the end.

    COUPLEDGP_DATA=... python benchmarks/performance/classes_against_rivals.py --splits 3
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

os.environ |= {"OMP_NUM_THREADS": "1"}

import gpytorch
import numpy as np
import torch
from generated_tables import GENERATED
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from data_loaders import classification, uci

# Tables with classes; those cut at the median; generated ones with the scale of their logits.
CLASSES = ("banknote", "car", "cmc", "nursery", "wifi", "yeast", "digits")
CUT = ("abalone", "airfoil", "boston", "concrete", "kin40k", "power", "protein", "wine")
DRAWN = {"additive": 3.0, "pairs": 4.0, "steps": 3.0, "boxes": 3.0, "friedman1": 1.5}
TABLES = (*CLASSES, *CUT, *DRAWN)
# Least chance that a log loss counts, and bins of the calibration error.
LEAST, N_BINS = 1e-15, 10
N_INDUCING, BATCH_ROWS, RATE = 128, 256, 0.02
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def table(name: str, seed: int, n_rows: int, n_test: int) -> Rows:
    """Training inputs and classes (0, 1, ...), and those of the test; few rows: two thirds train.

    Classes of fewer than ten rows of the whole table are left out.
    """
    rng = np.random.default_rng(seed)
    if name in CLASSES:
        data = classification.load(name)
        X, y = data.X, np.unique(data.y, return_inverse=True)[1]
        kept = np.bincount(y)[y] >= 10
        X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    elif name in CUT:
        own = uci.load(name)
        X, y = own.X, (own.y > np.median(own.y)).astype(int)
    else:
        X, f = GENERATED[name](rng, n_rows + n_test)
        z = (f - np.median(f)) / f.std()
        y = (rng.random(len(f)) < expit(DRAWN[name] * z)).astype(int)
    order = rng.permutation(len(y))
    n = min(n_rows, 2 * len(y) // 3)
    train, test = order[:n], order[n : n + n_test]
    kept = test[np.isin(y[test], y[train])]
    return X[train], y[train], X[kept], y[kept]


def scores(y: np.ndarray, chances: np.ndarray, classes: np.ndarray) -> list[float]:
    """Log loss, Brier score, expected calibration error and accuracy of chances (p, K)."""
    codes = np.searchsorted(classes, y)
    own = chances[np.arange(len(y)), codes]
    truth = np.eye(len(classes))[codes]
    top, right = chances.max(axis=1), chances.argmax(axis=1) == codes
    bins = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs((top - right)[bins == k].sum()) for k in range(N_BINS)]
    return [
        float(-np.log(np.maximum(own, LEAST)).mean()),
        float(np.square(chances - truth).sum(axis=1).mean()),
        float(sum(gaps) / len(y)),
        float(right.mean()),
    ]


def fitted(model: object, rows: Rows, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Chances of a classifier of scikit-learn's form on at most n rows, and its classes."""
    X, y, X_test, _ = rows
    model.fit(X[:n], y[:n])
    return model.predict_proba(X_test), model.classes_


class Svgp(gpytorch.models.ApproximateGP):
    """One variational function for each class, or one for two, with an RBF kernel each."""

    def __init__(self, inducing: torch.Tensor, n_functions: int) -> None:
        batch = torch.Size([n_functions])
        law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing), batch_shape=batch)
        strategy = gpytorch.variational.VariationalStrategy(self, inducing, law)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[-1], batch_shape=batch)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def svgp(rows: Rows, seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chances of one function against all others for each class, normalised."""
    scaler = StandardScaler().fit(rows[0])
    X, X_test = (torch.tensor(scaler.transform(part)) for part in (rows[0], rows[2]))
    classes, codes = np.unique(rows[1], return_inverse=True)
    ones = np.eye(len(classes))[codes]
    ones = torch.tensor(ones[:, 1:] if len(classes) == 2 else ones).T
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    inducing = X[rng.choice(len(X), min(N_INDUCING, len(X)), replace=False)].clone()
    model = Svgp(inducing, len(ones)).double().train()
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    start = time.process_time()
    while time.process_time() - start < seconds:
        chosen = torch.tensor(rng.choice(len(X), min(BATCH_ROWS, len(X)), replace=False))
        optimizer.zero_grad()
        (-objective(model(X[chosen]), ones[:, chosen]).sum()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        chances = likelihood(model(X_test)).probs.numpy().T.clip(LEAST, 1 - LEAST)
    if chances.shape[1] == 1:
        return np.hstack([1 - chances, chances]), classes
    return chances / chances.sum(axis=1, keepdims=True), classes


def gpboost(rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Boosted trees with a Gaussian process of all columns, two classes alone."""
    import gpboost as gpb

    X, y, X_test, _ = rows
    if y.max() > 1:
        return None
    scaler = StandardScaler().fit(X)
    process = gpb.GPModel(
        gp_coords=scaler.transform(X), cov_function="matern_ard", cov_fct_shape=1.5,
        likelihood="bernoulli_logit", gp_approx="vecchia", seed=seed,
    )  # fmt: skip
    model = gpb.train(
        params={"learning_rate": 0.05, "verbose": -1, "num_threads": 1, "seed": seed},
        train_set=gpb.Dataset(X, y), gp_model=process, num_boost_round=100,
    )  # fmt: skip
    found = model.predict(X_test, gp_coords_pred=scaler.transform(X_test), pred_latent=False)
    one = np.clip(found["response_mean"], LEAST, 1 - LEAST)
    return np.column_stack([1 - one, one]), np.arange(2)


def systems(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, Callable]:
    """What runs on a split, in order; svgp has the seconds of ours."""
    stopped = HistGradientBoostingClassifier(random_state=seed, early_stopping=True)
    kernel = ConstantKernel(10.0) * RBF(np.ones(rows[0].shape[1]))
    gpc = make_pipeline(
        StandardScaler(), GaussianProcessClassifier(kernel, random_state=seed)
    )  # fmt: skip
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    boosted = HistGradientBoostingClassifier(random_state=seed)
    found: dict[str, Callable] = {
        "ours": lambda seconds: fitted(cgp.GPClassifier(random_state=seed), rows),
        "boosting": lambda seconds: fitted(boosted, rows),
        "stopped": lambda seconds: fitted(stopped, rows),
        "logistic": lambda seconds: fitted(logistic, rows),
    }
    if options.alone:
        return found
    found["gpc"] = lambda seconds: fitted(gpc, rows, options.gpc_rows)
    found["svgp"] = lambda seconds: svgp(rows, seconds, seed)
    if find_spec("gpboost"):
        found["gpboost"] = lambda seconds: gpboost(rows, seed)
    return found


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Scores and CPU seconds of every system on one split."""
    rows, results, seconds = table(name, seed, options.rows, options.test_rows), {}, 0.0
    for system, work in systems(rows, seed, options).items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = work(min(seconds, options.svgp_seconds))
        spent = time.process_time() - start
        if found is None:
            continue
        seconds = spent if system == "ours" else seconds
        seen = np.isin(rows[3], found[1])
        results[system] = [*scores(rows[3][seen], *found), spent]
    return results


def goals(means: dict[str, dict[str, np.ndarray]]) -> None:
    """Count the tables on which ours is at most boosting's, by log loss and calibration error."""
    for rival in ("boosting", "stopped", "logistic", "gpc", "svgp"):
        own = [(one["ours"], one[rival]) for one in means.values() if rival in one]
        if not own:
            continue
        ours, theirs = (np.array(part) for part in zip(*own, strict=True))
        better = int((ours[:, 0] <= theirs[:, 0]).sum())
        half = int((ours[:, 2] <= 0.5 * theirs[:, 2]).sum())
        print(
            f"beside {rival}: log loss at most theirs on {better} of {len(own)}, median "
            f"{np.median(ours[:, 0] - theirs[:, 0]):+.4f}; calibration error "
            f"{ours[:, 2].mean():.4f} beside {theirs[:, 2].mean():.4f}, at most half on {half} of "
            f"{len(own)}"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=600, help="training rows")
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument("--gpc-rows", type=int, default=300)
    parser.add_argument("--svgp-seconds", type=float, default=30.0, help="at most")
    parser.add_argument("--alone", action="store_true", help="ours, boosting and logistic only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| table | system | log loss | Brier | ECE | accuracy | CPU s |")
    print("|---|---|---|---|---|---|---|")
    means: dict[str, dict[str, np.ndarray]] = {}
    for name in options.tables:
        runs = [run(name, seed, options) for seed in range(options.splits)]
        means[name] = {
            system: np.mean([one[system] for one in runs if system in one], axis=0)
            for system in runs[0]
        }
        for system, own in means[name].items():
            cells = " | ".join(f"{value:.4f}" for value in own[:4])
            print(f"| {name} | {system} | {cells} | {own[4]:.1f} |", flush=True)
    goals(means)


if __name__ == "__main__":
    main()
