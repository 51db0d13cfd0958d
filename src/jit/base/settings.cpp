#include "jitstep/jit/settings.h"

#include <cstdlib>

#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

// An empty variable counts as unset, as everywhere in XDG's specification.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string cache_folder() {
  if (std::string own = variable("JITSTEP_CACHE_DIR"); !own.empty()) return own;
  // XDG's specification asks to ignore relative paths.
  if (std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/jitstep";
  if (std::string home = variable("HOME"); home.starts_with('/')) return home + "/.cache/jitstep";
  return {};
}

LogLevel log_level() {
  const std::string word = variable("JITSTEP_LOG");
  if (word == "off") return LogLevel::off;
  if (word == "info") return LogLevel::info;
  if (word == "debug") return LogLevel::debug;
  if (!word.empty() && word != "warn") {
    warn(LogLevel::warn,
         text("JITSTEP_LOG is '", word, "', which is none of off, warn, info, debug; using warn"));
  }
  return LogLevel::warn;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.cache_dir = cache_folder();
  settings.cache_readonly = variable("JITSTEP_CACHE_READONLY");
  settings.templates = variable("JITSTEP_TEMPLATES");
  settings.cxx = variable("JITSTEP_CXX");
  settings.nvrtc = variable("JITSTEP_NVRTC");
  settings.log = log_level();
  settings.path = variable("PATH");
  settings.tmpdir = variable("TMPDIR");
  return settings;
}

}  // namespace jitstep::jit
