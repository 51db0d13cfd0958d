// jitstep cache: lists, verifies, explains and trims compiled kernels on disk.
#include <jit/base/private_files.h>
#include <jit/base/scratch.h>
#include <jit/base/text.h>
#include <jit/cache/disk_cache.h>
#include <jit/cache/explain.h>
#include <jit/engine/module.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/actions.h"
#include "command.h"
#include "compilers.h"
#include "json_output.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using namespace cache;
using Entries = std::vector<ListedEntry>;

std::string time_text(std::chrono::system_clock::time_point time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
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

nlohmann::json to_json(const Entries& entries) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedEntry& entry : entries) all.push_back(to_json(entry));
  return all;
}

void print_line(const ListedEntry& entry) {
  const bool known = entry.header.has_value();
  std::cout << digest_of(entry).substr(0, 12) << "  " << std::setw(9) << entry.file.bytes << "  "
            << time_text(entry.file.used, "%Y-%m-%d %H:%M") << "  " << std::setw(8)
            << (known ? to_string(entry.header->key.target) : "?") << "  "
            << (known ? entry.header->name : "?") << (entry.readonly ? "  (read-only layer)" : "")
            << (entry.problem.empty() ? "" : "  [" + entry.problem + "]") << "\n";
}

std::uint64_t bytes_of(const Entries& entries) {
  std::uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) bytes += entry.file.bytes;
  return bytes;
}

std::string count_text(const Entries& entries) {
  return str_cat(counted(entries.size(), "entry", "entries"), ", ",
                 counted(bytes_of(entries), "byte"));
}

int list(bool json) {
  const Entries entries = DiskCache(settings()).list(false);
  if (json) {
    std::cout << json_text({{"entries", to_json(entries)}});
    return kSuccess;
  }
  if (!entries.empty()) std::cout << "key               bytes  last used, UTC    target    name\n";
  for (const ListedEntry& entry : entries) print_line(entry);
  std::cout << count_text(entries) << "\n";
  return 0;
}

// An error that appears only when a kernel is loaded, such as a missing shared library. Checks CPU kernels only:
// emulated kernels need the emulator's symbols, and CUDA kernels need a GPU.
std::string loading_problem(const ListedEntry& listed) {
  const auto entry = content_of(listed);
  if (!entry || listed.header->key.target.kind != Target::Kind::cpu) return {};
  try {
    load_host_module(entry->binary.image, entry->name, scratch_folders(settings()));
    return {};
  } catch (const ImageError& error) {
    return error.what();
  } catch (const Error& error) {  // a failure of the system, such as a full disk, not of the entry
    std::cerr << "jitstep: " << listed.file.path << " was not loaded: " << error.what() << "\n";
    return {};
  }
}

int verify(bool json) {
  Entries entries = DiskCache(settings()).list(true);
  for (ListedEntry& entry : entries)
    if (entry.problem.empty()) entry.problem = loading_problem(entry);
  const auto is_bad = [](const ListedEntry& entry) { return !entry.problem.empty(); };
  const auto bad = std::count_if(entries.begin(), entries.end(), is_bad);
  if (json) {
    std::cout << json_text({{"entries", to_json(entries)}});
  } else {
    for (const ListedEntry& entry : entries) {
      if (is_bad(entry)) std::cout << entry.file.path << ": " << entry.problem << "\n";
    }
    std::cout << count_text(entries) << ", " << bad << " unusable\n";
  }
  return bad == 0 ? kSuccess : kFailure;
}

// ---- explain -----------------------------------------------------------------------------------

// The identity of this machine's compiler for a target, or the reason why there is none.
struct Found {
  std::string identity, problem;
};

Found compiler_here(const Target& target) {
  try {
    return {compiler_identity(target, settings()), ""};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

// Replaces the entry's sources by the files with the same name, as load_rule and load_codec do.
void add_files(const EntryHeader& header, const std::vector<std::string>& files,
               TemplateStore& templates) {
  for (const std::string& file : files) {
    for (const auto& [name, digest] : header.sources) {
      if (std::filesystem::path(name).filename() == std::filesystem::path(file).filename())
        templates.add(name, read_code_file(file));
    }
  }
}

// Why a program would not use an entry now, and which sources could not be compared.
struct Explanation {
  const ListedEntry* entry;
  std::string no_compiler;  // why no compiler was found; empty if one was
  std::vector<std::string> reasons, unknown;
};

Explanation explained(const ListedEntry& entry, const std::vector<std::string>& files) {
  if (!entry.problem.empty()) return {&entry, "", {entry.problem}, {}};
  const EntryHeader& header = *entry.header;
  const Found compiler = compiler_here(header.key.target);
  const bool known = compiler.problem.empty();
  TemplateStore templates(settings().templates);
  add_files(header, files, templates);
  const EntryHeader current =
      renewed(header, templates, known ? compiler.identity : header.key.compiler);
  return {&entry, compiler.problem, differences(header, current),
          unknown_sources(header.sources, templates)};
}

void print(const Explanation& one) {
  print_line(*one.entry);
  if (!one.no_compiler.empty()) std::cout << "  no compiler here: " << one.no_compiler << "\n";
  for (const std::string& reason : one.reasons) std::cout << "  not used: " << reason << "\n";
  if (one.reasons.empty()) std::cout << "  used for the same source\n";
  for (const std::string& name : one.unknown)
    std::cout << "  not compared: " << name
              << ", which does not ship with jitstep. Give the file by --load.\n";
}

nlohmann::json to_json(const Explanation& one) {
  nlohmann::json out = to_json(*one.entry);
  out.update({{"used", one.reasons.empty()},
              {"not_used_because", one.reasons},
              {"not_compared", one.unknown},
              {"no_compiler", one.no_compiler}});
  return out;
}

int explain(const std::string& prefix, const std::vector<std::string>& files, bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedEntry& entry : DiskCache(settings()).list(true)) {
    if (!matches(entry, prefix)) continue;
    const Explanation one = explained(entry, files);
    all.push_back(to_json(one));
    if (!json) print(one);
  }
  if (all.empty()) throw no_entry(prefix);
  if (json) std::cout << json_text({{"entries", all}});
  return kSuccess;
}

// ---- trim, clear -------------------------------------------------------------------------------

Entries own_entries(DiskCache& cache) {
  Entries entries = cache.list(false);
  std::erase_if(entries, [](const ListedEntry& entry) { return entry.readonly; });
  return entries;
}

nlohmann::json size_json(const Entries& entries) {
  return {{"entries", entries.size()}, {"bytes", bytes_of(entries)}};
}

// Returns kFailure if the remaining entries are larger than `bytes`, for example because a delete failed.
template <class Delete>
int shrink(std::uint64_t bytes, bool json, const Delete& delete_some) {
  DiskCache cache(settings());
  const Entries before = own_entries(cache);
  if (!json) std::cout << "before: " << count_text(before) << "\n";
  delete_some(cache);
  const Entries left = own_entries(cache);
  if (json) std::cout << json_text({{"before", size_json(before)}, {"after", size_json(left)}});
  if (!json) std::cout << "after:  " << count_text(left) << "\n";
  return bytes_of(left) <= bytes ? kSuccess : kFailure;
}

int trim(std::uint64_t bytes, bool json) {
  return shrink(bytes, json, [&](DiskCache& cache) { cache.trim(bytes); });
}

int clear(bool json) {
  return shrink(0, json, [](DiskCache& cache) { cache.clear(); });
}

std::shared_ptr<bool> json_flag(CLI::App& command) {
  const auto json = std::make_shared<bool>(false);
  add_json_flag(command, *json);
  return json;
}

void add_explain(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand(
      "explain", "Explain why the current templates and compiler do or do not use an entry");
  const auto prefix = std::make_shared<std::string>();
  command->add_option("entry", *prefix, "Beginning of a kernel's name or key")
      ->type_name("ENTRY")
      ->required();
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("--load", *files, "File of a rule or codec that your program loads")
      ->type_name("FILE")
      ->allow_extra_args(false);
  const auto json = json_flag(*command);
  command->callback([prefix, files, json, &status] { status = explain(*prefix, *files, *json); });
}

void add_trim(CLI::App& cache, int& status) {
  CLI::App* const command =
      cache.add_subcommand("trim", "Delete the least recently used entries above a size");
  const CLI::Validator is_size(
      [](std::string& size) {
        const std::string given = size;
        try {
          if (!given.starts_with("-")) return CLI::AsSizeValue(false)(size);
        } catch (const CLI::ValidationError&) {  // it names all units that it knows
        }
        return str_cat("\"", given, "\" is not a size. Write it as in 200MB");
      },
      "");
  const auto bytes = std::make_shared<std::uint64_t>(Settings().cache_bytes);
  command->add_option("--max-size", *bytes, "Size to keep, as in 200MB; 1 KB is 1024 bytes")
      ->transform(is_size)
      ->type_name("SIZE")
      ->capture_default_str();
  const auto json = json_flag(*command);
  command->callback([bytes, json, &status] { status = trim(*bytes, *json); });
}

constexpr const char* kFooter =
    "The cache is in JITSTEP_CACHE_DIR, below it JITSTEP_CACHE_READONLY. A cache folder that "
    "jitstep\n"
    "rejects, for example because others may write to it, gives exit status 1.\n\n"
    "Examples:\n"
    "  jitstep cache list\n"
    "  jitstep cache trim --max-size 200MB\n"
    "  jitstep cache warm --rule adamw --state int8 --target cpu,sm_90\n"
    "  jitstep cache export shipped";

}  // namespace

void add_cache_command(CLI::App& app, int& status) {
  CLI::App* const cache = add_command(app, kMaintain, "cache", "Manage compiled kernels");
  need_subcommand(*cache);
  for (const auto& [name, what, run] :
       {std::tuple{"list", "List all entries", &list},
        std::tuple{"verify", "Read all entries, and fail if one is unusable", &verify}}) {
    CLI::App* const command = cache->add_subcommand(name, what);
    const auto json = json_flag(*command);
    command->callback([json, &status, run = run] { status = run(*json); });
  }
  add_explain(*cache, status);
  add_show(*cache, status);
  add_warm(*cache, status);
  add_export(*cache, status);
  add_trim(*cache, status);
  CLI::App* const clearing =
      cache->add_subcommand("clear", "Delete all entries, except in the read-only layer");
  const auto json = json_flag(*clearing);
  clearing->callback([json, &status] { status = clear(*json); });
  cache->footer(kFooter);
}

}  // namespace jitstep::tool
