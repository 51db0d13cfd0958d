#include "workbench.h"

#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/compiler/host_compiler.h>
#include <jit/compiler/nvrtc_compiler.h>
#include <jit/engine/cuda_driver.h>
#include <jit/manifest/manifest_lines.h>
#include <jitstep/jit/error.h>

#include <filesystem>

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;

Settings settings_with(bool check) {
  Settings settings = Settings::from_environment();
  settings.check = check;
  return settings;
}

Manifest::Kind kind_of(const std::string& path) {
  const std::string content = read_code_file(path);
  const SourceLines lines = cut_source(content, path, {});
  const std::string space = lines.enclosing ? lines.enclosing->code : "";
  if (space.starts_with("jitstep::rules::")) return Manifest::Kind::rule;
  if (space.starts_with("jitstep::codecs::")) return Manifest::Kind::codec;
  const std::string stem = std::filesystem::path(path).stem().string();
  const Place place = lines.enclosing ? lines.enclosing->place : Place{path, 1};
  place.fail(text("expected `namespace jitstep::rules::", stem,
                  " {` of a rule, or `namespace jitstep::codecs::", stem, " {` of a codec",
                  space.empty() ? "" : text("; found `", space, "`")));
}

const Manifest& load_into(Workbench& bench, const std::string& path, Manifest::Kind kind) {
  return kind == Manifest::Kind::rule ? bench.catalog.load_rule(path)
                                      : bench.catalog.load_codec(path);
}

}  // namespace

Workbench::Workbench(bool check) : engine(settings_with(check)), catalog(engine.templates()) {}

const Manifest& Workbenches::load(const std::string& path) {
  const Manifest::Kind kind = kind_of(path);
  load_into(poisoned, path, kind);
  return load_into(plain, path, kind);
}

std::string compiler_problem(const Target& target) {
  try {
    const Settings settings = settings_with(false);
    if (target.is_cuda()) {
      NvrtcCompiler(settings, [] { return installed_driver_version(); }).identity(target);
    } else {
      HostCompiler(settings).identity(target);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace jitstep::tool::check
