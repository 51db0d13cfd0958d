#include "ptx_golden/recorded.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"
#include "ptx_driver/host.h"
#include "support/safetensors.h"

namespace jitstep::tests {
namespace {

using nlohmann::json;
using support::RecordedTensor;
using Kind = jit::Manifest::Kind;

support::RecordedFile read_case(const std::string& name) {
  return support::read_safetensors(JITSTEP_TEST_DATA "/golden/" + name + ".safetensors");
}

std::string key(std::size_t i, const std::string& rest) {
  return "p" + std::to_string(i) + "." + rest;
}

// Requires float or double throughout, a rule without host transform or inputs, and known formats.
bool can_be_followed(const support::RecordedFile& file) {
  if (!file.metadata.contains("case")) return false;
  const json meta = json::parse(file.metadata.at("case"));
  const std::string rule = meta["spec"]["rule"];
  if (meta.value("informative", false) || meta.contains("sum_atol")) return false;
  if (!jit::default_catalog().has(Kind::rule, rule) ||
      !jit::default_catalog().rule(rule).transforms.empty())
    return false;
  const std::string dtype = file.tensors.at("p0.init").dtype;
  return (dtype == "F32" || dtype == "F64") &&
         std::all_of(file.tensors.begin(), file.tensors.end(), [&](const auto& one) {
           if (one.first.find(".input.") != std::string::npos) return false;
           return one.first.find(".grad.") == std::string::npos || one.second.dtype == dtype;
         });
}

jit::OptionValues options_of(const jit::SpecText& spec) {
  jit::OptionValues options(spec.rule);
  for (const auto& [name, value] : spec.options) options.set(name, value);
  options.construct();
  return options;
}

class Case {
 public:
  explicit Case(const std::string& name)
      : file_(read_case(name)),
        meta_(json::parse(file_.metadata.at("case"))),
        spec_(jit::parse_spec(meta_["spec"].dump())),
        options_(options_of(spec_)),
        gpu_(jit::default_engine()),
        common_(jit::make_shared_state(*gpu_.backend, options_)) {
    for (std::size_t i = 0; i < meta_["shapes"].size(); ++i) add_parameter(i);
    step_ = std::make_unique<jit::Step>(*gpu_.backend, batches_, &common_);
  }

  void follow() {
    for (int t = 1; t <= meta_["steps"]; ++t) {
      make_step(t);
      for (const json& recorded : meta_["record"])
        if (recorded == t) check(t);
    }
  }

 private:
  std::shared_ptr<void> send(const RecordedTensor& tensor) {
    const auto memory = gpu_.host->allocate(tensor.bytes.size());
    gpu_.backend->upload(memory.get(), tensor.bytes.data(), tensor.bytes.size());
    return memory;
  }

  void add_parameter(std::size_t i) {
    const RecordedTensor& init = file_.tensors.at(key(i, "init"));
    std::int64_t elements = 1;
    for (const std::int64_t size : init.shape) elements *= size;
    const jit::Plan plan =
        jit::resolve(options_, spec_.formats,
                     {.dtype = init.dtype == "F64" ? jit::Dtype::float64 : jit::Dtype::float32,
                      .dims = std::max(static_cast<int>(init.shape.size()), 1),
                      .elements = elements});
    parameters_.push_back(send(init));
    states_.push_back(
        std::make_unique<jit::StateStorage>(*gpu_.backend, plan, options_, init.shape));
    batches_.push_back(
        {plan, {states_.back()->tensor(parameters_.back().get(), static_cast<int>(i))}});
    counts_.push_back(0);
  }

  void make_step(int t) {
    const std::string number = std::to_string(t);
    if (meta_["lr_at"].contains(number)) options_.set("lr", meta_["lr_at"][number].get<double>());
    std::vector<std::shared_ptr<void>> gradients;
    std::vector<jit::StepInput> inputs;
    std::vector<HyperParams> sets;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const auto gradient = file_.tensors.find(key(i, "grad." + number));
      const bool inactive = gradient == file_.tensors.end();
      if (!inactive) gradients.push_back(send(gradient->second));
      if (!inactive) ++counts_[i];
      inputs.push_back({.g = inactive ? nullptr : gradients.back().get(),
                        .hyper_index = static_cast<int>(i),
                        .inactive = inactive});
      sets.push_back(batches_[i].plan.at_step(options_, std::max<std::int64_t>(counts_[i], 1)));
    }
    step_->run(inputs, sets);
  }

  void check(int t) {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      RecordedTensor ours = file_.tensors.at(key(i, "init"));
      gpu_.device().download(ours.bytes.data(), parameters_[i].get(), ours.bytes.size());
      const auto got = ours.values();
      const auto expected = file_.tensors.at(key(i, "step." + std::to_string(t))).values();
      ASSERT_EQ(got.size(), expected.size());
      double worst = 0;
      for (std::size_t k = 0; k < got.size(); ++k)
        worst = std::max(worst, std::abs(got[k] - expected[k]) -
                                    meta_["rtol"].get<double>() * std::abs(expected[k]));
      EXPECT_LE(worst, meta_["atol"].get<double>()) << key(i, "step." + std::to_string(t));
    }
  }

  support::RecordedFile file_;
  json meta_;
  jit::SpecText spec_;
  jit::OptionValues options_;
  Gpu gpu_;
  jit::SharedState common_;
  std::vector<std::shared_ptr<void>> parameters_;
  std::vector<std::unique_ptr<jit::StateStorage>> states_;
  std::vector<jit::Batch> batches_;
  std::vector<std::int64_t> counts_;
  std::unique_ptr<jit::Step> step_;
};

}  // namespace

std::vector<std::string> followed_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(JITSTEP_TEST_DATA "/golden")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".safetensors" && can_be_followed(read_case(name)))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void follow(const std::string& name) { Case(name).follow(); }

}  // namespace jitstep::tests
