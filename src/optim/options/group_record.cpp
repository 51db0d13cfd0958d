#include "optim/options/group_record.h"

#include <torch/torch.h>

#include <algorithm>

#include "jitstep/args.h"
#include "jitstep/jit/plan.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

std::vector<double> initial_slots(const jit::OptionValues& values) {
  std::vector<double> initial;
  for (const auto& slot : values.rule().slots) initial.push_back(values.initial(slot.initial));
  return initial;
}

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

}  // namespace

void GroupRecord::refresh(const Options& options, GroupNumbers& numbers) {
  options.snapshot(now_);
  if (now_ == seen_) return;
  as_argument_error([&] {
    jit::OptionValues values = options.values();
    values.validate();
    if (!values_ || !(options.formats() == formats_))
      check_formats(options.formats(), values.rule());
    GroupNumbers fresh{values.hyper(), initial_slots(values), options.seed()};
    const bool same = values_ && options.formats() == formats_ && same_flags(values, *values_);
    numbers = std::move(fresh);
    values_ = std::move(values);
    formats_ = options.formats();
    if (!same) ++revision_;
  });
  std::swap(seen_, now_);
}

jit::KernelSpec GroupRecord::spec(const torch::Tensor& p) const {
  const int dims = std::max<int>(1, static_cast<int>(p.dim()));
  return as_argument_error([&] {
    return kernel_spec(*values_, formats_, {dtype_of(p), dims, p.numel()});
  });
}

std::vector<double> GroupRecord::initial_memory(const jit::KernelSpec& spec, int id) const {
  return as_argument_error([&] {
    std::vector<double> initial;
    for (const auto& field : jit::resolve(spec).memory)
      initial.push_back(values_->initial(field.initial, static_cast<std::size_t>(id)));
    return initial;
  });
}

}  // namespace jitstep
