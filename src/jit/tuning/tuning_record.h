// A tuning record: the measurements of one kernel on one machine, as a line of JSON. tuning/RECORD_FORMAT.md describes
// the format. tuning/record.schema.json defines it, and a test checks that read_record() agrees with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jit/tuning/hardware.h"
#include "jit/tuning/trial.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// The schema of the records that this version writes.
inline constexpr int kRecordSchema = 1;

/// The strategy of records whose times are those of an optimizer's whole steps.
inline constexpr const char* kInSteps = "in steps";

/// Versions at the time of the measurement. A record of another compiler or library is still useful, one of other
/// templates less so.
struct RecordVersions {
  std::string jitstep;
  std::string compiler;   // one line; empty: unknown
  std::string templates;  // digest of the kernel's preprocessed source

  bool operator==(const RecordVersions&) const = default;
};

/// The tuning of one kernel at one size.
struct JITSTEP_API TuningRecord {
  std::string kernel;  // the plan's name, informational
  std::string spec;    // to_string() of the plan's spec: equal for equal kernels
  WorkSize size = {};
  Hardware hardware = {};
  RecordVersions versions = {};
  std::string strategy;   // of `jitstep tune`, or kInSteps
  std::string date;       // 2026-11-23
  bool complete = false;  // false: candidates were left out
  Outcome outcome = Outcome::unresolved;
  KernelConfig config = {};  // the winner, or the default
  double gain = 1;    // default's time / winner's time in the confirmation; 1 without a winner
  double spread = 0;  // TrialTimes::spread of the confirmation
  std::vector<Trial> trials = {};

  /// Whether both have the same kernel, size, machine and versions. The later record then replaces the earlier one.
  bool replaces(const TuningRecord& other) const;
  bool operator==(const TuningRecord&) const = default;
};

/// The current date (UTC) in the form of records.
JITSTEP_API std::string today();

/// One line of JSON without a line end. The fields have the order of the schema.
JITSTEP_API std::string to_json(const TuningRecord& record);

/// A parsed line. The record is empty for a line of a newer schema, which add_record() preserves for newer versions.
struct JITSTEP_API RecordLine {
  std::optional<TuningRecord> record = {};
  bool newer = false;
  std::string problem = {};  // why the record is empty: "hardware.units is 0, less than 1"
};

/// Parses one line. Never throws for invalid content.
JITSTEP_API RecordLine read_record(const std::string& line);

}  // namespace jitstep::jit
