#include "jit/codegen/unit.h"

#include "jit/base/text.h"
#include "jit/codegen/contract.h"
#include "jit/codegen/translation_unit.h"

namespace jitstep::jit {

Unit unit(const Plan& plan, const KernelConfig& config, const Target& target) {
  check_config(plan, config, target);
  Unit result{plan.name, {}, {}};
  const Traversal traversal = traversal_of(plan, config);
  const char* const step = traversal == Traversal::loops ? "step_loop" : "step_tile";
  result.text = str_cat(
      compiler_text(plan, config), include_text(plan), "#include \"kernel/", step,
      ".cuh\"\n#include \"kernel/check/contract_check.cuh\"\n", spec_types(plan, config, traversal),
      "using Kernel = jitstep::Step<UnitSpec, ", plan.passes, ">;\n", contract_text(plan));
  const auto add = [&](const std::string& entry, const std::string& function) {
    result.entries.push_back(entry);
    result.text += str_cat("JITSTEP_ENTRY(", entry, ", ", function, ")\n");
    return static_cast<int>(result.entries.size()) - 1;
  };
  for (int pass = 0; pass < plan.passes; ++pass) {
    result.index.partials.push_back(
        add(str_cat("jitstep_partials_", pass), str_cat("partials<", pass, ">")));
    result.index.finalize.push_back(
        add(str_cat("jitstep_finalize_", pass), str_cat("finalize<", pass, ">")));
  }
  for (std::size_t i = 0; i < plan.transform_passes.size(); ++i)
    result.index.host_transforms.push_back(
        add(str_cat("jitstep_host_transform", i == 0 ? "" : str_cat("_", i)),
            str_cat("host_transform<", i, ">")));
  result.index.apply = add("jitstep_apply", "apply");
  if (plan.rule().modes) {
    result.index.eval = add("jitstep_eval", "eval");
    result.index.train = add("jitstep_train", "train");
  }
  return result;
}

Unit count_unit() {
  return {"count",
          "#include \"kernel/count.cuh\"\n"
          "using Kernel = jitstep::Count;\n"
          "JITSTEP_ENTRY(jitstep_count, count)\n",
          {"jitstep_count"}};
}

}  // namespace jitstep::jit
