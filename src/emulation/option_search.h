// Options under which a condition of a rule holds, found by trying values at and around the numbers that its
// conditions compare with. Internal to option_covering_set.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulation/option_covering_set.h"

namespace jitstep::emulation {

/// Numbers that an option (or one of an option's numbers) takes and between which a condition may change: its limits, its
/// default, those in `conditions`, three between any two of these and beyond them, as options are compared with each other.
std::vector<double> critical_numbers(const jit::Option& option,
                                     const std::vector<std::string>& conditions);

/// What a search has come to.
struct Search {
  std::optional<RuleOptions> found = {};
  bool complete = false;  // everything was tried: where nothing is found there is nothing
};

/// Whether options are accepted and are what is looked for.
using Wanted = std::function<bool(const RuleOptions& options)>;

/// Tries changes of the options that `names` depend on: of one, of two at a time, and so on.
Search search(const jit::Manifest& rule, const std::vector<std::string>& names,
              const Wanted& wanted);

}  // namespace jitstep::emulation
