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
  TORCH_CHECK(form.warmup_steps >= 0, "jitstep: warmup_steps is ", form.warmup_steps,
              ". Set it to 0 or more.");
  TORCH_CHECK(form.steps > form.warmup_steps, "jitstep: steps is ", form.steps,
              ", but warmup_steps is ", form.warmup_steps,
              ". Set steps to the number of all steps, including warm-up.");
  for (const double base : base_lrs)
    TORCH_CHECK(form.end_lr >= 0 && form.end_lr <= base, "jitstep: end_lr is ", form.end_lr,
                ". Set it to a number in [0, ", base, "]. ", base,
                " is the initial learning rate of a parameter group.");
}

double warmed_up(double base, std::int64_t step, const WarmupDecay& form) {
  return base * static_cast<double>(step + 1) / static_cast<double>(form.warmup_steps + 1);
}

// Progress of the decay: 0 when the warm-up ends, 1 at the last step.
double progress(std::int64_t step, const WarmupDecay& form) {
  const auto done = static_cast<double>(step - form.warmup_steps);
  return std::min(1.0, done / static_cast<double>(form.steps - form.warmup_steps));
}

// From base, for a share of 1, to end_lr. The rate of a late group below end_lr stays.
double decayed(double base, double share, const WarmupDecay& form) {
  const double end = std::min(form.end_lr, base);
  return end + (base - end) * share;
}

}  // namespace

ClosedFormLR::ClosedFormLR(torch::optim::Optimizer& optimizer, std::string name)
    : LRScheduler(optimizer), name_(std::move(name)), base_lrs_(get_current_lrs()) {}

std::vector<double> ClosedFormLR::get_lrs() {
  if (!loaded_lrs_.empty()) return std::exchange(loaded_lrs_, {});
  const std::vector<double> now = get_current_lrs();
  std::vector<double> base_lrs = base_lrs_;
  for (std::size_t late = base_lrs.size(); late < now.size(); ++late) base_lrs.push_back(now[late]);
  std::vector<double> lrs = lrs_of(base_lrs, step_count_);
  base_lrs_ = std::move(base_lrs);
  return lrs;
}

// The rates of a step. Groups without a base rate keep theirs.
std::vector<double> ClosedFormLR::lrs_of(const std::vector<double>& base_lrs,
                                         unsigned step_count) const {
  std::vector<double> lrs = get_current_lrs();
  TORCH_CHECK(base_lrs.size() <= lrs.size(), "jitstep: the optimizer of a ", name_, " has ",
              lrs.size(), " parameter groups, but had ", base_lrs.size(),
              ". Make a new scheduler after you remove a group.");
  for (std::size_t group = 0; group < base_lrs.size(); ++group)
    lrs[group] = rate(base_lrs[group], step_count);
  return lrs;
}

void ClosedFormLR::save(torch::serialize::OutputArchive& archive) const {
  archive.write(kClassKey, c10::IValue(name_));
  archive.write("last_step", c10::IValue(last_step()));
  archive.write("base_lrs", c10::IValue(base_lrs_));
  archive.write("groups", c10::IValue(static_cast<std::int64_t>(get_current_lrs().size())));
}

void ClosedFormLR::load(torch::serialize::InputArchive& archive) {
  c10::IValue written;
  TORCH_CHECK(
      archive.try_read(kClassKey, written) && written.isString(),
      "jitstep: the checkpoint contains no scheduler of jitstep. Load a file that one was saved "
      "to.");
  const std::string& name = written.toStringRef();
  TORCH_CHECK(name == name_, "jitstep: the checkpoint contains a ", name,
              " and cannot be loaded into a ", name_, ". Load it into a ", name, ".");
  const std::int64_t last = read_integer(archive, "last_step");
  c10::IValue lrs;
  archive.read("base_lrs", lrs);
  TORCH_CHECK(last >= 0 && last < std::numeric_limits<unsigned>::max() && lrs.isDoubleList(),
              "jitstep: the checkpoint of a ", name_, " is damaged. Save the scheduler again.");
  const std::vector<double> base_lrs = lrs.toDoubleVector();
  // More than it has rates of, if groups were added after its last step.
  const auto groups = archive.try_read("groups", written) && written.isInt()
                          ? static_cast<std::size_t>(written.toInt())
                          : base_lrs.size();
  TORCH_CHECK(groups == get_current_lrs().size() && base_lrs.size() <= groups,
              "jitstep: the checkpoint has the learning rates of ", groups,
              " parameter groups, but the optimizer has ", get_current_lrs().size(),
              ". Create it with the same groups.");
  loaded_lrs_ = lrs_of(base_lrs, static_cast<unsigned>(last));  // may throw
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
  TORCH_CHECK(power > 0 && std::isfinite(power), "jitstep: power is ", power,
              ". Set it to a finite number > 0.");
  start();
}

double PolynomialLR::rate(double base, std::int64_t step) const {
  if (step < form_.warmup_steps) return warmed_up(base, step, form_);
  return decayed(base, std::pow(1 - progress(step, form_), power_), form_);
}

CosineLR::CosineLR(torch::optim::Optimizer& optimizer, WarmupDecay form)
    : ClosedFormLR(optimizer, "CosineLR"), form_(form) {
  check(form_, base_lrs());
  start();
}

double CosineLR::rate(double base, std::int64_t step) const {
  if (step < form_.warmup_steps) return warmed_up(base, step, form_);
  return decayed(base, (1 + std::cos(std::numbers::pi * progress(step, form_))) / 2, form_);
}

PreheatLR::PreheatLR(torch::optim::Optimizer& optimizer, double preheat_steps, double decay_power)
    : ClosedFormLR(optimizer, "PreheatLR"),
      preheat_steps_(preheat_steps),
      decay_power_(decay_power) {
  TORCH_CHECK(preheat_steps > 0 && std::isfinite(preheat_steps), "jitstep: preheat_steps is ",
              preheat_steps, ". Set it to a finite number > 0.");
  TORCH_CHECK(decay_power <= 0 && std::isfinite(decay_power), "jitstep: decay_power is ",
              decay_power, ". Set it to a finite number <= 0.");
  start();
}

double PreheatLR::rate(double base, std::int64_t step) const {
  const double x = static_cast<double>(step + 2) / preheat_steps_;
  return base * std::min(x, std::pow(x, decay_power_));
}

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : ClosedFormLR(optimizer, "LambdaLR"), factor_(std::move(factor)) {
  TORCH_CHECK(factor_, "jitstep: LambdaLR got an empty function. Pass a function of the step.");
  start();
}

double LambdaLR::rate(double base, std::int64_t step) const { return base * factor_(step); }

}  // namespace jitstep
