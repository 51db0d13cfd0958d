#include "jitstep/schedulers.h"

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "optim/state/archive_fields.h"

namespace jitstep {
namespace {

constexpr const char* kClassKey = "jitstep_scheduler";

void check(const WarmupDecay& form, const std::vector<double>& base_lrs) {
  TORCH_CHECK(form.warmup_steps >= 0, "warmup_steps must be >= 0, and is ", form.warmup_steps);
  TORCH_CHECK(form.steps > form.warmup_steps, "steps must be more than warmup_steps, and is ",
              form.steps, " with ", form.warmup_steps,
              " of warm-up; give the number of all steps, those of the warm-up included");
  for (const double base : base_lrs)
    TORCH_CHECK(form.end_lr >= 0 && form.end_lr <= base, "end_lr must be in [0, ", base,
                "], the rate that a parameter group starts from, and is ", form.end_lr);
}

double warmed_up(double base, std::int64_t step, const WarmupDecay& form) {
  return base * static_cast<double>(step + 1) / static_cast<double>(form.warmup_steps + 1);
}

// How far the decay has come: 0 when the warm-up ends, 1 at the end.
double progress(std::int64_t step, const WarmupDecay& form) {
  const auto done = static_cast<double>(step - form.warmup_steps);
  return std::min(1.0, done / static_cast<double>(form.steps - form.warmup_steps));
}

}  // namespace

ClosedFormLR::ClosedFormLR(torch::optim::Optimizer& optimizer, std::string name)
    : LRScheduler(optimizer), name_(std::move(name)), base_lrs_(get_current_lrs()) {}

std::vector<double> ClosedFormLR::get_lrs() {
  const std::vector<double> now = get_current_lrs();
  if (now.size() > base_lrs_.size())
    base_lrs_.insert(base_lrs_.end(), now.begin() + static_cast<std::ptrdiff_t>(base_lrs_.size()),
                     now.end());
  std::vector<double> lrs;
  for (const double base : base_lrs_) lrs.push_back(rate(base, step_count_));
  return lrs;
}

void ClosedFormLR::save(torch::serialize::OutputArchive& archive) const {
  archive.write(kClassKey, c10::IValue(name_));
  archive.write("last_step", c10::IValue(last_step()));
  archive.write("base_lrs", c10::IValue(base_lrs_));
}

void ClosedFormLR::load(torch::serialize::InputArchive& archive) {
  c10::IValue written;
  TORCH_CHECK(archive.try_read(kClassKey, written) && written.isString(),
              "the archive holds no scheduler of jitstep; load the file that one was saved to");
  const std::string& name = written.toStringRef();
  TORCH_CHECK(name == name_, "the archive holds a ", name, " and cannot be loaded into a ", name_);
  const std::int64_t last = read_integer(archive, "last_step");
  c10::IValue lrs;
  archive.read("base_lrs", lrs);
  TORCH_CHECK(last >= 0 && last < std::numeric_limits<unsigned>::max() && lrs.isDoubleList(),
              "the archive of a ", name_, " is damaged; save the scheduler again");
  const std::vector<double> base_lrs = lrs.toDoubleVector();
  TORCH_CHECK(base_lrs.size() == get_current_lrs().size(), "the archive holds the rates of ",
              base_lrs.size(), " parameter groups, and the optimizer has ",
              get_current_lrs().size(), "; make it with the same groups");
  base_lrs_ = base_lrs;
  step_count_ = static_cast<unsigned>(last);
  step();
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const ClosedFormLR& scheduler) {
  scheduler.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           ClosedFormLR& scheduler) {
  scheduler.load(archive);
  return archive;
}

PolynomialLR::PolynomialLR(torch::optim::Optimizer& optimizer, WarmupDecay form, double power)
    : ClosedFormLR(optimizer, "PolynomialLR"), form_(form), power_(power) {
  check(form_, base_lrs());
  TORCH_CHECK(power > 0 && std::isfinite(power), "power must be a number > 0, and is ", power);
  start();
}

double PolynomialLR::rate(double base, std::int64_t step) const {
  if (step < form_.warmup_steps) return warmed_up(base, step, form_);
  return form_.end_lr + (base - form_.end_lr) * std::pow(1 - progress(step, form_), power_);
}

CosineLR::CosineLR(torch::optim::Optimizer& optimizer, WarmupDecay form)
    : ClosedFormLR(optimizer, "CosineLR"), form_(form) {
  check(form_, base_lrs());
  start();
}

double CosineLR::rate(double base, std::int64_t step) const {
  if (step < form_.warmup_steps) return warmed_up(base, step, form_);
  const double share = (1 + std::cos(std::numbers::pi * progress(step, form_))) / 2;
  return form_.end_lr + (base - form_.end_lr) * share;
}

PreheatLR::PreheatLR(torch::optim::Optimizer& optimizer, double preheat_steps, double decay_power)
    : ClosedFormLR(optimizer, "PreheatLR"),
      preheat_steps_(preheat_steps),
      decay_power_(decay_power) {
  TORCH_CHECK(preheat_steps > 0 && std::isfinite(preheat_steps),
              "preheat_steps must be a number > 0, and is ", preheat_steps);
  TORCH_CHECK(decay_power <= 0 && std::isfinite(decay_power),
              "decay_power must be a number <= 0, and is ", decay_power);
  start();
}

double PreheatLR::rate(double base, std::int64_t step) const {
  const double x = static_cast<double>(step + 2) / preheat_steps_;
  return base * std::min(x, std::pow(x, decay_power_));
}

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : ClosedFormLR(optimizer, "LambdaLR"), factor_(std::move(factor)) {
  TORCH_CHECK(factor_, "LambdaLR without a function; give one of the step");
  start();
}

double LambdaLR::rate(double base, std::int64_t step) const { return base * factor_(step); }

}  // namespace jitstep
