// jitstep cache: what is in the cache folders, whether it is whole, why it would not be used, and
// how to make room.
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/cache/disk_cache.h>
#include <jit/cache/explain.h>
#include <jit/compiler/host_compiler.h>
#include <jit/compiler/nvrtc_compiler.h>
#include <jit/engine/cuda_driver.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using Entries = std::vector<ListedEntry>;

// The environment's, but a folder that is refused is always told.
Settings settings() {
  Settings found = Settings::from_environment();
  found.log = std::max(found.log, LogLevel::warn);
  return found;
}

std::string digest_of(const ListedEntry& entry) {
  return std::filesystem::path(entry.file.path).stem().string();
}

std::string time_text(std::chrono::system_clock::time_point time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char word[32];
  std::strftime(word, sizeof word, format, &parts);
  return word;
}

// ---- list, verify ------------------------------------------------------------------------------

nlohmann::json to_json(const ListedEntry& entry) {
  nlohmann::json out = {
      {"key", digest_of(entry)},    {"file", entry.file.path},
      {"bytes", entry.file.bytes},  {"last_used", time_text(entry.file.used, "%Y-%m-%dT%H:%M:%SZ")},
      {"readonly", entry.readonly}, {"problem", entry.problem}};
  if (entry.header) {
    out["name"] = entry.header->name;
    out["target"] = to_string(entry.header->key.target);
    out["compiler"] = entry.header->key.compiler;
    out["compile_ms"] = entry.header->compile_ms;
  }
  return out;
}

void print_json(const Entries& entries) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedEntry& entry : entries) all.push_back(to_json(entry));
  std::cout << all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_line(const ListedEntry& entry) {
  const bool known = entry.header.has_value();
  std::cout << digest_of(entry).substr(0, 12) << "  " << std::setw(9) << entry.file.bytes << "  "
            << time_text(entry.file.used, "%Y-%m-%d %H:%M") << "  " << std::setw(8)
            << (known ? to_string(entry.header->key.target) : "?") << "  "
            << (known ? entry.header->name : "?") << (entry.readonly ? "  (read-only layer)" : "")
            << (entry.problem.empty() ? "" : "  [" + entry.problem + "]") << "\n";
}

std::string count_text(const Entries& entries) {
  std::uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) bytes += entry.file.bytes;
  return text(entries.size(), entries.size() == 1 ? " entry, " : " entries, ", bytes, " bytes");
}

int list(bool json) {
  const Entries entries = DiskCache(settings()).list(false);
  if (json) return print_json(entries), 0;
  if (!entries.empty()) std::cout << "key               bytes  last used, UTC    target    name\n";
  for (const ListedEntry& entry : entries) print_line(entry);
  std::cout << count_text(entries) << "\n";
  return 0;
}

int verify(bool json) {
  const Entries entries = DiskCache(settings()).list(true);
  const auto is_bad = [](const ListedEntry& entry) { return !entry.problem.empty(); };
  const auto bad = std::count_if(entries.begin(), entries.end(), is_bad);
  if (json) {
    print_json(entries);
  } else {
    for (const ListedEntry& entry : entries) {
      if (is_bad(entry)) std::cout << entry.file.path << ": " << entry.problem << "\n";
    }
    std::cout << count_text(entries) << ", " << bad << " never used\n";
  }
  return bad == 0 ? 0 : 1;
}

// ---- explain -----------------------------------------------------------------------------------

// The identity of this machine's compiler for a target, or why there is none.
struct Found {
  std::string identity, problem;
};

Found compiler_here(const Target& target) {
  try {
    if (target.is_cuda()) {
      NvrtcCompiler nvrtc(settings(), [] { return installed_driver_version(); });
      return {nvrtc.identity(target), ""};
    }
    return {HostCompiler(settings()).identity(target), ""};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

// Puts the files in the places of the entry's sources of the same name, as load_rule and load_codec do.
void add_files(const EntryHeader& header, const std::vector<std::string>& files,
               TemplateStore& templates) {
  for (const std::string& file : files) {
    for (const auto& [name, digest] : header.sources) {
      if (std::filesystem::path(name).filename() == std::filesystem::path(file).filename())
        templates.add(name, read_code_file(file));
    }
  }
}

void explain_whole(const EntryHeader& header, const std::vector<std::string>& files) {
  const Found compiler = compiler_here(header.key.target);
  const bool known = compiler.problem.empty();
  if (!known) std::cout << "  no compiler here: " << compiler.problem << "\n";
  TemplateStore templates(settings().templates);
  add_files(header, files, templates);
  const auto changes = differences(
      header, renewed(header, templates, known ? compiler.identity : header.key.compiler));
  for (const std::string& change : changes) std::cout << "  not used: " << change << "\n";
  if (changes.empty()) std::cout << "  used for a unit of the same text\n";
  for (const std::string& name : unknown_sources(header.sources, templates))
    std::cout << "  not compared: " << name
              << ", which does not ship: name the file that your program loads with --with\n";
}

void explain_one(const ListedEntry& entry, const std::vector<std::string>& files) {
  print_line(entry);
  if (!entry.problem.empty()) {
    std::cout << "  not used: " << entry.problem << "\n";
  } else {
    explain_whole(*entry.header, files);
  }
}

int explain(const std::string& asked_for, const std::vector<std::string>& files) {
  int found = 0;
  for (const ListedEntry& entry : DiskCache(settings()).list(true)) {
    const bool asked = digest_of(entry).starts_with(asked_for) ||
                       (entry.header && entry.header->name.starts_with(asked_for));
    if (!asked) continue;
    explain_one(entry, files);
    ++found;
  }
  if (found > 0) return 0;
  std::cout << "no entry's name or key starts with '" << asked_for
            << "'; `jitstep cache list` shows them all\n";
  return 1;
}

// ---- trim, clear -------------------------------------------------------------------------------

Entries own_entries(DiskCache& cache) {
  Entries entries = cache.list(false);
  std::erase_if(entries, [](const ListedEntry& entry) { return entry.readonly; });
  return entries;
}

// Fails if entries had to stay.
int trim(std::uint64_t bytes) {
  DiskCache cache(settings());
  std::cout << "before: " << count_text(own_entries(cache)) << "\n";
  cache.trim(bytes);
  const Entries left = own_entries(cache);
  std::cout << "now:    " << count_text(left) << "\n";
  std::uint64_t total = 0;
  for (const ListedEntry& entry : left) total += entry.file.bytes;
  return total <= bytes ? 0 : 1;
}

}  // namespace

void add_cache_command(CLI::App& app, int& status) {
  CLI::App* const cache = app.add_subcommand(
      "cache", "The folders of compiled kernels, as JITSTEP_CACHE_DIR and the like name them");
  cache->require_subcommand(1);
  for (const auto& [name, what, run] :
       {std::tuple{"list", "Shows all entries: key, size, when last used, target, name", &list},
        std::tuple{"verify", "Reads all entries; fails if one is damaged or not to be trusted",
                   &verify}}) {
    CLI::App* const command = cache->add_subcommand(name, what);
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "Prints an array of objects, one for each entry");
    command->callback([json, &status, run = run] { status = run(*json); });
  }

  CLI::App* const explain_command = cache->add_subcommand(
      "explain", "Says why entries would not be used with the templates and compiler of today");
  const auto asked_for = std::make_shared<std::string>();
  explain_command->add_option("entry", *asked_for, "The start of a unit's name or of a key")
      ->required();
  const auto files = std::make_shared<std::vector<std::string>>();
  explain_command->add_option("--with", *files,
                              "Files of rules and codecs that your program loads");
  explain_command->callback([asked_for, files, &status] { status = explain(*asked_for, *files); });

  CLI::App* const trim_command = cache->add_subcommand(
      "trim", "Deletes the entries unused for longest if all together are larger than a limit");
  const CLI::Validator not_negative(
      [](const std::string& size) {
        return size.starts_with("-") ? "a size is not negative" : std::string();
      },
      "");
  const auto bytes = std::make_shared<std::uint64_t>(Settings().cache_bytes);
  trim_command->add_option("--to", *bytes, "The limit, such as 200MB (1 KB is 1024 bytes)")
      ->transform(CLI::AsSizeValue(false))
      ->transform(not_negative)  // first: sizes are unsigned
      ->capture_default_str();
  trim_command->callback([bytes, &status] { status = trim(*bytes); });
  cache->add_subcommand("clear", "Deletes all entries but those of the read-only layer")
      ->callback([&status] { status = trim(0); });
}

}  // namespace jitstep::tool
