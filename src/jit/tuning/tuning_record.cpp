#include "jit/tuning/tuning_record.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>

namespace jitstep::jit {
namespace {

using nlohmann::ordered_json;

// Six digits are more precise than any clock here, and keep file diffs readable.
double rounded(double x) {
  if (!std::isfinite(x) || x == 0) return 0;
  char text[32];
  const auto end = std::to_chars(text, std::end(text), x, std::chars_format::general, 6).ptr;
  std::from_chars(text, end, x);
  return x;
}

ordered_json json_of(const KernelConfig& config) {
  ordered_json out;
  for (const ConfigField& field : config_fields())
    if (!field.cpu_only || config.*field.member != 0) out[field.name] = config.*field.member;
  return out;
}

ordered_json json_of(const Trial& trial) {
  ordered_json out = {{"configuration", json_of(trial.config)},
                      {"status", to_string(trial.status)}};
  if (!trial.detail.empty()) out["detail"] = trial.detail;
  if (trial.times.rounds == 0) return out;
  out["rounds"] = trial.times.rounds;
  for (const auto& [name, member] : kTrialTimeFields) out[name] = rounded(trial.times.*member);
  return out;
}

ordered_json json_of(const Hardware& hardware) {
  ordered_json out = {{"target", to_string(hardware.target)},
                      {"name", hardware.name},
                      {"architecture", hardware.architecture},
                      {"units", hardware.units}};
  if (hardware.processors > 0) out["processors"] = hardware.processors;
  out["cache_bytes"] = hardware.cache_bytes;
  out["bandwidth"] = rounded(hardware.bandwidth);
  return out;
}

}  // namespace

bool TuningRecord::replaces(const TuningRecord& other) const {
  Hardware own = hardware;
  own.bandwidth = 0;  // differs between measurements of the same machine
  return spec == other.spec && size == other.size && same_hardware(own, other.hardware) &&
         versions == other.versions;
}

std::string today() {
  char date[11] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(date, sizeof date, "%Y-%m-%d", ::gmtime_r(&now, &utc));
  return date;
}

std::string to_json(const TuningRecord& record) {
  ordered_json trials = ordered_json::array();
  for (const Trial& trial : record.trials) trials.push_back(json_of(trial));
  const ordered_json out = {{"schema", kRecordSchema},
                            {"kernel", record.kernel},
                            {"spec", record.spec},
                            {"elements", record.size.elements},
                            {"tensors", record.size.tensors},
                            {"hardware", json_of(record.hardware)},
                            {"versions",
                             {{"jitstep", record.versions.jitstep},
                              {"compiler", record.versions.compiler},
                              {"templates", record.versions.templates}}},
                            {"strategy", record.strategy},
                            {"date", record.date},
                            {"complete", record.complete},
                            {"outcome", to_string(record.outcome)},
                            {"configuration", json_of(record.config)},
                            {"gain", rounded(record.gain)},
                            {"spread", rounded(record.spread)},
                            {"trials", trials}};
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace jitstep::jit
