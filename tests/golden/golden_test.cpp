// Follows the recorded trajectories of the original packages, one test per file. A case whose rule, options, codec or
// weight format does not exist has no test of its own. The last test names it and fails.
#include <gtest/gtest.h>
#include <jitstep/jitstep.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "golden/comparisons.h"
#include "jitstep/jit/catalog.h"
#include "optim/state/param_state_data.h"
#include "support/safetensors.h"

namespace jitstep::tests {
namespace {

using nlohmann::json;
using support::read_safetensors;
using support::RecordedFile;
using support::RecordedTensor;

// What a case needs and jitstep lacks. Empty if jitstep can follow the case.
std::string missing(const json& spec) {
  const jit::Catalog& catalog = jit::default_catalog();
  using Kind = jit::Manifest::Kind;
  if (!catalog.has(Kind::rule, spec["rule"])) return "rule " + spec["rule"].get<std::string>();
  const jit::OptionValues options{spec["rule"].get<std::string>()};
  const auto names = options.names();
  for (const auto& [name, value] : spec["options"].items())
    if (std::find(names.begin(), names.end(), name) == names.end()) return "option " + name;
  const std::string weights = spec.value("weights", "native");
  if (!catalog.has(Kind::weights, weights)) return "weights " + weights;
  const json state = spec.value("state", json("fp32"));
  const auto codec_name = [](const json& c) {
    return c.is_object() ? c["codec"].get<std::string>() : c.get<std::string>();
  };
  std::vector<json> codecs;
  if (!state.is_object() || state.contains("codec"))
    codecs.push_back(state);
  else
    for (const json& codec : state) codecs.push_back(codec);
  for (const json& codec : codecs)
    if (!catalog.has(Kind::codec, codec_name(codec))) return "codec " + codec_name(codec);
  return "";
}

// jitstep's slot name for the original's state name.
std::string slot_name(const std::string& name) {
  static const std::map<std::string, std::string> ours = {
      {"exp_avg", "m"},           {"ema", "m"},         {"momentum_buffer", "m"}, {"momentum", "m"},
      {"exp_avg_sq", "v"},        {"ema_squared", "v"}, {"square_avg", "v"},      {"variance", "v"},
      {"max_exp_avg_sq", "vmax"}, {"mn", "m.norm"},     {"vn", "v.norm"}};
  const auto found = ours.find(name);
  return found == ours.end() ? name : found->second;
}

bool is_called(const jit::AuxField& field, const std::string& name) {
  return field.torch_name == name || field.name == name;
}

// The value under the original's name: auxiliary state of the optimizer or the parameter, or a slot.
torch::Tensor stored_value(const Optimizer& optimizer, const ParamState& state,
                           const std::string& name) {
  for (const jit::AuxField& field : jit::default_catalog().rule(optimizer.rule()).aux_state) {
    if (!is_called(field, name)) continue;
    return field.is_shared() ? torch::tensor({optimizer.aux_state(name)}, torch::kFloat64)
                             : state.aux_state(name);
  }
  if (name == "neg_pre_grad") return -state.value("gprev");
  // LAMB16's codes, as numbers before the multiplication by their norms.
  if (name == "m8") return state.codes("m").view(torch::kFloat8_e4m3fn);
  if (name == "v8") return state.codes("v").view(torch::kFloat8_e5m2);
  const std::string ours = slot_name(name);
  return ours.find('.') == ours.npos ? state.value(ours) : state.aux_state(ours);
}

class Case {
 public:
  explicit Case(RecordedFile file)
      : file_(std::move(file)), meta_(json::parse(file_.metadata.at("case"))) {}

  /// Puts each parameter into its own group.
  void put_apart() { apart_ = true; }

  const json& meta() const { return meta_; }

  void follow() {
    for (std::size_t i = 0; i < meta_["shapes"].size(); ++i)
      params_.push_back(to_torch(tensor(i, "init")).requires_grad_());
    optimizer_ = apart_ ? in_groups() : Optimizer::from_spec(params_, meta_["spec"].dump());
    for (int t = 1; t <= meta_["steps"]; ++t) step(t);
    check_evaluation();
    check_equal_share();
  }

 private:
  std::unique_ptr<Optimizer> in_groups() const {
    auto made = Optimizer::from_spec({params_[0]}, meta_["spec"].dump());
    for (std::size_t i = 1; i < params_.size(); ++i)
      made->add_param_group(Optimizer::ParamGroup(std::vector{params_[i]}));
    return made;
  }
  std::string key(std::size_t i, const std::string& rest) const {
    return "p" + std::to_string(i) + "." + rest;
  }
  const RecordedTensor& tensor(std::size_t i, const std::string& rest) const {
    return file_.tensors.at(key(i, rest));
  }

  void step(int t) {
    const std::string number = std::to_string(t);
    if (meta_["lr_at"].contains(number))
      for (auto& group : optimizer_->param_groups()) group.options().set_lr(meta_["lr_at"][number]);
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const auto grad = file_.tensors.find(key(i, "grad." + number));
      params_[i].mutable_grad() = grad == file_.tensors.end()
                                      ? torch::Tensor()
                                      : to_torch(grad->second).to(params_[i].dtype());
    }
    for (const auto& [name, value] : file_.tensors) give_input(name, value, t);
    optimizer_->step();
    for (const json& recorded : meta_["record"])
      if (recorded == t) check_parameters(t);
    for (const auto& [name, value] : file_.tensors) check_state(name, value, t);
  }

  // p{i}.input.{name}.{t}
  void give_input(const std::string& name, const RecordedTensor& value, int t) {
    const auto at = name.find(".input.");
    const auto last = name.rfind('.');
    if (at == std::string::npos || name.substr(last + 1) != std::to_string(t)) return;
    const std::size_t i = std::stoul(name.substr(1, at - 1));
    optimizer_->set_input(params_[i], name.substr(at + 7, last - at - 7),
                          to_torch(value).view(params_[i].sizes()));
  }

  // In a case with sum_atol, the original puts the decay into its residual. The parameter shows it one step later.
  void check_sums(int t) {
    const auto weights = optimizer_->fp32_weights();
    for (std::size_t i = 0; i < params_.size(); ++i) {
      auto expected = tensor(i, "step." + std::to_string(t)).values();
      const auto shift = tensor(i, "state.shift." + std::to_string(t)).values();
      for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += shift[k];
      close(key(i, "sum." + std::to_string(t)), numbers(weights[i]), expected, 0, meta_["sum_atol"],
            0);
    }
  }

  void check_parameters(int t) {
    if (meta_.contains("sum_atol")) return check_sums(t);
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const auto expected = tensor(i, "step." + std::to_string(t)).values();
      const auto ours = numbers(params_[i]);
      close(key(i, "step." + std::to_string(t)), ours, expected, meta_["rtol"], meta_["atol"], 0);
      if (meta_.contains("tight"))
        close(key(i, "tight step." + std::to_string(t)), ours, expected, meta_["tight"]["rtol"],
              meta_["tight"]["atol"], meta_["tight"]["max_outside"]);
      for (std::size_t k = 0; k < ours.size(); ++k) equal_ += ours[k] == expected[k];
      compared_ += ours.size();
    }
  }

  // For originals with a separate evaluation point. Switching there and back may change the parameter a little.
  void check_evaluation() {
    if (!file_.tensors.contains("p0.eval")) return;
    const auto before = numbers(params_[0]);
    optimizer_->eval();
    for (std::size_t i = 0; i < params_.size(); ++i)
      close(key(i, "eval"), numbers(params_[i]), tensor(i, "eval").values(), meta_["rtol"],
            meta_["atol"], 0);
    optimizer_->train();
    close("p0 after eval and train", numbers(params_[0]), before, 1e-5, 1e-6, 0);
  }

  // p{i}.state.{slot}.{t} or p{i}.state.{slot}.{codes|scale|scale.AXIS|row|col}.{t}
  void check_state(const std::string& name, const RecordedTensor& expected, int t) {
    const auto at = name.find(".state.");
    const auto last = name.rfind('.');
    if (at == std::string::npos || name.substr(last + 1) != std::to_string(t)) return;
    const std::size_t i = std::stoul(name.substr(1, at - 1));
    const std::string rest = name.substr(at + 7, last - at - 7);
    const std::string stored_name = rest.substr(0, rest.find('.'));
    const auto& state =
        static_cast<const ParamState&>(*optimizer_->state().at(params_[i].unsafeGetTensorImpl()));
    if (rest == "ecc.codes")
      return differ_little(name, state.residual(), expected, meta_["max_ecc_mismatch"]);
    if (rest == "master")
      return close(name, numbers(optimizer_->fp32_weights().at(i)), expected.values(),
                   meta_["master"]["rtol"], meta_["master"]["atol"], 0);
    if (rest.ends_with(".codes")) return check_codes(name, state, stored_name, expected);
    if (rest.ends_with(".scale")) return check_scales(name, state, stored_name, expected);
    if (const auto axis = rest.find(".scale."); axis != rest.npos) {
      const torch::Tensor scales = state.aux_state(stored_name + ".scale" + rest.substr(axis + 7));
      return close(name, numbers(scales), expected.values(), 1e-5, 1e-12, 0);
    }
    if (rest == "v.row" || rest == "v.col")
      return close(name, numbers(state.aux_state(rest)), expected.values(), 1e-6, 0, 0);
    if (!is_seen_elsewhere(rest))
      check_values(name, stored_value(*optimizer_, state, stored_name), expected);
  }

  // LAMB16's trust ratio, which the step shows, and what check_sums() and check_expansion() read.
  static bool is_seen_elsewhere(const std::string& state) {
    return state == "trust" || state == "shift" || state.ends_with(".c") || state.ends_with(".k");
  }

  // A part of the largest magnitude. Without state_rtol, states are those of parameters too small for the codec, or of
  // AdamW_BF16, which rounds every operation to bfloat16.
  double state_tolerance() const {
    if (meta_.contains("state_rtol")) return meta_["state_rtol"];
    return meta_.contains("sum_atol") ? 5e-2 : 1e-6;
  }

  // The original Prodigy stores only the slice of a slot.
  void check_values(const std::string& name, torch::Tensor ours, const RecordedTensor& expected) {
    const auto theirs = expected.values();
    if (static_cast<std::size_t>(ours.numel()) > theirs.size())
      ours = ours.flatten().slice(0, 0, {}, meta_["spec"]["options"].value("slice_p", 1));
    double most = 0;
    for (double x : theirs) most = std::max(most, std::abs(x));
    close(name, numbers(ours), theirs, 0, state_tolerance() * most, 0);
  }

  void check_codes(const std::string& name, const ParamState& state, const std::string& slot,
                   const RecordedTensor& expected) {
    differ_little(name, state.codes(slot), expected, meta_["max_code_mismatch"]);
  }

  // The largest magnitude and the power, from the original's scale, center and power.
  void check_expansion(const std::string& name, const torch::Tensor& meta,
                       const RecordedTensor& expected) const {
    const auto of = [&](const char* part) {
      std::string other = name;
      return file_.tensors.at(other.replace(other.find(".scale."), 7, part)).values();
    };
    const auto scales = expected.values(), centers = of(".c."), powers = of(".k.");
    std::vector<double> theirs;
    for (std::size_t k = 0; k < scales.size(); ++k) {
      theirs.push_back(std::pow(448 * scales[k], 1 / powers[k]) * centers[k]);
      theirs.push_back(powers[k]);
    }
    close(name, numbers(meta.view(torch::kFloat32)), theirs, 1e-5, 1e-12, 0);
  }

  void check_scales(const std::string& name, const ParamState& state, const std::string& slot,
                    const RecordedTensor& expected) const {
    const torch::Tensor meta = state.meta(slot);
    if (state.data().buffers.format.slots[0]->name == "fp8_expanded")
      return check_expansion(name, meta, expected);
    if (state.data().buffers.format.slots[0]->name == "int8_softsign")
      return close(name, short_scales(meta), expected.values(), 0x1p-10, 1e-12, 0);
    close(name, numbers(meta.view(torch::kFloat32)), expected.values(), 1e-5, 1e-12, 0);
  }

  void check_equal_share() const {
    if (!meta_.contains("equal_min")) return;
    EXPECT_GE(static_cast<double>(equal_) / static_cast<double>(compared_),
              meta_["equal_min"].get<double>());
  }

  RecordedFile file_;
  json meta_;
  std::vector<torch::Tensor> params_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t equal_ = 0, compared_ = 0;
  bool apart_ = false;
};

std::vector<std::string> case_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(JITSTEP_TEST_DATA "/golden")) {
    const std::string stem = entry.path().stem();
    const bool is_case = stem != "codebooks" && stem != "sr_stats";
    if (entry.path().extension() == ".safetensors" && is_case) names.push_back(stem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

RecordedFile read_case(const std::string& name) {
  return read_safetensors(JITSTEP_TEST_DATA "/golden/" + name + ".safetensors");
}

// The cases that jitstep can follow. The last test lists the rest by name and reason.
std::vector<std::string> followed() {
  std::vector<std::string> names;
  for (const auto& name : case_files()) {
    const json meta = json::parse(read_case(name).metadata.at("case"));
    if (missing(meta["spec"]).empty() && !meta.value("informative", false)) names.push_back(name);
  }
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsFollowed) { Case(read_case(GetParam())).follow(); }

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(followed()),
                         [](const auto& name) { return name.param; });

// Rules with shared state, such as Prodigy's step size.
std::vector<std::string> followed_together() {
  std::vector<std::string> names;
  for (const auto& name : followed()) {
    const json spec = json::parse(read_case(name).metadata.at("case"))["spec"];
    const auto& memory = jit::default_catalog().rule(spec["rule"]).aux_state;
    if (std::any_of(memory.begin(), memory.end(), [](auto& field) { return field.is_shared(); }))
      names.push_back(name);
  }
  return names;
}

class GoldenInGroups : public testing::TestWithParam<std::string> {};

TEST_P(GoldenInGroups, IsFollowedWithEachParameterInItsOwnGroup) {
  Case apart(read_case(GetParam()));
  apart.put_apart();
  apart.follow();
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenInGroups, testing::ValuesIn(followed_together()),
                         [](const auto& name) { return name.param; });

TEST(GoldenCases, AreAllFollowedExceptForAnInformativeOne) {
  std::set<std::string> others;
  for (const auto& name : case_files()) {
    const json meta = json::parse(read_case(name).metadata.at("case"));
    const std::string reason = missing(meta["spec"]);
    if (reason.empty() && !meta.value("informative", false)) continue;
    others.insert(name);
    std::cout << "  not followed: " << name << " ("
              << (reason.empty() ? "informative only" : "no " + reason) << ")\n";
  }
  EXPECT_EQ(others, (std::set<std::string>{"adamw_bf16_params_torch"}));
  EXPECT_EQ(followed().size() + others.size(), case_files().size());
  EXPECT_GE(case_files().size(), 185u) << "a recorded file is missing";
}

}  // namespace
}  // namespace jitstep::tests
