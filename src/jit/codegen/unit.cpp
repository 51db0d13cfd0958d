#include "jitstep/jit/unit.h"

#include "jit/base/text.h"
#include "jit/codegen/contract.h"
#include "jit/codegen/unit_text.h"

namespace jitstep::jit {

Unit unit(const Plan& plan, const Variant& variant, const Target& target) {
  check_variant(plan, variant, target);
  Unit made{plan.name, {}, plan.passes, {}};
  made.text = text(compiler_text(variant), include_text(plan),
                   "#include \"schedules/contract_check.cuh\"\n", kernel_text(plan, variant),
                   contract_text(plan));
  const auto add = [&](const std::string& entry, const std::string& function) {
    made.entries.push_back(entry);
    made.text += text("JITSTEP_ENTRY(", entry, ", ", function, ")\n");
  };
  for (int pass = 0; pass < made.passes; ++pass) {
    add(text("jitstep_partials_", pass), text("partials<", pass, ">"));
    add(text("jitstep_finish_", pass), text("finish<", pass, ">"));
  }
  if (!plan.rule().host_stage.empty()) add("jitstep_stage", "stage");
  add("jitstep_apply", "apply");
  if (plan.rule().modes) {
    add("jitstep_eval", "eval");
    add("jitstep_train", "train");
  }
  return made;
}

Unit count_unit() {
  return {"count",
          "#include \"schedules/count.cuh\"\n"
          "using Kernel = jitstep::Count;\n"
          "JITSTEP_ENTRY(jitstep_count, count)\n",
          0,
          {"jitstep_count"}};
}

}  // namespace jitstep::jit
