#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "jit/base/environment.h"
#include "jit/base/fork_guard.h"
#include "jit/base/log.h"
#include "jit/base/single_flight.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {
namespace {

using Change = std::function<void(Settings&)>;

// An engine, and the warnings about the environment that it was made from.
struct Made {
  Engine* engine;
  std::vector<std::string> warnings;
};

// How the default engine is made. Never destroyed, like the engine.
struct Defaults {
  ForkSafeMutex mutex;  // guards the next two members
  std::shared_ptr<const Change> change = std::make_shared<const Change>();
  bool used = false;
  // Not a static variable: a child that is forked while another thread makes a static variable waits for it forever.
  SingleFlight<Made> making;
  std::atomic<Engine*> engine = nullptr;
};

Defaults& defaults() {
  static Defaults& only = *new Defaults;
  return only;
}

// Made when the library is loaded, because a fork may lose a thread that makes it.
[[maybe_unused]] const Defaults& made_at_load = defaults();

// Calls the program's function without the lock, because it may wait for other locks.
EnvironmentSettings default_settings() {
  EnvironmentSettings read = read_environment();
  std::shared_ptr<const Change> change;
  {
    std::lock_guard lock(defaults().mutex);
    defaults().used = true;
    change = defaults().change;
  }
  if (*change) (*change)(read.settings);
  return read;
}

std::shared_ptr<const Made> make_engine() {
  try {
    EnvironmentSettings read = default_settings();
    return std::make_shared<const Made>(
        Made{new Engine(std::move(read.settings)), std::move(read.warnings)});
  } catch (...) {
    std::lock_guard lock(defaults().mutex);
    defaults().used = false;
    throw;
  }
}

}  // namespace

Engine& default_engine() {
  if (Engine* const known = defaults().engine) return *known;
  bool found = false;
  const auto made = defaults().making.get("", make_engine, found);
  Engine& engine = *made->engine;
  defaults().engine = &engine;
  if (!found) {  // only now, because the handler may use the engine
    for (const std::string& warning : made->warnings) warn_once(engine.settings().log, warning);
  }
  return engine;
}

void set_default_settings(Change change) {
  auto replacement = std::make_shared<const Change>(std::move(change));
  std::lock_guard lock(defaults().mutex);
  if (defaults().used)
    throw Error(
        "cannot change the default settings: the default engine has read them. Change them first.");
  std::swap(defaults().change, replacement);  // the old function is destroyed without the lock
}

}  // namespace jitstep::jit
