// Training that was saved and loaded goes on bit for bit. Each rule in two of all forms, each form with one
// rule; resume_long_test.cpp tries all of them.
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

TEST(Resume, OfEveryRuleIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    expect_resumes(rules[i], form_of(i, 0), GenericOptions());
}

TEST(Resume, OfEveryRuleWithItsOptionsSwitchedIsBitForBit) {
  const auto rules = shipped(Kind::rule);
  for (std::size_t i = 0; i < rules.size(); ++i)
    expect_resumes(rules[i], form_of(i, 5), all_switched(rules[i]));
}

TEST(Resume, OfEveryCodecAndWeightFormatIsBitForBit) {
  for (const Form& form : cover_of_forms()) expect_resumes("adamw", form, GenericOptions());
}

TEST(Resume, IsTriedWithEveryConditionalSlot) {
  for (const auto& rule : shipped(Kind::rule)) {
    const jit::OptionValues defaults(rule);
    jit::OptionValues switched(rule);
    const GenericOptions options = all_switched(rule);
    for (const auto& [name, value] : options.given()) switched.set(name, value);
    for (const jit::Slot& slot : defaults.rule().slots) {
      bool tried = false;
      for (const int dims : {1, 2})
        tried = tried || jit::is_stored(slot, defaults.flags(dims)) ||
                jit::is_stored(slot, switched.flags(dims));
      EXPECT_TRUE(tried) << rule << "." << slot.name;
    }
  }
}

}  // namespace
}  // namespace jitstep::tests
