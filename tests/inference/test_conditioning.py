"""Conditioning a law with a known root on further observations, against dense algebra."""

import numpy as np
import pytest
import torch

from coupledgp.inference.weights.conditioning import Conditioning


@pytest.mark.parametrize("noise", [0.04, 1.0, 7.0])
def test_reduced_roots_are_those_of_the_smaller_covariance(noise: float) -> None:
    rng = np.random.default_rng(4)
    roots, points = (
        torch.as_tensor(rng.normal(size=(5, 8))),
        torch.as_tensor(rng.normal(size=(3, 8))),
    )
    residual = torch.as_tensor(rng.normal(size=(5, 2)))
    found = Conditioning.on(roots, residual, noise)
    cross, inner = points @ roots.T, roots @ roots.T + noise * torch.eye(5)
    gain = torch.linalg.solve(inner, cross.T).T
    torch.testing.assert_close(found.mean(points), gain @ residual)
    reduced = found.reduce(points)
    torch.testing.assert_close(reduced @ reduced.T, points @ points.T - gain @ cross.T)
