"""What kernels support: dtypes, devices, parameters and gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_DEVICES = ("cpu", "cuda")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
HALF_DTYPES = (torch.bfloat16, torch.float16)


def has_kernels(p: Any) -> bool:
    """True on devices that kernels can be compiled for. Does not ask whether there is such a device."""
    return p.device.type in _DEVICES


def has_memory(p: Any) -> bool:
    """True for a dense tensor on such a device, unless it is a FakeTensor."""
    return has_kernels(p) and p.layout == torch.strided and not isinstance(p, FakeTensor)


def never_trains(p: Any) -> bool:
    """True for a module's frozen parameter of integers or 8-bit floats, such as a quantized weight. torch holds those,
    too. Other tensors of such dtypes are a mistake.
    """
    frozen = isinstance(p, torch.nn.Parameter) and not p.requires_grad and p.grad is None
    return frozen and not p.is_complex() and p.dtype not in DTYPES


def check_device(number: int, p: Any, fused: bool) -> None:
    """Raises RuntimeError for a parameter that cannot be stepped: one without kernels, or without memory."""
    if isinstance(p, FakeTensor):
        raise RuntimeError(
            f"jitstep: parameter {number} is a FakeTensor, which has no memory that a step can change. Step outside of "
            "FakeTensorMode. init_state() and memory_report() work inside."
        )
    check_has_kernels(number, p, fused)


def check_has_kernels(number: int, p: Any, fused: bool = False) -> None:
    """Raises RuntimeError for a parameter on a device without kernels. `fused`: the program asked for fused steps."""
    if has_kernels(p):
        return
    torchs = f"`fused=True` requires all the params to be floating point Tensors of supported devices: {[*_DEVICES]}. "
    raise RuntimeError(
        f"{torchs if fused else ''}jitstep: parameter {number} is on {p.device}, and only the CPU and NVIDIA GPUs "
        'have kernels. Move the model before you make the optimizer: model.to("cpu") or model.to("cuda"); '
        'from "meta", model.to_empty(device=...).'
    )


def check_gradient(shown: Callable[[int, Any], str], number: int, p: Any, gradient: Any) -> None:
    """Raises ValueError for a gradient that kernels cannot read. `shown` names its parameter."""
    if not gradient.is_complex() and gradient.dtype not in DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        found = str(gradient.dtype).removeprefix("torch.")
        raise ValueError(
            f"jitstep: {shown(number, p)}: the dtype of its gradient is {found}, which is not supported. Convert the "
            f"gradient to one of {known}."
        )
