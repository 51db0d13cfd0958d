#include "optim/optimizer/host_transforms.h"

#include <torch/types.h>

#include <map>
#include <mutex>
#include <utility>

#include "jit/base/closest.h"
#include "jit/base/fork_guard.h"
#include "optim/tensor/errors.h"

namespace jitstep {
namespace {

struct Registry {
  jit::ForkSafeMutex mutex;
  std::map<std::string, GroupTransform> functions = {{"newton_schulz", newton_schulz}};
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

void check_made(const torch::Tensor& made, const torch::Tensor& values) {
  TORCH_CHECK(made.defined() && made.sizes() == values.sizes() && made.is_floating_point(),
              "jitstep: a host transform returned ", made.defined() ? describe(made) : "no tensor",
              " for values of ", describe(values),
              ". Return a tensor of the same dtype and shape.");
}

// Applies the function to one parameter after another.
GroupTransform each(TransformFunction function) {
  return [function = std::move(function)](const std::vector<torch::Tensor>& values,
                                          const jit::OptionValues& options) {
    for (const torch::Tensor& one : values) {
      const torch::Tensor made = function(one, options);
      check_made(made, one);
      one.copy_(made);
    }
  };
}

}  // namespace

void register_host_transform(const std::string& name, TransformFunction function) {
  TORCH_CHECK(function, "jitstep: register_host_transform(\"", name,
              "\") got an empty function. Pass a function.");
  const std::lock_guard lock(registry().mutex);
  TORCH_CHECK(registry().functions.try_emplace(name, each(std::move(function))).second,
              "jitstep: the host transform \"", name,
              "\" is registered already. Choose another name.");
}

GroupTransform find_host_transform(const std::string& rule, const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().functions.find(name);
  if (found != registry().functions.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [other, function] : registry().functions) known.push_back(other);
  TORCH_CHECK(false, "jitstep: the rule ", rule, " names an unknown host transform \"", name, "\"",
              jit::did_you_mean(name, known), ". Known: ", jit::joined(known),
              ". Add yours with register_host_transform.");
}

}  // namespace jitstep
