"""What torch.amp.GradScaler sets in an optimizer before step(), for fused=True, and removes after it."""

import sys
from types import FrameType
from typing import Any

import torch

_SCALER_STEP = torch.amp.GradScaler.step.__code__


def _is_in_scaler(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not _SCALER_STEP:
        frame = frame.f_back
    return frame is not None


def take_back(optimizer: Any) -> None:
    """After an error of step(). GradScaler leaves its scale then, and its next step() would multiply by it again.

    Attributes that a program has set itself stay.
    """
    if _is_in_scaler(sys._getframe()):
        for name in ("grad_scale", "found_inf"):
            optimizer.__dict__.pop(name, None)
