#include "jitstep/library.h"

#include "jitstep/jit/catalog.h"

namespace jitstep {

std::string load_rule(const std::string& path) {
  return jit::default_catalog().load_rule(path).name;
}

std::string load_codec(const std::string& path) {
  return jit::default_catalog().load_codec(path).name;
}

jit::Statistics kernel_statistics() { return jit::default_engine().statistics(); }

}  // namespace jitstep
