#include "optim/optimizer/stages.h"

#include <torch/torch.h>

#include <map>
#include <mutex>
#include <utility>

#include "jit/base/fork_guard.h"

namespace jitstep {
namespace {

struct Stages {
  jit::ForkSafeMutex mutex;
  std::map<std::string, GroupStage> functions = {{"newton_schulz", newton_schulz}};
};

Stages& stages() {
  static Stages& all = *new Stages;
  return all;
}

// One parameter after another.
GroupStage each(StageFunction function) {
  return [function = std::move(function)](const std::vector<torch::Tensor>& values,
                                          const jit::OptionValues& options) {
    std::vector<torch::Tensor> made;
    for (const torch::Tensor& one : values) made.push_back(function(one, options));
    return made;
  };
}

}  // namespace

void register_stage(const std::string& name, StageFunction function) {
  TORCH_CHECK(function, "register_stage(\"", name, "\") without a function");
  const std::lock_guard lock(stages().mutex);
  TORCH_CHECK(stages().functions.try_emplace(name, each(std::move(function))).second,
              "there is a host stage \"", name, "\" already; choose another name");
}

GroupStage find_stage(const std::string& rule, const std::string& name) {
  const std::lock_guard lock(stages().mutex);
  const auto found = stages().functions.find(name);
  if (found != stages().functions.end()) return found->second;
  std::string known;
  for (const auto& [other, function] : stages().functions)
    known += (known.empty() ? "" : ", ") + other;
  TORCH_CHECK(false, "the rule ", rule, " has the host stage \"", name, "\"; there are ", known,
              "; register_stage adds one of your own");
}

}  // namespace jitstep
