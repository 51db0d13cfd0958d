// The installed host compilers.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "jit/base/process.h"
#include "jitstep/jit/settings.h"

namespace jitstep::support {

/// The first of `names` in PATH. Empty if there is none.
inline std::string installed(std::initializer_list<const char*> names) {
  const std::string path = jit::Settings::from_environment().path;
  for (const char* name : names)
    if (!jit::find_program(name, path).empty()) return name;
  return "";
}
inline std::string gcc() { return installed({"g++-12", "g++"}); }
inline std::string clang() {
  return installed({"clang++-14", "clang++"});
}  // tools/setup.sh uses the same order

/// gcc() and clang(), if installed.
inline std::vector<std::string> gcc_and_clang() {
  std::vector<std::string> names;
  for (const std::string& name : {gcc(), clang()})
    if (!name.empty()) names.push_back(name);
  return names;
}

}  // namespace jitstep::support
