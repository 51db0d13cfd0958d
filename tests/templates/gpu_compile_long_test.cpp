// The other architectures.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(89, 100, 120);

}  // namespace
}  // namespace jitstep::support
