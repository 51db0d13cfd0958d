#include "optim/optimizer/host_transforms.h"

#include <torch/types.h>

#include <map>
#include <mutex>
#include <utility>

#include "jit/base/closest.h"
#include "jit/base/fork_guard.h"

namespace jitstep {
namespace {

struct Stages {
  jit::ForkSafeMutex mutex;
  std::map<std::string, GroupTransform> functions = {{"newton_schulz", newton_schulz}};
};

Stages& stages() {
  static Stages& all = *new Stages;
  return all;
}

void check_made(const torch::Tensor& made, const torch::Tensor& values) {
  TORCH_CHECK(made.defined() && made.sizes() == values.sizes() && made.is_floating_point(),
              "a host transform returned ",
              made.defined() ? c10::str(made.dtype(), " of shape ", made.sizes()) : "no tensor",
              " for a parameter of shape ", values.sizes(), "; return ", values.dtype(),
              " of the same shape");
}

// One parameter after another.
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
  TORCH_CHECK(function, "register_host_transform(\"", name, "\") without a function");
  const std::lock_guard lock(stages().mutex);
  TORCH_CHECK(stages().functions.try_emplace(name, each(std::move(function))).second,
              "there is a host transform \"", name, "\" already; choose another name");
}

GroupTransform find_host_transform(const std::string& rule, const std::string& name) {
  const std::lock_guard lock(stages().mutex);
  const auto found = stages().functions.find(name);
  if (found != stages().functions.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [other, function] : stages().functions) known.push_back(other);
  TORCH_CHECK(false, "the rule ", rule, " has the host transform \"", name, "\"",
              jit::did_you_mean(name, known), "; there are ", jit::joined(known),
              "; register_host_transform adds one of your own");
}

}  // namespace jitstep
