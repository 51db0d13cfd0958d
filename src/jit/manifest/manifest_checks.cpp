#include "jit/manifest/manifest_checks.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/manifest/manifest_notes.h"

namespace jitstep::jit {
namespace {

// A field that elements read is a member of each element.
void check_of_elements(const Manifest& manifest, const AuxField& field, const Location& location) {
  if (!field.of_elements) return;
  if (manifest.kind != Manifest::Kind::rule)
    location.fail("only elements of a rule read auxiliary state. Remove the note `elements`.");
  check_member(field.name, "field", location);
  check_no_transform(manifest, field.name, location);
  if (manifest.input(field.name) >= 0)
    location.fail(str_cat("`", field.name, "` is also an input. Rename one."));
}

}  // namespace

void check_member(const std::string& name, std::string_view what, const Location& location) {
  const auto refuse = [&](std::string_view meaning) {
    location.fail(str_cat("`", name, "` is ", meaning, ". Rename the ", what, "."));
  };
  if (name == kTransformed) refuse("the result of a host transform");
  if (name == "random" || name == "random_key") refuse("a function of elements");
  if (name == "index") refuse("the number of an element");
  if (name == "p" || name == "g") refuse("the parameter or the gradient");
}

void check_no_transform(const Manifest& manifest, const std::string& name,
                        const Location& location) {
  for (const RuleTransform& transform : manifest.transforms)
    if (transform.name == name)
      location.fail(str_cat("`", name, "` is also a transform. Rename one."));
}

void check_reduction(const Manifest& manifest, const Location& location) {
  const Reduction& reduction = manifest.reductions.back();
  if (reduction.name == kTransformed)
    location.fail("`transformed` is the result of a host transform. Rename the reduction.");
  if (reduction.name.starts_with("jitstep"))
    location.fail("names that begin with `jitstep` are for generated code. Rename the reduction.");
  check_no_transform(manifest, reduction.name, location);
  check_domain_names(manifest.reductions, location);
  if (manifest.kind == Manifest::Kind::codec && reduction.domain.kind == Domain::Kind::all)
    location.fail(
        "a codec's sum over `all` tensors has no place for its result: AuxState of a codec "
        "belongs to one tensor. Sum over `tensor`, or over a smaller domain.");
}

void check_learning_rate(const Option& option, const Location& location) {
  if (option.name != "lr" || option.type == Option::Type::number ||
      option.type == Option::Type::nullable)
    return;
  location.fail(
      "`lr` is the learning rate, which schedulers set. Declare it in Hyper as `double` or "
      "`Nullable`, or rename it.");
}

void check_copied(const Option& option, const Option& from, const Location& location) {
  if (option.constraint.covers(from.constraint)) return;
  location.fail(str_cat("`", option.name, "` must be ", to_string(option.constraint),
                        ", but `at construction:` copies `", from.name, "`, which must be ",
                        to_string(from.constraint), ". Let the first range contain the second."));
}

void check_scalars(const Manifest& manifest, const Location& location) {
  for (const std::string& name : manifest.scalars)
    for (const Reduction& reduction : manifest.reductions)
      if (reduction.name == name)
        location.fail(str_cat("`", name, "` is also a reduction. Rename one."));
}

void check_start(const Manifest& manifest, const Slot& slot, const Location& location) {
  // In checkpoints, formats are by slot, or by this name one for all.
  if (slot.name == "codec") location.fail("`codec` is reserved in checkpoints. Rename the slot.");
  const Option* const start = manifest.find(slot.initial.option);
  Constraint not_negative;
  not_negative.low = 0;
  if (!slot.is_signed && start != nullptr && !not_negative.covers(start->constraint))
    location.fail(str_cat("a NonNegative slot starts at `", start->name,
                          "`, which may be negative. Give the option the range `>= 0`, or make ",
                          "the slot Signed."));
}

void check_aux_state(const Manifest& manifest, const Location& location) {
  const AuxField& field = manifest.aux_state.back();
  check_initial(manifest, field.initial, true, location);
  check_of_elements(manifest, field, location);
  const bool prepared = manifest.kind == Manifest::Kind::rule &&
                        (field.domain.kind == Domain::Kind::tensor || field.is_shared());
  if (field.is_shared() && manifest.kind != Manifest::Kind::rule)
    location.fail(
        "a codec's auxiliary state belongs to one tensor. Use another domain than `all`.");
  const bool finished =
      std::any_of(manifest.reductions.begin(), manifest.reductions.end(),
                  [&](const Reduction& reduction) { return reduction.domain == field.domain; });
  if (!prepared && !finished)
    location.fail(
        str_cat("no reduction over `", to_string(field.domain),
                "` writes this auxiliary state. Declare one, or use the domain `tensor` or "
                "`all` in a rule."));
}

void check_initial(const Manifest& manifest, const Initial& initial, bool list,
                   const Location& location) {
  if (initial.option.empty()) return;
  const Option* const option = manifest.find(initial.option);
  const bool right = option != nullptr && (option->type == Option::Type::number ||
                                           (list && option->type == Option::Type::list));
  if (!right)
    location.fail(str_cat("there is no number `", initial.option,
                          "` among the options. `initial:` needs a number or the name of one."));
}

}  // namespace jitstep::jit
