"""Fused optimizer steps with state in few bits, as torch.optim.Optimizer classes.

    optimizer = jitstep.AdamW(model.parameters(), lr=1e-3, state="int8")

There is one class for each optimizer of jitstep. Everything else is as in torch.optim. docs/python.md has a guide.
"""

import sys
from typing import Any

from torch.optim import lr_scheduler, swa_utils

from . import _core, package
from ._core import CompileError, CudaError, Error, MissingCompilerError, __version__
from .accumulate import GradAccumulator
from .archive_writer import write_archive
from .archives import read_archive
from .catalog import classes, from_spec, load_codec, load_rule
from .distributed import ordered_all_reduce_hook
from .errors import no_attribute
from .optimizer import Optimizer
from .transforms import TransformCall, register_host_transform, register_parameter_transform

_core.use_package(package.kernels(), package.compiler(), package.nvrtc())
globals().update(classes())
# `from jitstep.lr_scheduler import StepLR` works like `from torch.optim.lr_scheduler import StepLR`.
sys.modules[f"{__name__}.lr_scheduler"] = lr_scheduler
sys.modules[f"{__name__}.swa_utils"] = swa_utils


def rules() -> list[str]:
    """The names of all optimizers: those of jitstep, and those of load_rule()."""
    return _core.rules()


def codecs() -> list[str]:
    """The names of all state formats, for the argument `state`."""
    return _core.codecs()


def weight_formats() -> list[str]:
    """The names of all weight formats, for the argument `weights`."""
    return _core.weight_formats()


def __getattr__(name: str) -> Any:
    """Called for names that the module does not have."""
    raise no_attribute(name, __all__)


__all__ = [
    "CompileError",
    "CudaError",
    "Error",
    "GradAccumulator",
    "MissingCompilerError",
    "Optimizer",
    "TransformCall",
    "__version__",
    "codecs",
    "from_spec",
    "load_codec",
    "load_rule",
    "lr_scheduler",
    "ordered_all_reduce_hook",
    "read_archive",
    "register_host_transform",
    "register_parameter_transform",
    "rules",
    "swa_utils",
    "weight_formats",
    "write_archive",
    *classes(),
]
