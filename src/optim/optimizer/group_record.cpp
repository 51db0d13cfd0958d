#include "optim/optimizer/group_record.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "jit/manifest/option_layout.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/state_storage.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

void validate(const jit::OptionValues& values, ValidationPhase phase) {
  const double rate = has_lr(values.rule()) ? values.get("lr").number() : 1;
  if (phase == ValidationPhase::construction || rate > 0 || !std::isfinite(rate))
    return values.validate();
  // A schedule may make lr 0 or negative after construction. All other ranges still apply.
  jit::OptionValues positive = values;
  positive.set("lr", 1.0);
  positive.validate();
}

}  // namespace

bool has_lr(const jit::Manifest& rule) {
  const jit::Option* const lr = rule.find("lr");
  return lr != nullptr && lr->type == jit::Option::Type::number;
}

void GroupRecord::refresh(const Options& options, ValidationPhase phase, HyperParams& numbers) {
  options.check_intact();
  if (is_known(options)) {
    options.pack(now_);
    if (jit::same_bits(now_, values_->packed())) return;
    if (refresh_numbers()) {
      std::copy_n(now_.begin(), kMaxHyper, numbers.hyper);
      return;
    }
  }
  as_torch_error([&] { refresh_all(options, phase, numbers); });
}

// True if the options have the rule, catalog and formats of the last refresh.
bool GroupRecord::is_known(const Options& options) const {
  return values_ && catalog_ == &options.catalog() && values_->rule().name == options.rule() &&
         formats_ == options.formats();
}

// Takes the numbers if they are in range and if only such numbers changed that nothing else depends on.
bool GroupRecord::refresh_numbers() {
  const std::vector<double>& before = values_->packed();
  const auto& independent = values_->layout().independent_numbers();
  if (now_.size() != before.size()) return false;
  for (std::size_t i = 0; i < now_.size(); ++i) {
    if (jit::same_bits(now_[i], before[i])) continue;
    if (i >= independent.size() || independent[i] == nullptr ||
        !independent[i]->constraint.accepts(now_[i]))
      return false;
  }
  values_->set_packed(now_);
  return true;
}

void GroupRecord::refresh_all(const Options& options, ValidationPhase phase, HyperParams& numbers) {
  jit::OptionValues values = options.values();
  validate(values, phase);
  const bool same_formats = values_ && catalog_ == &options.catalog() &&
                            &values_->rule() == &values.rule() && options.formats() == formats_;
  if (!same_formats) jit::check_formats(options.formats(), values);
  const HyperParams fresh = values.at_step(0, options.seed());
  if (!same_formats || !values.same_flags(*values_)) ++revision_;
  if (!same_formats) formats_ = options.formats();
  now_ = values.packed();
  values_ = std::move(values);
  catalog_ = &options.catalog();
  plans_.clear();
  numbers = fresh;
}

std::shared_ptr<const jit::Plan> GroupRecord::plan(const torch::Tensor& p) const {
  const int dims = std::max<int>(1, static_cast<int>(p.dim()));
  return as_torch_error([&] {
    jit::ParameterKind kind{dtype_of(p), dims, p.numel(), p.sizes().vec()};
    const auto known = plans_.find(kind);
    if (known != plans_.end()) return known->second;
    auto plan = std::make_shared<const jit::Plan>(jit::resolve(*values_, formats_, kind));
    return plans_.emplace(std::move(kind), std::move(plan)).first->second;
  });
}

std::vector<double> GroupRecord::initial_shared_state() const {
  return as_torch_error([&] { return jit::initial_shared_state(*values_); });
}

InitialValues GroupRecord::initial(const jit::Plan& plan, int number) const {
  return as_torch_error([&] {
    InitialValues initial;
    for (const auto& slot : values_->rule().slots)
      initial.slots.push_back(values_->initial(slot.initial));
    initial.aux_state = jit::initial_aux_state(plan, *values_, static_cast<std::size_t>(number));
    for (std::size_t i = 0; i < initial.slots.size(); ++i)
      if (const jit::Manifest* const codec = plan.codec(static_cast<int>(i)))
        if (codec->has_hyper) initial.hyper = values_->hyper();
    return initial;
  });
}

}  // namespace jitstep
