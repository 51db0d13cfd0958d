// What was measured of one kernel on one machine: a line of JSON. tuning/RECORD_FORMAT.md describes it,
// tuning/record.schema.json is its law.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jit/codegen/config_search.h"
#include "jit/codegen/hardware.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// The schema of the records that this version writes.
inline constexpr int kRecordSchema = 1;

/// What a record was made with. Another compiler or library still gives good hints, other templates less so.
struct RecordVersions {
  std::string jitstep;
  std::string compiler;   // one line; empty: not known
  std::string templates;  // digest of all texts that the kernel is made of

  bool operator==(const RecordVersions&) const = default;
};

/// The tuning of one kernel at one size.
struct JITSTEP_API TuningRecord {
  std::string kernel;  // its plan's name, for readers
  std::string spec;    // to_string of its plan's spec: equal for equal kernels
  WorkSize size = {};
  Hardware hardware = {};
  RecordVersions versions = {};
  std::string strategy;
  std::string date;       // 2026-11-23
  bool complete = false;  // false: the tuner was interrupted
  Outcome outcome = Outcome::unresolved;
  KernelConfig config = {};  // how the kernel is to be run: the winner, or the default
  double gain = 1;  // the default's time over the winner's in the second trial; 1 without a winner
  double spread = 0;  // of that trial: TrialTimes::spread
  std::vector<Trial> trials = {};

  /// Whether both are of the same kernel, size, machine and versions: then the later one replaces the other.
  bool replaces(const TuningRecord& other) const;
  bool operator==(const TuningRecord&) const = default;
};

/// The record with what a tournament has come to so far.
JITSTEP_API TuningRecord record_of(const ConfigSearch& tournament, TuningRecord record);

/// The current date (UTC), as records have it.
JITSTEP_API std::string today();

/// One line of JSON without its end, the fields in the order of the schema.
JITSTEP_API std::string to_json(const TuningRecord& record);

/// A line that was read. One of a newer schema is kept for those who know it, but says nothing here.
struct JITSTEP_API RecordLine {
  std::optional<TuningRecord> record = {};
  bool newer = false;
  std::string problem = {};  // why there is no record: "hardware.units is 0, less than 1"
};

/// Reads one line. Never throws, whatever it holds.
JITSTEP_API RecordLine read_record(const std::string& line);

}  // namespace jitstep::jit
