"""The GPU of the tests: a real one, or the CUDA device of tests/optim_cuda/cuda_device.cpp, in a torch without CUDA.

JITSTEP_CUDA_DEVICE names the library of the latter, whose driver executes PTX on the CPU. It has one stream. torch asks
for devices when it is imported, so this module must be imported before torch.
"""

import ctypes
import os
from types import SimpleNamespace

_LIBRARY = os.environ.get("JITSTEP_CUDA_DEVICE")
EMULATED = bool(_LIBRARY)
if EMULATED:
    ctypes.CDLL(_LIBRARY, mode=ctypes.RTLD_GLOBAL)

import torch  # noqa: E402

if EMULATED:  # what a torch without CUDA lacks
    torch.cuda._lazy_init = lambda: None
    torch.cuda.is_available = lambda: True
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.current_stream = lambda device=None: SimpleNamespace(cuda_stream=0)
    torch.Tensor.record_stream = lambda self, stream: None  # its memory does not come from an allocator of a GPU

EXISTS = torch.cuda.is_available()
