// The oldest architecture and the one that most of the tests on a GPU run on; gpu_compile_long_test.cpp compiles
// the cover as well, and for the others.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(80, 90);

}  // namespace
}  // namespace jitstep::support
