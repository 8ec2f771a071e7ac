"""Kept for its name: `coupledgp.botorch` is where the BoTorch model lives."""

from coupledgp.botorch.model import SparseSpectrumGP

__all__ = ["SparseSpectrumGP"]
