// What Settings::from_environment() reads, before its warnings are sent.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Settings, and the warnings about invalid values of the variables.
struct EnvironmentSettings {
  Settings settings;
  std::vector<std::string> warnings;
};

/// Reads the environment of the process. Sends no warning, because a handler may need what the caller is making.
EnvironmentSettings read_environment();

/// The same settings with absolute paths. The program may change its working directory later. Names without a slash
/// stay if PATH or the dynamic loader is searched for them.
Settings with_absolute_paths(Settings settings);

}  // namespace jitstep::jit
