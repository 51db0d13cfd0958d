"""Locates what packages install: compiled kernels of this one, the compiler zig of `ziglang`, and NVRTC."""

import importlib.util
import os
import shutil
from pathlib import Path

import torch

# As in src/jit/compiler/host_compiler.cpp.
_COMPILERS = ("c++", "g++", "clang++")


def kernels() -> str:
    """The folder of compiled kernels. Empty if the package was built without them."""
    folder = Path(__file__).parent / "kernels"
    return str(folder) if folder.is_dir() else ""


def compiler() -> str:
    """The path of zig from the package `ziglang` (`pip install jitstep[compiler]`). Empty if it is not installed."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found.submodule_search_locations if found else None) or []:
        program = Path(folder) / "zig"
        if program.is_file():
            return str(program)
    return ""


def nvrtc() -> str:
    """The folder to search for NVRTC. pip installs it in site-packages/nvidia."""
    return str(Path(torch.__file__).parent.parent)


def tool_environment() -> dict[str, str]:
    """Environment variables for the command-line tool, which cannot search Python packages itself."""
    environment = dict(os.environ)
    folder = kernels()
    if folder and not os.stat(folder).st_mode & 0o022:  # the tool rejects a folder that others may write to
        environment.setdefault("JITSTEP_CACHE_READONLY", folder)
    if not any(shutil.which(name) for name in _COMPILERS) and (program := compiler()):
        environment.setdefault("JITSTEP_CXX", program)
    return environment
