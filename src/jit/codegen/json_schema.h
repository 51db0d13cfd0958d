// Validates JSON against the subset of JSON Schema that jitstep's own schemas use.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace jitstep::jit {

/// The first violation, with its location: "hardware.units is 0, less than 1". Empty if the value is valid.
///
/// Supported keywords: type (one name), const, enum, minimum, maximum, minLength, required, properties,
/// additionalProperties (false), items (one schema) and $ref to the schema's own $defs. Throws an Error for a schema
/// with any other keyword, except annotations.
std::optional<std::string> schema_problem(const nlohmann::json& value,
                                          const nlohmann::json& schema);

}  // namespace jitstep::jit
