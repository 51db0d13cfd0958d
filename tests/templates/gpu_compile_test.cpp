// The oldest architecture, and the one that most GPU tests run on. gpu_compile_long_test.cpp compiles the covering set
// too, and for the other architectures.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(80, 90);

}  // namespace
}  // namespace jitstep::support
