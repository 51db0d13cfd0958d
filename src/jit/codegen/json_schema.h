// JSON held to a JSON Schema, as far as our own schemas go.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace jitstep::jit {

/// What is wrong with a value, by its place: "hardware.units is 0, less than 1". Nothing if it is as the schema says.
///
/// Known are: type (one name), const, enum, minimum, maximum, minLength, required, properties,
/// additionalProperties (false), items (one schema) and $ref to the schema's own $defs. An Error for a schema with
/// another word that could refuse something.
std::optional<std::string> schema_problem(const nlohmann::json& value,
                                          const nlohmann::json& schema);

}  // namespace jitstep::jit
