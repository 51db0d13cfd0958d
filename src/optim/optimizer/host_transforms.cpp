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

void iterate(const std::vector<TransformCall>& calls) {
  std::vector<torch::Tensor> values;
  for (const TransformCall& call : calls) values.push_back(call.values);
  if (!calls.empty()) newton_schulz(values, calls.front().options);
}

using Matrices = std::map<std::string, torch::Tensor>;

// A transform may replace matrices, but not add others.
void check_matrices(const std::string& transform, const Matrices& before, const Matrices& after) {
  for (const auto& [name, matrix] : after) {
    const auto old = before.find(name);
    std::vector<std::string> known;
    for (const auto& [other, tensor] : before) known.push_back(other);
    TORCH_CHECK(old != before.end(), "jitstep: the host transform \"", transform,
                "\" assigned the matrix \"", name, "\", which this parameter does not have",
                jit::did_you_mean(name, known),
                ". Matrices: ", known.empty() ? "none" : jit::joined(known), ".");
    TORCH_CHECK(matrix.defined() && matrix.sizes() == old->second.sizes(),
                "jitstep: the host transform \"", transform, "\" assigned ",
                matrix.defined() ? describe(matrix) : "no tensor", " to the matrix \"", name,
                "\" of the sizes ", old->second.sizes(), ". Assign a tensor of these sizes.");
    TORCH_CHECK(
        matrix.layout() == torch::kStrided && !matrix.is_meta() && matrix.is_floating_point(),
        "jitstep: the host transform \"", transform, "\" assigned a ", matrix.layout(), " ",
        matrix.dtype(), " tensor on ", matrix.device(), " to the matrix \"", name,
        "\". Assign a dense floating-point tensor.");
  }
}

// Applies the function to one parameter after another.
GroupTransform each(const std::string& name, ParameterTransform function) {
  return [name, function = std::move(function)](const std::vector<TransformCall>& calls) {
    for (const TransformCall& call : calls) {
      const Matrices before = call.matrices;
      function(call);
      check_matrices(name, before, call.matrices);
    }
  };
}

struct Registry {
  jit::ForkSafeMutex mutex;
  std::map<std::string, GroupTransform> functions = {
      {"newton_schulz", iterate},
      {"shampoo", each("shampoo", shampoo)},
      {"soap_gradient", each("soap_gradient", soap_gradient)},
      {"soap_momentum", each("soap_momentum", soap_momentum)},
      {"soap_update", each("soap_update", soap_update)}};
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

[[maybe_unused]] const Registry& made_at_load = registry();

void check_result(const torch::Tensor& result, const torch::Tensor& values) {
  TORCH_CHECK(result.defined() && result.sizes() == values.sizes() && result.is_floating_point(),
              "jitstep: a host transform returned ",
              result.defined() ? describe(result) : "no tensor", " for values of ",
              describe(values), ". Return a floating-point tensor of the same shape.");
}

void check_set(bool is_set, const char* caller, const std::string& name) {
  TORCH_CHECK(is_set, "jitstep: ", caller, "(\"", name,
              "\") got an empty function. Pass a function.");
}

void add(const std::string& name, ParameterTransform function) {
  const std::lock_guard lock(registry().mutex);
  TORCH_CHECK(registry().functions.try_emplace(name, each(name, std::move(function))).second,
              "jitstep: the host transform \"", name,
              "\" is registered already. Choose another name.");
}

}  // namespace

torch::Tensor TransformCall::matrix(const std::string& name) const {
  const auto found = matrices.find(name);
  return found == matrices.end() ? torch::Tensor() : found->second;
}

std::int64_t TransformCall::step() const {
  return counted - (skipped.defined() ? skipped.item<std::int64_t>() : 0);
}

void register_host_transform(const std::string& name, TransformFunction function) {
  check_set(function != nullptr, "register_host_transform", name);
  add(name, [function = std::move(function)](const TransformCall& call) {
    const torch::Tensor result = function(call.values, call.options);
    check_result(result, call.values);
    call.values.copy_(result);
  });
}

void register_parameter_transform(const std::string& name, ParameterTransform function) {
  check_set(function != nullptr, "register_parameter_transform", name);
  add(name, std::move(function));
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
