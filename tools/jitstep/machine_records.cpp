#include "machine_records.h"

#include <jit/engine/cuda_driver.h>
#include <jit/tuning/config_chooser.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

Hardware hardware_for(const Target& target) {
  for (const Hardware& one : hardware_here())
    if (one.target == target) return one;
  return gpu_hardware(target, 0, 0);  // a GPU of which only the architecture is known
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
  return ConfigChooser(default_engine(), hardware_for(target)).choose(plan, size);
}

std::vector<TuningRecord> records_of(const Plan& plan, const Target& target) {
  return ConfigChooser(default_engine(), hardware_for(target)).known(plan);
}

}  // namespace jitstep::tool
