// jitstep cache show: the compiler, the sources and the resources of an entry.
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/compiler/resource_json.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "../command.h"
#include "../in_range.h"
#include "../json_output.h"
#include "../usage.h"
#include "actions.h"

namespace jitstep::tool::cache {

using namespace jitstep::jit;
using nlohmann::json;

Settings settings() {
  Settings found = Settings::from_environment();
  found.log = std::max(found.log, LogLevel::warn);
  return found;
}

bool rejects_a_folder() { return !DiskCache::rejected(settings()).empty(); }

std::string digest_of(const ListedEntry& entry) {
  return std::filesystem::path(entry.file.path).stem().string();
}

Error no_entry(const std::string& prefix) {
  return Error(str_cat("no entry's name or key starts with \"", prefix,
                       "\". `jitstep cache list` lists all."));
}

bool matches(const ListedEntry& entry, const std::string& prefix) {
  return digest_of(entry).starts_with(prefix) ||
         (entry.header && entry.header->name.starts_with(prefix));
}

std::optional<CacheEntry> content_of(const ListedEntry& entry) {
  if (!entry.header || !entry.problem.empty()) return {};
  const auto bytes = read_trusted(entry.file.path, Trust::own_or_root, kLargestEntry);
  return bytes ? decode_entry(*bytes, entry.header->key) : std::nullopt;
}

static std::string time_text(std::chrono::system_clock::time_point time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

json entry_json(const ListedEntry& entry) {
  json out = {
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

void print_line(const ListedEntry& entry) {
  const bool known = entry.header.has_value();
  std::cout << digest_of(entry).substr(0, 12) << "  " << std::setw(9) << entry.file.bytes << "  "
            << time_text(entry.file.used, "%Y-%m-%d %H:%M") << "  " << std::setw(8)
            << (known ? to_string(entry.header->key.target) : "?") << "  "
            << (known ? entry.header->name : "?") << (entry.readonly ? "  (read-only cache)" : "")
            << (entry.problem.empty() ? "" : "  [" + entry.problem + "]") << "\n";
}

namespace {

json to_json(const ListedEntry& listed) {
  json out = {{"key", digest_of(listed)},
              {"file", listed.file.path},
              {"readonly", listed.readonly},
              {"problem", listed.problem}};
  const auto entry = content_of(listed);
  if (!entry) return out;
  json resources = json::array();
  for (const Resources& one : entry->binary.resources) resources.push_back(json_of(one));
  const EntryHeader& header = *listed.header;
  out.update({{"name", header.name},
              {"target", to_string(header.key.target)},
              {"text", header.key.token_digest},
              {"compiler", header.key.compiler},
              {"compile_ms", header.compile_ms},
              {"bytes", entry->binary.image.size()},
              {"log", entry->binary.log},
              {"resources", resources},
              {"sources", header.sources}});
  return out;
}

void print(const ListedEntry& listed) {
  std::cout << "key       " << digest_of(listed) << (listed.readonly ? "  (read-only cache)" : "")
            << "\nfile      " << listed.file.path << "\n";
  const auto entry = content_of(listed);
  if (!entry) {
    std::cout << "problem   " << (listed.problem.empty() ? "damaged" : listed.problem) << "\n";
    return;
  }
  const EntryHeader& header = *listed.header;
  std::cout << "name      " << header.name << "\ntarget    " << to_string(header.key.target)
            << "\ncompiled  in " << fixed(header.compile_ms, 0) << " ms, "
            << entry->binary.image.size() << " bytes\ntext      " << header.key.token_digest
            << "\n\n"
            << header.key.compiler << "\n\n";
  std::vector<std::vector<std::string>> rows = {{"source", "sha256"}};
  for (const auto& [name, digest] : header.sources) rows.push_back({name, digest.substr(0, 12)});
  std::cout << text_table(rows);
  for (const Resources& one : entry->binary.resources)
    std::cout << "\n"
              << one.entry << ": " << counted(one.registers, "register") << ", "
              << counted(one.shared_bytes, "byte") << " shared, " << one.stack_bytes << " stack, "
              << one.spill_store_bytes + one.spill_load_bytes << " spilled\n";
}

int show(const std::string& prefix, bool as_json) {
  std::vector<ListedEntry> found = DiskCache(settings()).list(true);
  std::erase_if(found, [&](const ListedEntry& entry) { return !matches(entry, prefix); });
  if (found.empty()) throw no_entry(prefix);
  json all = json::array();
  for (const ListedEntry& entry : found) {
    if (as_json) {
      all.push_back(to_json(entry));
      continue;
    }
    if (&entry != &found.front()) std::cout << "\n";
    print(entry);
  }
  if (as_json) std::cout << json_text({{"entries", all}});
  return kSuccess;
}

}  // namespace

void add_show(CLI::App& cache, int& status) {
  CLI::App* const command =
      cache.add_subcommand("show", "Show the compiler, sources and resources of an entry");
  const auto prefix = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  command->add_option("entry", *prefix, "Beginning of a kernel's name or key")
      ->type_name("ENTRY")
      ->check(not_empty_argument())
      ->required();
  add_json_flag(*command, *as_json);
  command->callback([prefix, as_json, &status] { status = show(*prefix, *as_json); });
}

}  // namespace jitstep::tool::cache
