#include "measured.h"

#include <jit/base/text.h>
#include <jit/base/text_table.h>

#include <nlohmann/json.hpp>

#include "../machine_records.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

// Seconds per step in the config that the record selects. 0 if unknown.
double seconds_of(const TuningRecord& record) {
  for (const Trial& trial : record.trials) {
    if (trial.times.rounds == 0) continue;
    if (record.outcome != Outcome::won) return trial.times.default_seconds;
    if (trial.config == record.config) return trial.times.seconds;
  }
  return 0;
}

std::vector<std::string> row_of(const TuningRecord& record) {
  const double seconds = seconds_of(record);
  return {str_cat(record.size.elements),
          str_cat(record.size.tensors),
          seconds > 0 ? fixed(1e3 * seconds, 4) : "",
          fixed(record.gain, 3),
          fixed(record.spread, 3),
          to_string(record.outcome),
          to_string(record.config),
          str_cat(record.hardware.name, " (", units_text(record.hardware), ")"),
          record.date};
}

}  // namespace

std::string records_text(const Subject& subject) {
  std::vector<std::vector<std::string>> rows = {{"elements", "tensors", "ms", "gain", "spread",
                                                 "outcome", "configuration", "machine", "date"}};
  for (const TuningRecord& record : records_of(subject.plan, subject.target))
    rows.push_back(row_of(record));
  if (rows.size() == 1)
    return str_cat("there is no tuning record of this kernel for ", to_string(subject.target),
                   ". Run `jitstep tune`.\n");
  return text_table(rows, {0, 1, 2, 3, 4});
}

nlohmann::json records_json(const Subject& subject) {
  nlohmann::json all = nlohmann::json::array();
  for (const TuningRecord& record : records_of(subject.plan, subject.target))
    all.push_back(nlohmann::json::parse(to_json(record)));
  return all;
}

}  // namespace jitstep::tool::inspect
