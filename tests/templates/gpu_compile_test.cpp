// The oldest architecture and the one that most of the tests on a GPU run on.
#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

JITSTEP_GPU_COMPILE(80, 90);

}  // namespace
}  // namespace jitstep::support
