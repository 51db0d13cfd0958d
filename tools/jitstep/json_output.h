// The output of `--json`: one object with "schema". All keys are in snake_case.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace jitstep::tool {

/// The version of all JSON that the tool prints. It increases when a key changes its meaning or disappears.
inline constexpr int kJsonSchema = 1;

/// The text of `object`, with "schema" added. Replaces bytes that are not UTF-8.
inline std::string json_text(nlohmann::json object) {
  object["schema"] = kJsonSchema;
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace jitstep::tool
