#include "jitstep/jit/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "jit/base/environment.h"
#include "jit/base/log.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;
using Warnings = std::vector<std::string>;

// An empty variable counts as unset, as in XDG's specification. secure_getenv() hides all variables from set-user-ID
// programs: the caller of such a program must not choose what it runs and loads.
std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

// A shell replaces ~ in its own assignments only. In a file of variables it would be a folder of that name.
std::string whole_path(const char* name, Warnings& warnings) {
  std::string value = variable(name);
  if (!value.starts_with('~')) return value;
  warnings.push_back(
      str_cat("ignoring ", name, "=", value, ": no shell has replaced ~. Write the whole path."));
  return {};
}

bool is_on(const char* name, Warnings& warnings) {
  static constexpr std::string_view kOn[] = {"1", "on", "true", "yes"};
  static constexpr std::string_view kOff[] = {"", "0", "off", "false", "no"};
  const std::string word = variable(name);
  if (std::ranges::find(kOn, word) != std::end(kOn)) return true;
  if (std::ranges::find(kOff, word) == std::end(kOff))
    warnings.push_back(str_cat(name, " is '", word, "' and must be 0 or 1. Using 0."));
  return false;
}

std::string cache_folder(Warnings& warnings) {
  if (std::string own = whole_path("JITSTEP_CACHE_DIR", warnings); !own.empty()) return own;
  // XDG's specification requires to ignore relative paths.
  if (std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/jitstep";
  if (std::string home = variable("HOME"); home.starts_with('/')) return home + "/.cache/jitstep";
  return {};
}

// `otherwise`: what jitstep does without the folder.
std::string folder(const char* name, const char* otherwise, Warnings& warnings) {
  std::string path = variable(name);
  std::error_code failure;
  if (!path.empty() && !fs::is_directory(path, failure))
    warnings.push_back(
        str_cat("cannot use ", name, "=", path, ": it is not a folder. ", otherwise));
  return path;
}

LogLevel log_level(Warnings& warnings) {
  const std::string word = variable("JITSTEP_LOG");
  if (word == "off") return LogLevel::off;
  if (word == "info") return LogLevel::info;
  if (word == "debug") return LogLevel::debug;
  if (!word.empty() && word != "warn") {
    warnings.push_back(
        str_cat("JITSTEP_LOG is '", word, "' and must be off, warn, info or debug. Using warn."));
  }
  return LogLevel::warn;
}

std::string cpu_to_compile_for(Warnings& warnings) {
  const std::string word = variable("JITSTEP_CPU");
  if (word.empty() || is_cpu(word)) return word;
  warnings.push_back(str_cat("JITSTEP_CPU is '", word, "' and must be one of ", joined(kCpus),
                             ". Compiling kernels for this processor."));
  return {};
}

// The whole number that the text is, if it is one of at least `least`.
std::optional<std::int64_t> whole_number(const std::string& word, std::int64_t least) {
  std::int64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, number);
  if (failure != std::errc() || rest != end || number < least) return {};
  return number;
}

std::int64_t limit_in_seconds(Warnings& warnings) {
  const std::string word = variable("JITSTEP_COMPILE_SECONDS");
  const std::int64_t default_seconds = Settings().compile_seconds;
  if (word.empty()) return default_seconds;
  if (const auto seconds = whole_number(word, 0)) return *seconds;
  warnings.push_back(str_cat("JITSTEP_COMPILE_SECONDS is '", word,
                             "' and must be a whole number of seconds. Using ", default_seconds,
                             "."));
  return default_seconds;
}

// This variable belongs to torchrun, so an invalid value causes no warning.
std::int64_t count_of_ranks() { return whole_number(variable("WORLD_SIZE"), 1).value_or(1); }

// Variables for shared libraries, and for compilers behind caches or distributed over machines.
bool is_compilers_own(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kNames = {"HOME", "LD_LIBRARY_PATH",
                                                             "XDG_CACHE_HOME", "XDG_CONFIG_HOME"};
  static constexpr std::array<std::string_view, 4> kPrefixes = {"CCACHE_", "SCCACHE_", "DISTCC_",
                                                                "ICECC_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::pair<std::string, std::string>> variables_of_compilers() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view all = *entry;
    const std::string name(all.substr(0, all.find('=')));
    if (!is_compilers_own(name)) continue;
    if (std::string value = variable(name.c_str()); !value.empty())
      found.emplace_back(name, std::move(value));
  }
  return found;
}

// PATH is searched for a program without a slash, and the dynamic loader searches for such a library.
std::string absolute_unless_searched(const std::string& name) {
  return name.find('/') == name.npos ? name : absolute_folder(name);
}

}  // namespace

bool is_cpu(std::string_view word) {
  return std::find(std::begin(kCpus), std::end(kCpus), word) != std::end(kCpus);
}

EnvironmentSettings read_environment() {
  Settings settings;
  Warnings warnings;
  settings.cache_dir = cache_folder(warnings);
  settings.cache_readonly = whole_path("JITSTEP_CACHE_READONLY", warnings);
  settings.templates = folder("JITSTEP_TEMPLATES", "Using the built-in templates.", warnings);
  settings.override_folder = folder("JITSTEP_OVERRIDE", "Using generated sources.", warnings);
  settings.dump_folder = whole_path("JITSTEP_DUMP", warnings);
  settings.cxx = variable("JITSTEP_CXX");
  settings.cpu = cpu_to_compile_for(warnings);
  settings.compile_seconds = limit_in_seconds(warnings);
  settings.compiler_variables = variables_of_compilers();
  settings.nvrtc = variable("JITSTEP_NVRTC");
  settings.python_environment = variable("VIRTUAL_ENV");
  if (settings.python_environment.empty()) settings.python_environment = variable("CONDA_PREFIX");
  settings.log = log_level(warnings);
  settings.path = variable("PATH");
  settings.tmpdir = variable("TMPDIR");
  settings.check = is_on("JITSTEP_CHECK", warnings);
  settings.tune = is_on("JITSTEP_TUNE", warnings);
  settings.ranks = count_of_ranks();
  return {with_absolute_paths(std::move(settings)), std::move(warnings)};
}

Settings with_absolute_paths(Settings settings) {
  for (std::string* const path :
       {&settings.cache_dir, &settings.cache_readonly, &settings.packaged_kernels,
        &settings.templates, &settings.override_folder, &settings.dump_folder,
        &settings.packaged_cxx, &settings.python_environment, &settings.tmpdir})
    *path = absolute_folder(*path);
  for (std::string& path : settings.nvrtc_search) path = absolute_folder(path);
  settings.cxx = absolute_unless_searched(settings.cxx);
  std::error_code failure;
  settings.nvrtc = fs::is_directory(settings.nvrtc, failure)
                       ? absolute_folder(settings.nvrtc)
                       : absolute_unless_searched(settings.nvrtc);
  return settings;
}

Settings Settings::from_environment() {
  EnvironmentSettings read = read_environment();
  for (const std::string& warning : read.warnings) warn_once(read.settings.log, warning);
  return std::move(read.settings);
}

}  // namespace jitstep::jit
