// jitstep cache export: a read-only cache for other machines.
#include <jit/base/file_io.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/tuning/tuning_files.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "../command.h"
#include "../in_range.h"
#include "../json_output.h"
#include "../usage.h"
#include "actions.h"

namespace jitstep::tool::cache {
namespace {

using namespace jitstep::jit;
namespace fs = std::filesystem;

struct Request {
  std::string folder;
  std::vector<std::string> prefixes;  // of names and keys; empty: all entries
  bool as_json = false;
};

// Makes a file readable by everybody and writable by its owner.
void publish(const fs::path& path, fs::perms execute = fs::perms::none) {
  std::error_code failure;
  fs::permissions(path,
                  fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read |
                      fs::perms::others_read | execute,
                  failure);
  if (failure)
    throw Error(str_cat("cannot let others read ", path.string(), ": ", failure.message()));
}

// The folder and those that have it, as far as they do not exist.
std::vector<fs::path> missing(const fs::path& folder) {
  std::vector<fs::path> all;
  const fs::path whole = absolute_folder(folder);
  for (fs::path one = whole.lexically_normal(); !one.empty() && !fs::exists(one);
       one = one.parent_path())
    all.push_back(one);
  return all;
}

// Others can enter what this makes. A folder that exists keeps its permissions.
void make(const fs::path& folder) {
  const std::vector<fs::path> created = missing(folder);
  if (auto problem = make_own_folder(folder.string())) throw Error(*problem);
  for (const fs::path& one : created)
    publish(one, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec);
  const fs::perms now = fs::status(folder).permissions();
  if ((now & fs::perms::others_exec) == fs::perms::none)
    std::cerr << "jitstep: other users cannot enter " << folder.string()
              << ". To change that, run chmod go+rx on it.\n";
}

void copy_file(const std::string& path, const fs::path& folder) {
  std::string why;
  const auto bytes = read_trusted(path, Trust::own_or_root, kLargestEntry, &why);
  if (!bytes) throw Error(str_cat("cannot read ", path, ": ", why));
  const fs::path to = folder / fs::path(path).filename();
  if (auto problem = write_atomically(to.string(), *bytes)) throw Error(*problem);
  publish(to);
}

// The user's tuning records, which select kernels of the entries. Reports a file that cannot be read, and returns nothing
// then.
std::optional<std::vector<TuningRecord>> own_records() {
  const std::string own = user_records(settings());
  std::error_code ignored;
  if (own.empty() || !fs::exists(own, ignored)) return std::vector<TuningRecord>();
  std::string why;
  const auto bytes = read_trusted(own, Trust::own, kMostRecordBytes, &why);
  if (bytes) return parse_records(text_of(*bytes), own).records;
  std::cerr << "jitstep: left out " << own << ": " << why << "\n";
  return {};
}

// Adds records to those of the folder.
void add_to_folder(const std::vector<TuningRecord>& records, const std::string& folder) {
  if (records.empty()) return;
  Settings of_folder;
  of_folder.cache_dir = folder;
  const std::string to = user_records(of_folder);
  if (auto problem = add_records(to, records)) throw Error(*problem);
  std::error_code ignored;
  fs::remove(to + ".lock", ignored);
  publish(to);
}

// The entries that match a prefix, or all. Throws an Error for a prefix without an entry.
std::vector<ListedEntry> chosen(const std::vector<std::string>& prefixes) {
  const std::vector<ListedEntry> all = DiskCache(settings()).list(true);
  if (prefixes.empty()) return all;
  std::vector<ListedEntry> found;
  for (const std::string& prefix : prefixes) {
    const std::size_t before = found.size();
    for (const ListedEntry& entry : all)
      if (matches(entry, prefix)) found.push_back(entry);
    if (found.size() == before) throw no_entry(prefix);
  }
  return found;
}

int run(const Request& request) {
  std::vector<ListedEntry> entries = chosen(request.prefixes);
  const std::size_t damaged = std::erase_if(entries, [](const ListedEntry& entry) {
    if (!entry.problem.empty())
      std::cerr << "jitstep: left out " << entry.file.path << ": " << entry.problem << "\n";
    return !entry.problem.empty();
  });
  if (entries.empty())
    throw Error("there is no entry to export. `jitstep cache warm` compiles kernels.");
  make(request.folder);
  std::set<std::string> files;
  std::uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) {
    if (!files.insert(fs::path(entry.file.path).filename()).second) continue;
    copy_file(entry.file.path, request.folder);
    bytes += entry.file.bytes;
  }
  const auto read = own_records();
  const std::vector<TuningRecord> records = read.value_or(std::vector<TuningRecord>());
  add_to_folder(records, request.folder);
  if (request.as_json)
    std::cout << json_text({{"folder", request.folder},
                            {"entries", files.size()},
                            {"bytes", bytes},
                            {"records", records.size()}});
  else
    std::cout << counted(files.size(), "entry", "entries") << ", " << counted(bytes, "byte")
              << (!records.empty() ? ", " + counted(records.size(), "tuning record") : "") << " in "
              << request.folder
              << "\nSet JITSTEP_CACHE_READONLY=" << absolute_folder(request.folder)
              << " to use it. On another machine, the files must belong to the user or to root.\n";
  return damaged == 0 && read ? kSuccess : kFailure;
}

}  // namespace

void add_export(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand(
      "export", "Copy entries to a folder that you ship as JITSTEP_CACHE_READONLY");
  const auto request = std::make_shared<Request>();
  command->add_option("folder", request->folder, "The folder, which is created if it is missing")
      ->type_name("FOLDER")
      ->check(not_empty_argument())
      ->required();
  command->add_option("entry", request->prefixes, "Beginnings of names or keys (default: all)")
      ->type_name("ENTRY");
  add_json_flag(*command, request->as_json);
  command->callback([request, &status] { status = run(*request); });
}

}  // namespace jitstep::tool::cache
