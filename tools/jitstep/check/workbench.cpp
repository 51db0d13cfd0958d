#include "workbench.h"

#include <jit/compiler/loop_reporter.h>
#include <jitstep/jit/error.h>

#include <memory>

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

// Kernels without poison are those that users run, so only their loops matter.
std::shared_ptr<Compiler> host_compiler(const Settings& settings) {
  if (settings.check) return std::make_shared<HostCompiler>(settings);
  return std::make_shared<LoopReporter>(settings);
}

}  // namespace

Workbench::Workbench(bool check)
    : engine(settings_with(check), {.host = host_compiler(settings_with(check))}),
      catalog(engine.templates()) {}

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
