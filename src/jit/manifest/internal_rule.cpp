#include "jit/manifest/internal_rule.h"

#include <mutex>
#include <set>

#include "jit/base/fork_guard.h"
#include "jit/base/text.h"
#include "jitstep/jit/engine.h"

namespace jitstep::jit {
namespace {

std::string text_of(const std::string& name, const std::string& slots, const std::string& members) {
  const std::string state = slots.empty() ? "" : str_cat("struct Slots {\n", slots, "};\n");
  return str_cat("#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::",
                 name, " {\n", state, "struct Rule {\n", members, "};\n}\n");
}

struct AddedRules {
  ForkSafeMutex mutex;
  std::set<std::string> names;
};

AddedRules& added_rules() {
  static AddedRules& rules = *new AddedRules;
  return rules;
}

}  // namespace

OptionValues internal_rule(const std::string& name, const std::string& slots,
                           const std::string& members) {
  // Two threads may both add the rule. That is harmless, because the text is the same.
  if (!is_internal_rule(name)) {
    default_engine().templates().add(str_cat("rules/", name, ".cuh"),
                                     text_of(name, slots, members));
    AddedRules& rules = added_rules();
    const std::lock_guard lock(rules.mutex);
    rules.names.insert(name);
  }
  return OptionValues(name);
}

bool is_internal_rule(const std::string& name) {
  AddedRules& rules = added_rules();
  const std::lock_guard lock(rules.mutex);
  return rules.names.contains(name);
}

}  // namespace jitstep::jit
