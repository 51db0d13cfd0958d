#include "jit/tuning/tuned_configs.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "jit/base/text.h"
#include "jit/base/text_table.h"

namespace jitstep::jit {
namespace {

constexpr double kFurthest =
    4;  // powers of two: the best configuration for 1M elements is a poor predictor for 64K

double log_of(std::int64_t elements) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(elements, 1)));
}

double log_of_each(const WorkSize& size) {
  return log_of(size.elements) - log_of(std::max<std::int64_t>(size.tensors, 1));
}

bool same_bucket(const WorkSize& one, const WorkSize& other) {
  return std::lround(log_of(one.elements)) == std::lround(log_of(other.elements)) &&
         std::lround(log_of_each(one)) == std::lround(log_of_each(other));
}

std::string shown(const WorkSize& size) {
  return size.tensors == 1 ? str_cat(size.elements, " elements")
                           : str_cat(size.elements, " elements in ", size.tensors, " tensors");
}

// The result of a record in words.
std::string verdict(const TuningRecord& record) {
  switch (record.outcome) {
    case Outcome::won:
      return str_cat(to_string(record.config), " was ", fixed(record.gain, 2),
                     " times as fast as the default");
    case Outcome::default_config:
      return "no configuration was faster than the default";
    case Outcome::unresolved:
      break;
  }
  return "no configuration was significantly faster than the default";
}

}  // namespace

double size_distance(const WorkSize& one, const WorkSize& other) {
  return std::max(std::abs(log_of(one.elements) - log_of(other.elements)),
                  std::abs(log_of_each(one) - log_of_each(other)));
}

// Smaller is better. A record with Match::none is not usable.
struct TunedConfigs::Fit {
  Match match = Match::none;
  bool other_machine = true, other_threads = true, other_bucket = true;
  double distance = 0;
  bool other_templates = true;

  auto order() const {
    return std::tuple(other_machine, other_threads, other_bucket, other_bucket ? distance : 0,
                      other_templates, distance);
  }
};

TunedConfigs::TunedConfigs(std::vector<TuningRecord> records, const Hardware& hardware,
                           Templates templates)
    : records_(std::move(records)), hardware_(hardware), templates_(std::move(templates)) {
  std::erase_if(records_, [&](const TuningRecord& record) {
    return (!record.complete && record.outcome != Outcome::won) ||
           record.hardware.target != hardware.target ||
           record.hardware.architecture != hardware.architecture;
  });
}

TunedConfigs::Fit TunedConfigs::fit_of(const TuningRecord& record, const WorkSize& size,
                                       const std::string& templates) const {
  Fit fit{.other_machine = !same_machine(record.hardware, hardware_),
          .other_threads = record.hardware.units != hardware_.units,
          .other_bucket = !same_bucket(record.size, size),
          .distance = size_distance(record.size, size),
          .other_templates = record.versions.templates != templates};
  if (fit.other_bucket && fit.distance > kFurthest) return fit;
  fit.match = fit.other_machine || fit.other_threads ? Match::same_architecture
              : fit.other_bucket                     ? Match::nearest_size
                                                     : Match::exact;
  return fit;
}

std::vector<const TuningRecord*> TunedConfigs::known(const Plan& plan) const {
  const std::string spec = to_string(plan.spec);
  std::vector<const TuningRecord*> all;
  for (const TuningRecord& record : records_)
    if (record.spec == spec && !config_problem(plan, record.config, hardware_.target))
      all.push_back(&record);
  return all;
}

const TuningRecord* TunedConfigs::best(const Plan& plan, const WorkSize& size, Fit& fit) const {
  const TuningRecord* found = nullptr;
  std::string templates;
  for (const TuningRecord* const record : known(plan)) {
    if (templates.empty()) templates = templates_(plan);
    const Fit own = fit_of(*record, size, templates);
    if (own.match == Match::none || (found != nullptr && own.order() >= fit.order())) continue;
    found = record;
    fit = own;
  }
  return found;
}

ConfigChoice TunedConfigs::choose(const Plan& plan, const WorkSize& size) const {
  ConfigChoice choice{.config = default_kernel_config(plan, hardware_.target)};
  Fit fit;
  const TuningRecord* const record = best(plan, size, fit);
  if (record == nullptr) return choice;
  choice.config = record->config;
  choice.match = fit.match;
  choice.distance = fit.distance;
  choice.why =
      str_cat(verdict(*record), " for ", shown(record->size), " on ", record->hardware.name, " (",
              units_text(record->hardware), ") on ", record->date);
  if (fit.other_machine)
    choice.why += ", another machine of this architecture";
  else if (fit.other_threads)
    choice.why += str_cat(", this machine with ", units_text(hardware_), " in use");
  if (fit.other_templates) choice.why += ", with other templates than the current ones";
  return choice;
}

const TuningRecord* TunedConfigs::exact(const Plan& plan, const WorkSize& size) const {
  Fit fit;
  const TuningRecord* const record = best(plan, size, fit);
  return record != nullptr && fit.match == Match::exact && !fit.other_templates ? record : nullptr;
}

}  // namespace jitstep::jit
