// jitstep cache: lists, verifies, explains and trims compiled kernels on disk.
#include <jit/base/scratch.h>
#include <jit/base/text.h>
#include <jit/cache/disk_cache.h>
#include <jit/engine/module.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/actions.h"
#include "command.h"
#include "json_output.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using namespace cache;
using Entries = std::vector<ListedEntry>;

// ---- list, verify ------------------------------------------------------------------------------

nlohmann::json to_json(const Entries& entries) {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedEntry& entry : entries) all.push_back(entry_json(entry));
  return all;
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
    "The cache is in JITSTEP_CACHE_DIR. Kernels that it lacks come from the read-only cache in\n"
    "JITSTEP_CACHE_READONLY. A folder that jitstep rejects, for example because others may write\n"
    "to it, gives exit status 1.\n\n"
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
      cache->add_subcommand("clear", "Delete all entries, except those of the read-only cache");
  const auto json = json_flag(*clearing);
  clearing->callback([json, &status] { status = clear(*json); });
  cache->footer(kFooter);
}

}  // namespace jitstep::tool
