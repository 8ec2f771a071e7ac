"""Errors of kernel estimates in closed form against simulation (B1), the largest z printed.

For every feature map, every coupling, and several dimensions, the mean squared error by
`theory.simulated_distance_mse` is compared with the closed form where there is one. Then follows the
ratio of simplex to orthogonal errors of Laplace features for d = 64 against v = |x + y| (Reid et al.
2023, Fig. 6; 0.0078 for small v).

    python benchmarks/reproduction/simulation_against_theory.py [--draws 2000]
"""

from __future__ import annotations

import argparse

import numpy as np
from study_options import add_options, chosen, parse_options

from coupledgp.couplings import available_couplings, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.theory import distance_mse, has_closed_form, simulated_distance_mse

DIMS = (2, 3, 8, 64)
LENGTHS = {"fourier": 1.1, "laplace": 0.5}


def main() -> None:
    """Print a line for each case, the largest z, and the curve of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--seed", type=int, default=0)
    labels = available_couplings()
    add_options(parser, ["all"])
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.draws, arguments.dims = 20, [2]
    couplings = chosen(arguments, dict(zip(labels, labels, strict=True)))
    cases = [(f, text, dim) for f in LENGTHS for text in couplings for dim in arguments.dims]
    scores, compared, lines = [], [], ["features,coupling,dim,simulated,standard_error,closed_form"]
    for number, (features, text, dim) in enumerate(cases):
        t, seed = LENGTHS[features], arguments.seed * len(cases) + number
        try:
            found = simulated_distance_mse(
                features, text, dim, dim, t, n_draws=arguments.draws, generator=seed
            )
        except InvalidInputError:
            continue  # a rule of few dimensions, or for cosines only
        closed = ""
        if has_closed_form(features, parse_coupling(text)):
            closed = distance_mse(features, text, dim, dim, t)
            error = max(found.standard_error, 1e-13 * closed)
            scores.append((found.value - closed) / error)
            compared.append((features, text, dim))
            closed = f"theory {closed:.4e} z {scores[-1]:+.2f}"
        print(f"{features:8} {text:36} d={dim:3} simulated {found.value:.4e} "
              f"({found.standard_error:.1e}) {closed}")  # fmt: skip
        lines.append(f"{features},{text},{dim},{found.value},{found.standard_error},{closed}")
    for path in arguments.output:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not scores:
        return
    worst = int(np.argmax(np.abs(scores)))
    print(f"{len(scores)} cases, largest z {scores[worst]:+.2f} at {compared[worst]}")
    print(f"root mean square of z {np.sqrt(np.mean(np.square(scores))):.3f}")
    for v in (0.01, 0.05, 0.5, 1.0, 1.5, 2.0):
        ratio = distance_mse("laplace", "simplex", 64, 64, v)
        ratio /= distance_mse("laplace", "orthogonal", 64, 64, v)
        print(f"d=64 v={v:4}: simplex over orthogonal {ratio:.4f}")


if __name__ == "__main__":
    main()
