// Searches options for which a condition of a rule holds. Tries values at and around the constants in the rule's
// conditions. Internal to option_covering_set.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulation/option_covering_set.h"

namespace jitstep::emulation {

/// Valid values of an option, or of one of its numbers, between which a condition may change: its limits, its default,
/// the constants in `conditions`, three values between any two neighbors, and values beyond the range. The latter are
/// needed for conditions that compare options with each other.
std::vector<double> critical_numbers(const jit::Option& option,
                                     const std::vector<std::string>& conditions);

/// The result of a search.
struct Search {
  std::optional<RuleOptions> found = {};
  bool complete = false;  // all values were tried: without a result, none exists
};

/// Whether options are valid and satisfy the search.
using Wanted = std::function<bool(const RuleOptions& options)>;

/// Tries changes of the options on which `names` depend: first of one option, then of two, and so on.
Search search(const jit::Manifest& rule, const std::vector<std::string>& names,
              const Wanted& wanted);

}  // namespace jitstep::emulation
