#include "contenders.h"

#include <jitstep/jitstep.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/unit.h"

namespace jitstep::bench {
namespace {

using Tensors = std::vector<torch::Tensor>;

constexpr const char* kCodecs[] = {"fp32", "bf16", "int8", "int4"};

// The tensors of GPT-2 with 124M parameters.
std::vector<std::int64_t> language_model() {
  constexpr std::int64_t kWidth = 768;
  std::vector<std::int64_t> sizes = {50257 * kWidth, 1024 * kWidth, kWidth, kWidth};
  for (int layer = 0; layer < 12; ++layer)
    sizes.insert(sizes.end(),
                 {kWidth, kWidth, 3 * kWidth * kWidth, 3 * kWidth, kWidth * kWidth, kWidth, kWidth,
                  kWidth, 4 * kWidth * kWidth, 4 * kWidth, 4 * kWidth * kWidth, kWidth});
  return sizes;
}

// Parameter read and written, gradient read, state read and written.
double bytes_of_step(double elements, double state_bytes) {
  return 12 * elements + 2 * state_bytes;
}

Contender torchs_loop(const Workload& workload, const torch::Device& device) {
  auto optimizer = std::make_shared<torch::optim::AdamW>(make_parameters(workload.sizes, device),
                                                         torch::optim::AdamWOptions(1e-3));
  const auto elements = static_cast<double>(workload.elements());
  return {"torch::optim::AdamW", [optimizer] { optimizer->step(); },
          bytes_of_step(elements, 8 * elements)};
}

// torch's fused kernel, which only Python's AdamW(fused=True) calls.
Contender torchs_fused(const Workload& workload, const torch::Device& device) {
  struct State {
    Tensors p, g, m, v, t;
  };
  auto s = std::make_shared<State>();
  for (const auto& p : make_parameters(workload.sizes, device)) {
    s->p.push_back(p.detach());
    s->g.push_back(p.grad());
    s->m.push_back(torch::zeros_like(s->p.back()));
    s->v.push_back(torch::zeros_like(s->p.back()));
    s->t.push_back(torch::zeros({}, device));
  }
  const auto elements = static_cast<double>(workload.elements());
  return {"torch fused AdamW",
          [s] {
            torch::_foreach_add_(s->t, 1);
            at::_fused_adamw_(s->p, s->g, s->m, s->v, {}, s->t, 1e-3, 0.9, 0.999, 1e-2, 1e-8, false,
                              false);
          },
          bytes_of_step(elements, 8 * elements)};
}

template <class Optimizer, class Options>
Contender ours(const std::string& name, const Workload& workload, const torch::Device& device,
               const Options& options) {
  auto optimizer = std::make_shared<Optimizer>(make_parameters(workload.sizes, device), options);
  optimizer->step();  // compiles, and makes the state
  return {name, [optimizer] { optimizer->step(); },
          bytes_of_step(static_cast<double>(workload.elements()),
                        static_cast<double>(optimizer->state_bytes()))};
}

jit::Plan default_plan(const std::string& rule, const std::string& codec) {
  return jit::resolve(jit::OptionValues(rule), {codec});
}

}  // namespace

std::int64_t Workload::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

std::vector<Workload> workloads(const torch::Device& device) {
  constexpr std::int64_t kMega = 1 << 20;
  std::vector<Workload> all = {{"one tensor of 16M elements", {16 * kMega}}};
  if (!device.is_cpu()) all.push_back({"one tensor of 256M elements", {256 * kMega}});
  all.push_back({"700 tensors of 1000 elements", std::vector<std::int64_t>(700, 1000)});
  if (!device.is_cpu()) all.push_back({"GPT-2, 148 tensors, 124M elements", language_model()});
  return all;
}

double Contender::median() const {
  std::vector<double> sorted = seconds;
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  return sorted[sorted.size() / 2];
}

std::vector<Contender> contenders(const Workload& workload, const torch::Device& device) {
  std::vector<Contender> all = {torchs_loop(workload, device), torchs_fused(workload, device)};
  for (const char* codec : kCodecs)
    all.push_back(ours<AdamW>(std::string("jitstep AdamW ") + codec, workload, device,
                              AdamWOptions(1e-3).state(codec).min_quantized_size(0)));
  all.push_back(ours<LAMB>("jitstep LAMB fp32", workload, device, LAMBOptions(1e-3)));
  return all;
}

Tensors make_parameters(const std::vector<std::int64_t>& sizes, const torch::Device& device) {
  Tensors parameters;
  for (const std::int64_t size : sizes) {
    parameters.push_back(torch::randn({size}, device).requires_grad_());
    parameters.back().mutable_grad() = torch::randn({size}, device) * 1e-2;
  }
  return parameters;
}

std::string kernel_table(const std::string& target_name) {
  const jit::Target target = jit::parse_target(target_name);
  std::vector<jit::Plan> plans;
  for (const char* codec : kCodecs) plans.push_back(default_plan("adamw", codec));
  plans.push_back(default_plan("lamb", "fp32"));
  std::string table = "kernels for " + target_name + ": registers, bytes spilled\n";
  for (const auto& plan : plans) {
    const jit::Unit unit = jit::unit(plan, jit::default_variant(plan, target), target);
    for (const auto& entry :
         jit::default_engine().build(unit.text, unit.name, target)->binary.resources) {
      char line[160];
      std::snprintf(line, sizeof line, "%-28s %-22s %4d %5d\n", unit.name.c_str(),
                    entry.entry.c_str(), entry.registers,
                    entry.spill_store_bytes + entry.spill_load_bytes);
      table += line;
    }
  }
  return table;
}

}  // namespace jitstep::bench
