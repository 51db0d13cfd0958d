// Resources as JSON, for cache files and for reports.
#pragma once

#include <nlohmann/json.hpp>

#include "jitstep/jit/compiler.h"

namespace jitstep::jit {

inline nlohmann::json json_of(const Resources& r) {
  return {{"entry", r.entry},
          {"registers", r.registers},
          {"spill_store_bytes", r.spill_store_bytes},
          {"spill_load_bytes", r.spill_load_bytes},
          {"stack_bytes", r.stack_bytes},
          {"shared_bytes", r.shared_bytes}};
}

/// The inverse. Throws a json::exception if a member is missing.
inline Resources resources_of(const nlohmann::json& j) {
  return {
      j.at("entry"),       j.at("registers"),   j.at("spill_store_bytes"), j.at("spill_load_bytes"),
      j.at("stack_bytes"), j.at("shared_bytes")};
}

}  // namespace jitstep::jit
