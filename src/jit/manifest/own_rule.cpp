#include "jit/manifest/own_rule.h"

#include <mutex>
#include <set>

#include "jit/base/fork_guard.h"
#include "jit/base/text.h"
#include "jitstep/jit/engine.h"

namespace jitstep::jit {
namespace {

std::string text_of(const std::string& name, const std::string& slots, const std::string& members) {
  const std::string state = slots.empty() ? "" : text("struct Slots {\n", slots, "};\n");
  return text("#pragma once\n#include \"../core/contract.cuh\"\nnamespace jitstep::rules::", name,
              " {\n", state, "struct Rule {\n", members, "};\n}\n");
}

}  // namespace

OptionValues own_rule(const std::string& name, const std::string& slots,
                      const std::string& members) {
  static ForkSafeMutex mutex;
  static std::set<std::string> added;
  const auto known = [&] {
    const std::lock_guard lock(mutex);
    return added.contains(name);
  };
  if (!known()) {  // two threads may add the same text
    default_engine().templates().add(text("rules/", name, ".cuh"), text_of(name, slots, members));
    const std::lock_guard lock(mutex);
    added.insert(name);
  }
  return OptionValues(name);
}

}  // namespace jitstep::jit
