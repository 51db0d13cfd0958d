#include "jit/engine/kernel_dump.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "jit/base/characters.h"
#include "jit/base/elf.h"
#include "jit/base/file_io.h"
#include "jit/base/log.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jit/compiler/resource_json.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

// A unit's name as a file name. Callers of Engine::kernel may use any name.
std::string as_file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !in_word(c); }, '_');
  return name.substr(0, 100);
}

const char* ending_of(const Built& built) {
  if (!built.target.is_cuda()) return ".so";
  return begins_as_elf(built.binary.image) ? ".cubin" : ".ptx";
}

}  // namespace

std::string folder_of_text(const std::string& name, const std::string& token_digest) {
  return as_file_name(name) + "-" + token_digest.substr(0, 12);
}

std::optional<std::string> overriding_text(const std::string& folder, const std::string& name,
                                           const std::string& text,
                                           const std::string& token_digest) {
  if (folder.empty()) return {};
  const fs::path file = fs::path(folder) / folder_of_text(name, token_digest) / "flat.cuh";
  std::error_code failure;
  if (!fs::exists(file, failure)) return {};
  std::string edited = read_code_file(file.string());
  if (edited == text) return {};
  return edited;
}

std::string summary_json(const Built& built) {
  nlohmann::json resources = nlohmann::json::array();
  for (const Resources& entry : built.binary.resources) resources.push_back(json_of(entry));
  const nlohmann::json summary = {{"name", built.name},
                                  {"target", to_string(built.target)},
                                  {"key", built.key},
                                  {"compile_ms", built.compile_ms},
                                  {"bytes", built.binary.image.size()},
                                  {"resources", resources}};
  return summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

KernelDump::KernelDump(Settings settings) : settings_(std::move(settings)) {}

void KernelDump::write(const Built& built, const std::string& token_digest) noexcept try {
  if (settings_.dump_folder.empty()) return;
  const auto problem = write_files(built, token_digest);
  if (problem && !warned_.exchange(true))
    warn(settings_.log,
         str_cat("JITSTEP_DUMP: ", *problem, ". Kernels that cannot be written are not dumped."));
} catch (...) {
  // Dumps are for people only, so a failure must not stop a step.
}

// Writes the summary last, so that its presence means that all files exist.
Problem KernelDump::write_files(const Built& built, const std::string& token_digest) const {
  const fs::path folder =
      fs::path(settings_.dump_folder) / folder_of_text(built.name, token_digest);
  if (auto problem = make_folder(folder.string())) return problem;
  const std::string target = to_string(built.target), summary = summary_json(built);
  std::vector<std::pair<std::string, std::span<const std::byte>>> files = {
      {"unit.cuh", bytes_of(built.unit)}, {"flat.cuh", bytes_of(*built.text)}};
  if (built.binary.image.empty())
    files.emplace_back(target + ".failed.log", bytes_of(built.binary.log));
  else
    files.insert(files.end(), {{target + ending_of(built), built.binary.image},
                               {target + ".log", bytes_of(built.binary.log)},
                               {target + ".json", bytes_of(summary)}});
  std::error_code failure;
  for (const char* ending : {".json", ".so", ".cubin", ".ptx", ".log", ".failed.log"})
    fs::remove(folder / (target + ending), failure);  // of another compiler
  for (const auto& [name, content] : files) {
    if (fs::exists(folder / name, failure)) continue;  // a source, which the user may have edited
    if (auto problem = write_atomically((folder / name).string(), content)) return problem;
  }
  return {};
}

}  // namespace jitstep::jit
