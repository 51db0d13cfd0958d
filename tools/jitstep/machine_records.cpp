#include "machine_records.h"

#include <jit/engine/cuda_driver.h>
#include <jit/engine/engine_parts.h>
#include <jit/tuning/config_chooser.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <map>

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

Hardware hardware_for(const Target& target) {
  for (const Hardware& one : hardware_here())
    if (one.target == target) return one;
  return gpu_hardware(target, 0, 0);  // a GPU of which only the architecture is known
}

// One per target, because each reads the files of records and warns of their errors. Not thread safe.
ConfigChooser& chooser_for(const Target& target) {
  static std::map<std::string, ConfigChooser>& all = *new std::map<std::string, ConfigChooser>;
  const std::string name = to_string(target);
  if (const auto known = all.find(name); known != all.end()) return known->second;
  return all.try_emplace(name, default_engine(), hardware_for(target)).first->second;
}

}  // namespace

std::vector<Hardware> hardware_here() {
  std::vector<Hardware> all = {host_hardware()};
  try {
    Engine& engine = default_engine();
    for (int i = 0; i < driver_of(engine).device_count(); ++i)
      all.push_back(gpu_hardware(engine, i));
  } catch (const Error&) {  // there is no driver
  }
  return all;
}

ConfigChoice chosen_config(const Plan& plan, const Target& target, const WorkSize& size) {
  return chooser_for(target).choose(plan, size);
}

std::vector<TuningRecord> records_of(const Plan& plan, const Target& target) {
  return chooser_for(target).known(plan);
}

}  // namespace jitstep::tool
