#include <functional>
#include <mutex>
#include <utility>

#include "jit/base/fork_guard.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {
namespace {

// How the default engine is made. Never destroyed, like the engine.
struct Defaults {
  ForkSafeMutex mutex;
  std::function<void(Settings&)> change;
  bool used = false;
};

Defaults& defaults() {
  static Defaults& only = *new Defaults;
  return only;
}

Settings default_settings() {
  Settings settings = Settings::from_environment();
  std::lock_guard lock(defaults().mutex);
  defaults().used = true;
  if (defaults().change) defaults().change(settings);
  return settings;
}

}  // namespace

Engine& default_engine() {
  static Engine& engine = *new Engine(default_settings());
  return engine;
}

void set_default_settings(std::function<void(Settings&)> change) {
  std::lock_guard lock(defaults().mutex);
  if (defaults().used)
    throw Error(
        "cannot change the default settings: the default engine has read them. Change them first.");
  defaults().change = std::move(change);
}

}  // namespace jitstep::jit
