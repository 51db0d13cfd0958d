// What `--json` prints: one object with "schema", keys in snake_case.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace jitstep::tool {

/// The version of all JSON that the tool prints. It grows when a key changes its meaning or goes.
inline constexpr int kJsonSchema = 1;

/// The text of an object, with "schema". Bytes that are not UTF-8 are replaced.
inline std::string json_text(nlohmann::json object) {
  object["schema"] = kJsonSchema;
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace jitstep::tool
