// The known values of flags, for checks, suggestions and completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace jitstep::tool {

/// The known values of a flag ("--rule") or of an argument ("name"). Empty if it takes other values, such as a file.
std::vector<std::string> values_of(const std::string& flag);

/// Accepts these names. The error suggests the closest one.
CLI::Validator one_of(const std::vector<std::string>& names);

/// Accepts the name of a target: "cpu", "emulated", "sm_90".
CLI::Validator is_target();

}  // namespace jitstep::tool
