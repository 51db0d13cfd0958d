#include "jit/engine/cuda_errors.h"

namespace jitstep::jit {
namespace {

constexpr std::string_view kSticky =
    "errors of kernels are reported late, so it may stem from an earlier kernel of any library, "
    "and "
    "the GPU stays unusable until the process ends; find the kernel with compute-sanitizer or "
    "CUDA_LAUNCH_BLOCKING=1";
constexpr std::string_view kDamaged =
    "the binary is damaged, or made by an NVRTC of a newer major version than the driver's CUDA; a "
    "cached one is compiled again";
constexpr std::string_view kContextLost =
    "the GPU's context is gone, as after cudaDeviceReset(); start the process again";
constexpr std::string_view kCapture =
    "a CUDA graph is being captured; do this before or after the capture";

struct Advice {
  int first, last;  // codes
  std::string_view text;
};

// By code; the driver's interface fixes them.
constexpr Advice kAdvice[] = {
    {2, 2,
     "the GPU's memory is full; free some (smaller batches, state in fewer bits, torch's cached "
     "memory)"},
    {3, 3,
     "a process that was forked after its parent had used CUDA, through torch too, cannot use it; "
     "fork first or start the process again (spawn)"},
    {4, 4, "the process is ending and the driver has shut down; finish all steps before"},
    {34, 34,
     "libcuda.so.1 is the toolkit's stub, which is for linking only; install the NVIDIA driver and "
     "take the stub's folder out of LD_LIBRARY_PATH"},
    {46, 46, "another process may have the GPU for itself; see nvidia-smi -q -d COMPUTE"},
    {100, 100, "no NVIDIA GPU is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {101, 101, "there is no such GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {200, 200, kDamaged},
    {201, 201, kContextLost},
    {209, 209, "the binary is for another GPU; a cached one is compiled again"},
    {218, 218, kDamaged},
    {221, 221, "the driver's installation lacks libnvidia-ptxjitcompiler.so; install it whole"},
    {222, 222,
     "NVRTC is newer than the driver; update the driver, or install the NVRTC of the driver's CUDA "
     "version and set JITSTEP_NVRTC to it"},
    {300, 300, kDamaged},
    {700, 700, kSticky},
    {701, 701,
     "a block needs more registers or shared memory than this GPU has; take fewer threads per "
     "block"},
    {702, 702,
     "the system limits how long a kernel may run, as on GPUs with a display; take another GPU or "
     "lift the limit"},
    {709, 709, kContextLost},
    {710, 710, kSticky},
    {714, 719, kSticky},
    {802, 802, "the system is not ready; start nvidia-fabricmanager"},
    {803, 803,
     "the driver's library and kernel module are of different versions; restart the machine, or "
     "the container with the host's driver"},
    {804, 804,
     "the forward compatibility package does not serve this GPU; take cuda-compat out of "
     "LD_LIBRARY_PATH or update the driver"},
    {900, 909, kCapture},
    {999, 999,
     "the driver is in a bad state, as after a suspend or a fault of the GPU; see dmesg for Xid "
     "lines and restart the machine"},
};

}  // namespace

std::string_view cuda_advice(int code) {
  for (const Advice& advice : kAdvice)
    if (advice.first <= code && code <= advice.last) return advice.text;
  return {};
}

}  // namespace jitstep::jit
