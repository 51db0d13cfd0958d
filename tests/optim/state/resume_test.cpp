// Training that was saved and loaded goes on bit for bit. Each rule in one of all forms, with its options switched, each
// form with one rule; resume_long_test.cpp tries all of them.
#include <algorithm>
#include <set>

#include "jitstep/jit/spec.h"
#include "optim/state/resumption.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

// The rule's forms follow each other through the list, so that every form comes up.
Form form_of(std::size_t rule, std::size_t shift) {
  static const std::vector<Form> forms = all_forms();
  return forms[(rule + shift) % forms.size()];
}

// The slots that a rule keeps with these options, of vectors or of matrices.
std::set<std::string> slots_kept(const std::string& rule, const GenericOptions& options) {
  jit::OptionValues values(rule);
  for (const auto& [name, value] : options.given()) values.set(name, value);
  std::set<std::string> kept;
  for (const jit::Slot& slot : values.rule().slots)
    if (jit::is_stored(slot, values.flags(1)) || jit::is_stored(slot, values.flags(2)))
      kept.insert(slot.name);
  return kept;
}

bool keeps_more_by_default(const std::string& rule) {
  const auto default_config = slots_kept(rule, {}), switched = slots_kept(rule, all_switched(rule));
  return !std::includes(switched.begin(), switched.end(), default_config.begin(),
                        default_config.end());
}

TEST(Resume, OfEveryRuleWithItsOptionsSwitchedIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    expect_resumes(rules[i], form_of(i, 5), all_switched(rules[i]));
}

TEST(Resume, OfRulesThatKeepMoreByDefaultIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (keeps_more_by_default(rules[i])) expect_resumes(rules[i], form_of(i, 0), GenericOptions());
}

TEST(Resume, OfEveryCodecAndWeightFormatIsBitForBit) {
  for (const Form& form : cover_of_forms()) expect_resumes("adamw", form, GenericOptions());
}

TEST(Resume, IsTriedWithEveryConditionalSlot) {
  for (const auto& rule : shipped(Kind::rule)) {
    auto tried = slots_kept(rule, all_switched(rule));
    tried.merge(slots_kept(rule, {}));
    for (const jit::Slot& slot : jit::default_catalog().rule(rule).slots)
      EXPECT_TRUE(tried.contains(slot.name)) << rule << "." << slot.name;
  }
}

}  // namespace
}  // namespace jitstep::tests
