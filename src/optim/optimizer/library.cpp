#include "jitstep/library.h"

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/engine.h"

namespace jitstep {

std::string load_rule(const std::string& path) {
  return jit::default_catalog().load_rule(path).name;
}

std::string load_codec(const std::string& path) {
  return jit::default_catalog().load_codec(path).name;
}

KernelStatistics kernel_statistics() {
  const jit::Statistics statistics = jit::default_engine().statistics();
  return {static_cast<std::int64_t>(statistics.compiled),
          static_cast<std::int64_t>(statistics.from_disk),
          static_cast<std::int64_t>(statistics.from_memory), statistics.compile_seconds};
}

}  // namespace jitstep
