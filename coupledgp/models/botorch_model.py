"""Public name of the BoTorch model, which is defined in `coupledgp.botorch`."""

from coupledgp.botorch.model import SparseSpectrumGP

__all__ = ["SparseSpectrumGP"]
