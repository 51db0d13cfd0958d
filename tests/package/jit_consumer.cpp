// Uses jitstep::jit as an outside project does. The library brings its templates, and its errors keep their types
// across the library boundary.
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>
#include <jitstep/version.h>

#include <iostream>
#include <string>

namespace jit = jitstep::jit;

static_assert(__cplusplus >= 202002L,
              "the package must ask for the standard that its headers need");

// A compiler of the outside project, which the library calls.
struct Refusing : jit::Compiler {
  jit::Binary compile(const std::string&, const std::string&, const jit::Target&) override {
    throw jit::CompileError("refused", "the log", "the source");
  }
  const std::string& identity(const jit::Target&) override { return name; }
  std::string name = "refusing";
};

bool errors_keep_their_types() {
  jit::Settings settings;
  settings.log = jit::LogLevel::off;
  jit::Engine engine(settings, {.host = std::make_shared<Refusing>()});
  try {
    engine.kernel("text", "unit", jit::Target::cpu());
  } catch (const jit::Error& error) {
    const auto* const compile_error = dynamic_cast<const jit::CompileError*>(&error);
    return compile_error != nullptr && compile_error->log() == "the log";
  }
  return false;
}

bool unknown_rules_are_errors() {
  try {
    jit::default_catalog().rule("nothing");
  } catch (const jit::Error& error) {
    return typeid(error) == typeid(jit::Error);
  }
  return false;
}

int main() {
  const auto rules = jit::default_catalog().names(jit::Manifest::Kind::rule);
  std::cout << "jitstep " << jitstep::version() << " with " << rules.size() << " rules\n";
  if (rules.empty() || std::string(jitstep::version()) != JITSTEP_VERSION) return 1;
  if (!errors_keep_their_types()) return 2;
  return unknown_rules_are_errors() ? 0 : 3;
}
