#include <jitstep/version.h>

namespace jitstep {

const char* version() noexcept { return JITSTEP_VERSION; }

}  // namespace jitstep
