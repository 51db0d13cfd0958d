// The generated classes of the built-in rules. The generated rules.cpp defines find_shipped().
#pragma once

#include <memory>
#include <string>

#include "jitstep/options.h"

namespace jitstep {

class ParamState;

/// The generated classes of one rule.
struct ShippedRule {
  const char* layout;  // OptionLayout::text() of the file that they were generated from
  std::unique_ptr<Options> (*make_options)();
  std::unique_ptr<ParamState> (*make_state)();
};

/// The classes of a rule. `State` must be complete.
template <class OfRule, class State>
ShippedRule shipped_classes(const char* layout) {
  return {layout, []() -> std::unique_ptr<Options> { return std::make_unique<OfRule>(); },
          []() -> std::unique_ptr<ParamState> { return std::make_unique<State>(); }};
}

/// The classes that were generated for a rule of this name, or null.
const ShippedRule* find_shipped(const std::string& rule);

/// The same. Null if the catalog's file declares other options than those that the classes were generated for.
const ShippedRule* shipped_rule(const std::string& rule, const jit::Catalog& catalog);

}  // namespace jitstep
