#include "memory_plan.h"

#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <cmath>

#include "../cost.h"
#include "../optimizer_args.h"

namespace jitstep::tool::memory {
namespace {

using namespace jitstep::jit;

OptionValues options_of(const Request& request) {
  OptionValues values(request.rule);
  for (const auto& [name, value] : request.options) values.set(name, value);
  values.validate();
  check_formats(request.formats, values);
  return values;
}

// The kernel that the optimizer chooses, for gradients in the requested dtype.
Plan kernel_of(const Request& request, const OptionValues& options) {
  constexpr std::int64_t kLargest = 1 << 20;  // elements of a matrix of 1024 x 1024
  const ParameterKind parameter{
      .dtype = request.parameter.value_or(default_dtype(request.formats, options.rule())),
      .dims = 2,
      .elements = std::min(request.parameters, kLargest)};
  KernelSpec spec = resolve(options, request.formats, parameter).spec;
  if (request.gradient) spec.gradient = *request.gradient;
  return resolve(spec);
}

// Adds entries to a plan, and their sum.
class Parts {
 public:
  explicit Parts(MemoryPlan& plan) : plan_(plan) { plan.all.what = "all"; }

  void add(const std::string& what, const std::string& format, double per_parameter) {
    const double bytes = std::ceil(per_parameter * parameters());
    push({what, format, per_parameter, static_cast<std::int64_t>(bytes)});
  }
  void add_once(const std::string& what, const std::string& format, std::size_t bytes) {
    push({what, format, static_cast<double>(bytes) / parameters(),
          static_cast<std::int64_t>(bytes)});
  }

 private:
  double parameters() const { return static_cast<double>(plan_.parameters); }
  void push(const Entry& entry) {
    if (entry.bytes == 0) return;
    plan_.entries.push_back(entry);
    plan_.all.per_parameter += entry.per_parameter;
    plan_.all.bytes += entry.bytes;
  }

  MemoryPlan& plan_;
};

void add_state(Parts& entries, const Plan& kernel, const StateBytes& bytes) {
  for (std::size_t i = 0; i < bytes.slots.size(); ++i) {
    const SlotBytes& slot = bytes.slots[i];
    if (!kernel.spec.state.slots[i]) continue;
    entries.add("state " + slot.name, kernel.spec.state.slots[i]->name, slot.codes);
    entries.add("scales of " + slot.name, str_cat("one for ", kernel.block(static_cast<int>(i))),
                slot.scales);
  }
  entries.add("auxiliary state", joined(kernel.aux_state, ", ", &ResolvedAuxState::key),
              bytes.aux_state);
}

RankPlan ranks_of(const Request& request, const Plan& kernel, const StateBytes& bytes) {
  double per_parameter = bytes.residual;
  for (const SlotBytes& slot : bytes.slots) per_parameter += slot.codes + slot.scales;
  const double aux_state = bytes.aux_state * static_cast<double>(request.parameters);
  return rank_plan(kernel, request.parameters, *request.ranks, per_parameter,
                   static_cast<std::int64_t>(std::ceil(aux_state)));
}

// Notes where the optimizer uses another format than requested, and where memory is not counted.
std::vector<std::string> notes_of(const Request& request, const Plan& kernel) {
  std::vector<std::string> notes;
  const StateFormat& state = kernel.spec.state;
  const std::string weights = request.formats.weights.value_or(state.weights);
  if (weights != state.weights)
    notes.push_back(str_cat("the weight format ", weights, " does not support ",
                            to_string(state.dtype), ", so parameters stay ", state.weights));
  if (!kernel.rule().transforms.empty())
    notes.push_back(
        str_cat("a step of ", kernel.rule().name,
                " runs a host transform on whole tensors, whose temporary memory is not counted"));
  return notes;
}

}  // namespace

MemoryPlan memory_plan(const Request& request) {
  const OptionValues options = options_of(request);
  MemoryPlan plan;
  plan.parameters = request.parameters;
  plan.kernel = kernel_of(request, options);
  const KernelSpec& spec = plan.kernel.spec;
  const StateBytes state = state_bytes(plan.kernel, options);
  Parts entries(plan);
  entries.add("parameters", to_string(spec.state.dtype), bytes_of(spec.state.dtype));
  entries.add("gradients", to_string(spec.gradient), bytes_of(spec.gradient));
  entries.add("weight residual", spec.state.weights, state.residual);
  add_state(entries, plan.kernel, state);
  const auto& common = plan.kernel.shared_state;
  entries.add_once("shared state", joined(common, ", ", &ResolvedAuxState::key),
                   2 * sizeof(double) * common.size());  // each value has two buffers
  if (request.ranks) plan.ranks = ranks_of(request, plan.kernel, state);
  plan.notes = notes_of(request, plan.kernel);
  return plan;
}

}  // namespace jitstep::tool::memory
