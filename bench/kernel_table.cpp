#include "kernel_table.h"

#include <cstdio>
#include <vector>

#include "jit/codegen/unit.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::bench {

std::string kernel_table(const std::string& target_name) {
  const jit::Target target = jit::parse_target(target_name);
  std::vector<jit::Plan> plans;
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    plans.push_back(jit::resolve(jit::OptionValues("adamw"), {codec}));
  plans.push_back(jit::resolve(jit::OptionValues("lamb"), {"fp32"}));
  std::string table = "kernels for " + target_name + ": registers, bytes spilled\n";
  for (const auto& plan : plans) {
    const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, target), target);
    for (const auto& entry :
         jit::default_engine().build(unit.text, unit.name, target)->binary.resources) {
      char line[160];
      std::snprintf(line, sizeof line, "%-28s %-22s %4d %5d\n", unit.name.c_str(),
                    entry.entry.c_str(), entry.registers,
                    entry.spill_store_bytes + entry.spill_load_bytes);
      table += line;
    }
  }
  return table;
}

}  // namespace jitstep::bench
