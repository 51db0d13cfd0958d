// Options for the comparison of rules with their references, away from the defaults.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace jitstep::tests::reference {

/// Sets of options by rule. The first set changes every number. Omitted options have their defaults.
const std::map<std::string, std::vector<nlohmann::json>>& moved_options();

/// The options that all rules have. The first set changes them too.
const nlohmann::json& moved_common_options();

}  // namespace jitstep::tests::reference
