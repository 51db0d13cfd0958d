// Files of tuning records: reading them, and adding to one that other processes add to as well.
#pragma once

#include <string>
#include <vector>

#include "jit/base/private_files.h"
#include "jit/codegen/tuning_record.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// What a file of records holds.
struct JITSTEP_API RecordFile {
  std::vector<TuningRecord> records = {};
  std::vector<std::string> newer = {};     // lines of newer schemas, as they are
  std::vector<std::string> problems = {};  // "tuning.jsonl:3: hardware.units is 0, less than 1"
};

/// Reads the lines of a text; `name` is for the problems. Empty lines are skipped. Never throws for what it reads.
JITSTEP_API RecordFile parse_records(std::string_view content, const std::string& name);

/// Reads a file; one that is not there, or that others may write to, holds nothing.
JITSTEP_API RecordFile read_records(const std::string& path, Trust trust = Trust::own);

/// Where the user's records lie: tuning.jsonl in the cache folder; empty if there is none.
JITSTEP_API std::string user_records(const Settings& settings);

/// A place that records come from.
struct RecordSource {
  std::string name;  // a file's path, or its name among those that ship
  RecordFile file;
};

/// Where steps of an engine with these settings have records from, in the order in which they count: the user's file,
/// that of the read-only layer, those that ship. A file that is not read, as others may write to it or it is too
/// long, is a problem here.
JITSTEP_API std::vector<RecordSource> record_sources(const Settings& settings);

/// Why no record is added to a file: it holds something else. Nothing where there is none, or an empty one.
JITSTEP_API std::optional<std::string> foreign_records(const std::string& path);

/// Adds a record, in the place of one that it replaces. Other processes may do the same at the same time: nothing
/// of theirs is lost, nor lines of newer schemas; what was damaged is left out. The file is whole at any time. The
/// reason, if it cannot be written.
JITSTEP_API std::optional<std::string> add_record(const std::string& path,
                                                  const TuningRecord& record);

}  // namespace jitstep::jit
