// The options that rules are held to their references with, away from the defaults.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace jitstep::tests::reference {

/// By rule: sets of options, of which the first moves every number. What is left out has its default.
const std::map<std::string, std::vector<nlohmann::json>>& moved_options();

/// The options common to all rules, moved as well in the first set.
const nlohmann::json& moved_common_options();

}  // namespace jitstep::tests::reference
