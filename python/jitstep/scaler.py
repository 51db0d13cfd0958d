"""grad_scale and found_inf of an optimizer: torch.amp.GradScaler sets them before step(), for fused=True, and removes
them after it."""

import sys
from collections import defaultdict
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from . import sharded

_SCALER_STEP = torch.amp.GradScaler.step.__code__


def _is_in_scaler(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not _SCALER_STEP:
        frame = frame.f_back
    return frame is not None


def _one_number(optimizer: Any, name: str) -> Tensor | None:
    value = getattr(optimizer, name, None)
    if value is None:
        return None
    if not isinstance(value, Tensor):
        value = torch.tensor(float(value))
    if value.numel() != 1:
        raise ValueError(f"jitstep: {name} has {value.numel()} elements. Set it to one number.")
    return value


def grad_scale(optimizer: Any) -> Tensor | None:
    """What steps divide gradients by. None: nothing. Raises ValueError for several numbers."""
    return _one_number(optimizer, "grad_scale")


def found_inf(optimizer: Any) -> Tensor | None:
    """Steps are skipped if it is not 0. GradScaler sets the number 0 if there are no gradients: None."""
    value = getattr(optimizer, "found_inf", None)
    return _one_number(optimizer, "found_inf") if isinstance(value, Tensor) or value else None


def _is_written(p: Tensor, grad: Tensor) -> bool:
    """Whether torch can divide the gradient in place: no element is repeated, and it is not the parameter itself."""
    if grad.layout != torch.strided:
        return True
    repeats = any(stride == 0 and size > 1 for size, stride in zip(grad.shape, grad.stride(), strict=True))
    return not repeats and grad.data_ptr() != sharded.local(p).data_ptr()


@torch.no_grad()
def unscale(stepped: list[Tensor], scale: Tensor) -> None:
    """After a step: torch's fused optimizers leave unscaled gradients."""
    written: dict[torch.device, list[Tensor]] = defaultdict(list)
    for p in stepped:
        if p.grad is None:
            continue
        grad = sharded.local(p.grad)
        if _is_written(p, grad):
            written[grad.device].append(grad)
        else:
            p.grad = p.grad / float(scale)
    for device, grads in written.items():
        torch._foreach_div_(grads, scale.reshape(()).to(device))


def take_back(optimizer: Any) -> None:
    """After an error of step(). GradScaler leaves its scale then, and its next step() would multiply by it again.

    Attributes that a program has set itself stay.
    """
    if _is_in_scaler(sys._getframe()):
        for name in ("grad_scale", "found_inf"):
            optimizer.__dict__.pop(name, None)
