#include "jit/cache/key.h"

#include <nlohmann/json.hpp>

#include "jit/base/digest.h"

namespace jitstep::jit {

std::string Key::canonical() const {
  const nlohmann::json fields = {{"schema", kCacheSchema},
                                 {"text", token_digest},
                                 {"target", to_string(target)},
                                 {"compiler", compiler}};
  // A compiler's version report may contain bytes that are not UTF-8.
  return fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Key::digest() const { return sha256_hex(canonical()); }

}  // namespace jitstep::jit
