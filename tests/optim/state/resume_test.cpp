// Training continues bit for bit after a save and a load. Tests each rule in one storage format with its options
// switched, and each storage format with one rule. resume_long_test.cpp tests all combinations.
#include <algorithm>
#include <set>

#include "jitstep/jit/spec.h"
#include "optim/state/resumption.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

// Consecutive rules get consecutive storage formats, so that the tests cover every one.
StorageFormat storage_format_of(std::size_t rule, std::size_t shift) {
  static const std::vector<StorageFormat> formats = all_storage_formats();
  return formats[(rule + shift) % formats.size()];
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

bool stores_more_by_default(const std::string& rule) {
  const auto defaults = stored_slots(rule, {}), switched = stored_slots(rule, all_switched(rule));
  return !std::includes(switched.begin(), switched.end(), defaults.begin(), defaults.end());
}

TEST(Resume, OfEveryRuleWithItsOptionsSwitchedIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    expect_resumes(rules[i], storage_format_of(i, 5), all_switched(rules[i]));
}

TEST(Resume, OfRulesThatStoreMoreByDefaultIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (stores_more_by_default(rules[i]))
      expect_resumes(rules[i], storage_format_of(i, 0), GenericOptions());
}

TEST(Resume, OfEveryCodecAndWeightFormatIsBitForBit) {
  for (const StorageFormat& format : covering_storage_formats())
    expect_resumes("adamw", format, GenericOptions());
}

TEST(Resume, IsTestedWithEveryConditionalSlot) {
  for (const auto& rule : shipped(Kind::rule)) {
    auto tried = stored_slots(rule, all_switched(rule));
    tried.merge(stored_slots(rule, {}));
    for (const jit::Slot& slot : jit::default_catalog().rule(rule).slots)
      EXPECT_TRUE(tried.contains(slot.name)) << rule << "." << slot.name;
  }
}

}  // namespace
}  // namespace jitstep::tests
