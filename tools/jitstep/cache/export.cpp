// jitstep cache export: a read-only cache for other machines.
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

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

void copy(const ListedEntry& entry, const fs::path& folder) {
  const auto bytes = read_trusted(entry.file.path, Trust::own_or_root, kLargestEntry);
  if (!bytes) throw Error(str_cat("cannot read ", entry.file.path));
  const fs::path to = folder / fs::path(entry.file.path).filename();
  if (auto problem = write_atomically(to.string(), *bytes)) throw Error(*problem);
  publish(to);
}

int run(const Request& request) {
  std::vector<ListedEntry> entries = DiskCache(settings()).list(true);
  std::erase_if(entries, [&](const ListedEntry& entry) {
    const auto& prefixes = request.prefixes;
    return !entry.problem.empty() ||
           (!prefixes.empty() &&
            std::none_of(prefixes.begin(), prefixes.end(),
                         [&](const auto& prefix) { return matches(entry, prefix); }));
  });
  if (entries.empty())
    throw Error("there is no entry to export. `jitstep cache warm` compiles kernels.");
  make(request.folder);
  std::uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) {
    copy(entry, request.folder);
    bytes += entry.file.bytes;
  }
  const std::size_t count = entries.size();
  if (request.as_json)
    std::cout << json_text({{"folder", request.folder}, {"entries", count}, {"bytes", bytes}});
  else
    std::cout << counted(count, "entry", "entries") << ", " << counted(bytes, "byte") << " in "
              << request.folder << "\nSet JITSTEP_CACHE_READONLY=" << request.folder
              << " to use it. On another machine, the files must belong to the user or to root.\n";
  return kSuccess;
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
