#include "workbench.h"

#include <jitstep/jit/error.h>

#include "../compilers.h"
#include "../template_file.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;

Settings settings_with(bool check) {
  Settings settings = Settings::from_environment();
  settings.check = check;
  return settings;
}

}  // namespace

Workbench::Workbench(bool check) : engine(settings_with(check)), catalog(engine.templates()) {}

const Manifest& Workbenches::load(const std::string& path) {
  load_file(path, poisoned.catalog);
  return load_file(path, plain.catalog);
}

std::string compiler_problem(const Target& target) {
  try {
    compiler_identity(target, settings_with(false));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace jitstep::tool::check
