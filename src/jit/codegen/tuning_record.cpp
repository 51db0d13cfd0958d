#include "jit/codegen/tuning_record.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "jit/base/text.h"
#include "jit/codegen/embedded_records.h"
#include "jit/codegen/json_schema.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr struct {
  const char* name;
  double TrialTimes::*field;
} kTimes[] = {{"seconds", &TrialTimes::seconds},
              {"default_seconds", &TrialTimes::default_seconds},
              {"ratio", &TrialTimes::ratio},
              {"spread", &TrialTimes::spread}};

// Six digits are more precise than any clock here, and keep file diffs readable.
double rounded(double x) {
  if (!std::isfinite(x) || x == 0) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(x))));
  return std::round(x * scale) / scale;
}

ordered_json json_of(const KernelConfig& config) {
  ordered_json out;
  for (const auto& [name, member, cpu_only] : config_fields())
    if (!cpu_only || config.*member != 0) out[name] = config.*member;
  return out;
}

KernelConfig config_of(const json& at) {
  KernelConfig config;
  for (const auto& [name, member, cpu_only] : config_fields())
    config.*member = at.value(name, cpu_only ? 0 : config.*member);
  return config;
}

ordered_json json_of(const Trial& trial) {
  ordered_json out = {{"configuration", json_of(trial.config)},
                      {"status", to_string(trial.status)}};
  if (!trial.detail.empty()) out["detail"] = trial.detail;
  if (trial.times.rounds == 0) return out;
  out["rounds"] = trial.times.rounds;
  for (const auto& [name, field] : kTimes) out[name] = rounded(trial.times.*field);
  return out;
}

Trial trial_of(const json& at) {
  Trial trial{.config = config_of(at.at("configuration")),
              .status = *trial_status(at.at("status").get<std::string>()),
              .detail = at.value("detail", "")};
  trial.times.rounds = at.value("rounds", 0);
  for (const auto& [name, field] : kTimes) trial.times.*field = at.value(name, TrialTimes().*field);
  return trial;
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

Hardware hardware_of(const json& at) {
  return {.target = parse_target(at.at("target").get<std::string>()),
          .name = at.at("name"),
          .architecture = at.at("architecture"),
          .units = at.at("units"),
          .processors = at.value("processors", 0),
          .cache_bytes = at.at("cache_bytes"),
          .bandwidth = at.at("bandwidth")};
}

TuningRecord record_of(const json& at) {
  const json& versions = at.at("versions");
  TuningRecord record{
      .kernel = at.at("kernel"),
      .spec = at.at("spec"),
      .size = {.elements = at.at("elements"), .tensors = at.at("tensors")},
      .hardware = hardware_of(at.at("hardware")),
      .versions = {versions.at("jitstep"), versions.at("compiler"), versions.at("templates")},
      .strategy = at.at("strategy"),
      .date = at.at("date"),
      .complete = at.at("complete"),
      .outcome = *outcome_of(at.at("outcome").get<std::string>()),
      .config = config_of(at.at("configuration")),
      .gain = at.at("gain"),
      .spread = at.at("spread")};
  for (const json& trial : at.at("trials")) record.trials.push_back(trial_of(trial));
  return record;
}

const json& record_schema() {
  static const json& schema = *new json(json::parse(embedded_records().front().second));
  return schema;
}

// The JSON library parses and frees nested values recursively, so that unlimited depth would overflow the stack.
json parsed(const std::string& line) {
  constexpr int kDeepest = 16;
  return json::parse(
      line,
      [](int depth, json::parse_event_t, const json&) {
        if (depth > kDeepest) throw Error("the JSON is nested too deeply");
        return true;
      },
      true);
}

}  // namespace

bool TuningRecord::replaces(const TuningRecord& other) const {
  Hardware own = hardware;
  own.bandwidth = 0;  // differs between measurements of the same machine
  return spec == other.spec && size == other.size && same_hardware(own, other.hardware) &&
         versions == other.versions;
}

TuningRecord record_of(const ConfigSearch& search, TuningRecord record) {
  record.outcome = search.outcome();
  record.config = search.outcome() == Outcome::won ? search.chosen() : search.default_config();
  record.trials = search.trials();
  if (record.outcome != Outcome::won) return record;
  record.gain = 1 / search.confirmation()->ratio;
  record.spread = search.confirmation()->spread;
  return record;
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

RecordLine read_record(const std::string& line) {
  try {
    const json at = parsed(line);
    if (at.is_object() && at.contains("schema") && at.at("schema").is_number_integer() &&
        at.at("schema") > kRecordSchema)
      return {.newer = true,
              .problem = str_cat("schema ", at.at("schema").dump(), " is newer than ",
                                 kRecordSchema, ". Update jitstep to use this record.")};
    if (const auto problem = schema_problem(at, record_schema())) return {.problem = *problem};
    return {.record = record_of(at)};
  } catch (const json::exception&) {
    return {.problem = "the line is not valid JSON, or truncated"};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

}  // namespace jitstep::jit
