#include "optim/options/group_record.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "jitstep/args.h"
#include "jitstep/jit/common_memory.h"
#include "jitstep/jit/state_layout.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// A flag may be lifted from the number of dimensions.
bool same_flags(const jit::OptionValues& a, const jit::OptionValues& b) {
  if (a.gradient_flags() != b.gradient_flags()) return false;
  const auto& flags = a.rule().flags;
  const bool by_dims = std::any_of(flags.begin(), flags.end(),
                                   [](const jit::Option& flag) { return flag.lifted.has_value(); });
  for (int dims = by_dims ? 1 : kMaxDims; dims <= kMaxDims; ++dims)
    if (a.flags(dims) != b.flags(dims)) return false;
  return true;
}

void validate(const jit::OptionValues& values, Moment moment) {
  jit::OptionValues checked = values;
  const jit::Option* const lr = values.rule().find("lr");
  if (moment == Moment::training && lr != nullptr && lr->type == jit::Option::Type::number) {
    const double rate = values.get("lr").number();
    if (std::isfinite(rate)) checked.set("lr", std::abs(rate));
  }
  checked.validate();
}

}  // namespace

void GroupRecord::refresh(const Options& options, Moment moment, HyperSet& numbers) {
  options.snapshot(now_);
  if (now_ == seen_) return;
  as_argument_error([&] {
    jit::OptionValues values = options.values();
    validate(values, moment);
    if (!values_ || !(options.formats() == formats_)) jit::check_formats(options.formats(), values);
    const HyperSet fresh = values.at_step(0, options.seed());
    const bool same = values_ && options.formats() == formats_ &&
                      values.edition() == values_->edition() && same_flags(values, *values_);
    numbers = fresh;
    values_ = std::move(values);
    formats_ = options.formats();
    if (!same) ++revision_;
  });
  std::swap(seen_, now_);
}

std::shared_ptr<const jit::Plan> GroupRecord::plan(const torch::Tensor& p) const {
  const int dims = std::max<int>(1, static_cast<int>(p.dim()));
  return as_argument_error([&] {
    return std::make_shared<jit::Plan>(
        jit::resolve(*values_, formats_, {dtype_of(p), dims, p.numel()}));
  });
}

std::vector<double> GroupRecord::initial_common() const {
  return as_argument_error([&] { return jit::initial_common_memory(*values_); });
}

InitialValues GroupRecord::initial(const jit::Plan& plan, int id) const {
  return as_argument_error([&] {
    InitialValues initial;
    for (const auto& slot : values_->rule().slots)
      initial.slots.push_back(values_->initial(slot.initial));
    initial.memory = jit::initial_memory(plan, *values_, static_cast<std::size_t>(id));
    return initial;
  });
}

}  // namespace jitstep
