// Training continues bit for bit after a save and a load. Tests each rule in float64 with the options of the comparison
// with its formulas, whose kernels every_rule_test.cpp compiles too. Tests each storage format with one rule, and some
// rules in other storage formats. resume_long_test.cpp tests all combinations.
#include <cmath>
#include <set>

#include "jitstep/jit/spec.h"
#include "optim/reference/cases.h"
#include "optim/state/resumption.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

jit::Value to_value(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return nullptr;
  jit::Value::Numbers numbers;
  for (const auto& x : value) numbers.push_back(x.is_null() ? std::nan("") : x.get<double>());
  return numbers;
}

// The sets of options that change every number and flag of a rule, with the common options in the first.
std::vector<GenericOptions> moved_options(const std::string& rule) {
  std::vector<GenericOptions> sets;
  for (const nlohmann::json& given : reference::moved_options().at(rule)) {
    nlohmann::json options = nlohmann::json::object();
    if (sets.empty()) options = reference::moved_common_options();
    options.update(given);
    GenericOptions& added = sets.emplace_back();
    for (const auto& [name, value] : options.items()) added.set(name, to_value(value));
  }
  return sets;
}

// The slots that a rule stores with these options, for vectors or for matrices.
std::set<std::string> stored_slots(const std::string& rule, const GenericOptions& options) {
  jit::OptionValues values(rule);
  for (const auto& [name, value] : options.given()) values.set(name, value);
  std::set<std::string> stored;
  for (const jit::Slot& slot : values.rule().slots)
    if (jit::is_stored(slot, values.flags(1)) || jit::is_stored(slot, values.flags(2)))
      stored.insert(slot.name);
  return stored;
}

// Whether the matrix or the parameter of a rule has auxiliary state, of which each storage format saves other parts.
bool has_aux_state(const std::string& rule) {
  return !jit::default_catalog().rule(rule).aux_state.empty();
}

TEST(Resume, OfEveryRuleWithItsOptionsMovedIsBitForBit) {
  for (const std::string& rule : shipped(Kind::rule))
    for (const GenericOptions& options : moved_options(rule))
      expect_resumes(rule, {"fp32", "native", torch::kFloat64}, options);
}

// Every third rule with auxiliary state, and every eighth of the others. Each gets another storage format.
TEST(Resume, OfSomeRulesInOtherStorageFormatsIsBitForBit) {
  const std::vector<StorageFormat> formats = all_storage_formats();
  std::size_t with_aux_state = 0, others = 0, tested = 0;
  for (const std::string& rule : shipped(Kind::rule)) {
    if (has_aux_state(rule) ? with_aux_state++ % 3 != 0 : others++ % 8 != 0) continue;
    expect_resumes(rule, formats[1 + 23 * tested % (formats.size() - 1)], all_switched(rule));
    ++tested;
  }
  EXPECT_GT(tested, 8u);
}

TEST(Resume, OfEveryCodecAndWeightFormatIsBitForBit) {
  for (const StorageFormat& format : covering_storage_formats())
    expect_resumes("adamw", format, GenericOptions());
}

TEST(Resume, IsTestedWithEveryConditionalSlot) {
  for (const auto& rule : shipped(Kind::rule)) {
    std::set<std::string> tried;
    for (const GenericOptions& options : moved_options(rule))
      tried.merge(stored_slots(rule, options));
    for (const jit::Slot& slot : jit::default_catalog().rule(rule).slots)
      EXPECT_TRUE(tried.contains(slot.name)) << rule << "." << slot.name;
  }
}

}  // namespace
}  // namespace jitstep::tests
