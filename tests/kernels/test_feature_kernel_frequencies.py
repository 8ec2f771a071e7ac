"""Frequencies of feature kernels: when they are drawn, from what seed, and their state."""

from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch

from coupledgp.kernels import FourierFeatureKernel
from coupledgp.kernels.gpytorch.features import FeatureKernel
from tests.kernels.feature_kernel_cases import KERNELS, both
from tests.new_process import run_new


class TestFrequencies:
    @both
    def test_drawn_at_once_or_at_the_first_call(self, kind: type[FeatureKernel]) -> None:
        early, late = kind(5, 3, generator=7), kind(5, generator=7)
        assert late.frequencies is None
        late(torch.zeros(2, 3)).to_dense()
        assert early.frequencies is not None
        assert torch.equal(early.frequencies, late.frequencies)
        drawn = kind.feature_map(3, 5, generator=7).frequencies
        assert torch.equal(early.frequencies, drawn)
        assert "frequencies" in early.state_dict()

    @both
    def test_precision_of_the_draw_survives_a_conversion(self, kind: type[FeatureKernel]) -> None:
        """A kernel made in single precision and then turned to double has not lost digits."""
        drawn = kind.feature_map(3, 5, generator=7).frequencies
        assert torch.equal(kind(5, 3, generator=7).double().frequencies, drawn)

    @pytest.mark.parametrize(
        "known", [{"dim": 2}, {"ard_num_dims": 2}, {"active_dims": (0, 3)}], ids=str
    )
    def test_known_dimensions(self, known: dict[str, Any]) -> None:
        kernel = FourierFeatureKernel(5, generator=0, **known)
        assert kernel.frequencies is not None
        assert kernel.frequencies.shape == (5, 2)

    def test_generators(self) -> None:
        def seeds(generator: Any, *shape: int) -> list[int]:
            batch = torch.Size(shape)
            return FourierFeatureKernel(2, 1, generator=generator, batch_shape=batch).seeds.tolist()

        assert seeds(4) == seeds(np.int64(4)) == 4
        assert seeds(4, 3) == seeds(4, 3) != seeds(5, 3)
        assert seeds(2**80) == seeds(2**80)
        for make in (torch.Generator().manual_seed, np.random.default_rng):
            assert seeds(make(1)) == seeds(make(1)) != seeds(make(2))
        state = torch.get_rng_state()
        try:
            torch.manual_seed(3)
            first = seeds(None)
            assert seeds(None) != first
            torch.manual_seed(3)
            assert seeds(None) == first
        finally:
            torch.set_rng_state(state)

    @both
    @pytest.mark.parametrize("shape", [(), (2,)])
    @pytest.mark.parametrize("called", [False, True])
    def test_state_restores_frequencies_either_way(
        self, kind: type[FeatureKernel], shape: tuple[int, ...], called: bool
    ) -> None:
        batch = torch.Size(shape)
        source = kind(5, 3, generator=7, batch_shape=batch)
        target = kind(5, generator=8, batch_shape=batch)
        x = torch.linspace(0, 1, 12).reshape(4, 3)
        if called:
            target(x).to_dense()
        assert list(target.load_state_dict(source.state_dict())) == [[], []]
        assert torch.equal(target.frequencies, source.frequencies)
        assert torch.equal(target.seeds, source.seeds)
        assert torch.equal(target(x).to_dense(), source(x).to_dense())

    @both
    def test_state_without_frequencies_leaves_its_seed_to_draw_them(
        self, kind: type[FeatureKernel]
    ) -> None:
        source, target = kind(5, generator=7), kind(5, 2, generator=8)
        target.load_state_dict(source.state_dict())
        assert target.frequencies is None
        x = torch.linspace(0, 1, 12).reshape(4, 3)
        assert torch.equal(target(x).to_dense(), source(x).to_dense())

    def test_state_of_another_size_is_refused(self) -> None:
        source, target = FourierFeatureKernel(5, 3), FourierFeatureKernel(5, 2)
        with pytest.raises(RuntimeError, match="size mismatch for frequencies"):
            target.load_state_dict(source.state_dict())

    def test_new_process(self, tmp_path: Path) -> None:
        x = torch.linspace(-1, 1, 12).reshape(4, 3)
        stored: dict[str, Any] = {"x": x}
        for kind in KERNELS:
            kernel = gpytorch.kernels.ScaleKernel(kind(5, coupling="sobol", generator=7))
            kernel.base_kernel.lengthscale = 0.3
            gram = kernel(x).to_dense().detach()
            stored[kind.__name__] = {"state": kernel.state_dict(), "gram": gram}
        torch.save(stored, tmp_path / "kernels.pt")
        code = (
            "import torch, gpytorch, coupledgp as cgp\n"
            f"stored = torch.load({str(tmp_path / 'kernels.pt')!r}, weights_only=True)\n"
            "for kind in cgp.kernels.FourierFeatureKernel, cgp.kernels.LaplaceFeatureKernel:\n"
            "    kernel = gpytorch.kernels.ScaleKernel(kind(5, generator=0))\n"
            "    kernel.load_state_dict(stored[kind.__name__]['state'])\n"
            "    gram = kernel(stored['x']).to_dense()\n"
            "    assert torch.equal(gram, stored[kind.__name__]['gram'])\n"
        )
        run_new(code, folder=tmp_path)
