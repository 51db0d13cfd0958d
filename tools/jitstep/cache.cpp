// jitstep cache: what is in the cache folders, whether it is whole, why it would not be used, and
// how to make room.
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

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using namespace cache;
using Entries = std::vector<ListedEntry>;

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

void print_json(const nlohmann::json& all) {
  std::cout << all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
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
  return text(entries.size(), entries.size() == 1 ? " entry, " : " entries, ", bytes_of(entries),
              " bytes");
}

int list(bool json) {
  const Entries entries = DiskCache(settings()).list(false);
  if (json) return print_json(to_json(entries)), 0;
  if (!entries.empty()) std::cout << "key               bytes  last used, UTC    target    name\n";
  for (const ListedEntry& entry : entries) print_line(entry);
  std::cout << count_text(entries) << "\n";
  return 0;
}

// What only loading tells, such as a library that is not here. Others' kernels need the program that emulates, or a GPU.
std::string loading_problem(const ListedEntry& listed) {
  const auto entry = content_of(listed);
  if (!entry || listed.header->key.target.kind != Target::Kind::cpu) return {};
  try {
    load_host_module(entry->binary.image, entry->name, scratch_folders(settings()));
    return {};
  } catch (const ImageError& error) {
    return error.what();
  } catch (const Error& error) {  // of the machine, such as no memory: says nothing about the entry
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
    print_json(to_json(entries));
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
    return {compiler_identity(target, settings()), ""};
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

// Why an entry would not be used today, and what could not be compared.
struct Explanation {
  const ListedEntry* entry;
  std::string no_compiler;  // why there is none; empty if there is one
  std::vector<std::string> reasons, unknown;
};

Explanation explained(const ListedEntry& entry, const std::vector<std::string>& files) {
  if (!entry.problem.empty()) return {&entry, "", {entry.problem}, {}};
  const EntryHeader& header = *entry.header;
  const Found compiler = compiler_here(header.key.target);
  const bool known = compiler.problem.empty();
  TemplateStore templates(settings().templates);
  add_files(header, files, templates);
  const EntryHeader today =
      renewed(header, templates, known ? compiler.identity : header.key.compiler);
  return {&entry, compiler.problem, differences(header, today),
          unknown_sources(header.sources, templates)};
}

void print(const Explanation& one) {
  print_line(*one.entry);
  if (!one.no_compiler.empty()) std::cout << "  no compiler here: " << one.no_compiler << "\n";
  for (const std::string& reason : one.reasons) std::cout << "  not used: " << reason << "\n";
  if (one.reasons.empty()) std::cout << "  used for a unit of the same text\n";
  for (const std::string& name : one.unknown)
    std::cout << "  not compared: " << name
              << ", which does not ship: name the file that your program loads with --with\n";
}

nlohmann::json to_json(const Explanation& one) {
  nlohmann::json out = to_json(*one.entry);
  out.update({{"used", one.reasons.empty()},
              {"not_used_because", one.reasons},
              {"not_compared", one.unknown},
              {"no_compiler", one.no_compiler}});
  return out;
}

int explain(const std::string& asked_for, const std::vector<std::string>& files, bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedEntry& entry : DiskCache(settings()).list(true)) {
    if (!is_asked(entry, asked_for)) continue;
    const Explanation one = explained(entry, files);
    all.push_back(to_json(one));
    if (!json) print(one);
  }
  if (json) print_json(all);
  if (!all.empty()) return 0;
  (json ? std::cerr : std::cout) << "no entry's name or key starts with '" << asked_for
                                 << "'; `jitstep cache list` shows them all\n";
  return 1;
}

// ---- trim, clear -------------------------------------------------------------------------------

Entries own_entries(DiskCache& cache) {
  Entries entries = cache.list(false);
  std::erase_if(entries, [](const ListedEntry& entry) { return entry.readonly; });
  return entries;
}

nlohmann::json counted(const Entries& entries) {
  return {{"entries", entries.size()}, {"bytes", bytes_of(entries)}};
}

// Fails if entries had to stay.
int trim(std::uint64_t bytes, bool json) {
  DiskCache cache(settings());
  const Entries before = own_entries(cache);
  if (!json) std::cout << "before: " << count_text(before) << "\n";
  cache.trim(bytes);
  const Entries left = own_entries(cache);
  if (json) print_json({{"before", counted(before)}, {"now", counted(left)}});
  if (!json) std::cout << "now:    " << count_text(left) << "\n";
  return bytes_of(left) <= bytes ? 0 : 1;
}

std::shared_ptr<bool> json_flag(CLI::App& command, const char* what) {
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, what);
  return json;
}

}  // namespace

void add_cache_command(CLI::App& app, int& status) {
  CLI::App* const cache = app.add_subcommand(
      "cache", "The folders of compiled kernels, as JITSTEP_CACHE_DIR and the like name them");
  need_subcommand(*cache);
  for (const auto& [name, what, run] :
       {std::tuple{"list", "Shows all entries: key, size, when last used, target, name", &list},
        std::tuple{"verify", "Reads all entries; fails if one is damaged or not to be trusted",
                   &verify}}) {
    CLI::App* const command = cache->add_subcommand(name, what);
    const auto json = json_flag(*command, "Prints an array of objects, one for each entry");
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
  const auto explain_json = json_flag(*explain_command, "Prints an array of objects");
  explain_command->callback([asked_for, files, explain_json, &status] {
    status = explain(*asked_for, *files, *explain_json);
  });

  add_show(*cache, status);
  add_warm(*cache, status);
  add_export(*cache, status);

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
  const auto trim_json = json_flag(*trim_command, "Prints one object");
  trim_command->callback([bytes, trim_json, &status] { status = trim(*bytes, *trim_json); });
  CLI::App* const clear_command =
      cache->add_subcommand("clear", "Deletes all entries but those of the read-only layer");
  const auto clear_json = json_flag(*clear_command, "Prints one object");
  clear_command->callback([clear_json, &status] { status = trim(0, *clear_json); });
}

}  // namespace jitstep::tool
