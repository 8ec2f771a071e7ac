"""The device that is not there refuses what an accelerator would refuse."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from tests.pretend_device import DEVICE, OnDevice, on_device, pretend_device


def test_tensors_say_where_they_are() -> None:
    with pretend_device() as device:
        here = torch.zeros(3, device=DEVICE)
        there = torch.zeros(3)
        assert here.device == DEVICE
        assert there.device.type == "cpu"
        for made in (
            here + 1,
            here.new_zeros(2),
            here[:2],
            torch.stack([here, here]),
            there.to(here),
            there.to(DEVICE),
            torch.zeros_like(here),
            deepcopy(here),
            torch.linalg.qr(torch.eye(3, device=DEVICE))[1],
        ):
            assert made.device == DEVICE
        assert here.new_zeros(2, device="cpu").device.type == "cpu"
        assert not device.left


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: a.add_(b),
        lambda a, b: torch.mul(a, a, out=b),
        lambda a, b: b[a > 0],
    ],
)
def test_tensors_of_two_devices_do_not_mix(mix) -> None:
    with pretend_device(), pytest.raises(AssertionError, match="with tensors on the CPU"):
        mix(on_device(np.ones(3)), torch.ones(3).double())


def test_numbers_mix() -> None:
    with pretend_device():
        assert (on_device(np.ones(3)) * torch.tensor(2.0)).device == DEVICE


def test_arrays_and_departures() -> None:
    with pretend_device() as device:
        here = on_device(np.ones((2, 3)))
        for convert in (lambda: here.numpy(), lambda: np.asarray(here)):
            with pytest.raises(AssertionError, match="as an array"):
                convert()
        assert not device.left
        assert type(here.cpu()) is torch.Tensor
        here.to("cpu")
        here.to(torch.zeros(1))
        here.to(torch.float32)
        assert device.left == [(2, 3)] * 3


def test_gradients_stay() -> None:
    with pretend_device():
        leaf = on_device(np.ones(3)).requires_grad_()
        (gradient,) = torch.autograd.grad((leaf**2).sum(), leaf)
        assert gradient.device == DEVICE
        assert isinstance(gradient, OnDevice)
