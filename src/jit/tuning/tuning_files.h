// Reads files of tuning records, and adds records to a file that several processes may write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/base/private_files.h"
#include "jit/base/problem.h"
#include "jit/tuning/tuning_record.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// The largest file of records that is read.
inline constexpr std::uint64_t kMostRecordBytes = 64 << 20;

/// The content of a file of records.
struct JITSTEP_API RecordFile {
  std::vector<TuningRecord> records = {};
  std::vector<std::string> newer = {};     // unchanged lines of newer schemas
  std::vector<std::string> damaged = {};   // unchanged other lines that are no records
  std::vector<std::string> problems = {};  // "tuning.jsonl:3: hardware.units is 0, less than 1"
};

/// Parses the lines of a text. `name`: the file's name in the problems. Skips empty lines. Never throws for invalid
/// content.
JITSTEP_API RecordFile parse_records(std::string_view content, const std::string& name);

/// Reads a file. Returns an empty RecordFile for a file that does not exist or that other users may write.
JITSTEP_API RecordFile read_records(const std::string& path, Trust trust = Trust::own);

/// The file of the user's records: tuning.jsonl in the cache folder. Empty if there is no cache folder.
JITSTEP_API std::string user_records(const Settings& settings);

/// A source of records.
struct RecordSource {
  std::string name;  // path of a file, or name of a built-in file
  RecordFile file;
};

/// The sources of records for an engine with these settings, in the order of precedence: the user's file, the file of
/// the read-only cache, the built-in files. A file that is too long, or that other users may write, is not read
/// and gets an entry in `problems`.
JITSTEP_API std::vector<RecordSource> record_sources(const Settings& settings);

/// Logs one warning if lines of the file are skipped. `name`: as for parse_records().
JITSTEP_API void warn_of_skipped_lines(const RecordFile& file, const std::string& name,
                                       LogLevel level);

/// Why add_record() rejects a file: its folder, which is made, its kind, its permissions, or its content other than
/// records. Empty for a missing or empty file in a folder that only this user can write to.
JITSTEP_API Problem records_problem(const std::string& path);

/// Adds a record, and removes the records that it replaces. Several processes may call it at the same time without
/// losing records. Lines of newer schemas and damaged lines stay. The file is replaced atomically. Returns the
/// reason if the file cannot be written, or if another process holds its lock for a few seconds.
JITSTEP_API Problem add_record(const std::string& path, const TuningRecord& record);
/// The same for several records, in one write.
JITSTEP_API Problem add_records(const std::string& path, const std::vector<TuningRecord>& records);

}  // namespace jitstep::jit
