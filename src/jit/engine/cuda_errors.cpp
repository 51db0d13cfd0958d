#include "jit/engine/cuda_errors.h"

namespace jitstep::jit {
namespace {

constexpr std::string_view kSticky =
    "Kernel errors are reported late, so an earlier kernel of any library may have caused it. The "
    "GPU stays unusable until the process ends. Find the kernel with compute-sanitizer or "
    "CUDA_LAUNCH_BLOCKING=1.";
constexpr std::string_view kDamaged =
    "The binary is damaged, or an NVRTC of a newer major version than the driver's CUDA made it. "
    "jitstep compiles a cached binary again.";
constexpr std::string_view kContextLost =
    "The GPU's context was destroyed, for example by cudaDeviceReset(). Restart the process.";
constexpr std::string_view kCapture =
    "A CUDA graph is being captured. Do this before or after the capture.";

struct Advice {
  int first, last;  // codes
  std::string_view text;
};

// By CUresult, which the driver API fixes.
constexpr Advice kAdvice[] = {
    {2, 2,
     "The GPU's memory is full. Use smaller batches or state in fewer bits, or free torch's cached "
     "memory."},
    {3, 3,
     "A process that was forked after its parent had used CUDA, for example through torch, cannot "
     "use it. Fork before the first use, or start a new process (spawn)."},
    {4, 4, "The process is ending and the driver has shut down. Finish all steps before."},
    {34, 34,
     "libcuda.so.1 is the toolkit's stub, which is only for linking. Install the NVIDIA driver, "
     "and remove the stub's folder from LD_LIBRARY_PATH."},
    {46, 46, "Another process may use the GPU exclusively. See nvidia-smi -q -d COMPUTE."},
    {100, 100, "No NVIDIA GPU is visible. See nvidia-smi and CUDA_VISIBLE_DEVICES."},
    {101, 101, "There is no such GPU. See nvidia-smi and CUDA_VISIBLE_DEVICES."},
    {200, 200, kDamaged},
    {201, 201, kContextLost},
    {209, 209, "The binary is for another GPU. jitstep compiles a cached binary again."},
    {218, 218, kDamaged},
    {221, 221,
     "The driver's installation lacks libnvidia-ptxjitcompiler.so. Install the complete driver."},
    {222, 222,
     "NVRTC is newer than the driver. Update the driver, or install the NVRTC of the driver's CUDA "
     "version and set JITSTEP_NVRTC to it."},
    {300, 300, kDamaged},
    {700, 700, kSticky},
    {701, 701,
     "A block needs more registers or shared memory than this GPU has. Use fewer threads per "
     "block."},
    {702, 702,
     "The system limits the run time of kernels, for example on GPUs with a display. Use another "
     "GPU, or remove the limit."},
    {709, 709, kContextLost},
    {710, 710, kSticky},
    {714, 719, kSticky},
    {802, 802, "The system is not ready. Start nvidia-fabricmanager."},
    {803, 803,
     "The driver's library and kernel module have different versions. Restart the machine, or "
     "restart the container with the host's driver."},
    {804, 804,
     "The forward compatibility package does not support this GPU. Remove cuda-compat from "
     "LD_LIBRARY_PATH, or update the driver."},
    {900, 909, kCapture},
    {999, 999,
     "The driver is in a bad state, for example after a suspend or a GPU fault. See the Xid lines "
     "in dmesg, and restart the machine."},
};

}  // namespace

std::string_view cuda_advice(int code) {
  for (const Advice& advice : kAdvice)
    if (advice.first <= code && code <= advice.last) return advice.text;
  return {};
}

}  // namespace jitstep::jit
